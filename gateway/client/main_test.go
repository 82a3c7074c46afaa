package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

// listenRole names the address at which the test binary, run again, listens as somebody else.
const listenRole = "SALLYPORT_TEST_LISTEN"

func TestMain(m *testing.M) {
	if addr := os.Getenv(listenRole); addr != "" {
		listenAs(addr)
		return
	}
	goleak.VerifyTestMain(m)
}

// listenAs listens until stdin ends and says whether anybody spoke.
func listenAs(addr string) {
	l, err := net.Listen("unix", addr)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listening")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 1)
			if n, _ := c.Read(b); n > 0 {
				fmt.Println("heard")
			}
			c.Close()
		}
	}()
	bufio.NewReader(os.Stdin).ReadString('\n')
}

// stranger listens at addr under another uid. quiet ends it and returns what it said after "listening".
func stranger(t *testing.T, addr string) (quiet func() string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("root: only root can start a process under another uid")
	}
	// The binary lies in a folder of root's: a copy is what the other uid can run.
	exe := filepath.Join(world(t), "listener")
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("proc: the test copies its own program from /proc/self/exe")
	}
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{listenRole + "=" + addr}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || line != "listening\n" {
		t.Fatalf("the stranger does not listen: %q %v", line, err)
	}
	ended := false
	quiet = func() string {
		if ended {
			return ""
		}
		ended = true
		in.Close()
		var said strings.Builder
		r.WriteTo(&said)
		cmd.Wait()
		return said.String()
	}
	t.Cleanup(func() { quiet() })
	return quiet
}

// world is a short folder that others may enter.
func world(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "spc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// place is a home in a private folder.
func place(t *testing.T) (home.Home, string) {
	t.Helper()
	dir := filepath.Join(world(t), "h")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return at(t, dir), dir
}

func at(t *testing.T, dir string) home.Home {
	t.Helper()
	h, err := home.Find(func(name string) string {
		if name == home.EnvHome {
			return dir
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// gate is the gateway's end of one connection of the agents' door.
type gate struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// listen opens the agents' door of dir.
func listen(t *testing.T, dir string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "agent.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func accept(t *testing.T, l *net.UnixListener) *gate {
	t.Helper()
	l.SetDeadline(time.Now().Add(60 * time.Second))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &gate{t, c, bufio.NewReaderSize(c, 1<<20)}
}

// read takes one request; ok is false when the client has hung up.
func (g *gate) read() (r api.Request, ok bool) {
	line, err := g.r.ReadBytes('\n')
	if err != nil {
		return r, false
	}
	if err := json.Unmarshal(line, &r, json.RejectUnknownMembers(true)); err != nil {
		g.t.Errorf("the client's line is no request: %v", err)
		return r, false
	}
	return r, true
}

func (g *gate) answer(r api.Response) {
	b, err := json.Marshal(r)
	if err != nil {
		g.t.Error(err)
	}
	if _, err := g.Write(append(b, '\n')); err != nil {
		g.t.Error(err)
	}
}

// code is the code of an error, which must be an *api.Error with something to do next.
func code(t *testing.T, err error) string {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %T (%v), want *api.Error", err, err)
	}
	if e.Next == "" || e.Reason == "" {
		t.Errorf("error %+v does not say what to do", e)
	}
	return e.Code
}

func want(t *testing.T, err error, c string) {
	t.Helper()
	if got := code(t, err); got != c {
		t.Errorf("code %s, want %s (%v)", got, c, err)
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}
