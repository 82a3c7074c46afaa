package auditlog

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"filippo.io/age"
)

// keys of every test log; made once, they are slow.
type keys struct {
	id                ed25519.PrivateKey
	reader, recipient string
}

var testKeys = sync.OnceValue(func() keys {
	id, err := NewIdentity()
	if err != nil {
		panic(err)
	}
	// Classic keys keep the test logs small; the hybrid ones have tests of their own.
	x, err := age.GenerateX25519Identity()
	if err != nil {
		panic(err)
	}
	return keys{id, x.String(), x.Recipient().String()}
})

const testOrigin = "log.example/1"

// clock steps a second at each look.
func clock() func() time.Time {
	var mu sync.Mutex
	t := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		t = t.Add(time.Second)
		return t
	}
}

func testOptions() Options { return Options{Now: clock()} }

// quickDisk keeps everything and waits for nothing: for tests that write often and lose no power.
type quickDisk struct{ osDisk }

type quickFile struct{ segmentFile }

func (quickFile) Sync() error { return nil }

func (q quickDisk) create(path string) (segmentFile, error) {
	f, err := q.osDisk.create(path)
	return quickFile{f}, err
}

func (quickDisk) syncDir(string) error { return nil }

func newLog(t testing.TB, o Options) (string, *Writer) {
	t.Helper()
	return newLogOn(t, o, quickDisk{})
}

