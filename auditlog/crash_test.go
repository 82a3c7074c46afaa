package auditlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// reopen opens a log that a crash left, appends, and expects it to verify with everything explained.
func reopen(t *testing.T, dir string, wantSeq uint64) Report {
	t.Helper()
	w, _, err := openLog(dir, testOptions(), quickDisk{})
	if err != nil {
		t.Fatal(err)
	}
	if h := w.Head(); h.Seq != wantSeq {
		t.Fatalf("head at record %d, want %d", h.Seq, wantSeq)
	}
	if got := mustAppend(t, w, note1("after")); got != wantSeq+1 {
		t.Fatalf("appended %d, want %d", got, wantSeq+1)
	}
	var own int
	for r, err := range w.Own(wantSeq) {
		if err != nil || r.Seq != wantSeq+1 {
			t.Fatalf("own: %v %v", r, err)
		}
		own++
	}
	if own != 1 {
		t.Fatalf("%d own records", own)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := verifyDir(t, dir, VerifyOptions{AllSignatures: true})
	wantVerdict(t, r, Intact)
	if l := readAll(t, os.DirFS(filepath.Join(dir, segmentsFolder)), readPub(t, dir), testKeys().reader); uint64(len(l)) != wantSeq+1 {
		t.Fatalf("%d records read, want %d", len(l), wantSeq+1)
	}
	return r
}

func TestA04CutEveryByteOfTheLastBatch(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	name := segmentName(3)
	data := m[name].Data
	last := lastBatch(data)
	for cut := last; cut <= len(data); cut += stride {
		c := copyFS(m)
		c[name].Data = data[:cut]
		r := verify(t, c, pub, VerifyOptions{})
		live := verify(t, c, pub, VerifyOptions{Live: func() bool { return true }})
		seq := uint64(9)
		switch cut {
		case last:
			wantVerdict(t, r, Intact)
		case len(data):
			wantVerdict(t, r, Intact)
			seq = 11
		case last + 1, last + 2, last + 3: // of the length 0,0,0,17 only zeros are left, and they say nothing
			wantVerdict(t, r, Intact)
		default:
			wantVerdict(t, r, Torn)
			wantVerdict(t, live, Live)
			if r.Segment != name || r.Offset != int64(last) || r.Torn != told(data[last:cut]) || r.Seq != 10 {
				t.Fatalf("cut at %d: %+v", cut, r)
			}
		}
		store(t, dir, c)
		r = reopen(t, dir, seq)
		want := told(data[last:cut])
		if cut == len(data) {
			want = 0
		}
		if r.Torn != want {
			t.Fatalf("cut at %d: %d bytes explained, want %d", cut, r.Torn, want)
		}
	}
}

// told is how many bytes of a tail a HEADER tells of: zeros at the end are preallocated space.
func told(tail []byte) int64 { return int64(len(bytes.TrimRight(tail, "\x00"))) }

// TestA06CutAnywhere: an earlier cut at a COMMIT can be seen only by a checkpoint; any other is a torn tail.
func TestA06CutAnywhere(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	name := segmentName(3)
	data := m[name].Data
	commitEnds := map[int]bool{0: true, 1: true, 2: true}
	for _, p := range pieces(data) {
		if p.typ == frameCommit {
			for i := range 4 { // a frame's length begins with zeros, two of them for a HEADER
				commitEnds[p.off+len(p.b)+i] = true
			}
		}
	}
	for cut := 0; cut < len(data); cut += stride {
		c := copyFS(m)
		c[name].Data = data[:cut]
		want := Torn
		if commitEnds[cut] {
			want = Intact
		}
		wantVerdict(t, verify(t, c, pub, VerifyOptions{}), want)
	}
}

func TestA05TornSectors(t *testing.T) {
	dir, w := newLog(t, testOptions())
	mustAppend(t, w, note1("one"))
	mustAppend(t, w, Entry{Kind: Note, Body: make([]byte, 3000)}, Entry{Kind: Note, Body: make([]byte, 3000)})
	w.Close()
	m, pub := load(t, dir), readPub(t, dir)
	old := load(t, threeSegments(t))[segmentName(1)].Data // another log's COMMITs among them
	name := segmentName(1)
	data := m[name].Data
	last := lastBatch(data)
	const sector = 512
	for from := last; from < len(data); from = from/sector*sector + sector {
		for _, fill := range [][]byte{make([]byte, sector), old, data[last-100 : last-100+90]} {
			c := copyFS(m)
			copy(c[name].Data[from:min(from/sector*sector+sector, len(data))], fill)
			wantVerdict(t, verify(t, c, pub, VerifyOptions{}), Torn)
			store(t, dir, c)
			if r, want := reopen(t, dir, 1), told(c[name].Data[last:]); r.Torn != want {
				t.Fatalf("torn %d, want %d", r.Torn, want)
			}
		}
	}
	// The file is longer than what was written to it: preallocated space, whatever its length; anything in it is a tail.
	for _, n := range []int{1, 4, 4096, maxBatch + 4096} {
		c := copyFS(m)
		c[name].Data = append(append([]byte(nil), data...), make([]byte, n)...)
		wantVerdict(t, verify(t, c, pub, VerifyOptions{}), Intact)
		c[name].Data[len(c[name].Data)-1] = 1
		if r := verify(t, c, pub, VerifyOptions{}); n > maxBatch {
			wantFault(t, r, tampered, name)
		} else if wantVerdict(t, r, Torn); r.Torn != int64(n) {
			t.Fatalf("torn %d, want %d", r.Torn, n)
		}
	}
}

// TestA23BeforeTheFirstFrame: a crash after a segment's file is there and before it says anything, at a rotation or a start.
func TestA23BeforeTheFirstFrame(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	c := copyFS(m)
	c[segmentName(4)] = &fstest.MapFile{}
	wantVerdict(t, verify(t, c, pub, VerifyOptions{}), Intact)
	store(t, dir, c)
	reopen(t, dir, 11)
	// Twice in a row, the first one with a piece of a header.
	whole := load(t, dir)[segmentName(5)].Data
	h := pieces(whole)
	first := len(h[0].b) + len(h[1].b)
	for cut := 3; cut < first; cut += 13 {
		c := copyFS(m)
		c[segmentName(4)] = &fstest.MapFile{Data: whole[:cut]}
		c[segmentName(5)] = &fstest.MapFile{}
		r := verify(t, c, pub, VerifyOptions{})
		wantVerdict(t, r, Torn)
		if r.Segment != segmentName(4) || r.Offset != 0 {
			t.Fatalf("place %+v", r)
		}
		store(t, dir, c)
		if r := reopen(t, dir, 11); r.Torn != told(whole[:cut]) || r.Segments != 6 {
			t.Fatalf("report %+v", r)
		}
	}
	// A torn tail and then torn starts: one header explains them all.
	c = copyFS(m)
	d := c[segmentName(3)].Data
	c[segmentName(3)].Data = d[:len(d)-1]
	c[segmentName(4)] = &fstest.MapFile{Data: whole[:20]}
	store(t, dir, c)
	r := reopen(t, dir, 9)
	if want := told(d[lastBatch(d):len(d)-1]) + told(whole[:20]); r.Torn != want {
		t.Fatalf("torn %d, want %d", r.Torn, want)
	}
}

// explained is a log whose third segment has a torn tail that the fourth explains.
func explained(t *testing.T) (string, fstest.MapFS) {
	t.Helper()
	dir := threeSegments(t)
	m := load(t, dir)
	d := m[segmentName(3)].Data
	d = d[:len(d)-30]
	for d[len(d)-1] == 0 { // a HEADER doesn't tell of zeros at the end
		d = d[:len(d)-1]
	}
	m[segmentName(3)].Data = d
	store(t, dir, m)
	reopen(t, dir, 9)
	return dir, load(t, dir)
}

func TestRecoverHeaderAttacked(t *testing.T) {
	dir, m := explained(t)
	pub := readPub(t, dir)
	three, four := segmentName(3), segmentName(4)
	last := lastBatch(m[three].Data)

	// Chopped off: the tail is unexplained again, never intact.
	c := copyFS(m)
	delete(c, four)
	wantVerdict(t, verify(t, c, pub, VerifyOptions{}), Torn)
	// Chopped together with the tail: only a checkpoint tells.
	c[three].Data = c[three].Data[:last]
	wantVerdict(t, verify(t, c, pub, VerifyOptions{}), Intact)
	w, _, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	cp, err := w.Checkpoint(testKeys().id)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	wantFault(t, verify(t, c, pub, VerifyOptions{Checkpoint: cp}), truncated, three)
	// Only the header is left of it: a log that was just reopened.
	c = copyFS(m)
	c[four].Data = join(pieces(c[four].Data)[:2])
	wantVerdict(t, verify(t, c, pub, VerifyOptions{}), Intact)
	wantFault(t, verify(t, c, pub, VerifyOptions{Checkpoint: cp}), truncated, four)

	// The explained bytes are gone, shorter, longer, changed, or whole again.
	for what, tail := range map[string][]byte{
		"gone": nil, "shorter": m[three].Data[last : len(m[three].Data)-1],
		"longer": append(append([]byte(nil), m[three].Data[last:]...), 1), "changed": make([]byte, len(m[three].Data)-last),
	} {
		c = copyFS(m)
		c[three].Data = append(c[three].Data[:last:last], tail...)
		r := verify(t, c, pub, VerifyOptions{})
		if r.Verdict != Broken || r.Segment != three || r.Offset != int64(last) {
			t.Fatalf("%s: %+v", what, r)
		}
	}
	// A byte of the header that explains: damage is named there.
	for i := 0; i < len(pieces(m[four].Data)[0].b); i += 11 {
		c = copyFS(m)
		c[four].Data[i] ^= 1
		r := verify(t, c, pub, VerifyOptions{})
		if r.Verdict != Broken || r.Segment != four {
			t.Fatalf("byte %d: %+v", i, r)
		}
	}
}

// TestDropOfADurableBatch: whoever stole the recovery key cannot call a durable batch torn.
func TestDropOfADurableBatch(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	data := m[segmentName(3)].Data
	whole := append([]byte(nil), data...)
	m[segmentName(3)].Data = data[:len(data)-1]
	store(t, dir, m)
	w, _, err := Open(dir, testOptions()) // explains a torn last batch
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	c := load(t, dir)
	c[segmentName(3)].Data = whole // which in truth was durable
	r := verify(t, c, pub, VerifyOptions{})
	if r.Verdict != Broken {
		t.Fatalf("report %+v", r)
	}
}

func TestA06A07Checkpoint(t *testing.T) {
	dir, w := newLog(t, testOptions())
	pub := readPub(t, dir)
	id := testKeys().id
	var cps [][]byte
	mark := func() {
		t.Helper()
		cp, err := w.Checkpoint(id)
		if err != nil {
			t.Fatal(err)
		}
		cps = append(cps, cp)
	}
	mark()
	mustAppend(t, w, note1("a"))
	mark()
	mustAppend(t, w, note1("b"), note1("c"))
	mark()
	w.Close()
	older := load(t, dir)
	w, _, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	mark()
	mustAppend(t, w, note1("d"))
	mark()
	w.Close()
	for i, cp := range cps {
		r := verifyDir(t, dir, VerifyOptions{Checkpoint: cp})
		wantVerdict(t, r, Intact)
		if r.Anchored == "" {
			t.Fatalf("checkpoint %d is not told", i)
		}
		r = verify(t, older, pub, VerifyOptions{Checkpoint: cp})
		if i < 3 {
			wantVerdict(t, r, Intact)
		} else {
			wantFault(t, r, truncated, segmentName(1))
		}
	}
	if _, err := w.Checkpoint(nil); err == nil {
		t.Fatal("a checkpoint without a key")
	}
	stranger, _ := NewIdentity()
	if _, err := w.Checkpoint(stranger); err == nil {
		t.Fatal("a checkpoint by a stranger")
	}

	// The older copy went on another way: a fork.
	store(t, dir, older)
	w, _, err = Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("other"))
	w.Close()
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
	wantVerdict(t, verifyDir(t, dir, VerifyOptions{Checkpoint: cps[2]}), Intact)
	wantFault(t, verifyDir(t, dir, VerifyOptions{Checkpoint: cps[3]}), forked, segmentName(2))
	// Every byte of a checkpoint matters.
	for i := range cps[1] {
		cp := append([]byte(nil), cps[1]...)
		cp[i] ^= 1
		if r, err := Verify(older, pub, VerifyOptions{Checkpoint: cp}); err == nil && r.Verdict == Intact && i < len(cp)-4 {
			t.Fatalf("byte %d of a checkpoint changed: %+v", i, r)
		}
	}
}

