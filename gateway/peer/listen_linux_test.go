package peer

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListen(t *testing.T) {
	s := newServer(t)
	st, err := os.Lstat(s.path)
	if err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Fatalf("mode %v, %v", st.Mode(), err)
	}
	_, err = Listen(s.path)
	want(t, err, ErrInUse)
	s.l.SetUnlinkOnClose(false) // as if killed
	s.l.Close()
	l, err := Listen(s.path)
	if err != nil {
		t.Fatalf("over a dead socket: %v", err)
	}
	l.Close()
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "l")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		_, err := Listen(path)
		want(t, err, ErrInUse)
	}
	if b, _ := os.ReadFile(file); string(b) != "kept" {
		t.Error("file is gone")
	}
	for _, path := range []string{"", "@name", filepath.Join(dir, strings.Repeat("x", 120))} {
		l, err := Listen(path)
		if err == nil {
			l.Close()
			t.Errorf("%q: accepted", path)
		} else if len(path) > 107 && !strings.Contains(err.Error(), "too long") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// A listener that is alive but busy is not dead.
func TestListenFullQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	full := false
	for range 16 {
		c, err := net.Dial("unix", path)
		if err != nil {
			full = true
			break
		}
		defer c.Close()
	}
	if !full {
		t.Skip("queue: never full")
	}
	_, err = Listen(path)
	want(t, err, ErrInUse)
}

func TestListenOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root: needed to give a socket away")
	}
	s := newServer(t)
	s.l.SetUnlinkOnClose(false)
	s.l.Close()
	if err := os.Lchown(s.path, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	_, err := Listen(s.path)
	want(t, err, ErrInUse)
}

func TestListenAbstract(t *testing.T) {
	l, addr, err := ListenAbstract()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l2, other, err := ListenAbstract()
	if err != nil {
		t.Fatal(err)
	}
	l2.Close()
	if addr[0] != '@' || len(addr) < 24 || addr == other {
		t.Errorf("addresses %q, %q", addr, other)
	}
	s := &server{t: t, l: l, path: addr}
	s.client()
	raw, p := s.peer()
	tell(t, raw, "say")
	b := make([]byte, 16)
	if n, err := Conn(raw, p).Read(b); err != nil || string(b[:n]) != "hello" {
		t.Errorf("read %q, %v", b[:n], err)
	}
	tell(t, raw, "child")
	_, err = Conn(raw, p).Read(b)
	want(t, err, ErrForeignSender)
}
