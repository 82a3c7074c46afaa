package peer

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Listener is the process that serves a socket, as a client of it sees it: a
// daemon that hides its memory still has a pidfd. It holds a descriptor until
// Close.
type Listener struct{ handle handle }

// ListenerOf pins the process that listens at the other end of c.
func ListenerOf(c *net.UnixConn) (*Listener, error) {
	cred, fd, err := peerOf(c)
	if err != nil {
		return nil, fmt.Errorf("find listener: %w", err)
	}
	h, _, err := peerHandle(cred, fd)
	if err != nil {
		return nil, fmt.Errorf("find listener: %w", err)
	}
	return &Listener{h}, nil
}

// PID is its number.
func (l *Listener) PID() int { return l.handle.pid }

// Entry is how it stands now: ErrGone if it has ended.
func (l *Listener) Entry() (Entry, error) {
	st, err := l.handle.stat()
	if err != nil {
		return Entry{}, fmt.Errorf("look at listener: %w", err)
	}
	return Entry{PPID: st.ppid, State: st.state, Start: st.start}, nil
}

// Kill sends SIGKILL to this very process and waits for its end, at most d.
func (l *Listener) Kill(d time.Duration) error {
	err := l.handle.do(func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) })
	if err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill process %d: %w", l.handle.pid, err)
	}
	ended := false
	l.handle.do(func(fd int) error { ended = readable(fd, int(d/time.Millisecond)); return nil })
	if !ended {
		return fmt.Errorf("kill process %d: it has not ended after %v", l.handle.pid, d)
	}
	return nil
}

// Close gives the descriptor back.
func (l *Listener) Close() error { return l.handle.f.Close() }
