package peer

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is one pinned process instance: a number with its start, and the
// audit token of the connection it was pinned from.
type Process struct {
	sock  *os.File // nil: an ancestor or ourselves; else the connection, for its token
	token token
	start unix.Timeval
	key   string
	facts Facts
	mu    sync.Mutex // guards kq
	kq    int        // 0: nobody watches
	watch sync.Once
	gone  chan struct{}
}

func (p *Process) alive() error {
	k, err := kinfo(p.facts.PID)
	if err != nil {
		return err
	}
	if k.Proc.P_starttime != p.start {
		return ErrGone
	}
	return nil
}

// Same says whether this is still the instance that was pinned: nil, ErrReplaced
// or ErrGone. Without a connection's token it answers ErrUnidentified.
func (p *Process) Same() error {
	if err := p.alive(); err != nil {
		return fmt.Errorf("check process: %w", err)
	}
	if p.sock == nil {
		return fmt.Errorf("check process: %w", ErrUnidentified)
	}
	t, err := readToken(p.sock)
	if err != nil {
		return fmt.Errorf("check process: %w: %w", ErrUnidentified, err)
	}
	if t != p.token {
		return fmt.Errorf("check process: %w", ErrReplaced)
	}
	return nil
}

// Key is equal for all connections of one process.
func (p *Process) Key() string { return p.key }

// Facts returns a copy of what was seen when the process was pinned.
func (p *Process) Facts() Facts { return p.facts.clone() }

// Gone returns a channel that is closed when the process ends; after Close,
// never. The first call starts one goroutine, which ends with either.
func (p *Process) Gone() <-chan struct{} {
	p.watch.Do(func() {
		kq, err := unix.Kqueue()
		if err != nil {
			return
		}
		var ev [2]unix.Kevent_t
		unix.SetKevent(&ev[0], p.facts.PID, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
		ev[0].Fflags = unix.NOTE_EXIT
		unix.SetKevent(&ev[1], 0, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR)
		_, err = unix.Kevent(kq, ev[:], nil, nil)
		if err == unix.ESRCH || p.alive() != nil {
			unix.Close(kq)
			close(p.gone)
			return
		}
		p.mu.Lock()
		p.kq = kq
		p.mu.Unlock()
		go p.wait(kq)
	})
	return p.gone
}

func (p *Process) wait(kq int) {
	var got [1]unix.Kevent_t
	n, err := unix.Kevent(kq, nil, got[:], nil)
	for err == unix.EINTR {
		n, err = unix.Kevent(kq, nil, got[:], nil)
	}
	p.mu.Lock()
	p.kq = 0
	unix.Close(kq)
	p.mu.Unlock()
	if err == nil && n == 1 && got[0].Filter == unix.EVFILT_PROC {
		close(p.gone)
	}
}

// Signal sends s to the process. ErrGone if it has ended.
func (p *Process) Signal(s os.Signal) error {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal process: %v is no signal of this system", s)
	}
	if err := p.alive(); err != nil {
		return fmt.Errorf("signal process: %w", err)
	}
	if err := unix.Kill(p.facts.PID, sig); err != nil {
		return fmt.Errorf("signal process: %w", err)
	}
	return nil
}

// Close gives the descriptors back. It may be called more than once.
func (p *Process) Close() error {
	p.mu.Lock()
	if p.kq != 0 {
		var ev [1]unix.Kevent_t
		unix.SetKevent(&ev[0], 0, unix.EVFILT_USER, 0)
		ev[0].Fflags = unix.NOTE_TRIGGER
		unix.Kevent(p.kq, ev[:], nil, nil)
	}
	p.mu.Unlock()
	if p.sock == nil {
		return nil
	}
	if err := p.sock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// parent pins the parent of p, which must be the same before and after.
func (p *Process) parent() (*Process, error) {
	for range 16 {
		k, err := kinfo(p.facts.PID)
		if err != nil {
			return nil, err
		}
		if k.Eproc.Ppid <= 0 {
			return nil, nil
		}
		q, err := pin(int(k.Eproc.Ppid))
		if err != nil {
			continue
		}
		again, err := kinfo(p.facts.PID)
		if err == nil && again.Eproc.Ppid == k.Eproc.Ppid && p.alive() == nil {
			return q, nil
		}
	}
	return nil, ErrGone
}

// Ancestors pins the processes above p up to its session leader.
func (p *Process) Ancestors() ([]*Process, error) {
	var up []*Process
	session := p.facts.SID
	for at := p; len(up) < 256 && (at == p || at.facts.PID != session); {
		q, err := at.parent()
		if err != nil {
			return nil, fmt.Errorf("pin ancestors: %w", err)
		}
		if at == p && session == p.facts.PID && q != nil {
			session = q.facts.SID
		}
		if q == nil || q.facts.PID == 1 || q.facts.SID != session {
			break
		}
		up = append(up, q)
		at = q
	}
	return up, nil
}

// Owner is the nearest process upwards, p included, that is no launcher; p
// itself, marked weak, where the way ends at an adopter.
func (p *Process) Owner(ours func(exeDigest string) bool) (*Process, []*Process, error) {
	var passed []*Process
	at := p
	for len(passed) < 32 {
		if !ours(at.facts.ExeDigest) && !launches(at.facts.Exe, at.facts.Args) {
			if at == p {
				at = p.duplicate()
			}
			return at, passed, nil
		}
		q, err := at.parent()
		if err != nil {
			return nil, nil, fmt.Errorf("find owner: %w", err)
		}
		if at != p {
			passed = append(passed, at)
		}
		if q == nil || q.facts.PID == 1 || path.Base(q.facts.Exe) == "launchd" {
			break
		}
		at = q
	}
	self := p.duplicate()
	self.facts.Weak = append(self.facts.Weak, WeakAdopted)
	return self, passed, nil
}

// duplicate is a second value on the same process, without its connection.
func (p *Process) duplicate() *Process {
	return &Process{start: p.start, key: p.key, facts: p.facts.clone(), gone: make(chan struct{})}
}

// Descends says whether of holds for p or any process above it, and true if that
// can't be found out.
func (p *Process) Descends(of func(key string) bool) bool {
	at := p
	for range 256 {
		if of(at.key) {
			return true
		}
		q, err := at.parent()
		if err != nil {
			return true
		}
		if q == nil {
			return false
		}
		at = q
	}
	return true
}

// Orphan says whether the leader of p's session is gone.
func (p *Process) Orphan() bool {
	sid, err := unix.Getsid(p.facts.PID)
	if err != nil || p.alive() != nil {
		return true
	}
	if sid == 0 || sid == p.facts.PID {
		return false
	}
	_, err = kinfo(sid)
	return err != nil
}
