package auditlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var (
	errDisk          = errors.New("disk says no")
	errNoSpace error = &fs.PathError{Op: "fallocate", Path: "x", Err: syscall.ENOSPC}
)

// faultDisk fails its nth call: before doing it, after it was done all the same, or half way through a write.
type faultDisk struct {
	quickDisk
	n     int // 0: never
	mode  string
	err   error
	calls int
}

type faultFile struct {
	segmentFile
	d *faultDisk
}

// step runs do unless this call fails first.
func (d *faultDisk) step(do func() error) error {
	d.calls++
	if d.calls != d.n {
		return do()
	}
	if d.mode == "after" {
		do()
	}
	return d.fails()
}

func (d *faultDisk) fails() error { return d.err }

func (d *faultDisk) create(path string) (f segmentFile, err error) {
	err = d.step(func() (err error) { f, err = d.quickDisk.create(path); return })
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	return faultFile{f, d}, nil
}

func (d *faultDisk) rename(from, to string) error {
	return d.step(func() error { return d.quickDisk.rename(from, to) })
}

func (d *faultDisk) syncDir(path string) error { return d.step(func() error { return nil }) }

func (d *faultDisk) remove(path string) error {
	return d.step(func() error { return d.quickDisk.remove(path) })
}

func (f faultFile) WriteAt(b []byte, off int64) (n int, err error) {
	d := f.d
	if d.calls+1 == d.n && d.mode == "half" {
		d.calls++
		n, _ = f.segmentFile.WriteAt(b[:len(b)/2], off)
		return n, d.fails()
	}
	err = d.step(func() (err error) { n, err = f.segmentFile.WriteAt(b, off); return })
	return n, err
}

func (f faultFile) Allocate(from, to int64) error {
	return f.d.step(func() error { return f.segmentFile.Allocate(from, to) })
}

func (f faultFile) Sync() error { return f.d.step(f.segmentFile.Sync) }

// life is one writer's: an intent, its result, and a rotation. acked are the sequences it was told of.
func life(w *Writer) (acked uint64, err error) {
	w.o.MaxSegment = 900
	for i := range byte(4) {
		for _, k := range []Kind{Intent, Result} {
			seq, err := w.Append(context.Background(), Entry{Kind: k, Subject: subject(i + 1), Body: []byte("x")})
			if err != nil {
				return acked, err
			}
			acked = seq
		}
	}
	return acked, nil
}

func TestA10A11FaultAtEveryStep(t *testing.T) {
	k := testKeys()
	probe := &faultDisk{err: errDisk}
	_, w := newLogOn(t, testOptions(), probe)
	if _, err := life(w); err != nil {
		t.Fatal(err)
	}
	fulls := 0
	if probe.calls < 25 || w.live.seg.n < 2 {
		t.Fatalf("%d steps, %d segments: too short a life", probe.calls, w.live.seg.n)
	}
	for _, mode := range []string{"before", "after", "half", "before, full", "half, full"} {
		for n := 1; n <= probe.calls; n += stride {
			d := &faultDisk{n: n, mode: mode, err: errDisk}
			if m, full := strings.CutSuffix(mode, ", full"); full {
				d.mode, d.err = m, errNoSpace
			}
			errDisk := d.err
			dir := t.TempDir()
			what := fmt.Sprintf("step %d, %s", n, mode)
			w, err := create(dir, k.id, testOrigin, []string{k.recipient}, testOptions(), d)
			if err != nil {
				if !errors.Is(err, errDisk) {
					t.Fatalf("%s: create: %v", what, err)
				}
				againAfterCreate(t, what, dir)
				continue
			}
			acked, err := life(w)
			if (err == nil || errors.Is(err, ErrFull)) && d.err == errNoSpace {
				// Want of space that was met in time spoils nothing: the same writer goes on.
				if got := mustAppend(t, w, Entry{Kind: Intent, Subject: subject(9)}); got != acked+1 {
					t.Fatalf("%s: sequence %d after %d", what, got, acked)
				}
				mustAppend(t, w, Entry{Kind: Result, Subject: subject(9)})
				if acked%2 == 1 {
					t.Fatalf("%s: a result was refused", what)
				}
				w.Close()
				wantWhole(t, what, dir, acked+2)
				fulls++
				continue
			}
			if !errors.Is(err, ErrPoisoned) || !errors.Is(err, errDisk) {
				t.Fatalf("%s: %v", what, err)
			}
			calls := d.calls
			if _, err := w.Append(context.Background(), note1("more")); !errors.Is(err, ErrPoisoned) {
				t.Fatalf("%s: append to a poisoned writer: %v", what, err)
			}
			if d.calls != calls {
				t.Fatalf("%s: a poisoned writer touched the disk", what)
			}
			if h := w.Head(); h.Seq != acked {
				t.Fatalf("%s: head %d, acknowledged %d", what, h.Seq, acked)
			}
			w.Close()
			wantWhole(t, what, dir, acked)
		}
	}
	if fulls == 0 && stride == 1 {
		t.Fatal("no step met a full disk in time")
	}
}

