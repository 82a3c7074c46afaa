package auditlog

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// torn decides what a tail is. Torn: a crash could have left it, for it holds at most one batch, the last. The write
// of a batch begins only after the batch before it is durable, so any COMMIT with something after it was durable, and
// its batch cannot be damaged by a crash. Everything else is tampering.
func (w *walker) torn(fsys fs.FS, n uint64, t *tail) (drop, error) {
	kind, at := tampered, place{n, t.off}
	if t.sig {
		kind = unsigned
	}
	b, err := readTail(fsys, n, t)
	if err != nil {
		return drop{}, err
	}
	if len(b) > maxBatch {
		return drop{}, w.fault(kind, at, "%s; more bytes follow than one batch can have", t.why)
	}
	// A segment without a whole first batch has no key to check by: there whatever looks like a COMMIT counts as one.
	key := w.key
	if t.off == 0 {
		key = nil
	}
	if off, found := w.laterCommit(b, n, key); found {
		return drop{}, w.fault(kind, at, "%s, and a commit follows at byte %d", t.why, t.off+int64(off))
	}
	return drop{segment: n, offset: uint64(t.off), size: uint64(len(b)), sum: sha256.Sum256(b), why: t.why}, nil
}

// laterCommit finds a COMMIT of segment n that a torn tail cannot hold. It may hold one: the next, at its very end.
func (w *walker) laterCommit(b []byte, n uint64, key ed25519.PublicKey) (int, bool) {
	start := commitStart(w.log, n)
	for off := 0; ; off++ {
		i := bytes.Index(b[off:], start)
		if i < 0 {
			return 0, false
		}
		off += i
		if len(b)-off < prefix+commitBody {
			return 0, false
		}
		c, err := parseCommit(b[off+prefix : off+prefix+commitBody])
		if err != nil || key != nil && !c.signedBy(key, w.pub.Origin) {
			continue
		}
		if c.commits == w.at.commits+1 && off+prefix+commitBody == len(b) {
			continue
		}
		return off, true
	}
}

// readTail reads the tail as it was when the walk met it (a live writer goes on), one byte more than a batch can have at most.
func readTail(fsys fs.FS, n uint64, t *tail) ([]byte, error) {
	f, err := fsys.Open(segmentName(n))
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	defer f.Close()
	if s, ok := f.(io.Seeker); ok {
		_, err = s.Seek(t.off, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, f, t.off)
	}
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, min(t.size-t.off, maxBatch+1)))
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	return b, nil
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
		t, err := w.one(fsys, n)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		d, err := w.torn(fsys, n, t)
		if err != nil {
			return err
		}
		w.drops = append(w.drops, d)
	}
	return nil
}

// one walks the bytes that segment n has now.
func (w *walker) one(fsys fs.FS, n uint64) (*tail, error) {
	f, err := fsys.Open(segmentName(n))
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	var r io.Reader = io.LimitReader(f, i.Size())
	if w.wrap != nil {
		r = w.wrap(r)
	}
	t, err := w.segment(n, r)
	var te *TamperError
	if err != nil && !errors.As(err, &te) && !errors.Is(err, errStop) {
		return nil, fmt.Errorf("read segment %d: %w", n, err)
	}
	if t != nil {
		t.size = i.Size()
	}
	return t, err
}

// errStop is how a hook ends a walk that has seen enough.
var errStop = errors.New("stop")
