package sshexec

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// PoolOptions are the pool's times and bounds; zero values mean the defaults.
type PoolOptions struct {
	Idle        time.Duration // an unused connection is closed after; 60 s
	Life        time.Duration // a connection takes no new command after; 10 min
	KeepAlive   time.Duration // a sign of life is asked for every; 15 s, dead after three
	DialTimeout time.Duration // dial, key exchange and authentication; DialTimeout
	Channels    int           // commands at a time on one connection; 8
	Grace       Grace
	// Lookup resolves a name to all its addresses; nil: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Grace is how long a host is waited for once the end of a command is known or wanted; zero values mean the defaults.
type Grace struct {
	Pipes  time.Duration // after the exit-status, for the output to end; 2 s
	Signal time.Duration // after TERM, and again after KILL, for an exit message; 250 ms
	Close  time.Duration // for the answer to our close, or to a request that was given up; 250 ms
}

// PoolKey says who may share a connection: one run, with one version of the
// credential of one target.
type PoolKey struct {
	Target  string
	Version uint64
	Run     string
}

// Pool keeps connections. It is safe for concurrent use.
type Pool struct {
	o      PoolOptions
	mu     sync.Mutex
	links  map[PoolKey][]*link
	closed bool
}

// NewPool makes an empty pool. Close ends it.
func NewPool(o PoolOptions) *Pool {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Idle, time.Minute)
	def(&o.Life, 10*time.Minute)
	def(&o.KeepAlive, 15*time.Second)
	def(&o.DialTimeout, DialTimeout)
	def(&o.Grace.Pipes, 2*time.Second)
	def(&o.Grace.Signal, 250*time.Millisecond)
	def(&o.Grace.Close, 250*time.Millisecond)
	if o.Channels <= 0 {
		o.Channels = 8
	}
	if o.Lookup == nil {
		o.Lookup = systemLookup
	}
	return &Pool{o: o, links: map[PoolKey][]*link{}}
}

// Conn is one caller's place on a connection. It is not safe for concurrent use.
type Conn struct {
	p *Pool
	l *link
	s *session // opened by Dial as the proof that the link lives; Run takes it

	shell string // of the target this place was asked for
}

// Dial gives a place on a live connection of (t, a.Version, a.Run), opening one
// if need be. The channel is open when it returns, so a dead pooled connection
// never reaches Run. Every error is a *DialError. Give the Conn back with Put.
func (p *Pool) Dial(ctx context.Context, t Target, a Auth) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.DialTimeout)
	defer cancel()
	key := PoolKey{Target: t.Name, Version: a.Version, Run: a.Run}
	for {
		if ctx.Err() != nil {
			return nil, dialError(ctx, ctx.Err(), "")
		}
		l, mine := p.lease(ctx, key, t, a)
		if l == nil {
			return nil, errDropped()
		}
		if mine {
			p.bring(l, a)
		}
		select {
		case <-l.ready:
		case <-ctx.Done():
			p.release(l)
			return nil, dialError(ctx, ctx.Err(), "")
		}
		if l.err != nil {
			p.release(l)
			if !mine && (errors.Is(l.err, context.Canceled) || errors.Is(l.err, context.DeadlineExceeded)) {
				continue // the one who was opening it went away, or had less time
			}
			return nil, l.err
		}
		s, err := l.open(ctx)
		if err == nil {
			return &Conn{p: p, l: l, s: s, shell: t.Shell}, nil
		}
		full := p.refused(ctx, l, err)
		switch {
		case ctx.Err() != nil:
			return nil, dialError(ctx, err, "")
		case p.isDropped(l):
			return nil, errDropped()
		case mine && !full:
			return nil, &DialError{Reason: "dial_failed", Detail: "the host opens no session"}
		}
	}
}

func errDropped() *DialError {
	return &DialError{Reason: "dial_failed", Detail: "the connection was closed here"}
}