// againAfterCreate: after a Create that failed there is no log, or a whole one; the next Create always works.
func againAfterCreate(t *testing.T, what, dir string) {
	t.Helper()
	w, _, err := openLog(dir, testOptions(), quickDisk{})
	if err == nil {
		w.Close()
		wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
	} else if !errors.Is(err, ErrNoLog) {
		t.Fatalf("%s: open after create: %v", what, err)
	}
	k := testKeys()
	w, err = create(dir, k.id, testOrigin, []string{k.recipient}, testOptions(), quickDisk{})
	if err != nil {
		t.Fatalf("%s: create again: %v", what, err)
	}
	mustAppend(t, w, note1("x"))
	w.Close()
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
}

// wantWhole reopens and holds the log against what was acknowledged: nothing lost; at most the one batch more that
// failed and was written all the same; nothing that reads as tampering.
func wantWhole(t *testing.T, what, dir string, acked uint64) {
	t.Helper()
	if r := verifyDir(t, dir, VerifyOptions{AllSignatures: true}); r.Verdict != Intact && r.Verdict != Torn {
		t.Fatalf("%s: %+v", what, r)
	}
	w, open, err := openLog(dir, testOptions(), quickDisk{})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	h := w.Head()
	if h.Seq != acked && h.Seq != acked+1 {
		t.Fatalf("%s: %d records, %d acknowledged", what, h.Seq, acked)
	}
	if len(open) != int(h.Seq%2) {
		t.Fatalf("%s: open %v at record %d", what, open, h.Seq)
	}
	w.Close()
	r := verifyDir(t, dir, VerifyOptions{AllSignatures: true})
	wantVerdict(t, r, Intact)
	if l := readAll(t, os.DirFS(filepath.Join(dir, segmentsFolder)), readPub(t, dir), testKeys().reader); uint64(len(l)) != h.Seq {
		t.Fatalf("%s: %d records read, %d there", what, len(l), h.Seq)
	}
}

// TestCreateOverAnAbandonedLog with a fault at every step: the old log, no log, or the new one; never a mixture.
func TestCreateOverAnAbandonedLog(t *testing.T) {
	k := testKeys()
	steps := 0
	for n := 0; n <= steps; n++ {
		dir, old := newLog(t, testOptions())
		mustAppend(t, old, note1("old"))
		old.Close()
		oldPub := readPub(t, dir)
		d := &faultDisk{n: n, mode: "after", err: errDisk}
		w, err := create(dir, k.id, testOrigin+"/new", []string{k.recipient}, testOptions(), d)
		if n == 0 {
			if err != nil {
				t.Fatal(err)
			}
			steps = d.calls
			mustAppend(t, w, note1("new"))
			w.Close()
			wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
			aside := filepath.Join(dir, "audit.abandoned.1")
			b, err := os.ReadFile(filepath.Join(aside, pubFile))
			if err != nil || string(b) != string(oldPub) {
				t.Fatalf("the old audit.pub: %v", err)
			}
			wantVerdict(t, verify(t, os.DirFS(aside), oldPub, VerifyOptions{}), Intact)
			continue
		}
		if !errors.Is(err, errDisk) {
			t.Fatalf("step %d: %v", n, err)
		}
		againAfterCreate(t, fmt.Sprintf("step %d", n), dir)
	}
	if steps < 8 {
		t.Fatalf("%d steps", steps)
	}
}

func TestA12LiveSegmentTampered(t *testing.T) {
	for what, do := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(p string) error { return os.Rename(p, p+".away") },
		"replaced by a copy": func(p string) error {
			b, err := os.ReadFile(p)
			if err == nil {
				err = os.WriteFile(p+".new", b, 0o600)
			}
			if err == nil {
				err = os.Rename(p+".new", p)
			}
			return err
		},
		"cut": func(p string) error { return os.Truncate(p, 10) },
		"longer": func(p string) error {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = io.WriteString(f, "x")
				f.Close()
			}
			return err
		},
		"folder moved": func(p string) error { return os.Rename(filepath.Dir(p), filepath.Dir(p)+".away") },
		"symlink": func(p string) error {
			err := os.Rename(p, p+".away")
			if err == nil {
				err = os.Symlink(p+".away", p)
			}
			return err
		},
	} {
		for _, rotate := range []bool{false, true} {
			_, w := newLog(t, testOptions())
			mustAppend(t, w, note1("one"))
			if rotate {
				w.o.MaxSegment = 1
			}
			if err := do(w.live.seg.path); err != nil {
				t.Fatal(err)
			}
			_, err := w.Append(context.Background(), note1("two"))
			// A longer file is met where the next write ends; every case must poison at once.
			if !errors.Is(err, ErrPoisoned) {
				t.Errorf("%s, rotate %v: %v", what, rotate, err)
			}
			w.Close()
		}
	}
}
