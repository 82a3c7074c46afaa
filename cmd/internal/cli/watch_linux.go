package cli

import "golang.org/x/sys/unix"

// watch holds process pid, so that gone tells its end even while nobody has
// reaped it, and never another process of the same number.
func watch(pid int) (gone func() bool, release func()) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return func() bool { return true }, func() {}
	}
	gone = func() bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return err == nil && n == 1
	}
	return gone, func() { unix.Close(fd) }
}
