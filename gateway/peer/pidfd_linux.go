package peer

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// handle is a pidfd and the number that its process has in our pid namespace.
// What is read under /proc/PID belongs to the process if it is alive afterwards:
// a number is free for another only after the process was reaped.
type handle struct {
	pid int
	f   *os.File
}

// openHandle opens a pidfd by number; the caller must check that it got the
// process it meant.
func openHandle(pid int) (handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err == unix.EINVAL { // before 5.10: no such flag
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if err == unix.ESRCH || err == unix.EINVAL {
		return handle{}, ErrGone
	}
	if err != nil {
		return handle{}, fmt.Errorf("open pidfd: %w", err)
	}
	return newHandle(pid, fd), nil
}

// newHandle takes fd over. Non-blocking, it is watched by the runtime's poller
// and costs no thread.
func newHandle(pid, fd int) handle {
	unix.SetNonblock(fd, true)
	return handle{pid, os.NewFile(uintptr(fd), "pidfd")}
}

// do runs f on the descriptor, which stays open meanwhile.
func (h handle) do(f func(fd int) error) error {
	raw, err := h.f.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return err
}

// exited says whether the whole process has ended, reaped or not. A closed
// handle answers true: nothing can be said for its process.
func (h handle) exited() bool {
	return h.do(func(fd int) error {
		if readable(fd, 0) {
			return ErrGone
		}
		return nil
	}) != nil
}

// ends waits a moment for the end of a process that has given up its memory.
func (h handle) ends() bool {
	return h.do(func(fd int) error {
		if readable(fd, ending) {
			return ErrGone
		}
		return nil
	}) != nil
}

// ending is how long, in ms, a process may take from giving up its memory to
// its end before it counts as unreadable.
const ending = 200

func readable(fd, ms int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p[:], ms)
		if err != unix.EINTR {
			return n != 0 || err != nil
		}
	}
}

// info asks the kernel about the process (6.13 and later).
func (h handle) info() (unix.PidfdInfo, error) {
	in := unix.PidfdInfo{Mask: unix.PIDFD_INFO_PID | unix.PIDFD_INFO_CREDS | unix.PIDFD_INFO_COREDUMP}
	err := h.do(func(fd int) error { return unix.IoctlPidfdInfo(fd, &in) })
	return in, err
}

// ppid is the parent's number now, 0 if it has none that we can see.
func (h handle) ppid() (int, error) {
	if in, err := h.info(); err == nil {
		return int(in.Ppid), nil
	}
	st, err := h.stat()
	return st.ppid, err
}

// stat reads /proc/PID/stat of this process, not of a successor.
func (h handle) stat() (stat, error) {
	st, err := readStat(h.pid)
	if h.exited() {
		return stat{}, ErrGone
	}
	return st, err
}

// duplicate returns a second handle on the same process.
func (h handle) duplicate() (handle, error) {
	fd, err := duplicate(h.f)
	if err != nil {
		return handle{}, err
	}
	return newHandle(h.pid, fd), nil
}

func duplicate(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	e := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(e, err)
}

// key names the process among all since boot: by its inode in pidfs, which is
// never given twice, else by number and start.
func (h handle) key() (key string, pidfs bool, err error) {
	boot, err := bootID()
	if err != nil {
		return "", false, err
	}
	var ino uint64
	err = h.do(func(fd int) error {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.PID_FS_MAGIC {
			return err
		}
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		ino = st.Ino
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("stat pidfd: %w", err)
	}
	if ino != 0 {
		return boot + ":" + strconv.FormatUint(ino, 10), true, nil
	}
	st, err := h.stat()
	return fmt.Sprintf("%s:%d+%d", boot, h.pid, st.start), false, err
}

// bootID is read once: it doesn't change while we run.
var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
})
