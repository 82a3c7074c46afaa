package client

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
)

// A command has no deadline of its own: a backup may take minutes. But a gateway that was stopped (SIGSTOP, a debugger)
// takes a connection and never answers, so whoever waits looks at it.

// stoppedLook is how often the gateway's process is looked at; stopped at two looks in a row, it is not waited for.
const stoppedLook = 750 * time.Millisecond

// halted marks the end of a wait for a gateway that is stopped.
type halted struct{ pid int }

func (e halted) Error() string { return e.refusal().Error() }

func (e halted) refusal() *api.Error {
	r := api.Fail("gateway_unreachable", fmt.Sprintf("the gateway (pid %d) is stopped and answers nothing; it may do this when it goes on", e.pid))
	r.Retry = fmt.Sprintf("let it go on with `kill -CONT %d`, or end it (`sp run revoke RUN --force` does): a dead gateway lets nothing through", e.pid)
	return r
}

// looked is a connection whose listener is looked at while an answer is awaited.
type looked struct {
	net.Conn
	end  chan struct{}
	once sync.Once
	mu   sync.Mutex
	why  error
}

// look begins to look; where the process can't be seen the connection is as it was.
func look(c net.Conn) net.Conn {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return c
	}
	l, err := peer.ListenerOf(u)
	if err != nil {
		return c
	}
	x := &looked{Conn: c, end: make(chan struct{})}
	go x.watch(l)
	return x
}

// watch ends with the connection.
func (x *looked) watch(l *peer.Listener) {
	defer l.Close()
	t := time.NewTicker(stoppedLook)
	defer t.Stop()
	for looks := 0; looks < 2; {
		select {
		case <-x.end:
			return
		case <-t.C:
		}
		if e, err := l.Entry(); err == nil && e.Stopped() {
			looks++
		} else {
			looks = 0
		}
	}
	x.mu.Lock()
	x.why = halted{l.PID()}
	x.mu.Unlock()
	x.Conn.Close()
}

func (x *looked) Read(b []byte) (int, error) {
	n, err := x.Conn.Read(b)
	return n, x.reason(err)
}

func (x *looked) Write(b []byte) (int, error) {
	n, err := x.Conn.Write(b)
	return n, x.reason(err)
}

func (x *looked) reason(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil && x.why != nil {
		return x.why
	}
	return err
}

func (x *looked) Close() error {
	x.once.Do(func() { close(x.end) })
	return x.Conn.Close()
}

// End ends the gateway's process with SIGKILL, by pidfd, without a word to it, and returns its number. It is the process
// that listens at the operators' door, under the uid that must. Nothing of it is running when End returns nil.
func End(ctx context.Context, h home.Home) (pid int, err error) {
	c, err := dialOperator(ctx, h)
	if err != nil {
		return 0, unreachable(err)
	}
	defer c.Close()
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, peer.ErrUnsupported
	}
	l, err := peer.ListenerOf(u)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.PID(), l.Kill(endWait)
}

// endWait is how long a killed process may take to be gone.
const endWait = 10 * time.Second
