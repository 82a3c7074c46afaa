package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// env is what a command may touch of the process.
type env struct {
	in       io.Reader
	out, err io.Writer
	inTTY    bool // stdin, stdout, stderr are terminals
	outTTY   bool
	errTTY   bool
	width    func() int // of the terminal that stdout is, in characters; 0: it is none
	getenv   func(string) string
	tty      func() (*os.File, error)                                               // the controlling terminal
	fd       func(n int) (*os.File, error)                                          // a descriptor that the caller left open for us
	spd      func() (string, error)                                                 // the daemon's program
	manager  func(ctx context.Context, name string, args ...string) (string, error) // runs the service manager's programs
	self     func() (string, error)                                                 // this program, as clients start it
	machine  string                                                                 // before the paths of the machine's files; "" but in tests
	now      func() time.Time
}

func system() env {
	return env{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTTY:   term.IsTerminal(int(os.Stdin.Fd())),
		outTTY:  term.IsTerminal(int(os.Stdout.Fd())),
		errTTY:  term.IsTerminal(int(os.Stderr.Fd())),
		width:   terminalWidth,
		getenv:  os.Getenv,
		tty:     func() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR, 0) },
		fd:      inherited,
		spd:     findDaemon,
		self:    ownPath,
		manager: runProgram,
		now:     time.Now,
	}
}

func terminalWidth() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// inherited opens descriptor n if whoever started sp left it open for us. What the
// runtime opened itself (such as the cgroup's cpu.max, often number 3) closes on
// exec, which nothing inherited can: a caller who forgot to open n must not have
// that taken for a passphrase.
func inherited(n int) (*os.File, error) {
	if n < 0 || n == 1 || n == 2 {
		return nil, usage("descriptor %d cannot be read from", n)
	}
	flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, usage("descriptor %d is not open", n)
	}
	return os.NewFile(uintptr(n), fmt.Sprintf("descriptor %d", n)), nil
}

// findDaemon is the spd beside sp, else the one in PATH.
func findDaemon() (string, error) {
	if exe, err := os.Executable(); err == nil {
		if exe, err = filepath.EvalSymlinks(exe); err == nil {
			beside := filepath.Join(filepath.Dir(exe), "spd")
			if unix.Access(beside, unix.X_OK) == nil {
				return beside, nil
			}
		}
	}
	path, err := exec.LookPath("spd")
	if err != nil {
		return "", &adviceError{errors.New("find spd: it is neither beside sp nor in PATH"), "install spd beside sp"}
	}
	return filepath.Abs(path)
}
