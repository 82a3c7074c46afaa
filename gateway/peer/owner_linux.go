package peer

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// launchersMax bounds the way to an owner, whatever loops a process builds.
const launchersMax = 32

// Owner finds the process whose run p belongs to, and the launchers passed on
// the way (without p): all processes between p and an owner above it, nearest
// first, else those that led to the owner. A process that is no launcher is its
// own owner. From a launcher the way goes to whoever holds the other end of its
// stdin, else to its parent. ours says which digests are our own programs; they
// are launchers, and so are a shell started with -c, env, npx, uvx, npm and the
// like. Where the way ends at an adopter (pid 1, a subreaper), the owner is p
// itself, marked weak.
//
// This names a run and proves nothing: any process can place itself below
// another, and pass descriptors. The caller closes all that is returned; the
// owner is never p's own value.
func (p *Process) Owner(ours func(exeDigest string) bool) (*Process, []*Process, error) {
	owner, passed, err := p.walk(ours)
	if err == nil && owner == nil {
		owner, err = p.duplicate(WeakAdopted)
	}
	if err != nil {
		closeAll(passed)
		return nil, nil, fmt.Errorf("find owner: %w", err)
	}
	if chain := p.below(owner); chain != nil {
		closeAll(passed)
		passed = chain
	}
	return owner, passed, nil
}

// walk goes from launcher to starter; owner is nil if it ends at an adopter.
func (p *Process) walk(ours func(string) bool) (owner *Process, passed []*Process, err error) {
	at, err := p.duplicate("")
	if err != nil {
		return nil, nil, err
	}
	for len(passed) < launchersMax {
		if !ours(at.facts.ExeDigest) && !launches(at.facts.Exe, at.facts.Args) {
			return at, passed, nil
		}
		next, err := at.starter()
		if at.key == p.key {
			at.Close()
		} else {
			passed = append(passed, at)
		}
		if next == nil || err != nil {
			return nil, passed, err
		}
		if next.key == p.key { // a loop of descriptors
			next.Close()
			return nil, passed, nil
		}
		at = next
	}
	at.Close()
	return nil, passed, nil
}

// below pins the processes between p and owner; nil if owner isn't above p, or
// if they go meanwhile.
func (p *Process) below(owner *Process) []*Process {
	var chain []*Process
	reached := false
	err := p.handle.climb(func(h handle) (bool, error) {
		key, _, err := h.key()
		if err != nil || key == owner.key {
			reached = err == nil
			return true, err
		}
		q, err := pinKin(h)
		if err == nil {
			chain = append(chain, q)
		}
		return len(chain) > launchersMax, err
	})
	if err != nil || !reached {
		closeAll(chain)
		return nil
	}
	return chain
}

// starter is who started the launcher p: stdin's owner, else the parent; nil if
// p was adopted.
func (p *Process) starter() (*Process, error) {
	if q := p.stdinOwner(); q != nil {
		return q, nil
	}
	for range attempts {
		h, err := p.handle.parent()
		if errors.Is(err, errTop) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		q, err := p.unlessAdopted(h)
		h.f.Close()
		if !errors.Is(err, ErrGone) || p.handle.exited() {
			return q, err
		}
	}
	return nil, ErrGone
}

// unlessAdopted pins the parent h of p; nil if p was adopted by it. A fork keeps
// the session, so a parent in another one means that p leads its own, or that
// the real parent is gone.
func (p *Process) unlessAdopted(h handle) (*Process, error) {
	st, err := p.handle.stat()
	if err != nil {
		return nil, err
	}
	up, err := h.stat()
	if err != nil {
		return nil, err
	}
	if h.pid == 1 || st.sid != up.sid && st.sid != p.handle.pid {
		return nil, nil
	}
	q, err := pinKin(h)
	if err != nil {
		return nil, err
	}
	if path.Base(q.facts.Exe) == "systemd" { // a user's manager adopts as well
		q.Close()
		return nil, nil
	}
	return q, nil
}

// stdinOwner pins the process at the other end of p's stdin, or returns nil: a
// terminal, a file, a closed or foreign end, or no permission to look.
func (p *Process) stdinOwner() *Process {
	link, err := procLink(p.handle.pid, "fd/0")
	if err != nil {
		return nil
	}
	var q *Process
	switch {
	case strings.HasPrefix(link, "socket:["):
		q, err = p.socketOwner()
	case strings.HasPrefix(link, "pipe:["):
		q, err = p.pipeOwner(link)
	}
	if err != nil || q == nil {
		return nil
	}
	if q.key == p.key {
		q.Close()
		return nil
	}
	return q
}

// socketOwner pins whoever made the other end of p's stdin.
func (p *Process) socketOwner() (*Process, error) {
	h, late, err := p.handle.socketMaker()
	if err != nil {
		return nil, err
	}
	q, err := pin(h, asKin, late)
	if err != nil {
		h.f.Close()
		return nil, err
	}
	return q, nil
}

// socketMaker asks a copy of h's stdin who made its other end: for a socketpair
// the maker, as it was called when it made it.
func (h handle) socketMaker() (q handle, late bool, err error) {
	fd := 0
	if h.pid != os.Getpid() { // of our own no copy is needed, which a sandbox may forbid
		err := h.do(func(pidfd int) (err error) {
			fd, err = unix.PidfdGetfd(pidfd, 0, 0)
			return err
		})
		if err != nil {
			return handle{}, false, fmt.Errorf("copy stdin: %w", err)
		}
		defer unix.Close(fd)
	}
	if d, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || d != unix.AF_UNIX {
		return handle{}, false, errTop
	}
	cred, pidfd, err := peerOfSocket(fd)
	if err != nil {
		return handle{}, false, err
	}
	return peerHandle(cred, pidfd)
}

// pipeOwner is the nearest ancestor that can write into p's stdin.
func (p *Process) pipeOwner(link string) (owner *Process, err error) {
	err = p.handle.climb(func(h handle) (bool, error) {
		if !writes(h.pid, link) {
			return false, nil
		}
		owner, err = pinKin(h)
		return true, err
	})
	return owner, err
}

// writes says whether the process has a descriptor on link that it can write
// to: the mode of the magic link shows how the file was opened. A process whose
// main thread has ended shows its files under its other threads.
func writes(pid int, link string) bool {
	if writesIn("fd", pid, link) {
		return true
	}
	if st, err := readStat(pid); err != nil || st.state != 'Z' || st.threads < 2 {
		return false
	}
	dir, err := os.Open(procPath(pid, "task"))
	if err != nil {
		return false
	}
	defer dir.Close()
	threads, err := dir.Readdirnames(1024)
	return err == nil && slices.ContainsFunc(threads, func(tid string) bool { return writesIn("task/"+tid+"/fd", pid, link) })
}

func writesIn(fds string, pid int, link string) bool {
	dir, err := os.Open(procPath(pid, fds))
	if err != nil {
		return false // another user's
	}
	defer dir.Close()
	for range 64 { // x 1024 descriptors
		names, err := dir.Readdirnames(1024)
		if err != nil {
			return false
		}
		for _, name := range names {
			if _, err := strconv.Atoi(name); err != nil {
				continue
			}
			if l, err := procLink(pid, fds+"/"+name); err != nil || l != link {
				continue
			}
			var st unix.Stat_t
			if unix.Lstat(procPath(pid, fds+"/"+name), &st) == nil && st.Mode&0o200 != 0 {
				return true
			}
		}
	}
	return false
}
