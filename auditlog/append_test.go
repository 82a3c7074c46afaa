package auditlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// gateDisk counts syncs, and holds the one that is told to wait.
type gateDisk struct {
	quickDisk
	mu    sync.Mutex
	syncs int
	gate  chan struct{}
}

type gateFile struct {
	segmentFile
	d *gateDisk
}

func (d *gateDisk) create(path string) (segmentFile, error) {
	f, err := d.quickDisk.create(path)
	return gateFile{f, d}, err
}

func (f gateFile) Sync() error {
	f.d.mu.Lock()
	f.d.syncs++
	gate := f.d.gate
	f.d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return nil
}

func TestWritersShareSyncs(t *testing.T) {
	const callers = 32
	d := &gateDisk{}
	dir, w := newLogOn(t, testOptions(), d)
	d.syncs, d.gate = 0, make(chan struct{})
	seqs := make([]uint64, callers)
	var all sync.WaitGroup
	call := func(i int) {
		all.Go(func() {
			seq, err := w.Append(context.Background(), note1(fmt.Sprint("a", i)), note1(fmt.Sprint("b", i)))
			if err != nil {
				t.Error(err)
			}
			seqs[i] = seq
		})
	}
	wait := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
			if time.Now().After(deadline) {
				close(d.gate)
				t.Fatalf("%s: %d calls in flight", what, w.flying.Load())
			}
		}
	}
	// The first waits in its sync until every other has queued: inside Append is not enough, it may not have joined yet.
	call(0)
	wait("the first sync", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.syncs == 1 })
	for i := range callers - 1 {
		call(i + 1)
	}
	wait("the queue", func() bool {
		w.queue.mu.Lock()
		defer w.queue.mu.Unlock()
		return w.queue.pending != nil && len(w.queue.pending.calls) == callers-1
	})
	close(d.gate)
	all.Wait()
	if d.syncs != 2 {
		t.Fatalf("%d syncs for %d calls", d.syncs, callers)
	}
	got := readAll(t, os.DirFS(filepath.Join(dir, segmentsFolder)), readPub(t, dir), testKeys().reader)
	if len(got) != 2*callers {
		t.Fatalf("%d records", len(got))
	}
	for i, seq := range seqs {
		a, b := got[seq-2], got[seq-1]
		if string(a.Body) != fmt.Sprint("a", i) || string(b.Body) != fmt.Sprint("b", i) || a.Seq != seq-1 {
			t.Fatalf("call %d was told %d, where %q and %q lie", i, seq, a.Body, b.Body)
		}
	}
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
}

func TestManyWritersOnARealDisk(t *testing.T) {
	dir, w := newLogOn(t, Options{MaxSegment: 64 << 10}, osDisk{})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			s := subject(byte(i + 1))
			for range 20 {
				for _, k := range []Kind{Intent, Result} {
					if _, err := w.Append(context.Background(), Entry{Kind: k, Subject: s, Body: make([]byte, 100), Own: make([]byte, 50)}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	h := w.Head()
	if h.Seq != 32*40 || h.Commits >= h.Records {
		t.Fatalf("head %+v", h)
	}
	if w.queue.cost != 0 {
		t.Fatalf("%d bytes reserved for no intent", w.queue.cost)
	}
	w.Close()
	r := verifyDir(t, dir, VerifyOptions{AllSignatures: true})
	wantVerdict(t, r, Intact)
	if r.OpenIntents != 0 || r.Records != 32*40 || r.Segments < 3 {
		t.Fatalf("report %+v", r)
	}
}

func TestAppendRefusals(t *testing.T) {
	_, w := newLog(t, testOptions())
	ctx := context.Background()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := w.Append(ended, note1("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	for what, e := range map[string]Entry{
		"own":  {Kind: Note, Own: make([]byte, MaxOwn+1)},
		"body": {Kind: Note, Body: make([]byte, MaxBody+1)},
	} {
		if _, err := w.Append(ctx, e); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
	}
	big := Entry{Kind: Note, Body: make([]byte, MaxBody), Own: make([]byte, MaxOwn)}
	if _, err := w.Append(ctx, big, big, big, big, big); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too much at once: %v", err)
	}
	for what, e := range map[string]Entry{"no kind": {}, "kind 4": {Kind: 4}, "intent without subject": {Kind: Intent}, "result without subject": {Kind: Result}} {
		if _, err := w.Append(ctx, e); err == nil || errors.Is(err, ErrPoisoned) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := w.Append(ctx); err == nil {
		t.Error("nothing was appended, and no error")
	}
	// The largest is no error, and nothing refused has left a trace.
	if seq := mustAppend(t, w, big, big, big, big); seq != 4 {
		t.Errorf("sequence %d", seq)
	}
}

func TestTooManyOpenIntents(t *testing.T) {
	dir, w := newLog(t, testOptions())
	own := make([]byte, MaxOwn)
	var open []Entry
	for i := 0; ; i++ {
		e := Entry{Kind: Intent, Subject: [16]byte{1, byte(i >> 8), byte(i)}, Own: own}
		if _, err := w.Append(context.Background(), e); err != nil {
			if !errors.Is(err, ErrTooManyOpen) {
				t.Fatal(err)
			}
			break
		}
		open = append(open, e)
	}
	if len(open) < 512 {
		t.Fatalf("only %d intents", len(open))
	}
	w.o.MaxSegment = 1 // they all fit the next header
	for _, e := range open[:2] {
		mustAppend(t, w, Entry{Kind: Result, Subject: e.Subject})
	}
	mustAppend(t, w, open[0])
	w.Close()
	w, left, err := openLog(dir, testOptions(), quickDisk{})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if len(left) != len(open)-1 || len(left[0].Own) != MaxOwn {
		t.Fatalf("%d intents left", len(left))
	}
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
}

func TestA13RotationByAgeAndClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir, w := newLog(t, Options{Now: func() time.Time { return now }})
	step := func(d time.Duration, want uint64) {
		t.Helper()
		now = now.Add(d)
		mustAppend(t, w, note1("x"))
		if w.live.seg.n != want {
			t.Fatalf("segment %d after %v, want %d", w.live.seg.n, d, want)
		}
	}
	step(2*time.Hour, 1) // an empty segment is not ended
	step(time.Minute, 2) // the first was begun two hours ago
	step(30*time.Minute, 2)
	step(-20*time.Minute, 2) // a clock stepped back breaks nothing
	step(-90*time.Minute, 3)
	step(59*time.Minute, 3)
	w.Close()
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
}

func TestFilesArePrivate(t *testing.T) {
	dir, w := newLog(t, testOptions())
	w.Close()
	err := filepath.Walk(dir, func(p string, i os.FileInfo, err error) error {
		if err == nil && p != dir && i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", p, i.Mode())
		}
		if strings.HasSuffix(p, ".new") {
			t.Errorf("%s was left", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSignerDamaged(t *testing.T) {
	dir, w := newLog(t, testOptions())
	w.Close()
	path := filepath.Join(dir, segmentsFolder, signerFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, other := newLog(t, testOptions())
	foreign, err := os.ReadFile(filepath.Join(other.folder, signerFile))
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{"empty": nil, "cut": good[:len(good)-4], "foreign": foreign} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Open(dir, testOptions())
		if err == nil || len(b) > 60 && strings.Contains(err.Error(), string(b[40:60])) {
			t.Errorf("%s: %v", what, err)
		}
		if len(load(t, dir)) != 1 || HoldsLock(dir) {
			t.Errorf("%s: a segment or the lock was left", what)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	w, _, err = Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}
