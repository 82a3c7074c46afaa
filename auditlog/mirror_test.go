package auditlog

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// wantMirrored waits until the mirror says it has all.
func wantMirrored(t *testing.T, w *Writer) MirrorState {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		s := w.MirrorState()
		if s.Err == "" && s.Seq == w.Head().Seq && s.Commits == w.Head().Commits {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("mirror %+v, head %+v", s, w.Head())
		}
		time.Sleep(time.Millisecond)
	}
}

func wantMirrorError(t *testing.T, w *Writer) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for w.MirrorState().Err == "" {
		if time.Now().After(deadline) {
			t.Fatalf("mirror %+v", w.MirrorState())
		}
		time.Sleep(time.Millisecond)
	}
}

func mirrorOptions() Options { o := testOptions(); o.MirrorEvery = time.Millisecond; return o }

func TestMirror(t *testing.T) {
	dir, w := newLog(t, mirrorOptions())
	mustAppend(t, w, note1("a"))
	to := filepath.Join(t.TempDir(), "new", "mirror")
	if err := w.Mirror(to); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if i%10 == 9 {
			w.o.MaxSegment = 1
		}
		mustAppend(t, w, note1("b"))
		w.o.MaxSegment = 1 << 30
		if i%8 == 0 {
			wantMirrored(t, w)
			wantVerdict(t, verifyDir(t, to, VerifyOptions{}), Intact)
		}
	}
	if err := w.Recipients(testKeys().id, []string{testKeys().recipient}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("last"))
	w.Close()
	same := func() {
		t.Helper()
		a, b := load(t, dir), load(t, to)
		if len(a) != len(b) || !bytes.Equal(readPub(t, dir), readPub(t, to)) {
			t.Fatalf("%d segments mirrored as %d", len(a), len(b))
		}
		for n := range a {
			if !bytes.Equal(a[n].Data, b[n].Data) {
				t.Fatalf("%s differs: %d and %d bytes", n, len(a[n].Data), len(b[n].Data))
			}
		}
		if r := verifyDir(t, to, VerifyOptions{AllSignatures: true}); r.Verdict != Intact {
			t.Fatalf("mirror: %+v", r)
		}
		if _, err := os.Stat(filepath.Join(to, segmentsFolder, signerFile)); err == nil {
			t.Fatal("the signer was copied")
		}
	}
	same()
	// The next writer goes on with the same mirror.
	w, _, err := openLog(dir, mirrorOptions(), quickDisk{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Mirror(to); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("more"))
	w.Close()
	same()
}

func TestMirrorFails(t *testing.T) {
	dir, w := newLog(t, mirrorOptions())
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "below"), filepath.Dir(dir), filepath.Join(dir, segmentsFolder)} {
		if err := w.Mirror(bad); err == nil {
			t.Errorf("mirror in %s was taken", bad)
		}
	}
	if err := w.Mirror(filepath.Join(blocked, "below")); err == nil {
		wantMirrorError(t, w)
	}
	mustAppend(t, w, note1("goes on"))
	// Another log lies there: nothing of it is written over.
	other, ow := newLog(t, testOptions())
	mustAppend(t, ow, note1("other"))
	ow.Close()
	id, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	fw, err := create(foreign, id, testOrigin, []string{testKeys().recipient}, testOptions(), quickDisk{})
	if err != nil {
		t.Fatal(err)
	}
	fw.Close()
	for _, there := range []string{other, foreign} {
		before := load(t, there)
		if err := w.Mirror(there); err != nil {
			t.Fatal(err)
		}
		wantMirrorError(t, w)
		mustAppend(t, w, note1("goes on"))
		if err := w.Mirror(""); err != nil || w.MirrorState().Dir != "" {
			t.Fatalf("mirror ended: %v", err)
		}
		if after := load(t, there); !bytes.Equal(after[segmentName(1)].Data, before[segmentName(1)].Data) {
			t.Fatal("another log was written over")
		}
	}
	// It comes back by itself once it can.
	late := filepath.Join(t.TempDir(), "late")
	if err := os.WriteFile(late, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Mirror(late); err != nil {
		t.Fatal(err)
	}
	wantMirrorError(t, w)
	if err := os.Remove(late); err != nil {
		t.Fatal(err)
	}
	wantMirrored(t, w)
	w.Close()
	if err := w.Mirror(late); err == nil {
		t.Fatal("a closed writer mirrors")
	}
	wantVerdict(t, verifyDir(t, late, VerifyOptions{}), Intact)
}

// TestMirrorsCross: whoever changes the mirror at the same time as others, one goroutine copies, and Close ends it.
func TestMirrorsCross(t *testing.T) {
	_, w := newLog(t, mirrorOptions())
	mustAppend(t, w, note1("a"))
	to := t.TempDir()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if err := w.Mirror(filepath.Join(to, strconv.Itoa(i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantMirrored(t, w)
	// One that has been told to end may take a moment for it; one that has not goes on for ever.
	left := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); copiers() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d goroutines copy, want %d", copiers(), want)
			}
		}
	}
	left(1)
	w.Close()
	left(0)
}

// copiers counts the goroutines that copy to a mirror.
func copiers() int {
	b := make([]byte, 1<<20)
	return bytes.Count(b[:runtime.Stack(b, true)], []byte("(*copier).run("))
}
