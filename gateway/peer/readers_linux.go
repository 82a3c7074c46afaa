package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// forkNoExec is PF_FORKNOEXEC of the kernel's task flags (field 9 of /proc/PID/stat): a copy of its parent that has not
// executed a program of its own yet.
const forkNoExec = 0x40

// Began is when p was started, on CLOCK_BOOTTIME, to a clock tick (10 ms).
func (p *Process) Began() (time.Duration, error) {
	st, err := p.handle.stat()
	if err != nil {
		return 0, fmt.Errorf("look when process began: %w", err)
	}
	return time.Duration(st.start) * clockTick, nil
}

// Executed says whether p runs a program that it executed, rather than the copy of its parent that a fork makes.
func (p *Process) Executed() (bool, error) {
	forked, err := copied(p.handle.pid)
	if p.handle.exited() {
		err = ErrGone
	}
	if err != nil {
		return false, fmt.Errorf("look whether process executed: %w", err)
	}
	return !forked, nil
}

// FedBy is the pipe that p can read and q can write, as the kernel names it: "pipe:[N]". Where p's standard input is one of
// several it is that. A socket as p's standard input counts where there is no pipe: whose other end it has can't be told.
func (p *Process) FedBy(q *Process) (string, error) {
	link, err := p.fedBy(q)
	if p.handle.exited() || q.handle.exited() {
		err = ErrGone
	}
	if err != nil {
		return "", fmt.Errorf("find the pipe between processes: %w", err)
	}
	return link, nil
}

func (p *Process) fedBy(q *Process) (string, error) {
	first, err := procLink(p.handle.pid, "fd/0")
	if err != nil && !errors.Is(err, ErrGone) { // closed
		return "", err
	}
	read, err := openLinks(p.handle.pid, 0o400)
	if err != nil {
		return "", err
	}
	written, err := openLinks(q.handle.pid, 0o200)
	if err != nil {
		return "", err
	}
	both := slices.DeleteFunc(read, func(link string) bool {
		return !strings.HasPrefix(link, "pipe:") || !slices.Contains(written, link)
	})
	slices.Sort(both)
	both = slices.Compact(both)
	switch {
	case slices.Contains(both, first):
		return first, nil
	case len(both) == 1:
		return both[0], nil
	case len(both) == 0 && strings.HasPrefix(first, "socket:"):
		return first, nil
	}
	return "", fmt.Errorf("%d pipes", len(both))
}

// Readers are the living processes below p that can read link: a pipe or a socket, as Stdin names it. One whose files may
// not be looked at counts as a reader: nothing can be said for it.
func (p *Process) Readers(link string) ([]Reader, error) {
	var out []Reader
	todo := []handle{p.handle}
	for n := 0; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		kids, err := at.children()
		if at != p.handle {
			at.f.Close()
		}
		if err != nil && (at == p.handle || !errors.Is(err, ErrGone)) {
			closeHandles(todo[1:])
			return nil, fmt.Errorf("find readers: %w", err)
		}
		if n += len(kids); n > kinMax {
			closeHandles(todo[1:])
			return nil, fmt.Errorf("find readers: %w", errManyKin)
		}
		for _, pid := range kids {
			h, err := openHandle(pid)
			if errors.Is(err, ErrGone) {
				continue
			}
			if err != nil {
				closeHandles(todo[1:])
				return nil, fmt.Errorf("find readers: %w", err)
			}
			if reads(pid, link) && !h.exited() {
				key, _, err := h.key()
				if err != nil {
					h.f.Close()
					closeHandles(todo[1:])
					return nil, fmt.Errorf("find readers: %w", err)
				}
				forked, _ := copied(pid)
				out = append(out, Reader{PID: pid, Key: key, Copy: forked})
			}
			todo = append(todo, h)
		}
	}
	return out, nil
}

func closeHandles(hs []handle) {
	for _, h := range hs {
		h.f.Close()
	}
}

// reads says whether the process has a descriptor on link that it can read from; true if that can't be told of a process
// that lives.
func reads(pid int, link string) bool {
	links, err := openLinks(pid, 0o400)
	if err != nil {
		return !errors.Is(err, ErrGone)
	}
	return slices.Contains(links, link)
}

// openLinks are the names of what the process has open in a mode: the mode of the magic link shows how the file was opened.
func openLinks(pid int, mode uint32) (out []string, err error) {
	dir, err := os.Open(procPath(pid, "fd"))
	if err != nil {
		return nil, procError("open", "fd", errno(err))
	}
	defer dir.Close()
	for range 64 { // x 1024 descriptors
		names, err := dir.Readdirnames(1024)
		if err != nil {
			return out, nil // the last of them, or the process is gone
		}
		for _, name := range names {
			if _, err := strconv.Atoi(name); err != nil {
				continue
			}
			var st unix.Stat_t
			if unix.Lstat(procPath(pid, "fd/"+name), &st) != nil || st.Mode&mode == 0 {
				continue
			}
			if link, err := procLink(pid, "fd/"+name); err == nil {
				out = append(out, link)
			}
		}
	}
	return nil, errors.New("too many descriptors")
}

// copied reads the task flags.
func copied(pid int) (bool, error) {
	b, err := procFile(pid, "stat")
	if err != nil {
		return false, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // f[0] is field 3
	if len(f) < 7 {
		return false, errors.New("parse stat: malformed")
	}
	flags, err := strconv.ParseUint(f[6], 10, 64)
	if err != nil {
		return false, errors.New("parse stat: malformed")
	}
	return flags&forkNoExec != 0, nil
}
