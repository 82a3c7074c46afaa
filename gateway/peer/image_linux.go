package peer

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// image is one program image of a process, from one exec to the next.
type image struct {
	maps   *os.File // /proc/PID/maps, bound to this image: it reads nothing after an exec
	auxv   []byte   // nil: of another uid, whose auxv only it may read; maps carries it
	digest string   // of the executable
	stamp  atomic.Pointer[stamp]
}

// openImage looks at the image that the process has now. The caller checks
// afterwards that the process lives.
func openImage(h handle, own bool) (*image, error) {
	fd, err := openProc(h.pid, "maps")
	if err != nil {
		return nil, err
	}
	im := &image{maps: os.NewFile(uintptr(fd), "maps")}
	if err := im.measure(h.pid, own); err != nil {
		im.close()
		return nil, err
	}
	return im, nil
}

func (im *image) measure(pid int, own bool) error {
	var err error
	if im.auxv, err = procFile(pid, "auxv"); err != nil && own {
		return err
	}
	sum, s, err := exeDigest(pid)
	if err != nil {
		return err
	}
	im.digest = sum
	im.stamp.Store(&s)
	// All of it belongs to the image of maps only if that is still there.
	return im.same(pid)
}

// exeDigest hashes the running file through the magic link, never by its path:
// after a rebuild the path names another file.
func exeDigest(pid int) (string, stamp, error) {
	fd, err := openProc(pid, "exe")
	if err != nil {
		return "", stamp{}, err
	}
	f := os.NewFile(uintptr(fd), "exe")
	defer f.Close()
	return executables.of(f)
}

// same compares the process with the image. The caller checks afterwards that
// the process lives, else numbers may have changed hands.
func (im *image) same(pid int) error {
	if !im.mapped() {
		return ErrReplaced
	}
	if im.auxv != nil {
		now, err := procFile(pid, "auxv")
		if err != nil {
			return err
		}
		if !bytes.Equal(now, im.auxv) {
			return ErrReplaced
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(procPath(pid, "exe"), &st); err != nil {
		return procError("stat", "exe", err)
	}
	s, err := toStamp(&st)
	if err != nil {
		return err
	}
	if s == *im.stamp.Load() {
		return nil
	}
	// A rename over the file changes the running one's ctime, not its content.
	sum, s, err := exeDigest(pid)
	if err != nil {
		return err
	}
	if sum != im.digest {
		return ErrReplaced
	}
	im.stamp.Store(&s)
	return nil
}

// mapped reads one byte of the memory map. The descriptor holds the old
// image's map; the kernel shows it only while somebody runs in it.
func (im *image) mapped() bool {
	var b [1]byte
	n, err := im.maps.ReadAt(b[:], 0)
	return n == 1 && err == nil
}

func (im *image) duplicate() (*image, error) {
	fd, err := duplicate(im.maps)
	if err != nil {
		return nil, fmt.Errorf("duplicate maps: %w", err)
	}
	c := &image{maps: os.NewFile(uintptr(fd), "maps"), auxv: im.auxv, digest: im.digest}
	c.stamp.Store(im.stamp.Load())
	return c, nil
}

func (im *image) close() error { return im.maps.Close() }

func toStamp(st *unix.Stat_t) (stamp, error) {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return stamp{}, fmt.Errorf("stat executable: no regular file")
	}
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, nil
}
