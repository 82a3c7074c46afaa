package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 60 * time.Second

// server is a listener in a folder of its own.
type server struct {
	t    *testing.T
	l    *net.UnixListener
	path string
}

func newServer(t *testing.T) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &server{t, l, path}
}

func (s *server) accept() *net.UnixConn {
	s.t.Helper()
	s.l.SetDeadline(time.Now().Add(patience))
	c, err := s.l.AcceptUnix()
	if err != nil {
		s.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	s.t.Cleanup(func() { c.Close() })
	return c
}

// peer accepts and pins.
func (s *server) peer() (*net.UnixConn, *Process) {
	s.t.Helper()
	c := s.accept()
	return c, pinned(s.t, c)
}

func pinned(t *testing.T, c *net.UnixConn) *Process {
	t.Helper()
	p, err := FromConn(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// spawn starts file with a role. The process ends with the test at the latest.
func spawn(t *testing.T, file string, args []string, change ...func(*exec.Cmd)) *exec.Cmd {
	t.Helper()
	x := exec.Command(file, args...)
	stderr, err := os.CreateTemp(t.TempDir(), "stderr") // a pipe would keep Wait from orphans
	if err != nil {
		t.Fatal(err)
	}
	x.Stderr = stderr
	for _, f := range change {
		f(x)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if x.ProcessState == nil {
			x.Process.Kill()
			x.Wait()
		}
		if b, _ := os.ReadFile(stderr.Name()); t.Failed() && len(b) > 0 {
			t.Logf("%v: %s", args, b)
		}
		stderr.Close()
	})
	return x
}

// client starts the role "client" from this test's own file.
func (s *server) client(pre ...string) *exec.Cmd {
	s.t.Helper()
	return spawn(s.t, self(s.t), append([]string{"role:client", s.path}, pre...))
}

func tell(t *testing.T, c net.Conn, command string) {
	t.Helper()
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		t.Fatal(err)
	}
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// otherProgram is a file that plays the same roles with another digest, in a
// folder that every uid may enter.
func otherProgram(t *testing.T, name, mark string) string {
	t.Helper()
	b, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, append(b, mark...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// asUser runs the command as uid 1000 when we are root.
func asUser(x *exec.Cmd) {
	if os.Geteuid() == 0 {
		x.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
		x.Dir = "/"
	}
}

// open lets uid 1000 reach the socket.
func (s *server) open() {
	s.t.Helper()
	if err := errors.Join(os.Chmod(filepath.Dir(s.path), 0o755), os.Chmod(s.path, 0o666)); err != nil {
		s.t.Fatal(err)
	}
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
}

// wait waits for a process that is expected to end by itself.
func wait(t *testing.T, x *exec.Cmd) {
	t.Helper()
	done := make(chan struct{})
	go func() { x.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		x.Process.Kill()
		<-done
		t.Fatal("process did not end")
	}
}