func TestA24FolderGone(t *testing.T) {
	dir, w := newLog(t, testOptions())
	cp, err := w.Checkpoint(testKeys().id)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	store(t, dir, nil)
	wantFault(t, verifyDir(t, dir, VerifyOptions{Checkpoint: cp}), truncated, segmentName(1))
	if _, _, err := Open(dir, testOptions()); !errors.Is(err, ErrTruncated) {
		t.Fatalf("no segments: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, segmentsFolder)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, testOptions()); !errors.Is(err, ErrTruncated) {
		t.Fatalf("no folder: %v", err)
	}
}

// TestVerifyBesideAWriter: at no moment does a live log read as broken.
func TestVerifyBesideAWriter(t *testing.T) {
	dir, w := newLog(t, Options{MaxSegment: 20 << 10})
	done := make(chan error, 1)
	go func() {
		for range 300 {
			if _, err := w.Append(context.Background(), Entry{Kind: Note, Body: make([]byte, 5000)}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for looks := 0; ; looks++ {
		r := verifyDir(t, dir, VerifyOptions{Live: func() bool { return HoldsLock(dir) }})
		if r.Verdict != Intact && r.Verdict != Live {
			t.Fatalf("look %d: %+v", looks, r)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			wantVerdict(t, verifyDir(t, dir, VerifyOptions{}), Intact)
			return
		default:
		}
	}
}
