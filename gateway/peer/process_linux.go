package peer

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is one pinned process instance. It holds two descriptors (a pidfd and
// the memory map) until Close, and is safe for concurrent use. After Close every
// question is answered as if the process were gone.
type Process struct {
	handle handle
	image  *image // nil: another user's ancestor, whose image we may not see
	key    string
	facts  Facts
	watch  sync.Once
	gone   chan struct{}
}

// Same says whether this is still the instance that was pinned: nil, or
// ErrReplaced after an exec, or ErrGone. An ancestor whose image could not be
// seen answers ErrUnidentified.
func (p *Process) Same() error {
	err := ErrUnidentified
	if p.image != nil {
		err = p.image.same(p.handle.pid)
	}
	if p.handle.exited() {
		err = ErrGone
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrGone), errors.Is(err, ErrReplaced), errors.Is(err, ErrUnidentified):
		return fmt.Errorf("check process: %w", err)
	}
	// What can't be read any more is not the same.
	return fmt.Errorf("check process: %w: %w", ErrReplaced, err)
}

// Key is equal for all connections of one process, and for no other process
// since the machine started. It survives an exec; the instance doesn't.
func (p *Process) Key() string { return p.key }

// Facts returns a copy of what was seen when the process was pinned.
func (p *Process) Facts() Facts { return p.facts.clone() }

// Gone returns a channel that is closed when the process ends. After Close it
// is closed never. The first call starts one goroutine, which ends with the
// process or with Close.
func (p *Process) Gone() <-chan struct{} {
	p.watch.Do(func() {
		raw, err := p.handle.f.SyscallConn()
		if err != nil { // closed
			return
		}
		go func() {
			ended := false
			err := raw.Read(func(fd uintptr) bool {
				ended = readable(int(fd), 0)
				return ended
			})
			if err == nil && ended {
				close(p.gone)
			}
		}()
	})
	return p.gone
}

// Signal sends s to this very process, never to a successor of its number.
// ErrGone if it has ended.
func (p *Process) Signal(s os.Signal) error {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal process: %v is no signal of this system", s)
	}
	if p.handle.exited() {
		return fmt.Errorf("signal process: %w", ErrGone)
	}
	err := p.handle.do(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
	if err == unix.ESRCH {
		err = ErrGone
	}
	if err != nil {
		return fmt.Errorf("signal process: %w", err)
	}
	return nil
}

// Close gives the descriptors back. It may be called more than once.
func (p *Process) Close() error {
	err := p.handle.f.Close()
	if p.image != nil {
		err = errors.Join(err, p.image.close())
	}
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// duplicate returns a second Process on the same instance, with weak added to
// its marks if that isn't empty.
func (p *Process) duplicate(weak string) (*Process, error) {
	h, err := p.handle.duplicate()
	if err != nil {
		return nil, fmt.Errorf("duplicate process: %w", err)
	}
	q := &Process{handle: h, key: p.key, facts: p.facts.clone(), gone: make(chan struct{})}
	if p.image != nil {
		if q.image, err = p.image.duplicate(); err != nil {
			h.f.Close()
			return nil, err
		}
	}
	if weak != "" {
		q.facts.Weak = append(q.facts.Weak, weak)
		q.facts.grade(q.facts.Identity == Contained)
	}
	return q, nil
}
