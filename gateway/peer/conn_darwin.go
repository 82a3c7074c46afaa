package peer

import (
	"fmt"
	"net"
)

// Conn returns a connection on which every Read checks that the process which
// connected is still the instance p: macOS notes no sender per write, so a child
// that speaks on an inherited socket is told from its parent only when that has
// ended or was replaced.
func Conn(c *net.UnixConn, p *Process) net.Conn { return &conn{c, p} }

type conn struct {
	*net.UnixConn
	p *Process
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.UnixConn.Read(b)
	if n <= 0 || err != nil {
		return max(n, 0), err
	}
	if err := c.p.Same(); err != nil {
		clear(b[:n])
		c.Close()
		return 0, fmt.Errorf("read from peer: %w: %w", ErrForeignSender, err)
	}
	return n, nil
}

// ListenAbstract returns ErrUnsupported: macOS has no abstract names.
func ListenAbstract() (l *net.UnixListener, addr string, err error) {
	return nil, "", fmt.Errorf("listen: abstract names: %w", ErrUnsupported)
}

// markListener has nothing to set here; the path's mode is set by Listen.
func markListener(int) error { return nil }
