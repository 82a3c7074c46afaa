package sshexec_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"
)

func TestPoolKeysAndTargets(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	one := func(tg sshexec.Target, a sshexec.Auth) {
		t.Helper()
		c, err := b.pool.Dial(t.Context(), tg, a)
		if err != nil {
			t.Fatal(err)
		}
		b.pool.Put(c)
		b.pool.Put(c) // does nothing
	}
	a := b.auth
	one(b.target, a)
	one(b.target, a)
	if n := b.host.Opened(); n != 1 {
		t.Fatalf("connections: %d", n)
	}
	a.Version = 2
	one(b.target, a)
	a.Version, a.Run = 1, "run_2"
	one(b.target, a)
	if n := b.host.Opened(); n != 3 {
		t.Fatalf("connections: %d, want one for each key", n)
	}
	// A target that was changed under its name is never served by the old connection.
	tg := b.target
	tg.AllowNetwork = []string{"127.0.0.1/32"}
	one(tg, b.auth)
	if n := b.host.Opened(); n != 4 {
		t.Fatalf("connections: %d, want a new one for the changed target", n)
	}
}

// S13: revoke and rotate close pooled connections before Drop returns.
func TestDrop(t *testing.T) {
	started := make(chan struct{}, 1)
	b := newBed(t, sshtest.Options{Shell: waits(started), RefuseSignals: true}, sshexec.PoolOptions{Grace: silence})
	var wg sync.WaitGroup
	wg.Go(func() {
		if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"run"}}); r.Outcome != sshexec.SentUnconfirmed || r.Reason != "connection_lost" {
			t.Errorf("in flight: %+v", r.Result)
		}
	})
	<-started
	other := b.auth
	other.Run = "run_2"
	kept, err := b.pool.Dial(t.Context(), b.target, other)
	if err != nil {
		t.Fatal(err)
	}
	held := b.dial(t) // a second place on run_1's connection
	began := time.Now()
	b.pool.Drop(func(k sshexec.PoolKey) bool { return k.Run == "run_1" })
	if d := time.Since(began); d > time.Minute { // nothing here waits for anybody
		t.Errorf("took %v", d)
	}
	wg.Wait()
	m, cmd := b.match(t, "true")
	if r := held.Run(t.Context(), cmd, m, nil, nil); r.Outcome != sshexec.NotSent {
		t.Errorf("on a dropped connection: %+v", r)
	}
	b.pool.Put(held)
	waitFor(t, "one connection less", func() bool { return b.host.Open() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if r := kept.Run(ctx, cmd, m, nil, nil); !r.Sent {
		t.Errorf("other run's connection: %+v", r)
	}
	b.pool.Put(kept)
}

func (b *bed) match(t testing.TB, argv ...string) (sshexec.Match, sshexec.Command) {
	t.Helper()
	cmd := command(t, sshexec.Input{Argv: argv})
	m, err := b.rules.Match(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return m, cmd
}

// A handshake under way is dropped too, and those who wait for it do not start another.
func TestDropDuringDial(t *testing.T) {
	b := newBed(t, sshtest.Options{Fault: sshtest.StallAuth}, sshexec.PoolOptions{})
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		wg.Go(func() {
			_, err := b.pool.Dial(t.Context(), b.target, b.auth)
			errs <- err
		})
	}
	waitFor(t, "the authentication", func() bool { return len(b.host.Auths()) > 0 && sshexec.Leases(b.pool) == 4 })
	b.pool.Drop(func(k sshexec.PoolKey) bool { return k.Run == b.auth.Run })
	wg.Wait()
	for range 4 {
		if r := dialReason(<-errs); r != "dial_failed" {
			t.Errorf("dial: %s", r)
		}
	}
	if n := b.host.Opened(); n != 1 {
		t.Errorf("connections: %d", n)
	}
	b.pool.Close()
	if _, err := b.pool.Dial(t.Context(), b.target, b.auth); err == nil {
		t.Error("a closed pool dials")
	}
}

// The one who opens goes away: another takes over.
func TestOpenerCancelled(t *testing.T) {
	block, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
		first := false
		once.Do(func() { first = true })
		if first {
			close(block)
			<-ctx.Done()
			<-release
			return nil, ctx.Err()
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	_, port, _ := net.SplitHostPort(b.host.Addr())
	b.target.Address = "web.example:" + port
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.pool.Dial(ctx, b.target, b.auth); !errors.Is(err, context.Canceled) {
			t.Errorf("opener: %v", err)
		}
	})
	<-block
	wg.Go(func() {
		if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
			t.Errorf("waiter: %+v", r)
		}
	})
	cancel()
	close(release)
	wg.Wait()
}

