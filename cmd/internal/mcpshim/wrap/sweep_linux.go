package wrap

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"sallyport/gateway/peer"
)

// Adopt makes this process inherit what its descendants leave behind, so that nothing of a server gets away from below it.
// The process must have no children but a wrapper's.
func Adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// sweep kills every process below us that is below no living child of ours: what a child that ended left behind.
func (n *kin) sweep(ended int) {
	for range 10 { // a process may start another one while we look
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
