package httpexec

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is one connection to a checked address. One exchange at a time uses it.
type conn struct {
	tcp  *net.TCPConn
	tls  *tls.Conn // nil for plain http
	wire *wire
	src  *source
	br   *bufio.Reader
	bw   *bufio.Writer
	buf  []byte // for bodies
	born time.Time

	key   PoolKey     // these three are the pool's
	since time.Time   // when it became idle
	timer *time.Timer // closes it
}

func newConn(tcp *net.TCPConn, cfg *tls.Config) *conn {
	c := &conn{tcp: tcp, wire: &wire{Conn: tcp}, born: time.Now()}
	var rw io.ReadWriter = c.wire
	if cfg != nil {
		c.tls = tls.Client(c.wire, cfg)
		rw = c.tls
	}
	c.src = &source{r: rw}
	c.br, c.bw = bufio.NewReader(c.src), bufio.NewWriterSize(rw, 8<<10)
	return c
}

// close is abrupt: no TLS goodbye, since that would be a write.
func (c *conn) close() { c.tcp.Close() }

// wire counts bytes below TLS and asks before each write whether it may begin.
type wire struct {
	net.Conn
	gate           func() error // nil: no exchange under way
	sent, received atomic.Int64
}

// wirePiece bounds what one passed gate lets through.
const wirePiece = 32 << 10

func (w *wire) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if w.gate != nil {
			if err := w.gate(); err != nil {
				return n, err
			}
		}
		k, err := w.Conn.Write(p[n:min(len(p), n+wirePiece)])
		w.sent.Add(int64(k))
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.received.Add(int64(n))
	return n, err
}

// source bounds the header block: left bytes may still be read, unless open.
type source struct {
	r    io.Reader
	left int
	open bool
}

var errHeaderSize = errors.New("header block longer than 32 KiB")

func (s *source) Read(p []byte) (int, error) {
	if s.open {
		return s.r.Read(p)
	}
	if s.left <= 0 {
		return 0, errHeaderSize
	}
	n, err := s.r.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// alive reports whether an idle connection has nothing to read: no FIN, no reset, no
// byte that no request asked for.
func (c *conn) alive() bool {
	if c.br.Buffered() > 0 {
		return false
	}
	rc, err := c.tcp.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = rc.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	if err != nil || !quiet {
		return false
	}
	if c.tls == nil {
		return true
	}
	// A record already taken from the socket may hold more than was read of it.
	c.src.open = true
	c.tcp.SetReadDeadline(time.Unix(1, 0))
	_, err = c.br.Peek(1)
	c.tcp.SetReadDeadline(time.Time{})
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
