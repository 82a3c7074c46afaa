package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sallyport/gateway/peer"
)

// What callers can use up is shared fairly or refused: memory by long lines, descriptors by connections, the reading of
// big executables by whoever is not served anyway.

// room is what all long lines share, in bytes. One process has at most share of it, by however many connections: whoever
// floods it is in its own way.
type room struct {
	left  atomic.Int64
	share int64

	mu sync.Mutex
	by map[int]int64 // what a process has, by its pid: enough to be fair
}

func (r *room) open(all, share int64) { r.share, r.by = share, map[int]int64{}; r.left.Store(all) }

// hold is one line's part of the room. It is given back when nobody keeps the line any more.
type hold struct {
	room *room
	pid  int
	n    int64 // bytes taken; only the reader of the line adds
	refs atomic.Int32
}

// take takes n more bytes; false when there is no room.
func (h *hold) take(n int) bool {
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[h.pid]+int64(n) > r.share || r.left.Load() < int64(n) {
		return false
	}
	r.by[h.pid] += int64(n)
	r.left.Add(int64(-n))
	h.n += int64(n)
	return true
}

func (h *hold) keep() { h.refs.Add(1) }

func (h *hold) drop() {
	if h == nil {
		return
	}
	if h.refs.Add(-1) != 0 || h.n == 0 {
		return
	}
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[h.pid] -= h.n; r.by[h.pid] == 0 {
		delete(r.by, h.pid)
	}
	r.left.Add(h.n)
}

// Descriptors: an agent's connection costs up to four (socket, pidfd, memory map, a moment's executable). These stay
// free for the log, the database, the executors and the operator.
const (
	connFiles  = 4
	spareFiles = 256
)

// agentPlaces is how many agents' connections this process has descriptors for.
func agentPlaces() int {
	var lim syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim) != nil || lim.Cur > spareFiles+connFiles*agentConns {
		return agentConns
	}
	return max(8, (int(lim.Cur)-spareFiles)/connFiles)
}

// scarce tells an accept that failed for want of something that comes back.
func scarce(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pause waits a moment for what is scarce; false when ctx ended.
func pause(ctx context.Context) bool {
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// otherUser is a peer whose uid is not served.
type otherUser struct{ uid uint32 }

func (e otherUser) Error() string { return fmt.Sprintf("the caller is another user (uid %d)", e.uid) }

func (e otherUser) Unwrap() error { return peer.ErrUnidentified }

// identified pins the process at the other end. Whoever is not served is told apart first: pinning reads an executable,
// and nobody else may make us read theirs.
func (g *Gateway) identified(c *net.UnixConn) (*peer.Process, error) {
	uid, err := peer.UID(c)
	if err != nil {
		return nil, err
	}
	if uid != g.cfg.ServeUID {
		return nil, otherUser{uid}
	}
	p, err := peer.FromConn(c)
	if err == nil && p.Facts().UID != uid {
		p.Close()
		return nil, otherUser{p.Facts().UID}
	}
	return p, err
}
