package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// auxvMax is more than any kernel's auxiliary vector (saved_auxv).
const auxvMax = 1024

// image is one program image of a process, from one exec to the next.
//
// Each part tells what another may miss: the map stops reading at an exec unless
// a clone keeps the old memory; the vector differs unless it was forged; the
// link to the executable can be forged only with a capability.
type image struct {
	maps     *os.File // /proc/PID/maps, bound to this image: it reads nothing after an exec
	auxv     []byte   // nil: of another uid, whose auxv only it may read; maps carries it
	auxvPath string
	exePath  string // the magic link, not where it points
	digest   string // of the executable
	stamp    atomic.Pointer[stamp]
}

// openImage looks at the image that the process has now. own: its uid is ours,
// so that nothing may be unreadable. The caller checks afterwards that the
// process lives.
func openImage(h handle, own bool) (*image, error) {
	fd, err := openProc(h.pid, "maps")
	if err != nil {
		return nil, err
	}
	im := &image{
		maps:     os.NewFile(uintptr(fd), "maps"),
		auxvPath: procPath(h.pid, "auxv"),
		exePath:  procPath(h.pid, "exe"),
	}
	if err := im.measure(h.pid, own); err != nil {
		im.close()
		return nil, err
	}
	return im, nil
}

func (im *image) measure(pid int, own bool) error {
	var buf [auxvMax]byte
	b, err := im.readAuxv(buf[:])
	if err != nil && own {
		return err
	}
	im.auxv = slices.Clone(b)
	sum, s, err := exeDigest(pid)
	if err != nil {
		return err
	}
	im.digest = sum
	im.stamp.Store(&s)
	// All of it belongs to the image of maps only if that is still there.
	return im.same(pid)
}

// readAuxv opens the file anew: an open one would show the old image's vector.
func (im *image) readAuxv(buf []byte) ([]byte, error) {
	fd, err := unix.Open(im.auxvPath, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, procError("open", "auxv", err)
	}
	n, err := unix.Read(fd, buf)
	unix.Close(fd)
	if err != nil {
		return nil, procError("read", "auxv", err)
	}
	if n == len(buf) {
		return nil, fmt.Errorf("read auxv: more than %d bytes", n)
	}
	return buf[:n], nil // none: it is ending
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
		return im.replaced()
	}
	if im.auxv != nil {
		var buf [auxvMax]byte
		now, err := im.readAuxv(buf[:])
		if errors.Is(err, unix.EACCES) && errors.Is(im.replaced(), ErrGone) {
			return ErrGone // its files are root's once it has given up its memory
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(now, im.auxv) {
			return im.replaced()
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(im.exePath, &st); err != nil {
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

// replaced tells a new image from none: a process that is ending loses its
// memory some time before it counts as ended.
func (im *image) replaced() error {
	var st unix.Stat_t
	if err := unix.Stat(im.exePath, &st); err == unix.ENOENT || err == unix.ESRCH {
		return ErrGone
	}
	return ErrReplaced
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
	c := &image{
		maps: os.NewFile(uintptr(fd), "maps"), auxv: im.auxv,
		auxvPath: im.auxvPath, exePath: im.exePath, digest: im.digest,
	}
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
