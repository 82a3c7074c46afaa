package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// token is an audit token: auid, euid, egid, ruid, rgid, pid, asid, pidversion
// (bsm/libbsm.h). The pidversion changes with every exec.
type token [8]uint32

const (
	tokenUID = 1
	tokenPID = 5
)

// FromConn pins the process that connected. ErrUnidentified if the kernel
// doesn't show it whole. The caller closes the Process.
func FromConn(c *net.UnixConn) (*Process, error) {
	f, err := c.File() // a copy, asked for the token again by Same
	if err != nil {
		return nil, unidentified(err)
	}
	p, err := fromSocket(f)
	if err != nil {
		f.Close()
		return nil, unidentified(err)
	}
	return p, nil
}

func unidentified(err error) error {
	return fmt.Errorf("identify peer: %w: %w", ErrUnidentified, err)
}

func fromSocket(f *os.File) (*Process, error) {
	t, err := readToken(f)
	if err != nil {
		return nil, err
	}
	pid, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return nil, fmt.Errorf("read peer pid: %w", err)
	}
	if pid <= 0 || uint32(pid) != t[tokenPID] {
		return nil, errors.New("token and pid name two processes")
	}
	p, err := pin(pid)
	if err != nil {
		return nil, err
	}
	p.sock, p.token = f, t
	if p.facts.UID != t[tokenUID] {
		return nil, errors.New("uid changed since it connected")
	}
	// The facts are of the token's image only if it is still that.
	return p, p.Same()
}

// readToken asks for the peer's audit token. The option's value is eight words,
// which is the shape of the one typed getter that fits.
func readToken(f *os.File) (token, error) {
	v, err := unix.GetsockoptICMPv6Filter(int(f.Fd()), unix.SOL_LOCAL, unix.LOCAL_PEERTOKEN)
	if err != nil {
		return token{}, fmt.Errorf("read peer token: %w", err)
	}
	return v.Filt, nil
}

// UID is the effective uid of the process at the other end.
func UID(c *net.UnixConn) (uint32, error) {
	uid, _, err := Who(c)
	return uid, err
}

// Who is UID with the number that the process had when it connected: enough to
// share places fairly, not to know anybody by.
func Who(c *net.UnixConn) (uid uint32, pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, unidentified(err)
	}
	var cred *unix.Xucred
	var unnamed error
	e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		pid, unnamed = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	})
	if err = errors.Join(e, err, unnamed); err != nil {
		return 0, 0, unidentified(err)
	}
	return cred.Uid, pid, nil
}

// Admit has nothing to do here.
func Admit(*net.UnixConn) error { return nil }

// Self pins our own process.
func Self() (*Process, error) {
	p, err := pin(os.Getpid())
	if err != nil {
		return nil, unidentified(err)
	}
	return p, nil
}

// Find pins the process that has the number pid now: compare Key with what was
// known of it. ErrGone if there is none.
func Find(pid int) (*Process, error) {
	p, err := pin(pid)
	if err != nil {
		return nil, fmt.Errorf("find process: %w", err)
	}
	return p, nil
}

// pin reads what the kernel says of a number, twice, so that all of it is one
// process's.
func pin(pid int) (*Process, error) {
	k, err := kinfo(pid)
	if err != nil {
		return nil, err
	}
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return nil, fmt.Errorf("read boot id: %w", err)
	}
	p := &Process{gone: make(chan struct{}), start: k.Proc.P_starttime}
	p.key = fmt.Sprintf("%s:%d+%d.%06d", boot, pid, p.start.Sec, p.start.Usec)
	sid, err := unix.Getsid(pid)
	if err != nil {
		sid = 0
	}
	f := &p.facts
	*f = Facts{PID: pid, PPID: int(k.Eproc.Ppid), PGID: int(k.Eproc.Pgid), SID: sid, UID: k.Eproc.Ucred.Uid, Weak: []string{WeakCodeUnsigned}}
	f.Start = time.Unix(p.start.Unix())
	comm, _, _ := bytes.Cut(k.Proc.P_comm[:], []byte{0})
	f.Comm = string(comm)
	if b, err := unix.SysctlRaw("kern.procargs2", pid); err == nil {
		f.Exe, f.Args = parseProcArgs(b)
	}
	if f.ExeDigest, err = exeDigest(f.Exe); err != nil {
		f.Weak = append(f.Weak, WeakImage)
	}
	f.grade(false)
	return p, p.alive()
}

// kinfo reads one process's row; a number without a process gives ErrGone.
func kinfo(pid int) (*unix.KinfoProc, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return nil, fmt.Errorf("%w: read process: %w", ErrGone, err)
	}
	if int(k.Proc.P_pid) != pid {
		return nil, ErrGone
	}
	return k, nil
}

// parseProcArgs splits kern.procargs2: argc, the executed path, padding, argv.
func parseProcArgs(b []byte) (exe string, args []string) {
	if len(b) < 4 {
		return "", nil
	}
	argc := int(int32(binary.NativeEndian.Uint32(b)))
	path, rest, _ := bytes.Cut(b[4:], []byte{0})
	words := strings.Split(string(bytes.TrimLeft(rest, "\x00")), "\x00")
	return string(path), words[:max(0, min(argc, len(words)))]
}

// exeDigest hashes the file at the path that was executed: macOS has no link to
// the running image, so a rebuild shows here as another digest.
func exeDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash executable: %w", err)
	}
	defer f.Close()
	sum, _, err := executables.of(f)
	return sum, err
}

func toStamp(st *unix.Stat_t) (stamp, error) {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return stamp{}, errors.New("stat executable: no regular file")
	}
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, nil
}
