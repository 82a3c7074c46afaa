package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Conn returns a connection on which every Read checks who sent the bytes: the
// kernel notes it per write, and never merges two senders' bytes. Bytes of
// another process, a descriptor, or truncated control data close the connection
// and give ErrForeignSender; bytes of a process that has ended meanwhile give
// ErrGone. c must come from a listener of Listen or ListenAbstract: elsewhere
// nobody's bytes are accepted. p is not closed with the connection.
func Conn(c *net.UnixConn, p *Process) net.Conn { return &conn{c: c, p: p} }

type conn struct {
	c *net.UnixConn
	p *Process

	mu  sync.Mutex // one Read at a time; guards below
	err error      // why the connection was closed
	// oob has room for one sender's credentials and nothing else, so that a
	// passed descriptor is never installed here: the kernel drops it and says so.
	oob [credentials]byte
}

// credentials is CMSG_SPACE(sizeof(struct ucred)).
const credentials = 32

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 { // ReadMsgUnix would take a byte and lose it
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	n, oobn, flags, _, err := c.c.ReadMsgUnix(b, c.oob[:])
	if errors.Is(err, io.EOF) || err == nil && n == 0 {
		return 0, io.EOF // bare, as readers compare it
	}
	if err != nil { // n is -1
		return 0, err
	}
	if err := c.check(c.oob[:oobn], flags); err != nil {
		clear(b[:n])
		c.err = fmt.Errorf("read from peer: %w", err)
		c.c.Close()
		return 0, c.err
	}
	return n, nil
}

func (c *conn) check(oob []byte, flags int) error {
	if flags&unix.MSG_CTRUNC != 0 {
		return ErrForeignSender
	}
	m, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(m) != 1 {
		return ErrForeignSender
	}
	cred, err := unix.ParseUnixCredentials(&m[0])
	if err != nil || int(cred.Pid) != c.p.facts.PID || cred.Uid != c.p.facts.UID {
		return ErrForeignSender
	}
	// Only while the connector lives its number can't be another's.
	if c.p.handle.exited() {
		return ErrGone
	}
	return nil
}

func (c *conn) Write(b []byte) (int, error)        { return c.c.Write(b) }
func (c *conn) Close() error                       { return c.c.Close() }
func (c *conn) CloseWrite() error                  { return c.c.CloseWrite() }
func (c *conn) LocalAddr() net.Addr                { return c.c.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr               { return c.c.RemoteAddr() }
func (c *conn) SetDeadline(t time.Time) error      { return c.c.SetDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.c.SetWriteDeadline(t) }
