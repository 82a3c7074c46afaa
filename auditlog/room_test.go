package auditlog

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// fullDisk gives only so many bytes to all files together.
type fullDisk struct {
	quickDisk
	mu   sync.Mutex
	left int64
}

type fullFile struct {
	segmentFile
	d *fullDisk
}

func (d *fullDisk) create(path string) (segmentFile, error) {
	f, err := d.quickDisk.create(path)
	return fullFile{f, d}, err
}

func (f fullFile) Allocate(from, to int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if to-from > f.d.left {
		// As ext4 does: what there was is taken, and the file is longer.
		f.segmentFile.Allocate(from, from+f.d.left)
		return errNoSpace
	}
	f.d.left -= to - from
	return f.segmentFile.Allocate(from, to)
}

// fill appends until the disk refuses, and returns what it has opened.
func fill(t *testing.T, w *Writer, e Entry) (n int) {
	t.Helper()
	for ; ; n++ {
		if e.Kind == Intent {
			e.Subject = [16]byte{2, byte(n >> 8), byte(n)}
		}
		_, err := w.Append(context.Background(), e)
		if errors.Is(err, ErrFull) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestA10FullDisk: intents and notes are refused, and no result is; reserved notes have a place of their own.
func TestA10FullDisk(t *testing.T) {
	for _, rotate := range []bool{false, true} {
		o := testOptions()
		d := &fullDisk{left: 4 * roomStep}
		if rotate {
			o.MaxSegment, d.left = 100<<10, 16*roomStep
		}
		dir, w := newLogOn(t, o, d)
		full := Entry{Kind: Note, Body: make([]byte, 10<<10)}
		open := fill(t, w, Entry{Kind: Intent, Body: make([]byte, 2<<10), Own: make([]byte, 200)})
		if open < 50 {
			t.Fatalf("only %d intents", open)
		}
		fill(t, w, full)
		segments := w.live.seg.n
		if (segments > 1) != rotate {
			t.Fatalf("%d segments", segments)
		}
		// The results of half of them, then revocations, then the other half: all of the largest size that is promised.
		result := func(i int) Entry {
			return Entry{Kind: Result, Subject: [16]byte{2, byte(i >> 8), byte(i)}, Body: make([]byte, MaxReserved-MaxOwn), Own: make([]byte, MaxOwn)}
		}
		// Several at once, as callers that share a group.
		var all sync.WaitGroup
		for i := range open / 2 {
			all.Go(func() {
				if _, err := w.Append(context.Background(), result(i)); err != nil {
					t.Errorf("result %d: %v", i, err)
				}
			})
		}
		all.Wait()
		revocation := Entry{Kind: Note, Subject: subject(1), Body: make([]byte, 500), Reserved: true}
		if n := fill(t, w, revocation); n < 200 {
			t.Fatalf("only %d revocations", n)
		}
		// A result that closes nothing is no way into the kept space.
		if _, err := w.Append(context.Background(), result(0)); !errors.Is(err, ErrFull) {
			t.Fatalf("a second result: %v", err)
		}
		for i := open / 2; i < open; i++ {
			mustAppend(t, w, result(i))
		}
		if w.queue.cost != 0 || len(w.live.open) != 0 {
			t.Fatalf("%d bytes and %d intents are left", w.queue.cost, len(w.live.open))
		}
		r := verifyDir(t, dir, VerifyOptions{})
		wantVerdict(t, r, Intact)
		// Space again: everything goes on, without being reopened.
		d.mu.Lock()
		d.left = 8 * roomStep
		d.mu.Unlock()
		mustAppend(t, w, full, Entry{Kind: Intent, Subject: subject(7)})
		w.Close()
		r = verifyDir(t, dir, VerifyOptions{AllSignatures: true})
		wantVerdict(t, r, Intact)
		if r.OpenIntents != 1 {
			t.Fatalf("report %+v", r)
		}
	}
}

// TestA10FullDiskAtAStart: neither Create nor Open leaves anything behind that the next one trips over.
func TestA10FullDiskAtAStart(t *testing.T) {
	k := testKeys()
	dir := t.TempDir()
	if _, err := create(dir, k.id, testOrigin, []string{k.recipient}, testOptions(), &fullDisk{}); !errors.Is(err, ErrFull) {
		t.Fatalf("create: %v", err)
	}
	againAfterCreate(t, "full", dir)
	before := len(load(t, dir))
	if _, _, err := openLog(dir, testOptions(), &fullDisk{}); !errors.Is(err, ErrFull) {
		t.Fatalf("open: %v", err)
	}
	if len(load(t, dir)) != before {
		t.Fatal("a segment was left")
	}
	w, _, err := openLog(dir, testOptions(), quickDisk{})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
}

// TestRecipientsOnAFullDisk: who may no longer read gets nothing more that could wait.
func TestRecipientsOnAFullDisk(t *testing.T) {
	_, newcomer := anotherReader(t)
	d := &fullDisk{left: roomStep}
	dir, w := newLogOn(t, testOptions(), d)
	mustAppend(t, w, Entry{Kind: Intent, Subject: subject(1)})
	if err := w.Recipients(testKeys().id, []string{newcomer}); !errors.Is(err, ErrFull) {
		t.Fatalf("change: %v", err)
	}
	if _, err := w.Append(context.Background(), note1("x")); !errors.Is(err, ErrFull) {
		t.Fatalf("a note for the old readers: %v", err)
	}
	mustAppend(t, w, Entry{Kind: Result, Subject: subject(1)})
	d.mu.Lock()
	d.left = 4 * roomStep
	d.mu.Unlock()
	mustAppend(t, w, note1("y"))
	if w.live.seg.serial != 2 || w.live.seg.n != 2 {
		t.Fatalf("segment %d has serial %d", w.live.seg.n, w.live.seg.serial)
	}
	w.Close()
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
}
