package peer

import (
	"errors"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestConnReads(t *testing.T) {
	s := newServer(t)
	s.client()
	raw, p := s.peer()
	c := Conn(raw, p)
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Fatalf("empty read: %d, %v", n, err)
	}
	for range 3 {
		tell(t, c, "say")
		b := make([]byte, 5)
		if _, err := c.Read(b[:1]); err != nil { // a read smaller than the write
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b[1:]); err != nil || string(b) != "hello" {
			t.Fatalf("read %q, %v", b, err)
		}
	}
	c.SetReadDeadline(time.Unix(1, 0))
	if n, err := c.Read(make([]byte, 5)); n != 0 || !errors.Is(err, unix.EAGAIN) && !isTimeout(err) {
		t.Errorf("past its deadline: %d, %v", n, err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
	tell(t, c, "quit")
	if n, err := c.Read(make([]byte, 5)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// Whoever else speaks on the connection closes it: I03, I04, I05, and before
// the accept as well.
func TestConnForeign(t *testing.T) {
	for name, tc := range map[string]struct {
		pre, command string
		want         error
	}{
		"child on the inherited socket":  {"", "child", ErrForeignSender},
		"orphan of the connector":        {"", "orphan", ErrForeignSender},
		"socket passed to another":       {"", "pass", ErrForeignSender},
		"descriptor passed to us":        {"", "send-fd", ErrForeignSender},
		"child before the accept":        {"early-child", "", ErrForeignSender},
		"connector before the accept":    {"early", "", nil},
		"connector after other commands": {"", "say", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			x := s.client(tc.pre)
			raw := s.accept()
			p := pinned(t, raw)
			if tc.command != "" {
				tell(t, raw, tc.command)
			}
			if tc.command == "orphan" {
				wait(t, x)
			}
			before := descriptors(t)
			c := Conn(raw, p)
			b := make([]byte, 16)
			n, err := c.Read(b)
			if tc.want == nil {
				if err != nil || string(b[:n]) != "hello" {
					t.Fatalf("read %q, %v", b[:n], err)
				}
				return
			}
			want(t, err, tc.want)
			if n != 0 || b[0] != 0 {
				t.Errorf("handed out %d bytes, buffer %q", n, b)
			}
			if _, err := c.Read(b); !errors.Is(err, tc.want) {
				t.Errorf("second read: %v", err)
			}
			if _, err := c.Write(b); err == nil {
				t.Error("answered after a foreign sender")
			}
			if after := descriptors(t); after >= before { // ours is closed, none came
				t.Errorf("%d descriptors, before %d", after, before)
			}
		})
	}
}

// Bytes left behind by a connector that has ended are nobody's.
func TestConnDead(t *testing.T) {
	s := newServer(t)
	x := s.client()
	raw, p := s.peer()
	tell(t, raw, "say-quit")
	wait(t, x)
	n, err := Conn(raw, p).Read(make([]byte, 16))
	if n != 0 {
		t.Errorf("handed out %d bytes", n)
	}
	want(t, err, ErrGone)
}

// A connection whose listener notes no senders is read by nobody.
func TestConnWithoutCredentials(t *testing.T) {
	s := newServer(t)
	s.l.Close()
	l, err := net.Listen("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	s.l = l.(*net.UnixListener)
	defer l.Close()
	s.client()
	raw, p := s.peer()
	tell(t, raw, "say")
	_, err = Conn(raw, p).Read(make([]byte, 16))
	want(t, err, ErrForeignSender)
}

// Another uid's process connects and is told apart all the same.
func TestConnOtherUser(t *testing.T) {
	s := newServer(t)
	s.open()
	file := otherProgram(t, "tool", "")
	spawn(t, file, []string{"role:client", s.path}, func(x *exec.Cmd) { asUser(x) })
	raw, p := s.peer()
	tell(t, raw, "say")
	b := make([]byte, 16)
	if n, err := Conn(raw, p).Read(b); err != nil || string(b[:n]) != "hello" {
		t.Fatalf("read %q, %v", b[:n], err)
	}
	if err := p.Same(); err != nil {
		t.Error(err)
	}
	tell(t, raw, "exec "+file)
	if n, err := Conn(raw, p).Read(b); err != nil || string(b[:n]) != "hello" {
		t.Fatalf("read %q, %v", b[:n], err)
	}
	want(t, p.Same(), ErrReplaced)
}
