//go:build linux || darwin

package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	digestsMax = 256             // executables remembered
	exeMax     = int64(4) << 30  // bytes of an executable that we hash
	settled    = 2 * time.Second // a younger ctime may hide a later change
)

// stamp tells two contents of files apart without reading them.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // ns since 1970
}

// digests remembers the digests of executables: one may be 100 MB and each
// connection asks. Two callers of one file hash it once; callers of different
// files don't wait for each other, since a hostile file system may never answer.
type digests struct {
	mu sync.Mutex
	m  map[stamp]*digest
}

type digest struct {
	mu  sync.Mutex
	sum string // "" until hashed
}

// executables is the process's one memory of digests. It holds nothing but
// what the files themselves say, so that sharing it changes no answer.
var executables digests

var errChanging = errors.New("hash executable: file changes while it is read")

// looks is how often a file that changes while it is read is read again: a link made to it, or a new mode, changes its
// ctime and nothing else.
const looks = 8

// of returns the digest of the open file f and the stamp it was taken under.
func (d *digests) of(f *os.File) (sum string, s stamp, err error) {
	for range looks {
		if sum, s, err = d.once(f); err != errChanging {
			break
		}
	}
	return sum, s, err
}

func (d *digests) once(f *os.File) (string, stamp, error) {
	s, err := stampOf(f)
	if err != nil {
		return "", stamp{}, err
	}
	if s.size > exeMax {
		return "", stamp{}, fmt.Errorf("hash executable: %d bytes, at most %d", s.size, exeMax)
	}
	e := d.entry(s)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sum != "" {
		return e.sum, s, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, s.size)); err != nil {
		return "", stamp{}, fmt.Errorf("hash executable: %w", err)
	}
	after, err := stampOf(f)
	if err != nil {
		return "", stamp{}, err
	}
	if after != s {
		return "", stamp{}, errChanging
	}
	sum := "sha256:" + hex.EncodeToString(h.Sum(nil))
	if time.Since(time.Unix(0, s.ctime)) > settled {
		e.sum = sum
	}
	return sum, s, nil
}

// entry finds or makes the place for s and forgets some other one when full.
func (d *digests) entry(s stamp) *digest {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.m[s]; e != nil {
		return e
	}
	for old := range d.m {
		if len(d.m) < digestsMax {
			break
		}
		delete(d.m, old)
	}
	if d.m == nil {
		d.m = make(map[stamp]*digest)
	}
	e := new(digest)
	d.m[s] = e
	return e
}

func stampOf(f *os.File) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stamp{}, fmt.Errorf("stat executable: %w", err)
	}
	return toStamp(&st)
}
