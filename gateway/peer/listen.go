//go:build linux || darwin

package peer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen makes a socket at path, mode 0600, on which the kernel notes the sender
// of every write (Linux). The folder must be private already. A socket of ours
// that nobody listens on any more is removed first; ErrInUse for anything else.
func Listen(path string) (*net.UnixListener, error) { return listenAt(path, 0o600) }

// ListenGroup is Listen for a gateway that serves another user: mode 0660, for
// the group that the folder lets in.
func ListenGroup(path string) (*net.UnixListener, error) { return listenAt(path, 0o660) }

func listenAt(path string, mode os.FileMode) (*net.UnixListener, error) {
	if max := len(unix.RawSockaddrUnix{}.Path) - 1; len(path) > max {
		return nil, fmt.Errorf("listen: path of %d bytes is too long for a socket, at most %d", len(path), max)
	}
	if path == "" || path[0] == '@' {
		return nil, errors.New("listen: not a path")
	}
	if err := removeDead(path); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

func listen(addr string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		e := raw.Control(func(fd uintptr) { err = markListener(int(fd)) })
		return errors.Join(e, err)
	}}
	l, err := lc.Listen(context.Background(), "unix", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l.(*net.UnixListener), nil
}

// removeDead removes a socket that a process of ours left behind.
func removeDead(path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if uint32(st.Mode)&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: %w", path, ErrInUse)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return fmt.Errorf("%s: %w", path, ErrInUse)
	}
	// Only a refusal says that nobody listens; a full queue says the contrary.
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%s: %w: %w", path, ErrInUse, err)
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "unlink", Path: path, Err: err}
	}
	return nil
}
