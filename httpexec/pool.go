package httpexec

import (
	"sync"
	"time"
)

// PoolKey says for which credential, version and origin a connection may be used.
type PoolKey struct {
	Credential string
	Version    uint64
	Origin     string
}

const (
	idleReads  = 30 * time.Second // an idle connection is closed after
	idleWrites = time.Second      // a write takes none that was idle longer
	maxLife    = 10 * time.Minute
	maxIdle    = 64  // per key
	maxIdleAll = 512 // in all; at most so many timers
)

// pool keeps idle connections. leases are the exchanges under way: a Drop marks them,
// so that a connection in use or being dialled doesn't come back.
type pool struct {
	now    func() time.Time // when a connection became idle, and how long ago that is
	mu     sync.Mutex
	idle   map[PoolKey][]*conn // newest last
	count  int
	leases map[*lease]struct{}
	closed bool
}

type lease struct {
	key     PoolKey
	dropped bool // under pool.mu
}

// take begins an exchange and returns an idle connection for it, or nil.
func (p *pool) take(key PoolKey, write bool) (*lease, *conn) {
	l := &lease{key: key}
	p.mu.Lock()
	p.leases[l] = struct{}{}
	p.mu.Unlock()
	for {
		c := p.pop(key, write)
		if c == nil || c.alive() {
			return l, c
		}
		c.close()
	}
}

// pop removes the connection used last; none, if it was idle too long for a write.
func (p *pool) pop(key PoolKey, write bool) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		list := p.idle[key]
		if len(list) == 0 {
			return nil
		}
		c := list[len(list)-1]
		now := p.now()
		old := elapsed(c.born, now) >= maxLife
		if !old && write && elapsed(c.since, now) >= idleWrites {
			return nil // the others were idle longer
		}
		p.remove(c, len(list)-1)
		if !old {
			return c
		}
		c.close()
	}
}

// elapsed counts a suspension of the machine too, which Go's monotonic clock sleeps through.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// remove takes c out of the list, with p.mu held.
func (p *pool) remove(c *conn, at int) {
	list := p.idle[c.key]
	copy(list[at:], list[at+1:])
	list[len(list)-1] = nil
	if list = list[:len(list)-1]; len(list) == 0 {
		delete(p.idle, c.key)
	} else {
		p.idle[c.key] = list
	}
	p.count--
	c.timer.Stop()
}

// give ends an exchange; c, if any, becomes idle or is closed.
func (p *pool) give(l *lease, c *conn) {
	p.mu.Lock()
	delete(p.leases, l)
	keep := c != nil && !l.dropped && !p.closed && len(p.idle[l.key]) < maxIdle && p.count < maxIdleAll
	if keep {
		c.key, c.since = l.key, p.now()
		c.timer = time.AfterFunc(idleReads, func() { p.expire(c) })
		p.idle[l.key] = append(p.idle[l.key], c)
		p.count++
	}
	p.mu.Unlock()
	if c != nil && !keep {
		c.close()
	}
}

func (p *pool) expire(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.idle[c.key] {
		if o == c && elapsed(c.since, p.now()) >= idleReads {
			p.remove(c, i)
			c.close()
			return
		}
	}
}

// drop closes the idle connections f names; those in use are closed by their exchange.
func (p *pool) drop(f func(PoolKey) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.leases {
		l.dropped = l.dropped || f(l.key)
	}
	for key, list := range p.idle {
		if !f(key) {
			continue
		}
		for len(list) > 0 {
			c := list[len(list)-1]
			list = list[:len(list)-1]
			c.timer.Stop()
			c.close()
			p.count--
		}
		delete(p.idle, key)
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop(func(PoolKey) bool { return true })
}
