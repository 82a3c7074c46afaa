package auditlog

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

// A writer that was made to leave more intents open than a HEADER carries: Verify remembers no more than that.
func TestVerifyForgedOpenIntents(t *testing.T) {
	dir, w := newLog(t, testOptions())
	own := make([]byte, 1<<10)
	for i := range 2 {
		var intents []Entry
		for n := range 600 {
			e := Entry{Kind: Intent, Own: own}
			binary.BigEndian.PutUint64(e.Subject[:], uint64(1+i*600+n))
			intents = append(intents, e)
		}
		if err := w.grow(maxBatch, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.put(intents, time.Now()); err != nil { // past the limit that Append has
			t.Fatal(err)
		}
		rep := verifyDir(t, dir, VerifyOptions{})
		if i == 0 {
			wantVerdict(t, rep, Intact)
			continue
		}
		wantVerdict(t, rep, Broken)
		if rep.Kind != tampered || !strings.Contains(rep.Detail, "more intents are open") || rep.OpenIntents > 768 {
			t.Errorf("%+v", rep)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, testOptions()); err == nil {
		t.Error("opened")
	}
}
