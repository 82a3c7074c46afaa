package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"sallyport/gateway"
	"sallyport/gateway/home"
	"sallyport/sshexec/sshtest"
)

// stage is what runs in this process: the gateway, and the two places it reaches. Its methods are not concurrent.
type stage struct {
	home    home.Home
	said    said // the gateway's diagnostics
	service *service
	host    *sshtest.Host
	stop    context.CancelFunc
	served  chan error // the gateway's end; nil: not started
	ended   chan struct{}
}

// workFactor is scrypt's log2 N. A vault that is thrown away in a minute needs no second per guess.
const workFactor = 12

// startGateway opens a gateway in dir with both its doors. It ends by close, not by ctx: what is open then is still
// recorded in order.
func (s *stage) startGateway(ctx context.Context, dir string, o Options) error {
	h, err := home.Find(func(name string) string {
		return map[string]string{home.EnvHome: dir}[name]
	})
	if errors.Is(err, home.ErrPathTooLong) {
		return fmt.Errorf("%w; set TMPDIR to a folder with a shorter path", err)
	}
	if err != nil {
		return err
	}
	s.home = h
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	log := slog.New(slog.NewTextHandler(&s.said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	web := gateway.ConsoleOff
	if o.Stay {
		web = gateway.ConsoleWanted
	}
	g, err := gateway.New(ctx, gateway.Config{Home: h, Version: o.Version, WorkFactor: workFactor, Ours: o.Ours, Console: web, Log: log})
	if err != nil {
		return err
	}
	agents, operators, err := o.Listen(h)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	s.served, s.ended = make(chan error, 1), make(chan struct{})
	go func() {
		s.served <- g.Serve(ctx, agents, operators)
		close(s.ended)
	}()
	return nil
}

// segments is the folder of the log's segments.
func (s *stage) segments() string { return filepath.Join(s.home.Log(), "audit") }

// close ends everything: the gateway first, which records its own end.
func (s *stage) close() error {
	var err error
	if s.stop != nil {
		s.stop()
	}
	if s.served != nil {
		if err = <-s.served; err != nil {
			err = fmt.Errorf("stop gateway: %w", err)
		}
	}
	if s.service != nil {
		s.service.close()
	}
	if s.host != nil {
		s.host.Close()
	}
	return err
}

// said collects what is written by several at once.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
