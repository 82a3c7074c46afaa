package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport/cmd/internal/confine"
)

// soPeerPidfd is SO_PEERPIDFD of socket(7), since Linux 6.5.
const soPeerPidfd = 77

// LookMachine looks at this machine. root stands before /proc: "" but in tests.
func LookMachine(root string) Machine {
	m := Machine{
		NotConfined: confine.Missing(),
		ASLR:        number(root, "/proc/sys/kernel/randomize_va_space", 0, 10),
		Yama:        number(root, "/proc/sys/kernel/yama/ptrace_scope", -1, 10),
		CorePattern: line(root, "/proc/sys/kernel/core_pattern"),
		Umask:       umask(root),
	}
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		m.Pidfd = true
		unix.Close(fd)
	}
	m.PeerPidfd = peerPidfd()
	var t unix.Timex // no mode: it is only read
	if state, err := unix.Adjtimex(&t); err == nil {
		m.ClockKnown = true
		m.ClockSynced = state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
	}
	return m
}

func peerPidfd() bool {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	fd, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, soPeerPidfd)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func umask(root string) int {
	for l := range strings.Lines(file(root, "/proc/self/status")) {
		if v, ok := strings.CutPrefix(l, "Umask:"); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), 8, 32); err == nil {
				return int(n)
			}
		}
	}
	return -1
}

func number(root, path string, otherwise, base int) int {
	n, err := strconv.ParseInt(line(root, path), base, 32)
	if err != nil {
		return otherwise
	}
	return int(n)
}

func line(root, path string) string { return strings.TrimSpace(file(root, path)) }

func file(root, path string) string {
	b, _ := os.ReadFile(filepath.Join(root, path))
	return string(b)
}
