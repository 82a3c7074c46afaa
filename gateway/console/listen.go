package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Listener holds one port on both loopback addresses. `localhost` means 127.0.0.1 to one browser and ::1 to the next: with
// one of them in another user's hands a page of his would be what the operator reads, so it is both or neither.
type Listener struct {
	port int
	on   []net.Listener
}

// Loopback addresses, in the order they are taken.
const (
	loopback4 = "127.0.0.1"
	loopback6 = "::1"
)

// portTries is how many random ports are tried before the console gives up.
const portTries = 8

// ErrTaken says that somebody holds the other loopback address.
var ErrTaken = errors.New("another process holds the other loopback address")

// Listen takes a random port on 127.0.0.1 and ::1. Where the kernel has no ::1 nobody else can hold it, and 127.0.0.1 alone
// is served.
func Listen(ctx context.Context) (*Listener, error) { return listen(ctx, 0) }

// listen takes port (0: a random one).
func listen(ctx context.Context, port int) (l *Listener, err error) {
	tries := portTries
	if port != 0 {
		tries = 1
	}
	for range tries {
		if l, err = both(ctx, port); err == nil || !errors.Is(err, ErrTaken) {
			return l, err
		}
	}
	return nil, err
}

func both(ctx context.Context, port int) (*Listener, error) {
	var c net.ListenConfig
	four, err := c.Listen(ctx, "tcp4", net.JoinHostPort(loopback4, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("open console: %w", err)
	}
	l := &Listener{four.Addr().(*net.TCPAddr).Port, []net.Listener{four}}
	six, err := c.Listen(ctx, "tcp6", net.JoinHostPort(loopback6, strconv.Itoa(l.port)))
	switch {
	case err == nil:
		l.on = append(l.on, six)
		return l, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT), errors.Is(err, syscall.EPROTONOSUPPORT):
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		err = ErrTaken
	}
	l.Close()
	return nil, fmt.Errorf("open console: port %d of 127.0.0.1 is ours and of ::1 is not: %w", l.port, err)
}

// Host is the only Host header that is answered.
func (l *Listener) Host() string { return "localhost:" + strconv.Itoa(l.port) }

// URL is where the console lies, without a token.
func (l *Listener) URL() string { return "http://" + l.Host() + "/" }

// Close lets go of both addresses.
func (l *Listener) Close() error {
	var err error
	for _, x := range l.on {
		err = errors.Join(err, x.Close())
	}
	return err
}
