package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// feed HOW FILE ARG…: a client. It starts the program on a stdin of its making, and beside it a helper that has a copy of
// the other end; then it waits to be killed. HOW is pipe or socketpair, and may end in "-thread": its main thread ends; or in
// "-pass": it passes its end on to the helper, and leaves.
func feed(args []string) error {
	how, headless := strings.CutSuffix(args[0], "-thread")
	how, passes := strings.CutSuffix(how, "-pass")
	ours, theirs, err := ends(how)
	if err != nil {
		return err
	}
	x := exec.Command(args[1], args[2:]...)
	x.Stdin, x.Stdout, x.Stderr = theirs, os.Stdout, os.Stderr
	if err := x.Start(); err != nil {
		return err
	}
	theirs.Close()
	helper := exec.Command("/proc/self/exe", "role:idle")
	helper.ExtraFiles = []*os.File{ours}
	if err := helper.Start(); err != nil {
		return err
	}
	if passes {
		return nil
	}
	if headless {
		return leaderless()
	}
	return idle(nil)
}

// leaderless ends the main thread, once a goroutine runs on it, and idles in the others.
func leaderless() error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		tried := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			close(tried)
			if unix.Gettid() == unix.Getpid() {
				unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
			}
		}()
		<-tried
		if st, err := readStat(unix.Getpid()); err == nil && st.state == 'Z' {
			return idle(nil)
		}
	}
	return errors.New("the main thread does not end")
}

func ends(how string) (ours, theirs *os.File, err error) {
	if how == "pipe" {
		theirs, ours, err = os.Pipe()
		return ours, theirs, err
	}
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	return os.NewFile(uintptr(fd[0]), "ours"), os.NewFile(uintptr(fd[1]), "theirs"), err
}

// lend HOW FILE ARG…: a client that passes its own writing end on to what it starts, as one does that forgets to close it.
// It says a line.
func lend(args []string) error {
	ours, theirs, err := ends(args[0])
	if err != nil {
		return err
	}
	x := exec.Command(args[1], args[2:]...)
	x.Stdin, x.Stdout, x.Stderr, x.ExtraFiles = theirs, os.Stdout, os.Stderr, []*os.File{ours}
	if err := x.Start(); err != nil {
		return err
	}
	theirs.Close()
	fmt.Fprintln(ours)
	return idle(nil)
}

// idle waits to be killed.
func idle([]string) error {
	time.Sleep(time.Hour)
	return nil
}

// fed is a shim: it says whether it watches anybody, and when that one is gone. A line is its end.
func fed([]string) error {
	gone, release := Feeder()
	defer release()
	fmt.Println("watches", gone != nil)
	heard := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(heard)
	}()
	select {
	case <-gone:
		fmt.Println("gone")
	case <-heard:
		fmt.Println("heard")
	}
	return nil
}

// fedLate is fed by somebody who has ended when it looks.
func fedLate([]string) error {
	self, err := openHandle(os.Getpid())
	if err != nil {
		return err
	}
	if maker, _, err := self.socketMaker(); err == nil {
		maker.do(func(fd int) error { readable(fd, 60_000); return nil })
	}
	return fed(nil)
}

// feeding starts file in a group of its own, which ends with the test, and returns what is said there.
func feeding(t *testing.T, file string, args []string, change ...func(*exec.Cmd)) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	x := spawn(t, file, args, append(change, func(x *exec.Cmd) {
		x.Stdout, x.SysProcAttr = w, &syscall.SysProcAttr{Setpgid: true}
	})...)
	w.Close()
	t.Cleanup(func() { syscall.Kill(-x.Process.Pid, syscall.SIGKILL) })
	r.SetReadDeadline(time.Now().Add(time.Minute))
	return x, bufio.NewReader(r)
}

func said(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil || line != want+"\n" {
		t.Fatalf("said %q, %v, want %q", line, err, want)
	}
}

// The client dies and a helper holds its end: the shim knows all the same, whatever stood between them.
func TestFeederGone(t *testing.T) {
	exe := self(t)
	shim := []string{exe, "role:fed"}
	below := []string{"/bin/sh", "-c", `"$0" "$@"; true`, exe, "role:fed"}
	for name, args := range map[string][]string{
		"pipe":                           append([]string{"pipe"}, shim...),
		"socketpair":                     append([]string{"socketpair"}, shim...),
		"pipe below sh -c":               append([]string{"pipe"}, below...),
		"socketpair below sh -c":         append([]string{"socketpair"}, below...),
		"pipe, the main thread ended":    append([]string{"pipe-thread"}, shim...),
		"sockets, the main thread ended": append([]string{"socketpair-thread"}, shim...),
		"a launcher left":                append([]string{"socketpair", exe, "role:leave"}, shim...),
	} {
		t.Run(name, func(t *testing.T) {
			x, out := feeding(t, exe, append([]string{"role:feed"}, args...))
			said(t, out, "watches true")
			x.Process.Kill()
			said(t, out, "gone")
			if _, err := out.ReadByte(); err != io.EOF {
				t.Errorf("the end: %v", err)
			}
		})
	}
}

// Where it isn't clear who feeds the shim, nobody is watched.
func TestFeederUnclear(t *testing.T) {
	exe := self(t)
	for name, args := range map[string][]string{
		"a file":         {"/bin/sh", "-c", `exec "$0" role:fed < "$0"`, exe},
		"a closed stdin": {"/bin/sh", "-c", `exec "$0" role:fed <&-`, exe},
		"a FIFO":         {"/bin/sh", "-c", `mkfifo "$1" && exec "$0" role:fed <> "$1"`, exe, t.TempDir() + "/fifo"},
		"a pipeline":     {"/bin/sh", "-c", `sleep 3600 | "$0" role:fed`, exe},
		"one that left":  {exe, "role:feed", "socketpair-pass", exe, "role:fed-late"},
		"two candidates": {exe, "role:lend", "pipe", exe, "role:start", exe, "role:fed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, out := feeding(t, args[0], args[1:])
			said(t, out, "watches false")
		})
	}
	t.Run("a terminal", func(t *testing.T) {
		ptm, pts := terminal(t)
		_, out := feeding(t, exe, []string{"role:fed"}, func(x *exec.Cmd) { x.Stdin = pts })
		said(t, out, "watches false")
		fmt.Fprintln(ptm)
		said(t, out, "heard")
	})
}

// A launcher that has a copy of the client's end is no second candidate; and while client and launcher live, nobody is gone.
func TestFeederLives(t *testing.T) {
	exe := self(t)
	_, out := feeding(t, exe, []string{"role:lend", "pipe", "/bin/sh", "-c", `"$0" role:fed; true`, exe})
	said(t, out, "watches true")
	said(t, out, "heard")
}
