package auditlog

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// one walks the bytes that segment n has now. drop: it ends in a torn tail; a fault, if no crash could have left that.
func (w *walker) one(fsys fs.FS, n uint64) (*drop, error) {
	size := int64(-1)
	t, err := w.part(fsys, n, 0, &size)
	for err == nil && t != nil {
		if w.apart && t.off == 0 {
			return nil, errNotBegun
		}
		var b, zeros []byte
		if b, zeros, err = tailBytes(fsys, n, t.off, size); err != nil {
			break
		}
		if len(b) == 0 && t.off > 0 {
			return nil, nil // preallocated space
		}
		// A live writer has perhaps gone on since. What is whole now is no tail, and while the tail is not whole its
		// writer adds nothing after it: so bytes that were read before a look at an unfinished tail are those of one batch.
		was := w.at.commits
		var next *tail
		if next, err = w.part(fsys, n, t.off, &size); err != nil || next == nil {
			break
		}
		if w.at.commits == was {
			return w.torn(n, t, b, zeros)
		}
		t = next
	}
	return nil, err
}

// errNotBegun: a segment by itself has no whole first batch.
var errNotBegun = errors.New("segment is not begun")

// part walks segment n from off, where w stands, to size. size -1: the segment's size now, which it sets.
func (w *walker) part(fsys fs.FS, n uint64, off int64, size *int64) (*tail, error) {
	f, err := openAt(fsys, n, off)
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	defer f.Close()
	if *size < 0 {
		i, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("read segment: %w", err)
		}
		*size = i.Size()
	}
	var r io.Reader = io.LimitReader(f, *size-off)
	if w.wrap != nil {
		r = w.wrap(r)
	}
	var t *tail
	if off == 0 {
		t, err = w.segment(n, r)
	} else {
		t, err = w.batches(n, w.frames.begin(r, off))
	}
	var te *TamperError
	if err != nil && !errors.As(err, &te) && !errors.Is(err, errStop) {
		return nil, fmt.Errorf("read segment %d: %w", n, err)
	}
	return t, err
}

func openAt(fsys fs.FS, n uint64, off int64) (fs.File, error) {
	f, err := fsys.Open(segmentName(n))
	if err != nil || off == 0 {
		return f, err
	}
	if s, ok := f.(io.Seeker); ok {
		_, err = s.Seek(off, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, f, off)
	}
	if err != nil && err != io.EOF {
		f.Close()
		return nil, err
	}
	return f, nil
}

// tailBytes reads what follows off, one byte more than a batch can have at most. Zeros at the end are preallocated space
// and are no part of b; as many of them as a COMMIT could end in are given apart. A file that goes on with zeros for ever
// (a sparse one costs nobody anything) reads as more than a batch.
func tailBytes(fsys fs.FS, n uint64, off, size int64) (b, zeros []byte, err error) {
	f, err := openAt(fsys, n, off)
	if err != nil {
		return nil, nil, fmt.Errorf("read segment: %w", err)
	}
	defer f.Close()
	r := io.LimitReader(f, size-off)
	blank := 0
	for buf := make([]byte, 64<<10); len(b) <= maxBatch; {
		m, err := r.Read(buf)
		last := m
		for last > 0 && buf[last-1] == 0 {
			last--
		}
		if last > 0 {
			if blank > maxBatch-len(b) {
				return make([]byte, maxBatch+1), nil, nil
			}
			b = append(append(b, make([]byte, blank)...), buf[:last]...)
			blank = 0
		}
		if blank += m - last; blank > maxBlank {
			return make([]byte, maxBatch+1), nil, nil
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read segment: %w", err)
		}
	}
	return b, make([]byte, min(blank, countersignedBody)), nil
}

// torn decides what a tail is. Torn: a crash could have left it, for it holds at most one batch, the last. The write
// of a batch begins only after the batch before it is durable, so any COMMIT with something after it was durable, and
// its batch cannot be damaged by a crash. Everything else is tampering.
func (w *walker) torn(n uint64, t *tail, b, zeros []byte) (*drop, error) {
	kind, at := tampered, place{n, t.off}
	if t.sig {
		kind = unsigned
	}
	if len(b) > maxBatch {
		return nil, w.fault(kind, at, "%s; more bytes follow than one batch can have", t.why)
	}
	// A segment without a whole first batch has no key to check by: there whatever looks like a COMMIT counts as one.
	key := w.key
	if t.off == 0 {
		key = nil
	}
	if off, found := w.laterCommit(b, zeros, n, key); found {
		return nil, w.fault(kind, at, "%s, and a commit follows at byte %d", t.why, t.off+int64(off))
	}
	return &drop{segment: n, offset: uint64(t.off), size: uint64(len(b)), sum: sha256.Sum256(b), why: t.why}, nil
}

// laterCommit finds a COMMIT of segment n that a torn tail cannot hold. It may hold one: the next, at its very end.
func (w *walker) laterCommit(b, zeros []byte, n uint64, key ed25519.PublicKey) (int, bool) {
	start := commitStart(w.log, n)
	all := append(b, zeros...)
	for from := 0; ; {
		off, c, end, ok := findCommit(all[from:], start)
		if !ok {
			return 0, false
		}
		off, end, from = from+off, from+end, from+off+1
		if key != nil && !c.signedBy(key, w.pub) {
			continue
		}
		if c.commits == w.at.commits+1 && end >= len(b) {
			continue
		}
		return off, true
	}
}

// segments counts the segments of an audit folder. They are numbered from 1 without a gap; other files are not looked at.
func segments(fsys fs.FS) (uint64, error) {
	l, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return 0, fmt.Errorf("list segments: %w", err)
	}
	have := map[uint64]bool{}
	last := uint64(0)
	for _, e := range l {
		s, ok := strings.CutSuffix(e.Name(), ".seg")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil || n == 0 || segmentName(n) != e.Name() || !e.Type().IsRegular() {
			return 0, &TamperError{Kind: tampered, Segment: e.Name(), Detail: "no writer makes such a segment"}
		}
		have[n] = true
		last = max(last, n)
	}
	// Beside a writer a listing may miss a name and have a later one, so a gap is looked at once more.
	for n := uint64(1); n <= last; n++ {
		if have[n] {
			continue
		}
		_, err := fs.Stat(fsys, segmentName(n))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, &TamperError{Kind: tampered, Segment: segmentName(n), Detail: "the segment is missing, and later ones are there"}
		}
		if err != nil {
			return 0, fmt.Errorf("list segments: %w", err)
		}
	}
	return last, nil
}

// walk goes over segments from..to. It leaves in w.drops the torn tails that no HEADER has explained yet.
func (w *walker) walk(fsys fs.FS, from, to uint64) error {
	for n := from; n <= to; n++ {
		d, err := w.one(fsys, n)
		if err != nil {
			return err
		}
		if d != nil {
			w.drops = append(w.drops, *d)
		}
	}
	return nil
}

// errStop is how a hook ends a walk that has seen enough.
var errStop = errors.New("stop")