func TestManyAtOnce(t *testing.T) {
	for name, f := range map[string]sshtest.Fault{"eight on each": sshtest.None, "host allows one": sshtest.OneSession} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, sshtest.Options{Fault: f}, sshexec.PoolOptions{})
			var wg sync.WaitGroup
			for range 24 {
				wg.Go(func() {
					r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"cat"}, Stdin: bytes.Repeat([]byte("ab"), 1000)})
					if r.Outcome != sshexec.Confirmed || len(r.out) != 2000 {
						t.Errorf("%+v", r.Result)
					}
				})
			}
			wg.Wait()
			if n := len(b.host.Commands()); n != 24 {
				t.Errorf("the host ran %d commands", n)
			}
			if n := b.host.Opened(); f == sshtest.None && n > 24/8+1 {
				t.Errorf("connections: %d", n)
			}
		})
	}
}

// A connection that died while pooled never reaches Run.
func TestDeadPooled(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	for i := range 20 {
		if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
			t.Fatalf("%d: %+v", i, r)
		}
		b.host.DropConns()
	}
}

func TestIdleAndLife(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{Idle: 20 * time.Millisecond})
	b.pool.Put(b.dial(t))
	waitFor(t, "the idle connection's end", func() bool { return b.host.Opened() == 1 && b.host.Open() == 0 })
	held := b.dial(t)
	time.Sleep(40 * time.Millisecond) // longer than Idle: a place in use is not idle
	m, cmd := b.match(t, "echo", "x")
	if r := held.Run(t.Context(), cmd, m, nil, nil); r.Outcome != sshexec.Confirmed {
		t.Errorf("%+v", r)
	}
	b.pool.Put(held)

	b = newBed(t, sshtest.Options{}, sshexec.PoolOptions{Life: time.Nanosecond})
	b.pool.Put(b.dial(t))
	b.pool.Put(b.dial(t))
	if n := b.host.Opened(); n != 2 {
		t.Errorf("connections: %d, want a new one past the life", n)
	}
}

