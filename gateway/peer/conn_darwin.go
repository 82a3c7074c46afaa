package peer

import (
	"fmt"
	"net"
	"time"
)

// Conn returns a connection on which every Read checks that the process which
// connected is still the instance p: macOS notes no sender per write, so a child
// that speaks on an inherited socket is told from its parent only when that has
// ended or was replaced.
func Conn(c *net.UnixConn, p *Process) net.Conn { return &conn{c, p} }

type conn struct {
	c *net.UnixConn
	p *Process
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.c.Read(b)
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

func (c *conn) Write(b []byte) (int, error)        { return c.c.Write(b) }
func (c *conn) Close() error                       { return c.c.Close() }
func (c *conn) CloseWrite() error                  { return c.c.CloseWrite() }
func (c *conn) LocalAddr() net.Addr                { return c.c.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr               { return c.c.RemoteAddr() }
func (c *conn) SetDeadline(t time.Time) error      { return c.c.SetDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.c.SetWriteDeadline(t) }
