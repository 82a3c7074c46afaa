package auditlog

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

// askedSigner counts, and refuses or lies as it is told.
type askedSigner struct {
	ed25519.PrivateKey
	asked int
	mode  string
}

func (s *askedSigner) Sign(r io.Reader, msg []byte, o crypto.SignerOpts) ([]byte, error) {
	s.asked++
	switch s.mode {
	case "refuse":
		return nil, errors.New("locked")
	case "lie":
		return make([]byte, ed25519.SignatureSize), nil
	case "short":
		return []byte{1}, nil
	}
	return s.PrivateKey.Sign(r, msg, o)
}

func TestIdentify(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir, w := newLog(t, Options{Now: func() time.Time { return now }})
	want := func(what string, countersigned, weakCommits, weakRecords int64, seq uint64) {
		t.Helper()
		for _, all := range []bool{false, true} {
			r := verifyDir(t, dir, VerifyOptions{AllSignatures: all})
			wantVerdict(t, r, Intact)
			if r.Countersigned != countersigned || r.Weak.Commits != weakCommits || r.Weak.Records != weakRecords || r.Weak.Seq != seq {
				t.Fatalf("%s: %d countersigned, weak %+v", what, r.Countersigned, r.Weak)
			}
			if (countersigned == 0) != r.Weak.Since.IsZero() {
				t.Fatalf("%s: weak %+v", what, r.Weak)
			}
		}
	}
	mustAppend(t, w, note1("a"))
	want("locked", 0, 2, 1, 1)
	s := &askedSigner{PrivateKey: testKeys().id}
	if err := w.Identify(s); err != nil {
		t.Fatal(err)
	}
	want("unlocked", 1, 0, 0, 0)
	mustAppend(t, w, note1("b"))
	want("within the minute", 1, 1, 1, 2)
	now = now.Add(time.Minute)
	mustAppend(t, w, note1("c"))
	want("after a minute", 2, 0, 0, 0)
	mustAppend(t, w, note1("d"))
	w.o.MaxSegment = 1
	mustAppend(t, w, note1("e"))
	w.o.MaxSegment = 1 << 30
	want("rotated: the header is countersigned", 3, 1, 1, 5)
	if err := w.Identify(nil); err != nil {
		t.Fatal(err)
	}
	want("locked again", 4, 0, 0, 0)
	asked := s.asked
	now = now.Add(time.Hour)
	mustAppend(t, w, note1("f"))
	if s.asked != asked {
		t.Fatal("a signer that was taken away was asked")
	}
	want("locked", 4, 2, 1, 6)
	if err := w.Identify(s); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("g"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want("closed", 6, 0, 0, 0)
	if l := readAll(t, load(t, dir), readPub(t, dir), testKeys().reader); len(l) != 7 || string(l[6].Body) != "g" {
		t.Fatalf("read %v", l)
	}
	if err := w.Identify(s); !errors.Is(err, ErrClosed) {
		t.Fatalf("identify after close: %v", err)
	}
}

func TestCountersignWithoutAnAppend(t *testing.T) {
	dir, w := newLog(t, Options{Countersign: time.Millisecond})
	if err := w.Identify(testKeys().id); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("a"))
	deadline := time.Now().Add(time.Minute)
	for verifyDir(t, dir, VerifyOptions{Live: func() bool { return true }}).Weak.Commits > 0 {
		if time.Now().After(deadline) {
			t.Fatal("nobody countersigned")
		}
	}
}

func TestSignerFails(t *testing.T) {
	for _, mode := range []string{"refuse", "lie", "short"} {
		dir, w := newLog(t, testOptions())
		mustAppend(t, w, note1("a"))
		if err := w.Identify(&askedSigner{PrivateKey: testKeys().id, mode: mode}); err == nil {
			t.Errorf("%s: no error", mode)
		}
		mustAppend(t, w, note1("b"))
		w.o.MaxSegment = 1
		mustAppend(t, w, note1("c"))
		w.Close()
		r := verifyDir(t, dir, VerifyOptions{AllSignatures: true})
		wantVerdict(t, r, Intact)
		if r.Countersigned != 0 || r.Records != 3 || r.Weak.Records != 3 {
			t.Errorf("%s: %+v", mode, r)
		}
		if l := readAll(t, load(t, dir), readPub(t, dir), testKeys().reader); len(l) != 3 || string(l[2].Body) != "c" {
			t.Errorf("%s: read %v", mode, l)
		}
	}
	_, w := newLog(t, testOptions())
	stranger, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Identify(stranger); err == nil {
		t.Error("a stranger was taken for the identity")
	}
}

