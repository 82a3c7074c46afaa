package peer

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// attempts is how often a process that execs under our eyes is looked at again.
const attempts = 5

// seen says how much of a process must be visible.
type seen uint8

const (
	asPeer seen = iota // everything, or it stays unidentified
	asKin              // what can be seen: an ancestor may be another user's
	asSelf             // ourselves: not dumpable on purpose
)

// FromConn pins the process that connected (for one that was accepted) or that
// listens (for one that dialled). ErrUnidentified if the kernel doesn't show it
// whole; then also ErrGone if it has ended. The caller closes the Process.
func FromConn(c *net.UnixConn) (*Process, error) {
	cred, fd, err := peerOf(c)
	if err != nil {
		return nil, unidentified(err)
	}
	h, late, err := peerHandle(cred, fd)
	if err != nil {
		return nil, unidentified(err)
	}
	p, err := pin(h, asPeer, late)
	if err != nil {
		h.f.Close()
		return nil, unidentified(err)
	}
	if p.facts.UID != cred.Uid {
		p.Close()
		return nil, unidentified(errors.New("uid changed since it connected"))
	}
	return p, nil
}

func unidentified(err error) error {
	return fmt.Errorf("identify peer: %w: %w", ErrUnidentified, err)
}

// UID is the effective uid of the process at the other end: what a client can
// learn of a server that hides the rest.
func UID(c *net.UnixConn) (uint32, error) {
	uid, _, err := Who(c)
	return uid, err
}

// Who is UID with the number that the process had when it connected: enough to
// share places fairly, not to know anybody by.
func Who(c *net.UnixConn) (uid uint32, pid int, err error) {
	cred, fd, err := peerOf(c)
	if err != nil {
		return 0, 0, unidentified(err)
	}
	if fd >= 0 {
		unix.Close(fd)
	}
	return cred.Uid, int(cred.Pid), nil
}

// Admit lets the process at the other end of c copy our descriptors, so that
// Owner can ask our stdin for its other end where Yama restricts ptrace. The
// shim calls it after it has checked UID; without Yama there is nothing to do.
func Admit(c *net.UnixConn) error {
	cred, fd, err := peerOf(c)
	if err != nil {
		return unidentified(err)
	}
	if fd >= 0 {
		defer unix.Close(fd) // holds the number meanwhile
	}
	err = unix.Prctl(unix.PR_SET_PTRACER, uintptr(cred.Pid), 0, 0, 0)
	if err != nil && err != unix.EINVAL { // EINVAL: no Yama
		return fmt.Errorf("admit server: %w", err)
	}
	return nil
}

// Self pins our own process.
func Self() (*Process, error) {
	h, err := openHandle(os.Getpid())
	if err != nil {
		return nil, unidentified(err)
	}
	p, err := pin(h, asSelf, false)
	if err != nil {
		h.f.Close()
		return nil, unidentified(err)
	}
	return p, nil
}

// Find pins the process that has the number pid now, as far as it can be seen:
// an owner may hide. A number names nobody for long: compare Key with what was
// known of the process. ErrGone if there is none.
func Find(pid int) (*Process, error) {
	h, err := openHandle(pid)
	if err != nil {
		return nil, fmt.Errorf("find process: %w", err)
	}
	p, err := pin(h, asKin, false)
	if err != nil {
		h.f.Close()
		return nil, fmt.Errorf("find process: %w", err)
	}
	return p, nil
}

// peerOf asks c for the credentials of its peer and, on a kernel that has it,
// for a pidfd (else -1).
func peerOf(c *net.UnixConn) (cred *unix.Ucred, pidfd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, -1, err
	}
	e := raw.Control(func(fd uintptr) { cred, pidfd, err = peerOfSocket(int(fd)) })
	if err = errors.Join(e, err); err != nil {
		return nil, -1, err
	}
	return cred, pidfd, nil
}

func peerOfSocket(fd int) (*unix.Ucred, int, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, -1, fmt.Errorf("read peer credentials: %w", err)
	}
	if cred.Pid <= 0 {
		return nil, -1, errors.New("its pid is not visible here")
	}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch err {
	case nil:
		return cred, pidfd, nil
	case unix.ENOPROTOOPT: // before 6.5
		return cred, -1, nil
	case unix.ESRCH, unix.EINVAL:
		return nil, -1, ErrGone
	}
	return nil, -1, fmt.Errorf("read peer pidfd: %w", err)
}

