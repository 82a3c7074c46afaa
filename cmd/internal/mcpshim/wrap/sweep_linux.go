package wrap

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"sallyport/gateway/peer"
)

// Adopt makes this process inherit what its descendants leave behind, so that nothing of a server gets away from below it.
// The process must have no children but a wrapper's.
func Adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// servingWait bounds the wait for a place in a gateway's queue.
const servingWait = 2 * time.Second

// sweep kills every process below us that is below no living child of ours: what a child that ended left behind. A server may
// have started a gateway with `sp up`; whoever listens at the gateway's door, as the kernel tells, is spared. Where somebody does
// and can't be told, nobody is killed.
func (n *kin) sweep(ended int, serving func(context.Context) ([]*peer.Listener, error)) {
	for range 10 { // a process may start another one while we look
		gateways, err := listeners(serving)
		if err != nil {
			return
		}
		roll, err := peer.CallRoll()
		if err != nil {
			return
		}
		n.mu.Lock()
		spare := map[int]bool{}
		for pid := range n.own {
			if pid != ended {
				spare[pid] = true
			}
		}
		n.mu.Unlock()
		for pid, start := range gateways {
			if roll[pid].Start == start {
				spare[pid] = true
			}
		}
		var others []int
		for pid := range spare {
			others = append(others, pid)
		}
		for _, pid := range roll.Below(others...) {
			spare[pid] = true
		}
		found := false
		for _, pid := range roll.Below(os.Getpid()) {
			if !spare[pid] && pid != ended {
				unix.Kill(pid, unix.SIGKILL)
				found = true
			}
		}
		if !found {
			return
		}
	}
}

// listeners are the gateways that can be reached, by number, with their starts.
func listeners(serving func(context.Context) ([]*peer.Listener, error)) (map[int]uint64, error) {
	if serving == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), servingWait)
	defer cancel()
	all, err := serving(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[int]uint64)
	for _, l := range all {
		if e, err := l.Entry(); err == nil {
			out[l.PID()] = e.Start
		}
		l.Close()
	}
	return out, nil
}

// inherit reaps adopted processes as they end, until stop is called.
func (n *kin) inherit() (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGCHLD)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-c:
				n.reapAdopted()
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}

func (n *kin) reapAdopted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	roll, err := peer.CallRoll()
	if err != nil {
		return
	}
	for pid, e := range roll {
		if e.PPID == os.Getpid() && e.Ended() && !n.own[pid] {
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}
