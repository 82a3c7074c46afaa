package launch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	fileMax  = int64(512) << 20 // bytes of one file that we hash
	cacheMax = 64 << 10         // files remembered, about 10 MiB
	settled  = 2 * time.Second  // a younger ctime may hide a later change
	chunk    = 128 << 10        // read between two looks at the clock
)

var (
	errNotRegular = errors.New("no regular file")
	errTooLarge   = fmt.Errorf("larger than %d MiB", fileMax>>20)
	errChanging   = errors.New("changes while it is read")
	errTime       = errors.New("not read in time")
)

// stamp tells two contents of files apart without reading them.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // ns since 1970
}

func toStamp(st *unix.Stat_t) stamp {
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

func regular(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }

// old says whether the content can have no later change under the same stamp.
func (s stamp) old(now time.Time) bool { return now.Sub(time.Unix(0, s.ctime)) > settled }

// cache remembers digests of contents by stamp. It is bounded: full, it forgets
// any. Its zero value is ready, and it may be used by many at once.
type cache struct {
	mu sync.Mutex
	m  map[stamp]string
}

func (c *cache) get(s stamp) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[s]
}

func (c *cache) put(s stamp, sum string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.m {
		if len(c.m) < cacheMax {
			break
		}
		delete(c.m, old)
	}
	if c.m == nil {
		c.m = make(map[stamp]string)
	}
	c.m[s] = sum
}

// openRegular opens a regular file for reading and never waits: what is a pipe or
// a device is looked at, not opened, and if one is put there meanwhile the open
// does not block. Links on the way are followed, the last one too.
func openRegular(path string) (fd int, s stamp, err error) {
	var st unix.Stat_t
	if err := stat(path, &st); err != nil {
		return -1, stamp{}, err
	}
	if !regular(&st) {
		return -1, stamp{}, errNotRegular
	}
	return reopen(path)
}

// reopen opens what was a regular file a moment ago.
func reopen(path string) (fd int, s stamp, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return -1, stamp{}, err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, stamp{}, err
	}
	if !regular(&st) {
		unix.Close(fd)
		return -1, stamp{}, errNotRegular
	}
	return fd, toStamp(&st), nil
}

// open is openRegular for a reader.
func open(path string) (*os.File, stamp, error) {
	fd, s, err := openRegular(path)
	if err != nil {
		return nil, stamp{}, err
	}
	return os.NewFile(uintptr(fd), path), s, nil
}

func stat(path string, st *unix.Stat_t) error {
	for {
		if err := unix.Stat(path, st); err != unix.EINTR {
			return err
		}
	}
}

// buffers are reused between files: most are smaller than one.
var buffers = sync.Pool{New: func() any { return new([chunk]byte) }}

// sum hashes the bytes of what was a regular file a moment ago, until the deadline.
func sum(path string, h hash.Hash, deadline time.Time) (string, stamp, error) {
	fd, s, err := reopen(path)
	if err != nil {
		return "", stamp{}, err
	}
	defer unix.Close(fd)
	if s.size > fileMax {
		return "", stamp{}, errTooLarge
	}
	buf := buffers.Get().(*[chunk]byte)
	defer buffers.Put(buf)
	for left := s.size; left > 0; {
		n, err := unix.Read(fd, buf[:min(left, chunk)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "", stamp{}, err
		}
		if n <= 0 {
			return "", stamp{}, errChanging // shorter than it said
		}
		h.Write(buf[:n])
		if left -= int64(n); left > 0 && time.Now().After(deadline) {
			return "", stamp{}, errTime
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", stamp{}, err
	}
	if toStamp(&st) != s {
		return "", stamp{}, errChanging
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), s, nil
}

// digest is the digest of a file's bytes, from memory where nothing changed.
func (c *cache) digest(path string, deadline time.Time) (string, stamp, error) {
	var st unix.Stat_t
	if err := stat(path, &st); err != nil {
		return "", stamp{}, err
	}
	if !regular(&st) {
		return "", stamp{}, errNotRegular
	}
	s := toStamp(&st)
	if d := c.get(s); d != "" {
		return d, s, nil
	}
	d, s, err := sum(path, sha256.New(), deadline)
	if err == nil && s.old(time.Now()) {
		c.put(s, d)
	}
	return d, s, err
}

// keyed is the digest under a key, of a file that holds secrets.
func keyed(path string, key []byte, deadline time.Time) (string, stamp, error) {
	var st unix.Stat_t
	if err := stat(path, &st); err != nil {
		return "", stamp{}, err
	}
	if !regular(&st) {
		return "", stamp{}, errNotRegular
	}
	return sum(path, hmac.New(sha256.New, key), deadline)
}
