package auditlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
)

// TestA08StolenSegmentKey: the live segment's key rewrites no earlier segment; the open one it can, and a checkpoint
// tells. What the identity has countersigned it cannot either.
func TestA08StolenSegmentKey(t *testing.T) {
	dir, w := newLog(t, testOptions())
	mustAppend(t, w, note1("one"))
	for range 2 {
		w.o.MaxSegment = 1
		mustAppend(t, w, note1("two"))
	}
	w.o.MaxSegment = 1 << 30
	mustAppend(t, w, note1("three"))
	cp, err := w.Checkpoint(testKeys().id)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("four"))
	stolen := slices.Clone(w.live.seg.sign)
	w.Close()
	m, pub := load(t, dir), readPub(t, dir)
	for n := uint64(1); n < 3; n++ {
		f := copyFS(m)
		f[segmentName(n)].Data = rebuild(t, f[segmentName(n)].Data, testOrigin, stolen, nil, nil)
		r := verify(t, f, pub, VerifyOptions{})
		if r.Verdict != Broken || r.Segment != segmentName(n) {
			t.Fatalf("segment %d rewritten: %+v", n, r)
		}
	}
	// Records dropped from the open segment, all made to fit.
	l := pieces(m[segmentName(3)].Data)
	shorter := func(drop int) fstest.MapFS {
		f := copyFS(m)
		f[segmentName(3)].Data = forgeShorter(t, l, stolen, drop)
		return f
	}
	f := shorter(2)
	wantVerdict(t, verify(t, f, pub, VerifyOptions{AllSignatures: true}), Intact)
	wantFault(t, verify(t, f, pub, VerifyOptions{Checkpoint: cp}), forked, segmentName(3))
}

// forgeShorter leaves out the batch at frame i, and numbers, chains and signs what is left.
func forgeShorter(t *testing.T, l []piece, key []byte, i int) []byte {
	t.Helper()
	end := i
	for l[end].typ != frameCommit {
		end++
	}
	left := slices.Delete(slices.Clone(l), i, end+1)
	return renumber(t, join(left), testOrigin, key, true, nil, nil)
}

// TestA08Countersigned: a rewrite must leave out the countersignatures, and the report tells where weakness begins.
func TestA08Countersigned(t *testing.T) {
	dir, w := newLog(t, testOptions())
	mustAppend(t, w, note1("one"))
	if err := w.Identify(testKeys().id); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("two"))
	w.live.identity = nil
	stolen := slices.Clone(w.live.seg.sign)
	w.Close()
	m, pub := load(t, dir), readPub(t, dir)
	good := verify(t, m, pub, VerifyOptions{})
	if good.Weak.Commits != 1 || good.Weak.Seq != 2 || good.Weak.Since.IsZero() {
		t.Fatalf("weak %+v", good.Weak)
	}
	name := segmentName(1)
	f := copyFS(m)
	f[name].Data = forgeShorter(t, pieces(m[name].Data), stolen, 2)
	if r := verify(t, f, pub, VerifyOptions{}); r.Verdict != Broken || r.Kind != unsigned {
		t.Fatalf("rewritten under a countersignature: %+v", r)
	}
}

// TestA15CopiedFolder: a copy of the bare files on another system, read through nothing but fs.FS.
func TestA15CopiedFolder(t *testing.T) {
	dir := threeSegments(t)
	r := verify(t, bareFS{load(t, dir)}, readPub(t, dir), VerifyOptions{AllSignatures: true})
	wantVerdict(t, r, Intact)
	if r.Fingerprint == "" || r.Records == 0 {
		t.Fatalf("report %+v", r)
	}
	// A torn tail needs a second look, without a seek too.
	m := load(t, dir)
	d := m[segmentName(3)]
	d.Data = d.Data[:len(d.Data)-1]
	wantVerdict(t, verify(t, bareFS{m}, readPub(t, dir), VerifyOptions{}), Torn)
}

// bareFS has files that can only be read.
type bareFS struct{ fstest.MapFS }

type bareFile struct{ fs.File }

func (b bareFS) Open(name string) (fs.File, error) {
	f, err := b.MapFS.Open(name)
	if d, ok := f.(fs.ReadDirFile); ok {
		return d, err
	}
	return bareFile{f}, err
}

// TestA16ReadTwice: the same log gives the same records, also from a copy.
func TestA16ReadTwice(t *testing.T) {
	dir := threeSegments(t)
	pub := readPub(t, dir)
	var all [3]string
	for i, fsys := range []fs.FS{os.DirFS(filepath.Join(dir, segmentsFolder)), os.DirFS(filepath.Join(dir, segmentsFolder)), load(t, dir)} {
		all[i] = fmt.Sprint(readAll(t, fsys, pub, testKeys().reader))
	}
	if all[0] != all[1] || all[0] != all[2] || len(all[0]) < 100 {
		t.Fatalf("%s\n%s\n%s", all[0], all[1], all[2])
	}
}

