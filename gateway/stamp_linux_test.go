package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stampedListener accepts connections whose bytes the kernel stamps when they are put into the socket: on loopback that
// is inside the sender's own write, so the stamp is the time of the write and not of our reading.
type stampedListener struct{ net.Listener }

// stampedConn remembers when what it read last had been written.
type stampedConn struct {
	net.Conn
	raw  syscall.RawConn
	last atomic.Int64 // wall clock, ns; 0: the kernel gave none
}

func (l stampedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	return &stampedConn{Conn: c, raw: raw}, nil
}

func (c *stampedConn) Read(b []byte) (n int, err error) {
	oob := make([]byte, 64)
	var oobn int
	rerr := c.raw.Read(func(fd uintptr) bool {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob, 0)
		return err != unix.EAGAIN
	})
	if rerr != nil {
		return 0, rerr
	}
	if n == 0 && err == nil {
		return 0, net.ErrClosed
	}
	messages, _ := unix.ParseSocketControlMessage(oob[:oobn])
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS {
			ts := *(*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			c.last.Store(ts.Nano())
		}
	}
	return max(n, 0), err
}

type stampKey struct{}

// written is when the request that a handler sees was written. The kernel begins to stamp a moment after it was asked to:
// a request before that has no stamp, and ok is false.
func written(q *http.Request) (at time.Time, ok bool) {
	ns := q.Context().Value(stampKey{}).(*stampedConn).last.Load()
	return time.Unix(0, ns), ns != 0
}

// stamped makes a server's requests tell when they were written. What it accepts inherits the listener's option.
func stamped(t testing.TB, s *http.Server, l net.Listener) net.Listener {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	if err := errors.Join(cerr, err); err != nil {
		t.Fatal(err)
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, stampKey{}, c) }
	return stampedListener{l}
}
