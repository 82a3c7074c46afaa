package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// kinMax bounds the children, the group and the descendants that are returned.
const kinMax = 1024

var errManyKin = fmt.Errorf("more than %d processes", kinMax)

// Children pins the living children of p, in the order of their numbers. A child
// that ends meanwhile is left out. The caller closes them.
func (p *Process) Children() ([]*Process, error) {
	kids, err := p.pinAll(p.handle.children)
	if err != nil {
		return nil, fmt.Errorf("pin children: %w", err)
	}
	return kids, nil
}

// Group pins the living members of p's process group, p itself left out. The
// caller closes them.
func (p *Process) Group() ([]*Process, error) {
	members, err := p.pinAll(p.handle.group)
	if err != nil {
		return nil, fmt.Errorf("pin process group: %w", err)
	}
	return members, nil
}

// Descendants pins every living process below p, parents before their children.
// One whose parent ended was adopted, and is below whoever adopted it. The caller
// closes them.
func (p *Process) Descendants() ([]*Process, error) {
	var all []*Process
	for i, at := 0, p; ; i++ {
		kids, err := at.Children()
		all = append(all, kids...)
		if err == nil && len(all) > kinMax {
			err = errManyKin
		}
		if err != nil && !(errors.Is(err, ErrGone) && at != p) {
			closeAll(all)
			return nil, fmt.Errorf("pin descendants: %w", err)
		}
		if i == len(all) {
			return all, nil
		}
		at = all[i]
	}
}

// pinAll pins the processes that list names, each of which must still be in the
// list once it is held: else its number may be another's.
func (p *Process) pinAll(list func() ([]int, error)) ([]*Process, error) {
	before, err := list()
	if err != nil {
		return nil, err
	}
	held := make(map[int]handle)
	drop := func() {
		for _, h := range held {
			h.f.Close()
		}
	}
	for _, pid := range before {
		if h, err := openHandle(pid); err == nil {
			held[pid] = h
		} else if !errors.Is(err, ErrGone) {
			drop()
			return nil, err
		}
	}
	after, err := list()
	if err != nil {
		drop()
		return nil, err
	}
	var out []*Process
	for _, pid := range after {
		h, ok := held[pid]
		if !ok || h.exited() {
			continue
		}
		q, err := pin(h, asKin, false)
		if err == nil {
			delete(held, pid)
			out = append(out, q)
		} else if !errors.Is(err, ErrGone) {
			drop()
			closeAll(out)
			return nil, err
		}
	}
	drop()
	return out, nil
}

// children are the numbers of p's children now, zombies among them.
func (h handle) children() ([]int, error) {
	dir, err := os.Open(procPath(h.pid, "task"))
	if err != nil {
		return nil, procError("open", "task", errno(err))
	}
	defer dir.Close()
	threads, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, procError("read", "task", errno(err))
	}
	var out []int
	for _, tid := range threads {
		b, err := procFile(h.pid, "task/"+tid+"/children")
		if errors.Is(err, ErrGone) {
			if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err != nil {
				return h.byParent() // a kernel without the list
			}
			continue // the thread is gone
		}
		if err != nil {
			return nil, err
		}
		for _, f := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				out = append(out, pid)
			}
		}
	}
	if h.exited() {
		return nil, ErrGone
	}
	if len(out) > kinMax {
		return nil, errManyKin
	}
	return out, nil
}

func (h handle) byParent() ([]int, error) {
	return h.among(func(pid int) bool {
		st, err := readStat(pid)
		return err == nil && st.ppid == h.pid
	})
}

// group are the numbers of the others in h's process group.
func (h handle) group() ([]int, error) {
	group, err := unix.Getpgid(h.pid)
	if err != nil || h.exited() {
		return nil, ErrGone
	}
	return h.among(func(pid int) bool {
		g, err := unix.Getpgid(pid)
		return err == nil && g == group && pid != h.pid
	})
}

// among are the numbers of all processes for which f holds.
func (h handle) among(f func(pid int) bool) (out []int, err error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		if f(pid) {
			out = append(out, pid)
		}
	}
	if h.exited() {
		return nil, ErrGone
	}
	if len(out) > kinMax {
		return nil, errManyKin
	}
	return out, nil
}

// processes are all numbers that we see.
func processes() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// errno unwraps what os wraps.
func errno(err error) error {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return err
}