// lease takes a place on a live link, or registers a new one that the caller must
// bring up. It gives nil once the pool is closed.
func (p *Pool) lease(ctx context.Context, key PoolKey, t Target, a Auth) (l *link, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	for _, l := range p.links[key] {
		if a.once() {
			break
		}
		if l.use.retired || l.use.leases >= l.use.limit {
			continue
		}
		if !l.target.same(t) || !a.sameVersions(l.with) || time.Since(l.use.born) > p.o.Life {
			p.retire(l)
			continue
		}
		l.use.leases++
		if l.use.idle != nil {
			l.use.idle.Stop()
		}
		return l, false
	}
	l = &link{
		key: key, target: t, with: a.versions(), grace: p.o.Grace, use: use{born: time.Now(), leases: 1, limit: p.o.Channels, retired: a.once()},
		ready: make(chan struct{}), done: make(chan struct{}),
	}
	l.dial, l.cancel = context.WithCancel(ctx)
	p.links[key] = append(p.links[key], l)
	return l, true
}

// bring does the handshake and publishes how it ended.
func (p *Pool) bring(l *link, a Auth) {
	w, err := l.target.handshake(l.dial, a, p.o.Lookup)
	if err == nil && p.publish(l, w) {
		return
	}
	if err == nil {
		w.close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.err = err; l.use.dropped {
		l.err = errDropped()
	}
	l.cancel()
	p.forget(l)
	close(l.ready)
	close(l.done)
}

// publish puts the connection to use, unless the link was dropped meanwhile.
func (p *Pool) publish(l *link, w wire) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.use.dropped {
		return false
	}
	l.w = w
	close(l.ready)
	l.serve(p.o.KeepAlive, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget(l)
	})
	return true
}

// Put gives the place back. A second Put of the same Conn does nothing.
func (p *Pool) Put(c *Conn) {
	if c == nil || c.l == nil {
		return
	}
	l, s := c.l, c.s
	c.l, c.s = nil, nil
	if s != nil {
		l.work.run(func() { _ = s.ch.Close() })
	}
	p.release(l)
}

func (p *Pool) release(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.use.leases--
	switch {
	case l.use.leases > 0:
	case l.use.retired || time.Since(l.use.born) > p.o.Life:
		p.retire(l)
	case l.use.idle != nil:
		l.use.idle.Reset(p.o.Idle)
	default:
		l.use.idle = time.AfterFunc(p.o.Idle, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if l.use.leases == 0 {
				p.retire(l)
			}
		})
	}
}

// refused gives back a place on a link that opened no channel. A host that allows
// fewer channels than we do teaches the link its limit (full); any other link is
// done with.
func (p *Pool) refused(ctx context.Context, l *link, err error) (full bool) {
	var no *ssh.OpenChannelError
	p.mu.Lock()
	full = errors.As(err, &no) && l.use.leases > 1
	switch {
	case ctx.Err() != nil:
	case full:
		l.use.limit = l.use.leases - 1
	default:
		l.use.retired = true
	}
	p.mu.Unlock()
	p.release(l)
	return full
}

// retire lets no new lease on l and closes it once the last one is given back.
func (p *Pool) retire(l *link) {
	l.use.retired = true
	if l.use.leases == 0 {
		l.kill()
	}
}

func (p *Pool) forget(l *link) {
	l.use.retired = true
	if l.use.idle != nil {
		l.use.idle.Stop()
	}
	p.links[l.key] = slices.DeleteFunc(p.links[l.key], func(o *link) bool { return o == l })
	if len(p.links[l.key]) == 0 {
		delete(p.links, l.key)
	}
}

func (p *Pool) isDropped(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.use.dropped
}

// Drop closes every connection that f names, also one being opened or in use, and
// returns when all are closed and nothing of theirs runs any more. A Run on one of
// them ends with what it knows. f is called under the pool's lock.
func (p *Pool) Drop(f func(PoolKey) bool) {
	p.mu.Lock()
	var gone []*link
	for key, links := range p.links {
		if !f(key) {
			continue
		}
		for _, l := range links {
			l.use.dropped, l.use.retired = true, true
			l.kill()
			gone = append(gone, l)
		}
	}
	p.mu.Unlock()
	for _, l := range gone {
		<-l.done
	}
}

// Close drops everything; every later Dial fails.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Drop(func(PoolKey) bool { return true })
}
