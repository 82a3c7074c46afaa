package peer

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A roll finds what is below a process, and its keys are those of the processes.
func TestRoll(t *testing.T) {
	x := exec.Command("sleep", "1000")
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { x.Process.Kill(); x.Wait() }()
	roll, err := CallRoll()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(roll.Below(os.Getpid()), x.Process.Pid) {
		t.Error("the child is not below us")
	}
	p, err := Find(x.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if key, err := roll.KeyOf(x.Process.Pid); err != nil || key != p.Key() {
		t.Errorf("key %q %v, want %q", key, err, p.Key())
	}
	other := roll[x.Process.Pid]
	other.Start++
	roll[x.Process.Pid] = other
	if _, err := roll.KeyOf(x.Process.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("another start: %v", err)
	}
	if c, err := p.Condition(); err != nil || c.Blocked || c.Keeps || len(c.Children) != 0 {
		t.Errorf("condition %+v %v", c, err)
	}
	x.Process.Kill()
	x.Wait()
	if _, err := p.Condition(); !errors.Is(err, ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}

// A process that is stopped, and one that catches SIGTERM, are told.
func TestCondition(t *testing.T) {
	x := exec.Command("sh", "-c", `trap : TERM; echo; read x`)
	in, err1 := x.StdinPipe()
	out, err2 := x.StdoutPipe()
	if err := errors.Join(err1, err2, x.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); x.Process.Kill(); x.Wait() }()
	out.Read(make([]byte, 1)) // the trap stands
	p, err := Find(x.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if c, err := p.Condition(); err != nil || !c.Keeps {
		t.Errorf("condition %+v %v", c, err)
	}
	x.Process.Signal(syscall.SIGSTOP)
	end := time.Now().Add(patience)
	for {
		c, err := p.Condition()
		if err != nil || time.Now().After(end) {
			t.Fatalf("condition %+v %v", c, err)
		}
		if c.State == 'T' {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// What a process wrote and nobody read is counted, on a pipe and on a socket.
func TestUnread(t *testing.T) {
	for name, plug := range map[string]func() (ours, theirs *os.File){
		"pipe":   func() (ours, theirs *os.File) { r, w, _ := os.Pipe(); return r, w },
		"socket": func() (ours, theirs *os.File) { return socketpair(t) },
	} {
		ours, theirs := plug()
		x := exec.Command("sh", "-c", `printf 12345; exec sleep 1000`)
		x.Stdout = theirs
		if err := x.Start(); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		p, err := Find(x.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			n, err := p.Unread()
			if err != nil || time.Now().After(end) {
				t.Fatalf("%s: %d %v", name, n, err)
			}
			if n >= 5 {
				break
			}
		}
		ours.Read(make([]byte, 5))
		if n, err := p.Unread(); n != 0 || err != nil {
			t.Errorf("%s: read, and %d left, %v", name, n, err)
		}
		p.Close()
		x.Process.Kill()
		x.Wait()
		ours.Close()
	}
}

// A client sees who listens. That it can end it is shown by `sp run revoke --force`.
func TestListenerOf(t *testing.T) {
	s := newServer(t)
	c, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := ListenerOf(c.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if e, err := l.Entry(); err != nil || l.PID() != os.Getpid() || e.Stopped() {
		t.Errorf("listener %d %+v %v", l.PID(), e, err)
	}
}

// A roll is read line by line: where a number came round meanwhile, a child seen before it and a parent seen after it are
// not kin. A parent is never younger than its child.
func TestBelowTakesNoElder(t *testing.T) {
	roll := Roll{
		10: {PPID: 1, Start: 100},
		20: {PPID: 10, Start: 500},
		21: {PPID: 20, Start: 500},
		22: {PPID: 20, Start: 400}, // its parent had this number before
		23: {PPID: 22, Start: 600},
	}
	if got := roll.Below(10); !slices.Equal(got, []int{20, 21}) {
		t.Errorf("below 10: %v", got)
	}
}