// stuck is a proxy that stops forwarding.
func stuck(t *testing.T, to string) (addr string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var frozen bool
	var conns []net.Conn
	var wg sync.WaitGroup
	pipe := func(a, b net.Conn) {
		buf := make([]byte, 4096)
		for {
			n, err := a.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			f := frozen
			mu.Unlock()
			if !f {
				_, _ = b.Write(buf[:n])
			}
		}
	}
	wg.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				_ = a.Close()
				return
			}
			mu.Lock()
			conns = append(conns, a, b)
			mu.Unlock()
			wg.Go(func() { pipe(a, b) })
			wg.Go(func() { pipe(b, a) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String(), func() { mu.Lock(); frozen = true; mu.Unlock() }
}

func TestKeepAlive(t *testing.T) {
	started := make(chan struct{}, 1)
	b := newBed(t, sshtest.Options{Shell: waits(started)}, sshexec.PoolOptions{KeepAlive: time.Second})
	var freeze func()
	b.target.Address, freeze = stuck(t, b.host.Addr())
	go func() { <-started; freeze() }()
	r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"run"}})
	if r.Outcome != sshexec.SentUnconfirmed || r.Reason != "connection_lost" {
		t.Fatalf("%+v", r)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// The network freezes in mid command and the caller gives up: Run still ends.
func TestCancelOnAFrozenNetwork(t *testing.T) {
	b := newBed(t, sshtest.Options{Shell: func(ctx context.Context, e sshtest.Exec) sshtest.Exit {
		_, _ = e.Stdout.Write([]byte("up"))
		<-ctx.Done()
		return sshtest.Exit{None: true}
	}}, sshexec.PoolOptions{Grace: silence})
	var freeze func()
	b.target.Address, freeze = stuck(t, b.host.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	c := b.dial(t)
	defer b.pool.Put(c)
	cmd := command(t, sshexec.Input{Argv: []string{"run"}, Stdin: make([]byte, 8<<20)})
	m, _ := b.rules.Match(cmd)
	var began time.Time
	r := c.Run(ctx, cmd, m, writerFunc(func(p []byte) (int, error) {
		began = time.Now()
		freeze()
		cancel()
		return len(p), nil
	}), nil)
	if r.Outcome != sshexec.SentUnconfirmed || r.Reason != "cancelled" || !strings.Contains(r.Detail, "did not answer the signal") {
		t.Errorf("%+v", r)
	}
	if d := time.Since(began); d > time.Minute {
		t.Errorf("took %v", d)
	}
}

func TestEnrol(t *testing.T) {
	b := newBed(t, sshtest.Options{KeyTypes: []string{"rsa", "ecdsa", "ed25519"}}, sshexec.PoolOptions{})
	keys, err := sshexec.Enrol(t.Context(), sshexec.Target{Address: b.host.Addr(), AllowNetwork: []string{"127.0.0.0/8"}}, sshexec.Auth{})
	if err != nil {
		t.Fatal(err)
	}
	have := b.host.HostKeys()
	if len(keys) != 3 || keys[0] != have[2] || keys[1] != have[1] || keys[2] != have[0] {
		t.Errorf("keys %q\nhost %q", keys, have)
	}
	if n := len(b.host.Auths()); n != 0 {
		t.Errorf("%d authentications were tried", n)
	}
	b.target.HostKeys = keys
	if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
		t.Errorf("%+v", r)
	}
	silent := newBed(t, sshtest.Options{Fault: sshtest.Silent}, sshexec.PoolOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := sshexec.Enrol(ctx, sshexec.Target{Address: silent.host.Addr(), AllowNetwork: []string{"127.0.0.0/8"}}, sshexec.Auth{}); dialReason(err) != "deadline" {
		t.Errorf("silent: %v", err)
	}
	var bad *sshexec.RequestError
	if _, err := sshexec.Enrol(t.Context(), sshexec.Target{Address: "host", AllowNetwork: nil}, sshexec.Auth{}); !errors.As(err, &bad) {
		t.Errorf("no port: %v", err)
	}
}

func TestProveShell(t *testing.T) {
	sh := sshtest.RealShell("/bin/sh", t.TempDir())
	noisy := func(ctx context.Context, e sshtest.Exec) sshtest.Exit {
		_, _ = e.Stdout.Write([]byte("Welcome!\n")) // S18: a profile that prints
		return sh(ctx, e)
	}
	escapes := func(ctx context.Context, e sshtest.Exec) sshtest.Exit { // as fish reads quotes
		e.Line = strings.ReplaceAll(e.Line, `\\`, `\`)
		return sh(ctx, e)
	}
	for name, x := range map[string]struct {
		shell sshtest.Shell
		want  string
	}{
		"built-in commands": {sshtest.Builtins, "posix"},
		"real sh":           {sh, "posix"},
		"noisy profile":     {noisy, "posix"},
		"other quoting":     {escapes, "exact"},
		"forced command":    {say("PONG\n", sshtest.Exit{}), "exact"},
		"signal":            {say("", sshtest.Exit{Signal: "ABRT"}), "exact"},
		"no word":           {say("", sshtest.Exit{None: true}), ""},
	} {
		b := newBed(t, sshtest.Options{Shell: x.shell}, sshexec.PoolOptions{})
		c := b.dial(t)
		got, err := c.ProveShell(t.Context())
		b.pool.Put(c)
		if got != x.want || (err != nil) != (x.want == "") {
			t.Errorf("%s: %q %v, want %q", name, got, err, x.want)
		}
	}
}