// TestForgedCountersignature: who holds a segment's key cannot make weak commits look strong, in either way of looking.
func TestForgedCountersignature(t *testing.T) {
	dir, w := newLog(t, testOptions())
	pub := readPub(t, dir)
	if err := w.Identify(testKeys().id); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustAppend(t, w, note1("x"))
	}
	w.live.sureAt = 0
	mustAppend(t, w, note1("y"))
	mustAppend(t, w, note1("z"))
	w.live.identity = nil
	key := slices.Clone(w.live.seg.sign)
	w.Close()
	m := load(t, dir)
	name := segmentName(1)
	good := verify(t, m, pub, VerifyOptions{})
	wantVerdict(t, good, Intact)
	if good.Weak.Commits != 1 {
		t.Fatalf("weak %+v", good.Weak)
	}
	var places []int64
	for _, all := range []bool{false, true} {
		f := fstest.MapFS{name: {Data: rebuild(t, m[name].Data, testOrigin, key, nil, func(i int, c *commit) {
			if i == int(good.Commits)-2 {
				c.idSig[5] ^= 1
			}
		})}}
		r := verify(t, f, pub, VerifyOptions{AllSignatures: all})
		wantFault(t, r, unsigned, name)
		places = append(places, r.Offset, int64(r.Seq))
		// A root that nobody's tree has, and all signatures right.
		f[name].Data = rebuild(t, m[name].Data, testOrigin, key, func(i int, c *commit) {
			if i == int(good.Commits)-2 {
				c.root[5] ^= 1
				copy(c.idSig[:], ed25519.Sign(testKeys().id, c.text(testOrigin)))
			}
		}, nil)
		r = verify(t, f, pub, VerifyOptions{AllSignatures: all})
		wantFault(t, r, tampered, name)
		if r.Offset != places[0] || r.Seq != 4 {
			t.Fatalf("wrong root: %+v", r)
		}
		// An empty batch that nobody countersigned, and a signature added where there was none.
		f[name].Data = rebuild(t, m[name].Data, testOrigin, key, nil, func(i int, c *commit) { c.sure = false })
		if r := verify(t, f, pub, VerifyOptions{AllSignatures: all}); r.Verdict != Broken {
			t.Fatalf("stripped: %+v", r)
		}
		f[name].Data = rebuild(t, m[name].Data, testOrigin, key, nil, func(i int, c *commit) {
			if i == int(good.Commits)-1 {
				c.sure = true
				copy(c.idSig[:], c.sig[:])
			}
		})
		if r := verify(t, f, pub, VerifyOptions{AllSignatures: all}); r.Verdict != Torn {
			t.Fatalf("added: %+v", r)
		}
	}
	if places[0] != places[2] || places[1] != places[3] || places[1] != 4 {
		t.Fatalf("places %v", places)
	}
}

// TestRatchet: the key that is in memory opens nothing that was written before.
func TestRatchet(t *testing.T) {
	dir, w := newLog(t, testOptions())
	key := func() []byte { return slices.Clone(w.live.seg.read) }
	mustAppend(t, w, note1("a"))
	stolen := key()
	mustAppend(t, w, note1("b"))
	if bytes.Equal(stolen, key()) {
		t.Fatal("the key does not turn")
	}
	mustAppend(t, w, note1("c"))
	w.Close()
	var got []string
	wk := newWalker(w.pub.Load().Pub)
	o := &opener{}
	wk.onBatch = func(b *batch) error {
		if b.off == 0 {
			return nil
		}
		for _, from := range [][]byte{stolen} {
			o.read = slices.Clone(from)
			if err := o.batch(b, func(r Record, _ error) bool { got = append(got, string(r.Body)); return true }); err == nil {
				stolen = o.read
			}
		}
		return nil
	}
	if err := wk.walk(load(t, dir), 1, 1); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0] != "b" || got[1] != "c" {
		t.Fatalf("the stolen key opens %q", got)
	}
}