// peerHandle makes the handle of a peer. Without a pidfd from the socket the
// number may have changed hands before we opened one: late, a weak mark.
func peerHandle(cred *unix.Ucred, fd int) (h handle, late bool, err error) {
	if fd >= 0 {
		return newHandle(int(cred.Pid), fd), false, nil
	}
	before, err := readStat(int(cred.Pid))
	if err != nil {
		return handle{}, true, err
	}
	if h, err = openHandle(int(cred.Pid)); err != nil {
		return handle{}, true, err
	}
	after, err := readStat(h.pid)
	if err == nil && (after.start != before.start || h.exited()) {
		err = ErrGone
	}
	if err != nil {
		h.f.Close()
		return handle{}, true, err
	}
	return h, true, nil
}

// pin looks at the process of h until the facts belong to one image. On success
// the Process owns h.
func pin(h handle, as seen, late bool) (*Process, error) {
	var err error
	for range attempts {
		var p *Process
		if p, err = look(h, as, late); err == nil {
			return p, nil
		}
		gone := errors.Is(err, ErrGone)
		if h.exited() || gone && h.ends() {
			return nil, ErrGone
		}
		if !gone && !errors.Is(err, ErrReplaced) {
			return nil, err
		}
	}
	return nil, err
}

func look(h handle, as seen, late bool) (*Process, error) {
	p := &Process{handle: h, gone: make(chan struct{})}
	var pidfs bool
	var err error
	if p.key, pidfs, err = h.key(); err != nil {
		return nil, err
	}
	contained, err := p.fill(as)
	if err == nil {
		err = p.settle()
	}
	if err != nil {
		if p.image != nil {
			p.image.close()
		}
		return nil, err
	}
	if late {
		p.facts.Weak = append(p.facts.Weak, WeakLateHandle)
	}
	if !pidfs {
		p.facts.Weak = append(p.facts.Weak, WeakNoPidfs)
	}
	p.facts.grade(contained)
	return p, nil
}

// fill gathers facts and image.
func (p *Process) fill(as seen) (contained bool, err error) {
	pid := p.handle.pid
	st, err := readStat(pid)
	if err != nil {
		return false, err
	}
	us, err := readStatus(pid)
	if err != nil {
		return false, err
	}
	f := &p.facts
	*f = Facts{PID: pid, PPID: st.ppid, PGID: st.pgid, SID: st.sid, UID: us.uid, Comm: st.comm, Args: commandLine(pid)}
	if f.Start, err = startTime(st.start); err != nil {
		return false, err
	}
	hides, err := p.hides(us)
	if err != nil {
		return false, err
	}
	if hides && as == asPeer {
		return false, errors.New("it is not dumpable")
	}
	own := us.uid == uint32(os.Geteuid()) && as != asSelf
	if p.image, err = openImage(p.handle, own); err != nil {
		p.image = nil
		if as != asKin || !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return false, err
		}
		f.Weak = append(f.Weak, WeakImage)
		return false, nil
	}
	f.ExeDigest = p.image.digest
	if f.Exe, err = procLink(pid, "exe"); err != nil {
		return false, err
	}
	if hides && as == asKin {
		f.Weak = append(f.Weak, WeakNotDumpable)
	}
	return p.marks(us), nil
}

// marks notes what makes the identity weak, and whether the process lives in
// another pid namespace.
func (p *Process) marks(us status) (contained bool) {
	f, pid := &p.facts, p.handle.pid
	if off, err := notRandom(pid); err != nil {
		f.Weak = append(f.Weak, WeakPersonality)
	} else if off {
		f.Weak = append(f.Weak, WeakNotRandom)
	}
	if us.tracer != 0 {
		f.Weak = append(f.Weak, WeakTraced)
	}
	user, err1 := sameNamespace(pid, "user")
	pids, err2 := sameNamespace(pid, "pid")
	switch {
	case err1 != nil || err2 != nil:
		f.Weak = append(f.Weak, WeakNamespaces)
	case !user:
		f.Weak = append(f.Weak, WeakUserNS)
	}
	return err2 == nil && !pids
}

// settle checks that all facts are of one living image.
func (p *Process) settle() error {
	var err error
	if p.image != nil {
		err = p.image.same(p.handle.pid)
	}
	if p.handle.exited() {
		return ErrGone
	}
	return err
}

// hides says whether the process is not dumpable: it asked for that, or runs a
// file that it may not read or that gave it rights. The kernel says so since
// 6.16; before, the owner of its files below /proc tells, except for root's.
func (p *Process) hides(us status) (bool, error) {
	if in, err := p.handle.info(); err == nil && in.Mask&unix.PIDFD_INFO_COREDUMP != 0 {
		return in.Coredump_mask&unix.PIDFD_COREDUMP_USER == 0, nil
	}
	var st unix.Stat_t
	if err := unix.Stat(procPath(p.handle.pid, "maps"), &st); err != nil {
		return false, procError("stat", "maps", err)
	}
	return st.Uid != us.uid, nil
}