func newLogOn(t testing.TB, o Options, d disk) (string, *Writer) {
	t.Helper()
	dir := t.TempDir()
	k := testKeys()
	w, err := create(dir, k.id, testOrigin, []string{k.recipient}, o, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return dir, w
}

func subject(n byte) [16]byte { return [16]byte{0: 1, 15: n} }

func mustAppend(t testing.TB, w *Writer, e ...Entry) uint64 {
	t.Helper()
	seq, err := w.Append(context.Background(), e...)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func note1(s string) Entry { return Entry{Kind: Note, Body: []byte(s), Own: []byte("own " + s)} }

func readPub(t testing.TB, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, pubFile))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func verify(t testing.TB, fsys fs.FS, pub []byte, o VerifyOptions) Report {
	t.Helper()
	r, err := Verify(fsys, pub, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verifyDir(t testing.TB, dir string, o VerifyOptions) Report {
	t.Helper()
	return verify(t, os.DirFS(filepath.Join(dir, segmentsFolder)), readPub(t, dir), o)
}

func wantVerdict(t testing.TB, r Report, verdict string) {
	t.Helper()
	if r.Verdict != verdict {
		t.Fatalf("verdict %q, want %q: %+v", r.Verdict, verdict, r)
	}
}

func wantFault(t testing.TB, r Report, kind, segment string) {
	t.Helper()
	if r.Verdict != Broken || r.Kind != kind || r.Segment != segment {
		t.Fatalf("verdict %s %s in %s, want broken %s in %s: %+v", r.Verdict, r.Kind, r.Segment, kind, segment, r)
	}
	if r.Detail == "" {
		t.Fatalf("a fault without a word: %+v", r)
	}
}

// load is the segments as a file system in memory, to be changed at will.
func load(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	l, err := filepath.Glob(filepath.Join(dir, segmentsFolder, "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range l {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		m[filepath.Base(p)] = &fstest.MapFile{Data: b, Mode: 0o600}
	}
	return m
}

func copyFS(m fstest.MapFS) fstest.MapFS {
	c := fstest.MapFS{}
	for k, f := range m {
		c[k] = &fstest.MapFile{Data: append([]byte(nil), f.Data...), Mode: f.Mode}
	}
	return c
}

// store writes a changed file system back into a log's folder.
func store(t testing.TB, dir string, m fstest.MapFS) {
	t.Helper()
	l, _ := filepath.Glob(filepath.Join(dir, segmentsFolder, "*.seg"))
	for _, p := range l {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	for k, f := range m {
		if err := os.WriteFile(filepath.Join(dir, segmentsFolder, k), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func readAll(t testing.TB, fsys fs.FS, pub []byte, identity string) []Record {
	t.Helper()
	var l []Record
	for r, err := range Read(fsys, pub, identity) {
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, r)
	}
	return l
}

func TestRoundTrip(t *testing.T) {
	dir, w := newLogOn(t, testOptions(), osDisk{})
	var want []Entry
	for i := range 70 {
		e := Entry{Kind: Note, Body: make([]byte, i*3), Own: make([]byte, i)}
		for j := range e.Body {
			e.Body[j] = byte(i + j)
		}
		switch i % 3 {
		case 1:
			e.Kind, e.Subject = Intent, subject(byte(i))
		case 2:
			e.Kind, e.Subject = Result, subject(byte(i-1))
		}
		want = append(want, e)
		if got := mustAppend(t, w, e); got != uint64(i+1) {
			t.Fatalf("sequence %d, want %d", got, i+1)
		}
	}
	two := []Entry{note1("a"), {Kind: Intent, Subject: subject(200), Body: []byte{0x80, 0}}}
	if got := mustAppend(t, w, two...); got != 72 {
		t.Fatalf("sequence %d, want 72", got)
	}
	want = append(want, two...)
	fsys := os.DirFS(filepath.Join(dir, segmentsFolder))
	pub := readPub(t, dir)
	got := readAll(t, fsys, pub, testKeys().reader)
	i := 0
	for r, err := range w.Own(0) {
		if err != nil {
			t.Fatal(err)
		}
		g := got[i]
		g.Body = nil
		if fmt.Sprint(g) != fmt.Sprint(r) {
			t.Fatalf("Own gives %v, Read %v", r, g)
		}
		i++
	}
	if i != len(want) || len(got) != len(want) {
		t.Fatalf("%d and %d records, want %d", i, len(got), len(want))
	}
	for i, r := range got {
		e := want[i]
		if r.Seq != uint64(i+1) || r.Kind != e.Kind || r.Subject != e.Subject || string(r.Body) != string(e.Body) || string(r.Own) != string(e.Own) || r.Time.IsZero() {
			t.Fatalf("record %d: %v, want %v", i+1, r, e)
		}
	}
	rep := verify(t, fsys, pub, VerifyOptions{Live: func() bool { return HoldsLock(dir) }})
	wantVerdict(t, rep, Intact)
	if rep.Records != 72 || rep.OpenIntents != 1 || rep.Commits != 72 || rep.Segments != 1 {
		t.Fatalf("report %+v", rep)
	}
	if h := w.Head(); h.Seq != 72 || h.Records != 72 || h.Commits != 72 {
		t.Fatalf("head %+v", h)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w2, open, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer w2.Close()
	if len(open) != 1 || open[0].Seq != 72 || open[0].Subject != subject(200) || open[0].Body != nil || open[0].Kind != Intent {
		t.Fatalf("open intents %v", open)
	}
	if got := mustAppend(t, w2, Entry{Kind: Result, Subject: subject(200)}); got != 73 {
		t.Fatalf("sequence %d after reopening", got)
	}
	rep = verifyDir(t, dir, VerifyOptions{AllSignatures: true})
	wantVerdict(t, rep, Intact)
	if rep.OpenIntents != 0 || rep.Segments != 2 {
		t.Fatalf("report %+v", rep)
	}
	var own []uint64
	for r, err := range w2.Own(70) {
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, r.Seq)
	}
	if fmt.Sprint(own) != "[71 72 73]" {
		t.Fatalf("own after 70: %v", own)
	}
}

func TestA14OpenRefusals(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Open(dir, Options{}); !errors.Is(err, ErrNoLog) {
		t.Fatalf("empty folder: %v", err)
	}
	dir, w := newLog(t, testOptions())
	if _, _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Fatalf("second writer: %v", err)
	}
	if _, err := Create(dir, testKeys().id, testOrigin, []string{testKeys().recipient}, Options{}); !errors.Is(err, ErrLocked) {
		t.Fatalf("create over a live log: %v", err)
	}
	if !HoldsLock(dir) {
		t.Fatal("the writer's lock is not seen")
	}
	w.Close()
	if HoldsLock(dir) {
		t.Fatal("a closed writer's lock is seen")
	}
	if _, err := w.Append(context.Background(), note1("x")); !errors.Is(err, ErrClosed) {
		t.Fatalf("append after close: %v", err)
	}
}
