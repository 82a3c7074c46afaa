package peer

import (
	"errors"
	"fmt"
)

const (
	depthMax = 256 // processes looked at upwards
	retries  = 16  // when a parent goes while it is being pinned
)

// errTop ends a walk: no parent that we can see.
var errTop = errors.New("no visible parent")

// parent opens the parent of h. A number read, opened, and read again names one
// process: while h has that parent, alive, the number is no other's; and a later
// process of the same number can't become a parent of h.
func (h handle) parent() (handle, error) {
	for range retries {
		ppid, err := h.ppid()
		if err != nil {
			return handle{}, err
		}
		if ppid == 0 {
			return handle{}, errTop
		}
		q, err := openHandle(ppid)
		if errors.Is(err, ErrGone) {
			if h.exited() {
				return handle{}, ErrGone
			}
			continue
		}
		if err != nil {
			return handle{}, err
		}
		again, err := h.ppid()
		if err == nil && again == ppid && !q.exited() {
			return q, nil
		}
		q.f.Close()
		if err != nil {
			return handle{}, err
		}
	}
	return handle{}, errors.New("parents change too fast")
}

// climb calls f with each process above h, nearest first, until f says stop or
// the top is reached. Handles are closed when f returns.
func (h handle) climb(f func(q handle) (stop bool, err error)) error {
	at := h
	for range depthMax {
		q, err := at.parent()
		if at != h {
			at.f.Close()
		}
		if errors.Is(err, errTop) {
			return nil
		}
		if err != nil {
			return err
		}
		at = q
		if stop, err := f(q); stop || err != nil {
			q.f.Close()
			return err
		}
	}
	at.f.Close()
	return fmt.Errorf("more than %d ancestors", depthMax)
}

// Ancestors pins the processes above p, the parent first, up to the leader of
// its session (of its parent's session if p leads its own). A process that was
// adopted has none: whoever adopted it did not start it. Another user's process
// is returned with what is visible of it. The caller closes them.
func (p *Process) Ancestors() ([]*Process, error) {
	var err error
	for range attempts {
		var up []*Process
		if up, err = p.ancestors(); err == nil {
			return up, nil
		}
		closeAll(up)
		if !errors.Is(err, ErrGone) || p.handle.exited() {
			break
		}
	}
	return nil, fmt.Errorf("pin ancestors: %w", err)
}

func (p *Process) ancestors() (up []*Process, err error) {
	st, err := p.handle.stat()
	if err != nil {
		return nil, err
	}
	session, leads := st.sid, st.sid == p.handle.pid
	err = p.handle.climb(func(h handle) (bool, error) {
		st, err := h.stat()
		if err != nil {
			return false, err
		}
		if leads && len(up) == 0 {
			if h.pid == 1 {
				return true, nil
			}
			session = st.sid
		}
		if st.sid != session {
			return true, nil
		}
		q, err := pinKin(h)
		if err != nil {
			return false, err
		}
		up = append(up, q)
		return h.pid == session, nil
	})
	return up, err
}

// pinKin pins the process of h, which stays the caller's.
func pinKin(h handle) (*Process, error) {
	d, err := h.duplicate()
	if err != nil {
		return nil, err
	}
	q, err := pin(d, asKin, false)
	if err != nil {
		d.f.Close()
		return nil, err
	}
	return q, nil
}

func closeAll(ps []*Process) {
	for _, p := range ps {
		p.Close()
	}
}

// Descends says whether of holds for the key of p or of any process above it, up
// to the top of what we see. It answers true as well if the walk can't be
// finished: callers refuse on true, and unknown means less authority.
func (p *Process) Descends(of func(key string) bool) bool {
	if of(p.key) {
		return true
	}
	found := false
	err := p.handle.climb(func(h handle) (bool, error) {
		key, _, err := h.key()
		if err == nil {
			found = of(key)
		}
		return found, err
	})
	return found || err != nil
}

// Orphan says whether the leader of p's session is gone, so that p or the one
// it descends from in that session was adopted. A leader is no orphan, however
// old; nor is a process whose leader lives outside of what we see.
func (p *Process) Orphan() bool {
	st, err := p.handle.stat()
	if err != nil {
		return true // nothing can be said for it
	}
	if st.sid == 0 || st.sid == p.handle.pid {
		return false
	}
	// A number stays taken while it names a session: no stranger can have it.
	leader, err := openHandle(st.sid)
	if err != nil {
		return errors.Is(err, ErrGone)
	}
	defer leader.f.Close()
	return leader.exited()
}
