package auditlog

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
)

// anotherReader makes a classic one.
func anotherReader(t *testing.T) (identity, recipient string) {
	t.Helper()
	x, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return x.String(), x.Recipient().String()
}

func TestChangeRecipients(t *testing.T) {
	dir, w := newLog(t, testOptions())
	id, first := testKeys().id, readPub(t, dir)
	newReader, newcomer := anotherReader(t)
	mustAppend(t, w, note1("for the old one"))
	if err := w.Recipients(id, []string{newcomer}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("for the new one"))
	second := readPub(t, dir)
	if err := w.Recipients(id, []string{testKeys().recipient, newcomer}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("for both"))
	third := readPub(t, dir)
	w.Close()
	fsys := os.DirFS(filepath.Join(dir, segmentsFolder))
	for i, pin := range [][]byte{first, second, third} {
		for _, all := range []bool{false, true} {
			r := verify(t, fsys, pin, VerifyOptions{AllSignatures: all})
			wantVerdict(t, r, Intact)
			if r.Serial != 3 || r.Records != 3 {
				t.Fatalf("pin %d: %+v", i+1, r)
			}
		}
	}
	got := func(identity string) (l []string, err error) {
		for r, e := range Read(fsys, first, identity) {
			if e != nil {
				return l, e
			}
			l = append(l, string(r.Body))
		}
		return l, nil
	}
	if l, err := got(testKeys().reader); err == nil || fmt.Sprint(l) != "[for the old one]" {
		t.Fatalf("the old reader reads %q, %v", l, err)
	}
	if l, err := got(newReader); err == nil || len(l) != 0 {
		t.Fatalf("the new reader reads %q, %v", l, err)
	}
	// An older audit.pub put back: its readers are not those in force.
	for i, old := range [][]byte{first, second} {
		if err := os.WriteFile(filepath.Join(dir, pubFile), old, 0o600); err != nil {
			t.Fatal(err)
		}
		var fault *TamperError
		if _, _, err := Open(dir, testOptions()); !errors.As(err, &fault) || fault.Segment != pubFile {
			t.Fatalf("open with serial %d: %v", i+1, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, pubFile), third, 0o600); err != nil {
		t.Fatal(err)
	}
	w, _, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range w.Own(0) {
		if err != nil || r.Seq == 0 {
			t.Fatal(err)
		}
		n++
	}
	if n != 3 {
		t.Fatalf("%d own parts", n)
	}
	stranger, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"a stranger's key": func() error { return w.Recipients(stranger, []string{newcomer}) },
		"no key":           func() error { return w.Recipients(nil, []string{newcomer}) },
		"nobody":           func() error { return w.Recipients(id, nil) },
		"no recipient":     func() error { return w.Recipients(id, []string{"x"}) },
	} {
		if do() == nil || !bytes.Equal(readPub(t, dir), third) {
			t.Errorf("%s: taken", what)
		}
	}
	mustAppend(t, w, note1("goes on"))
	w.Close()
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
	if err := w.Recipients(id, []string{newcomer}); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

// TestForgedRecipients: who holds the live segment's key can begin a next one, and cannot seal it to whom he likes.
func TestForgedRecipients(t *testing.T) {
	_, mine := anotherReader(t)
	stranger, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]struct {
		serial uint64
		note   func(p Pub) []byte
	}{
		"the same serial": {1, func(Pub) []byte { return nil }},
		"no audit.pub":    {2, func(Pub) []byte { return nil }},
		"the old audit.pub": {2, func(p Pub) []byte {
			p.Recipients, p.Serial = []string{testKeys().recipient}, 1
			b, _ := p.sign(testKeys().id)
			return b
		}},
		"another's signature": {2, func(p Pub) []byte { b, _ := p.sign(stranger); return b }},
		"another's identity": {2, func(p Pub) []byte {
			p.Identity = stranger.Public().(ed25519.PublicKey)
			b, _ := p.sign(stranger)
			return b
		}},
		"other recipients": {2, func(p Pub) []byte {
			p.Recipients = []string{testKeys().recipient}
			b, _ := p.sign(testKeys().id)
			return b
		}},
		"serial 0": {0, func(Pub) []byte { return nil }},
	} {
		dir, w := newLog(t, testOptions())
		mustAppend(t, w, note1("x"))
		p := w.pub.Load().Pub
		p.Recipients, p.Serial = []string{mine}, x.serial
		w.pub.Store(&published{p, x.note(p)})
		if err := w.rotate(w.o.Now()); err != nil {
			t.Fatal(err)
		}
		r := verifyDir(t, dir, VerifyOptions{})
		if r.Verdict != Broken || r.Segment != segmentName(2) || r.Offset != 0 {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// TestRecipientsFault at every step: afterwards the log opens, is intact, and is sealed to the old or to the new.
func TestRecipientsFault(t *testing.T) {
	_, newcomer := anotherReader(t)
	for _, mode := range []string{"before", "after", "half"} {
		for n, steps := 0, 0; n <= steps; n++ {
			what := fmt.Sprintf("step %d, %s", n, mode)
			d := &faultDisk{mode: mode, err: errDisk}
			dir, w := newLogOn(t, testOptions(), d)
			mustAppend(t, w, note1("a"))
			d.calls, d.n = 0, n
			err := w.Recipients(testKeys().id, []string{newcomer})
			if n == 0 {
				if steps = d.calls; err != nil || steps < 8 {
					t.Fatalf("%d steps: %v", steps, err)
				}
			} else if !errors.Is(err, errDisk) {
				t.Fatalf("%s: %v", what, err)
			}
			d.n = 0
			// Unpoisoned, it goes on as before.
			if w.poisoned() == nil {
				mustAppend(t, w, note1("b"))
			}
			w.Close()
			if r := verifyDir(t, dir, VerifyOptions{}); r.Verdict != Intact && r.Verdict != Torn {
				t.Fatalf("%s: %+v", what, r)
			}
			w, _, err = openLog(dir, testOptions(), quickDisk{})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			mustAppend(t, w, note1("c"))
			p := w.pub.Load()
			if w.live.seg.serial != p.Serial || (p.Serial == 2) != (p.Recipients[0] == newcomer) {
				t.Fatalf("%s: segment %d, audit.pub %d", what, w.live.seg.serial, p.Serial)
			}
			w.Close()
			wantVerdict(t, verifyDir(t, dir, VerifyOptions{AllSignatures: true}), Intact)
		}
	}
}
