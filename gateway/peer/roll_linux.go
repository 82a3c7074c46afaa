package peer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CallRoll reads one line of each process. One that comes or goes meanwhile may
// be in it or not.
func CallRoll() (Roll, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	roll := make(Roll, len(all))
	for _, pid := range all {
		if st, err := readStat(pid); err == nil {
			roll[pid] = Entry{PPID: st.ppid, State: st.state, Start: st.start}
		}
	}
	return roll, nil
}

// KeyOf is the key of the process that a roll means by pid: ErrGone if that one
// has ended.
func (r Roll) KeyOf(pid int) (string, error) {
	h, err := openHandle(pid)
	if err != nil {
		return "", fmt.Errorf("find process: %w", err)
	}
	defer h.f.Close()
	key, _, err := h.key()
	if err != nil {
		return "", fmt.Errorf("find process: %w", err)
	}
	st, err := h.stat()
	if err == nil && st.start != r[pid].Start {
		err = ErrGone
	}
	if err != nil {
		return "", fmt.Errorf("find process: %w", err)
	}
	return key, nil
}

// Condition looks at p. ErrGone if it has ended, a zombie too.
func (p *Process) Condition() (Condition, error) {
	c, err := p.condition()
	if p.handle.exited() {
		err = ErrGone
	}
	if err != nil {
		return Condition{}, fmt.Errorf("look at process: %w", err)
	}
	return c, nil
}

func (p *Process) condition() (c Condition, err error) {
	st, err := p.handle.stat()
	if err != nil {
		return c, err
	}
	c.State = st.state
	if c.Blocked, err = blocked(p.handle.pid); err != nil {
		return c, err
	}
	if c.Keeps, err = keepsTerm(p.handle.pid); err != nil {
		return c, err
	}
	kids, err := p.handle.children()
	if err != nil {
		return c, err
	}
	for _, pid := range kids {
		if st, err := readStat(pid); err == nil && st.state != 'Z' && st.state != 'X' {
			c.Children = append(c.Children, pid)
		} else if err != nil && !errors.Is(err, ErrGone) {
			return c, err
		}
	}
	return c, nil
}

// blocked says whether any thread of the process is in the uninterruptible state.
func blocked(pid int) (bool, error) {
	dir, err := os.Open(procPath(pid, "task"))
	if err != nil {
		return false, procError("open", "task", errno(err))
	}
	defer dir.Close()
	threads, err := dir.Readdirnames(-1)
	if err != nil {
		return false, procError("read", "task", errno(err))
	}
	for _, tid := range threads {
		b, err := procFile(pid, "task/"+tid+"/stat")
		if err != nil {
			continue // the thread is gone
		}
		if st, err := parseStat(b); err == nil && st.state == 'D' {
			return true, nil
		}
	}
	return false, nil
}

// keepsTerm reads the two masks of signals that the process ignores and catches.
func keepsTerm(pid int) (bool, error) {
	b, err := procFile(pid, "status")
	if err != nil {
		return false, err
	}
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		name, mask, _ := strings.Cut(sc.Text(), ":")
		if name != "SigIgn" && name != "SigCgt" {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		if err != nil {
			return false, fmt.Errorf("parse status: %w", err)
		}
		if n&(1<<(unix.SIGTERM-1)) != 0 {
			return true, nil
		}
	}
	return false, nil
}

// Unread is how many bytes p has written to its stdout that nobody has read yet:
// 0 too if that is a file or a terminal. It needs what PidfdGetfd needs: see
// Admit.
func (p *Process) Unread() (n int, err error) {
	var fd int
	err = p.handle.do(func(pidfd int) (err error) {
		fd, err = unix.PidfdGetfd(pidfd, 1, 0)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("copy stdout: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("look at stdout: %w", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		n, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
	case unix.S_IFSOCK:
		n, err = unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	}
	if err != nil {
		return 0, fmt.Errorf("look at stdout: %w", err)
	}
	return n, nil
}
