package client

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A door whose queue is full is waited for: whoever fills it does not shut others out.
func TestQueueFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	var full error
	for range 8 {
		var c net.Conn
		if c, full = net.Dial("unix", path); full != nil {
			break
		}
		t.Cleanup(func() { c.Close() })
	}
	if !errors.Is(full, unix.EAGAIN) {
		t.Fatalf("the queue is not full: %v", full)
	}

	ended, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if c, err := connect(ended, path); err == nil {
		c.Close()
		t.Fatal("a connection found a place in a full queue")
	}
	got := make(chan error, 1)
	go func() {
		c, err := connect(t.Context(), path)
		if err == nil {
			c.Close()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	one, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(one) })
	if err := <-got; err != nil {
		t.Fatalf("with a place free: %v", err)
	}
}
