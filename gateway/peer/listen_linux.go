package peer

import (
	"crypto/rand"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// ListenAbstract makes a socket under a random abstract name (128 bits) and
// returns the address to dial, "@NAME". Such a socket has no mode: whoever
// learns the name may connect, also another uid, so the accepter must look.
func ListenAbstract() (l *net.UnixListener, addr string, err error) {
	addr = "@" + rand.Text()
	if l, err = listen(addr); err != nil {
		return nil, "", err
	}
	return l, addr, nil
}

// markListener sets what accepted sockets inherit, before anybody can connect:
// on an accepted socket early bytes would carry nobody's credentials. The mode
// set here is the one the path is born with (unix_bind_bsd).
func markListener(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return fmt.Errorf("set SO_PASSCRED: %w", err)
	}
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return fmt.Errorf("set socket mode: %w", err)
	}
	return nil
}
