package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	procFileMax  = 64 << 10          // what we read of any file below /proc/PID
	addrNoRandom = 0x0040000         // ADDR_NO_RANDOMIZE (personality(2))
	clockTick    = time.Second / 100 // USER_HZ of every architecture Go knows
	maxLinkBytes = 2 * unix.PathMax  // with room for " (deleted)"
)

// procFile reads at most procFileMax bytes of /proc/PID/name.
func procFile(pid int, name string) ([]byte, error) { return procFileUpTo(pid, name, procFileMax) }

// procFileUpTo is procFile with another limit.
func procFileUpTo(pid int, name string, limit int) ([]byte, error) {
	fd, err := openProc(pid, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	n := 0
	for n < limit {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		m, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, procError("read", name, err)
		}
		if m <= 0 {
			break
		}
		n += m
	}
	return buf[:n], nil
}

func openProc(pid int, name string) (int, error) {
	for {
		fd, err := unix.Open(procPath(pid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, procError("open", name, err)
		}
		return fd, nil
	}
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// procError turns "no such process" into ErrGone, however /proc says it.
func procError(verb, name string, err error) error {
	if err == unix.ENOENT || err == unix.ESRCH {
		err = ErrGone
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}

func procLink(pid int, name string) (string, error) {
	buf := make([]byte, maxLinkBytes)
	n, err := unix.Readlink(procPath(pid, name), buf)
	if err != nil {
		return "", procError("read link", name, err)
	}
	return string(buf[:n]), nil
}

// stat is what we use of /proc/PID/stat (proc(5)).
type stat struct {
	comm       string
	state      byte
	ppid, pgid int
	sid        int
	foreground int    // process group in front of its terminal; -1: none
	nice       int    // -20 to 19
	threads    int    // of the whole process
	start      uint64 // clock ticks after boot
}

func readStat(pid int) (stat, error) {
	b, err := procFile(pid, "stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// parseStat takes the name from the first "(" to the last ")": a process may
// put both, spaces and newlines into it; what follows is numbers and a letter.
func parseStat(b []byte) (stat, error) {
	bad := errors.New("parse stat: malformed")
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return stat{}, bad
	}
	f := strings.Fields(string(b[end+1:])) // f[0] is field 3, the state
	if len(f) < 20 {
		return stat{}, bad
	}
	s := stat{comm: string(b[open+1 : end]), state: f[0][0]}
	var err [7]error
	s.ppid, err[0] = strconv.Atoi(f[1])
	s.pgid, err[1] = strconv.Atoi(f[2])
	s.sid, err[2] = strconv.Atoi(f[3])
	s.foreground, err[3] = strconv.Atoi(f[5])
	s.nice, err[4] = strconv.Atoi(f[16])
	s.threads, err[5] = strconv.Atoi(f[17])
	s.start, err[6] = strconv.ParseUint(f[19], 10, 64)
	if errors.Join(err[:]...) != nil || s.ppid < 0 {
		return stat{}, bad
	}
	s.sid = max(s.sid, 0) // -1: the session is being left
	return s, nil
}

// startTime turns ticks after boot into wall time, as the clock stands now.
func startTime(ticks uint64) (time.Time, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Time{}, fmt.Errorf("read boot clock: %w", err)
	}
	age := time.Duration(ts.Nano()) - time.Duration(ticks)*clockTick
	return time.Now().Add(-age).Round(0), nil
}

// status is what we use of /proc/PID/status.
type status struct {
	tracer    int
	ruid, uid uint32 // real, effective
	locked    bool   // pages that may not be swapped out
}

func readStatus(pid int) (status, error) {
	b, err := procFile(pid, "status")
	if err != nil {
		return status{}, err
	}
	return parseStatus(b)
}

// parseStatus reads whole lines; the kernel escapes newlines in Name.
func parseStatus(b []byte) (status, error) {
	var s status
	found := 0
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		f := strings.Fields(rest)
		switch {
		case name == "TracerPid" && len(f) == 1:
			n, err := strconv.Atoi(f[0])
			if err != nil {
				return status{}, fmt.Errorf("parse status: %w", err)
			}
			s.tracer = n
			found++
		case name == "Uid" && len(f) == 4:
			r, err1 := strconv.ParseUint(f[0], 10, 32)
			e, err2 := strconv.ParseUint(f[1], 10, 32)
			if err := errors.Join(err1, err2); err != nil {
				return status{}, fmt.Errorf("parse status: %w", err)
			}
			s.ruid, s.uid = uint32(r), uint32(e)
			found++
		case name == "VmLck" && len(f) > 0: // a zombie has none
			s.locked = f[0] != "0"
		}
	}
	if found != 2 {
		return status{}, errors.New("parse status: malformed")
	}
	return s, nil
}

// commandLine splits what the process shows as its arguments. A process that
// wrote a title over them shows one string and padding.
func commandLine(pid int) []string {
	b, err := procFile(pid, "cmdline")
	if err != nil || len(b) == 0 {
		return nil
	}
	b = bytes.TrimRight(b[:min(len(b), procFileMax)], "\x00")
	return strings.Split(string(b), "\x00")
}

// notRandom says whether the program was started without address
// randomization, so that a second start may look like the first.
func notRandom(pid int) (bool, error) {
	if b, err := os.ReadFile("/proc/sys/kernel/randomize_va_space"); err == nil && strings.TrimSpace(string(b)) == "0" {
		return true, nil
	}
	b, err := procFile(pid, "personality")
	if err != nil {
		return false, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 16, 64)
	if err != nil {
		return false, fmt.Errorf("parse personality: %w", err)
	}
	return n&addrNoRandom != 0, nil
}

// sameNamespace compares a namespace ("user", "pid") of the process with ours.
func sameNamespace(pid int, kind string) (bool, error) {
	var theirs, ours unix.Stat_t
	if err := unix.Stat(procPath(pid, "ns/"+kind), &theirs); err != nil {
		return false, procError("stat", "ns/"+kind, err)
	}
	if err := unix.Stat("/proc/self/ns/"+kind, &ours); err != nil {
		return false, fmt.Errorf("stat own namespace: %w", err)
	}
	return theirs.Ino == ours.Ino && theirs.Dev == ours.Dev, nil
}