// TestA07OlderCopy: an older copy opens, and its Head tells the owner, who remembers more.
func TestA07OlderCopy(t *testing.T) {
	dir, w := newLog(t, testOptions())
	mustAppend(t, w, note1("one"))
	w.Close()
	older := load(t, dir)
	w, _, err := Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, note1("two"))
	remembered := w.Head()
	w.Close()
	store(t, dir, older)
	w, _, err = Open(dir, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if h := w.Head(); h.Seq >= remembered.Seq || h.Hash == remembered.Hash {
		t.Fatalf("head %+v, remembered %+v", h, remembered)
	}
}

// failingFS fails each read after some bytes.
type failingFS struct {
	fstest.MapFS
	after int
}

type failingFile struct {
	fs.File
	left int
}

var errRead = errors.New("medium error")

func (f failingFS) Open(name string) (fs.File, error) {
	file, err := f.MapFS.Open(name)
	if d, ok := file.(fs.ReadDirFile); ok {
		return d, err
	}
	return &failingFile{file, f.after}, err
}

func (f *failingFile) Read(b []byte) (int, error) {
	if f.left == 0 {
		return 0, errRead
	}
	n, err := f.File.Read(b[:min(len(b), f.left)])
	f.left -= n
	return n, err
}

// TestReadErrorIsNoVerdict: a disk that does not read is not a log that was altered, nor one that is whole.
func TestReadErrorIsNoVerdict(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	for after := 0; after < len(m[segmentName(1)].Data); after += 37 {
		r, err := Verify(failingFS{m, after}, pub, VerifyOptions{})
		if !errors.Is(err, errRead) || r.Verdict != "" {
			t.Fatalf("after %d bytes: %v %+v", after, err, r)
		}
		for _, err := range Read(failingFS{m, after}, pub, testKeys().reader) {
			if err != nil && !errors.Is(err, errRead) {
				t.Fatalf("after %d bytes: %v", after, err)
			}
		}
	}
}

// inOneGo is the verdict of the same walk, one segment after the other.
func inOneGo(t testing.TB, fsys fs.FS, pub []byte) (kind, segment string, off int64, drops int) {
	t.Helper()
	p, err := ParsePub(pub)
	if err != nil {
		t.Fatal(err)
	}
	w := newWalker(p)
	count, err := segments(fsys)
	if err == nil {
		err = w.walk(fsys, 1, count)
	}
	var fault *TamperError
	if errors.As(err, &fault) {
		return fault.Kind, fault.Segment, fault.Offset, 0
	}
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return "", "", 0, len(w.drops)
}

// TestParallelIsSequential: segments walked side by side and joined give what one walk gives.
func TestParallelIsSequential(t *testing.T) {
	dir := threeSegments(t)
	m, pub := load(t, dir), readPub(t, dir)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		c := copyFS(m)
		what := damage(r, c)
		if i%3 == 0 {
			what += ", " + damage(r, c)
		}
		rep := verify(t, c, pub, VerifyOptions{})
		kind, segment, off, drops := inOneGo(t, c, pub)
		if kind != "" && (rep.Kind != kind || rep.Segment != segment || rep.Offset != off) {
			t.Fatalf("%s: %s in %s at %d, and side by side %+v", what, kind, segment, off, rep)
		}
		if kind == "" && rep.Verdict != Torn && rep.Verdict != Intact || kind == "" && (drops > 0) != (rep.Verdict == Torn) && rep.Torn > 0 {
			t.Fatalf("%s: %d tails, and side by side %+v", what, drops, rep)
		}
		if rep.Verdict == Intact && !sameLog(c, m) && !shorterLog(c, m) {
			t.Fatalf("%s: intact", what)
		}
	}
}

// sameLog: equal but for preallocated space.
func sameLog(a, b fstest.MapFS) bool {
	if len(a) != len(b) {
		return false
	}
	for n, f := range b {
		if a[n] == nil || !bytes.HasPrefix(a[n].Data, f.Data) || len(bytes.Trim(a[n].Data[len(f.Data):], "\x00")) > 0 {
			return false
		}
	}
	return true
}

// shorterLog: a ends at an earlier COMMIT of b's last segment, which only a checkpoint tells.
func shorterLog(a, b fstest.MapFS) bool {
	name := segmentName(uint64(len(b)))
	d := bytes.TrimRight(a[name].Data, "\x00")
	whole := len(d) == 0
	end := 0
	for _, p := range pieces(b[name].Data) {
		end = p.off + len(p.b)
		if p.typ == frameCommit && end >= len(d) && end-len(d) < countersignedBody && bytes.HasPrefix(a[name].Data, b[name].Data[:min(end, len(a[name].Data))]) {
			whole = true
		}
	}
	c := copyFS(a)
	c[name].Data = b[name].Data
	return whole && sameLog(c, b)
}
