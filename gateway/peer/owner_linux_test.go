package peer

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// shim is a program that counts as ours, unlike the test that starts it.
type shim struct {
	*server
	file string
	sum  string
}

func newShim(t *testing.T) *shim {
	file := otherProgram(t, "shim", "shim")
	return &shim{newServer(t), file, digestOf(t, file)}
}

func (s *shim) ours(digest string) bool { return digest == s.sum }

// args run the shim, below a shell -c that stays if under is true.
func (s *shim) args(under bool) []string {
	args := []string{s.file, "role:client", s.path}
	if under {
		args = append([]string{"/bin/sh", "-c", `"$0" "$@"; true`}, args...)
	}
	return args
}

// owner accepts the shim and returns its owner's pid, whether that is weak by
// adoption, and the pids passed.
func (s *shim) owner() (p *Process, owner Facts, passed []int) {
	s.t.Helper()
	_, p = s.peer()
	o, via, err := p.Owner(s.ours)
	if err != nil {
		s.t.Fatal(err)
	}
	if o == p {
		s.t.Error("owner is the peer's own value")
	}
	defer closeAll(append(via, o))
	return p, o.Facts(), pids(via)
}

func socketpair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(fd[0]), "ours"), os.NewFile(uintptr(fd[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func onSocket(t *testing.T) func(*exec.Cmd) {
	return func(x *exec.Cmd) { _, x.Stdin = socketpair(t) }
}

func onPipe(t *testing.T) func(*exec.Cmd) {
	return func(x *exec.Cmd) {
		if _, err := x.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}
}

// The shim belongs to whoever holds the other end of its stdin, else to the
// nearest process above that is no launcher: both are this test.
func TestOwner(t *testing.T) {
	null := func(*exec.Cmd) {}
	for name, tc := range map[string]struct {
		stdin func(*exec.Cmd)
		under bool
	}{
		"socketpair":             {onSocket(t), false},
		"socketpair below sh -c": {onSocket(t), true},
		"pipe":                   {onPipe(t), false},
		"pipe below sh -c":       {onPipe(t), true},
		"no stdin":               {null, false},
		"no stdin below sh -c":   {null, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShim(t)
			args := s.args(tc.under)
			spawn(t, args[0], args[1:], tc.stdin)
			p, o, passed := s.owner()
			if o.PID != os.Getpid() || slices.Contains(o.Weak, WeakAdopted) {
				t.Errorf("owner %d %q, want %d", o.PID, o.Weak, os.Getpid())
			}
			var want []int
			if tc.under {
				want = []int{p.Facts().PPID}
			}
			if !slices.Equal(passed, want) {
				t.Errorf("passed %v, want %v", passed, want)
			}
		})
	}
}

// I28: the launcher between client and shim is gone; stdin still names the
// client, in another session even.
func TestOwnerLauncherGone(t *testing.T) {
	s := newShim(t)
	x := spawn(t, self(t), append([]string{"role:leave"}, s.args(false)...), onSocket(t), setsid)
	wait(t, x)
	p, o, _ := s.owner()
	if p.Facts().PPID == os.Getpid() || o.PID != os.Getpid() {
		t.Errorf("owner %d, want %d", o.PID, os.Getpid())
	}
}

// Whoever merely reads from the same stdin, or passed it on, isn't its other end.
func TestOwnerOfPassedStdin(t *testing.T) {
	for name, stdin := range map[string]func(*exec.Cmd){"pipe": onPipe(t), "socketpair": onSocket(t)} {
		t.Run(name, func(t *testing.T) {
			s := newShim(t)
			x := spawn(t, self(t), append([]string{"role:start"}, s.args(false)...), stdin)
			_, o, passed := s.owner()
			if o.PID != os.Getpid() || !slices.Equal(passed, []int{x.Process.Pid}) {
				t.Errorf("owner %d, passed %v, want %d by %d", o.PID, passed, os.Getpid(), x.Process.Pid)
			}
		})
	}
}

// Without anything that names a client an adopted shim is its own run, weakly.
func TestOwnerAdopted(t *testing.T) {
	s := newShim(t)
	x := spawn(t, self(t), append([]string{"role:leave"}, s.args(false)...), setsid)
	wait(t, x)
	p, o, passed := s.owner()
	if o.PID != p.Facts().PID || o.Identity != Weak || !slices.Contains(o.Weak, WeakAdopted) {
		t.Errorf("owner %d %s %q, want %d", o.PID, o.Identity, o.Weak, p.Facts().PID)
	}
	if len(passed) != 0 || slices.Contains(p.Facts().Weak, WeakAdopted) {
		t.Errorf("passed %v, peer's own marks %q", passed, p.Facts().Weak)
	}
}

// The same where the shim leads a session, so that only pid 1 tells.
func TestOwnerAdoptedLeader(t *testing.T) {
	s := newShim(t)
	wait(t, spawn(t, self(t), append([]string{"role:leave-alone"}, s.args(false)...)))
	p, o, _ := s.owner()
	if p.Facts().PPID != 1 {
		t.Skip("pid 1: orphans go to another process here")
	}
	if o.PID != p.Facts().PID || !slices.Contains(o.Weak, WeakAdopted) {
		t.Errorf("owner %d %s %q, want %d", o.PID, o.Identity, o.Weak, p.Facts().PID)
	}
}

// And where a subreaper adopts: it is no client, though it is the parent.
func TestOwnerSubreaper(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	s := newShim(t)
	wait(t, spawn(t, self(t), append([]string{"role:leave"}, s.args(false)...), setsid))
	c, p := s.peer()
	o, passed, err := p.Owner(s.ours)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(append(passed, o))
	if p.Facts().PPID != os.Getpid() {
		t.Fatalf("parent %d, want %d", p.Facts().PPID, os.Getpid())
	}
	if f := o.Facts(); f.PID != p.Facts().PID || !slices.Contains(f.Weak, WeakAdopted) {
		t.Errorf("owner %d %q, want %d", f.PID, f.Weak, p.Facts().PID)
	}
	tell(t, c, "quit")
	unix.Wait4(p.Facts().PID, nil, 0, nil)
}

// A program that speaks to the socket itself is its own run, also on a pipe.
func TestOwnerOfProgram(t *testing.T) {
	s := newShim(t)
	spawn(t, self(t), []string{"role:client", s.path}, onPipe(t))
	p, o, passed := s.owner()
	if o.PID != p.Facts().PID || o.Identity != Strong || len(passed) != 0 {
		t.Errorf("owner %d %s %q, passed %v", o.PID, o.Identity, o.Weak, passed)
	}
}

// A shell that runs a script file is the owner of what it calls.
func TestOwnerScript(t *testing.T) {
	s := newShim(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, fmt.Appendf(nil, "%s; true\n", strings.Join(s.args(false), " ")), 0o700); err != nil {
		t.Fatal(err)
	}
	x := spawn(t, "/bin/sh", []string{script})
	_, o, passed := s.owner()
	if o.PID != x.Process.Pid || len(passed) != 0 {
		t.Errorf("owner %d, passed %v, want %d", o.PID, passed, x.Process.Pid)
	}
}

// A shell that reads a terminal is the owner of what is typed.
func TestOwnerTerminal(t *testing.T) {
	ptm, pts := terminal(t)
	s := newShim(t)
	x := spawn(t, "/bin/sh", []string{"-i"}, func(x *exec.Cmd) {
		x.Stdin, x.Stdout, x.Stderr = pts, pts, pts
		x.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	})
	fmt.Fprintln(ptm, strings.Join(s.args(false), " "))
	_, o, passed := s.owner()
	if o.PID != x.Process.Pid || len(passed) != 0 {
		t.Errorf("owner %d, passed %v, want %d", o.PID, passed, x.Process.Pid)
	}
}

// I25, I26: two shims of one client share an owner; two clients don't.
func TestOwnerKeys(t *testing.T) {
	s := newShim(t)
	keys := make(map[string]int)
	for range 2 {
		spawn(t, self(t), append([]string{"role:start"}, s.args(false)...))
		_, p := s.peer()
		for range 2 {
			o, via, err := p.Owner(s.ours)
			if err != nil {
				t.Fatal(err)
			}
			if len(via) != 0 || o.Facts().PID != p.Facts().PPID {
				t.Errorf("owner %d, passed %v", o.Facts().PID, pids(via))
			}
			keys[o.Key()]++
			o.Close()
		}
	}
	if len(keys) != 2 {
		t.Errorf("keys %v", keys)
	}
}

// A launcher that ends while the way is walked gives the answer of before or of
// after, never a third.
func TestOwnerRace(t *testing.T) {
	s := newShim(t)
	for range 40 {
		x := spawn(t, self(t), append([]string{"role:leave"}, s.args(false)...), setsid)
		p, o, _ := s.owner()
		adopted := o.PID == p.Facts().PID && slices.Contains(o.Weak, WeakAdopted)
		if o.PID != x.Process.Pid && !adopted {
			t.Fatalf("owner %d %q of %d, started by %d", o.PID, o.Weak, p.Facts().PID, x.Process.Pid)
		}
		wait(t, x)
	}
}

// A shim may let the gateway look at its descriptors; without Yama that is so.
func TestAdmit(t *testing.T) {
	s := newServer(t)
	c, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := Admit(c.(*net.UnixConn)); err != nil {
		t.Error(err)
	}
	c.Close()
	if err := Admit(c.(*net.UnixConn)); err == nil {
		t.Error("admitted over a closed connection")
	}
}

// terminal opens both ends of a pseudo-terminal.
func terminal(t *testing.T) (ptm, pts *os.File) {
	t.Helper()
	ptm, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("terminal: ", err)
	}
	t.Cleanup(func() { ptm.Close() })
	n, err := unix.IoctlGetInt(int(ptm.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(ptm.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if pts, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("terminal: ", err)
	}
	t.Cleanup(func() { pts.Close() })
	return ptm, pts
}
