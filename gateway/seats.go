package gateway

import (
	"net"
	"sync"

	"sallyport/gateway/peer"
)

// seats are the agents' door's. When all are taken, a process with few connections displaces the newest one of the
// process that has most: whoever floods the door is in its own way, not in others'.
type seats struct {
	mu   sync.Mutex
	max  int
	open []*seat // oldest first
}

// seat is one connection's.
type seat struct {
	pid  int // who connected: enough to be fair, not to know anybody by
	conn net.Conn
}

// take finds a seat for c; nil: there is none. The caller gives it back with leave.
func (p *seats) take(c *net.UnixConn) *seat {
	_, pid, err := peer.Who(c)
	if err != nil {
		pid = 0 // all whom we can't see share one
	}
	mine := &seat{pid, c}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) >= p.max {
		i := p.greedy(pid)
		if i < 0 {
			return nil
		}
		p.open[i].conn.Close() // whoever serves it ends
		p.open = append(p.open[:i], p.open[i+1:]...)
	}
	p.open = append(p.open, mine)
	return mine
}

// greedy is the newest connection of the process that has most; -1 unless it has more than pid will have.
func (p *seats) greedy(pid int) int {
	has := map[int]int{}
	for _, x := range p.open {
		has[x.pid]++
	}
	at := -1
	for i, x := range p.open {
		if has[x.pid] > has[pid]+1 && (at < 0 || has[x.pid] >= has[p.open[at].pid]) {
			at = i
		}
	}
	return at
}

func (p *seats) leave(mine *seat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range p.open {
		if x == mine {
			p.open = append(p.open[:i], p.open[i+1:]...)
			return
		}
	}
}
