package gateway

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"sallyport/gateway/peer"
)

// opListener gives connections that know their peer and check the sender of every byte, as the agents' door does.
// Its places are few, and whoever floods it loses theirs first: a connection whose request has not arrived yet may be
// closed for a newer one, the oldest of the process that has most of them.
type opListener struct {
	net.Listener
	g      *Gateway
	mu     sync.Mutex
	served []*opConn // of the served user, oldest first
	others int       // of other users, who are told no
}

// Places at the operators' door.
const (
	operatorConns = 128
	strangerConns = 16
)

// opConn looks at its peer when it is first read from: in its own goroutine, so that a peer whose executable takes long
// to read keeps nobody else from the door.
type opConn struct {
	net.Conn
	identify func(*net.UnixConn) (*peer.Process, error)
	look     sync.Once
	in       net.Conn // checks senders
	err      error    // why there is no proc; refused with the reason, not dropped

	pid     int         // who has the place
	working atomic.Bool // its request has arrived whole
	free    func()      // gives the place back

	mu     sync.Mutex
	proc   *peer.Process
	closed bool
}

func (l *opListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		o := &opConn{Conn: c, identify: l.g.identified, in: c, free: func() {}}
		if u, ok := c.(*net.UnixConn); ok && !l.place(o, u) {
			c.Close()
			continue
		}
		return o, nil
	}
}

// place finds room for o, if need be by closing another; false: there is none.
func (l *opListener) place(o *opConn, u *net.UnixConn) bool {
	uid, pid, err := peer.Who(u)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || uid != l.g.cfg.ServeUID {
		if l.others >= strangerConns {
			return false
		}
		l.others++
		o.free = sync.OnceFunc(func() {
			l.mu.Lock()
			l.others--
			l.mu.Unlock()
		})
		return true
	}
	o.pid = pid
	if len(l.served) >= operatorConns {
		v := victim(l.served)
		if v == nil {
			return false
		}
		l.served = slices.DeleteFunc(l.served, func(x *opConn) bool { return x == v })
		v.Conn.Close() // its server notices, and closes the rest
	}
	l.served = append(l.served, o)
	o.free = func() {
		l.mu.Lock()
		l.served = slices.DeleteFunc(l.served, func(x *opConn) bool { return x == o })
		l.mu.Unlock()
	}
	return true
}

// victim is the oldest connection whose request has not arrived, of the process that has most of those; nil: none.
func victim(open []*opConn) *opConn {
	has := map[int]int{}
	for _, c := range open {
		if !c.working.Load() {
			has[c.pid]++
		}
	}
	var v *opConn
	for _, c := range open {
		if !c.working.Load() && (v == nil || has[c.pid] > has[v.pid]) {
			v = c
		}
	}
	return v
}

// peer is the process at the other end, pinned once.
func (c *opConn) peer() (*peer.Process, error) {
	c.look.Do(func() {
		u, ok := c.Conn.(*net.UnixConn)
		if !ok {
			c.err = peer.ErrUnidentified
			return
		}
		p, err := c.identify(u)
		if err != nil {
			c.err = err
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			p.Close()
		}
		c.proc, c.in = p, peer.Conn(u, p)
	})
	return c.proc, c.err
}

func (c *opConn) Read(b []byte) (int, error) {
	c.peer()
	return c.in.Read(b)
}

func (c *opConn) Close() error {
	c.free()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.proc != nil {
		c.proc.Close()
	}
	return c.Conn.Close()
}
