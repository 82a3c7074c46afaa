package auditlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"
)

// treeFile keeps the tree's hashes, in segmentsFolder, in the order of tlog.StoredHashIndex: 32 bytes each. It can be made
// anew from the segments at any time, is trusted for nothing, and is no part of the format.
const treeFile = "tree"

// Prove is an RFC 6962 consistency proof from the tree of old COMMITs to the one of now, whose size and root it returns.
func (w *Writer) Prove(old int64) (proof tlog.TreeProof, size int64, root tlog.Hash, err error) {
	last := w.last.Load()
	proof, err = w.ProveTo(old, int64(last.commits))
	return proof, int64(last.commits), last.root, err
}

// ProveTo is the proof from old COMMITs to size COMMITs, a checkpoint's. What it costs grows with what was appended
// since the last proof: those segments are read.
func (w *Writer) ProveTo(old, size int64) (tlog.TreeProof, error) {
	last := w.last.Load()
	if old < 1 || old > size || size > int64(last.commits) {
		return nil, fmt.Errorf("prove consistency: no tree grows from %d to %d commits in a log of %d", old, size, last.commits)
	}
	w.prove.Lock()
	defer w.prove.Unlock()
	f, err := os.OpenFile(filepath.Join(w.folder, treeFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("prove consistency: %w", err)
	}
	defer f.Close()
	for range 2 {
		var p tlog.TreeProof
		if err = w.catchUp(f, last.commit); err == nil {
			if p, err = proofTo(hashFile{f}, old, size, last.commit); err == nil {
				return p, nil
			}
		}
		// Whatever was wrong with the file, a new one will do.
		if err2 := f.Truncate(0); err2 != nil {
			return nil, fmt.Errorf("prove consistency: %w", err2)
		}
	}
	return nil, fmt.Errorf("prove consistency: %w", err)
}

// proofTo takes the proof from the file, which is trusted for nothing: what it gives must lead to the root that was signed.
func proofTo(r tlog.HashReader, old, size int64, last commit) (tlog.TreeProof, error) {
	p, root, err := proved(r, size, int64(last.commits), last.root)
	if err != nil || old == size {
		return p[:0], err
	}
	p, _, err = proved(r, old, size, root)
	return p, err
}

// proved is a checked proof from old to size, and the root of old.
func proved(r tlog.HashReader, old, size int64, root tlog.Hash) (tlog.TreeProof, tlog.Hash, error) {
	was, err := tlog.TreeHash(old, r)
	if err != nil {
		return nil, was, err
	}
	p, err := tlog.ProveTree(size, old, r)
	if err != nil {
		return nil, was, err
	}
	return p, was, tlog.CheckTree(p, size, root, old, was)
}

// sameRoot holds the file against the root that was signed.
func sameRoot(r tlog.HashReader, c commit) error {
	h, err := tlog.TreeHash(int64(c.commits), r)
	if err == nil && h != c.root {
		err = errors.New("the tree has another root than was signed")
	}
	return err
}

// catchUp adds the hashes of the COMMITs that are not in the file yet.
func (w *Writer) catchUp(f *os.File, last commit) error {
	i, err := f.Stat()
	if err != nil {
		return err
	}
	have := leaves(i.Size() / tlog.HashSize)
	if have > int64(last.commits) {
		return errors.New("the file has more than the log")
	}
	if err := f.Truncate(tlog.StoredHashCount(have) * tlog.HashSize); err != nil {
		return err
	}
	r := hashFile{f}
	if have < int64(last.commits) {
		if err := w.leavesAfter(f, r, have, last); err != nil {
			return err
		}
	}
	return sameRoot(r, last)
}

func (w *Writer) leavesAfter(f *os.File, r tlog.HashReader, have int64, last commit) error {
	out := io.NewOffsetWriter(f, tlog.StoredHashCount(have)*tlog.HashSize)
	fsys := os.DirFS(w.folder)
	wk := newWalker(w.pub.Load().Pub)
	from, err := wk.segmentBefore(fsys, last.segment, func(h header) bool { return int64(h.from.commits) <= have })
	if err != nil {
		return err
	}
	if err := wk.adoptAt(fsys, from); err != nil {
		return err
	}
	wk.onCommit = func(c commit) error {
		if int64(c.commits) > have {
			l, err := tlog.StoredHashesForRecordHash(int64(c.commits)-1, c.leaf(), r)
			if err != nil {
				return err
			}
			for _, h := range l {
				if _, err := out.Write(h[:]); err != nil {
					return err
				}
			}
		}
		if c.commits == last.commits {
			return errStop
		}
		return nil
	}
	if err := wk.walk(fsys, from, last.segment); !errors.Is(err, errStop) {
		return errors.Join(err, errors.New("the log ends before its last commit"))
	}
	return nil
}

// leaves is how many whole leaves n stored hashes are.
func leaves(n int64) int64 {
	lo, hi := int64(0), n
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if tlog.StoredHashCount(mid) <= n {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// hashFile reads stored hashes.
type hashFile struct{ f io.ReaderAt }

func (h hashFile) ReadHashes(at []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(at))
	for i, n := range at {
		if _, err := h.f.ReadAt(out[i][:], n*tlog.HashSize); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// segmentBefore goes back from segment n to the first whose HEADER fits; torn ones are passed over.
func (w *walker) segmentBefore(fsys fs.FS, n uint64, fits func(header) bool) (uint64, error) {
	for ; n > 1; n-- {
		h, err := w.headerOf(fsys, n)
		var u unfit
		switch {
		case errors.As(err, &u):
		case err != nil:
			return 0, err
		case fits(h):
			return n, nil
		}
	}
	return 1, nil
}
