package sshexec_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"
)

// bed is a host, a pool and what Dial needs.
type bed struct {
	host   *sshtest.Host
	pool   *sshexec.Pool
	target sshexec.Target
	auth   sshexec.Auth
	rules  sshexec.Rules
}

const anyRules = `{"allowArgv":[["echo"],["echo","*"],["echo","*","*"],["cat"],["true"],["run"]],"allowShell":true,"shell":"posix"}`

// patient are bounds that only a test which waits for a host's silence makes shorter.
func patient(g sshexec.Grace) sshexec.Grace {
	for _, d := range []*time.Duration{&g.Pipes, &g.Signal, &g.Close} {
		if *d == 0 {
			*d = 2 * time.Minute
		}
	}
	return g
}

// silence is the product's own patience, for a host that says nothing.
var silence = sshexec.Grace{Pipes: 2 * time.Second, Signal: 250 * time.Millisecond, Close: 250 * time.Millisecond}

func newBed(t *testing.T, o sshtest.Options, p sshexec.PoolOptions) *bed {
	t.Helper()
	key, pub, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	o.User, o.AuthorizedKey = "deploy", pub
	p.Grace = patient(p.Grace)
	h, err := sshtest.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{host: h, pool: sshexec.NewPool(p), auth: sshexec.Auth{Kind: sshexec.AuthKey, Secret: key, Version: 1, Run: "run_1"}}
	t.Cleanup(func() { b.pool.Close(); h.Close() })
	b.target = sshexec.Target{
		Name: "web", Address: h.Addr(), User: "deploy", HostKeys: h.HostKeys(),
		AllowNetwork: []string{"127.0.0.0/8"}, Shell: "posix",
	}
	if b.rules, err = sshexec.ParseRules([]byte(anyRules)); err != nil {
		t.Fatal(err)
	}
	return b
}

func command(t testing.TB, in sshexec.Input) sshexec.Command {
	t.Helper()
	c, err := sshexec.ParseCommand(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *bed) dial(t testing.TB) *sshexec.Conn {
	t.Helper()
	c, err := b.pool.Dial(t.Context(), b.target, b.auth)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type outcome struct {
	sshexec.Result
	out, err string
}

// run does dial, run and put.
func (b *bed) run(ctx context.Context, t *testing.T, in sshexec.Input) outcome {
	t.Helper()
	c := b.dial(t)
	defer b.pool.Put(c)
	cmd := command(t, in)
	m, err := b.rules.Match(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var out, errw bytes.Buffer
	r := c.Run(ctx, cmd, m, &out, &errw)
	return outcome{r, out.String(), errw.String()}
}

func TestRunBuiltins(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"echo", "it's", "$(id)"}})
	if r.Outcome != sshexec.Confirmed || r.ExitStatus != 0 || r.out != "it's $(id)\n" || !r.Complete() || !r.Sent {
		t.Fatalf("echo: %+v", r)
	}
	stdin := bytes.Repeat([]byte("0123456789abcdef"), 5000) // more than one window would be 2 MiB; more than one chunk
	r = b.run(t.Context(), t, sshexec.Input{Argv: []string{"cat"}, Stdin: stdin})
	if r.Outcome != sshexec.Confirmed || r.out != string(stdin) || r.Truncated {
		t.Fatalf("cat: %+v", r.Result)
	}
	r = b.run(t.Context(), t, sshexec.Input{Shell: "nosuch"})
	if r.Outcome != sshexec.Confirmed || r.ExitStatus != 127 || !strings.Contains(r.err, "nosuch: not found") || r.out != "" {
		t.Fatalf("nosuch: %+v", r)
	}
	if n := b.host.Opened(); n != 1 {
		t.Errorf("connections: %d, want one that is reused", n)
	}
	want := []string{`'echo' 'it'\''s' '$(id)'`, "'cat'", "nosuch"}
	if got := b.host.Commands(); !slices.Equal(got, want) {
		t.Errorf("host was given %q", got)
	}
}

func TestRunRefusesAForeignMatch(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	m, err := b.rules.Match(command(t, sshexec.Input{Argv: []string{"echo", "a"}}))
	if err != nil {
		t.Fatal(err)
	}
	exact := b.target
	exact.Shell = "exact"
	for name, x := range map[string]struct {
		target sshexec.Target
		m      sshexec.Match
		argv   []string
	}{
		"zero match":      {b.target, sshexec.Match{}, []string{"echo", "a"}},
		"other command":   {b.target, m, []string{"echo", "b"}},
		"posix on exact ": {exact, m, []string{"echo", "a"}},
	} {
		c, err := b.pool.Dial(t.Context(), x.target, b.auth)
		if err != nil {
			t.Fatal(err)
		}
		r := c.Run(t.Context(), command(t, sshexec.Input{Argv: x.argv}), x.m, io.Discard, io.Discard)
		b.pool.Put(c)
		if r.Outcome != sshexec.Denied || r.Reason != "rule_mismatch" || r.Sent {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if got := b.host.Commands(); len(got) != 0 {
		t.Errorf("the host was given %q", got)
	}
}

func TestEndOfCommand(t *testing.T) {
	for name, x := range map[string]struct {
		o     sshtest.Options
		want  sshexec.Result
		holds bool
	}{
		"S09 no exit-status": {
			o:    sshtest.Options{Shell: say("half", sshtest.Exit{None: true})},
			want: sshexec.Result{Outcome: sshexec.SentUnconfirmed, Sent: true, Reason: "no_exit_status"},
		},
		"S10 exit-signal": {
			o:    sshtest.Options{Shell: say("half", sshtest.Exit{Signal: "SEGV"})},
			want: sshexec.Result{Outcome: sshexec.FailedRemote, Sent: true, Signal: "SEGV", Reason: "exit_signal", Ended: true},
		},
		"signal with a strange name": {
			o:    sshtest.Options{Shell: say("half", sshtest.Exit{Signal: "\x1b[31mX"})},
			want: sshexec.Result{Outcome: sshexec.FailedRemote, Sent: true, Signal: "unknown", Reason: "exit_signal", Ended: true},
		},
		"S06 pipes held": {
			o:    sshtest.Options{Shell: say("half", sshtest.Exit{Status: 3, Hold: true})},
			want: sshexec.Result{Outcome: sshexec.Confirmed, Sent: true, ExitStatus: 3, PipesHeld: true},
		},
		"exec refused": {
			o:    sshtest.Options{Fault: sshtest.RefusesExec},
			want: sshexec.Result{Outcome: sshexec.FailedRemote, Sent: true, Reason: "exec_refused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			grace := sshexec.Grace{}
			if x.want.PipesHeld {
				grace = silence
			}
			b := newBed(t, x.o, sshexec.PoolOptions{Grace: grace})
			began := time.Now()
			r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"run"}})
			r.Detail = ""
			if r.Result != x.want {
				t.Errorf("got %+v, want %+v", r.Result, x.want)
			}
			if x.o.Shell != nil && r.out != "half" {
				t.Errorf("out %q", r.out)
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("took %v", d)
			}
			if n := b.host.Opened(); n != 1 {
				t.Errorf("connections: %d", n)
			}
		})
	}
}

func say(text string, e sshtest.Exit) sshtest.Shell {
	return func(_ context.Context, x sshtest.Exec) sshtest.Exit {
		_, _ = io.WriteString(x.Stdout, text)
		return e
	}
}

// waits reports on started when the command runs, and ends with the channel.
func waits(started chan<- struct{}) sshtest.Shell {
	return func(ctx context.Context, _ sshtest.Exec) sshtest.Exit {
		started <- struct{}{}
		<-ctx.Done()
		return sshtest.Exit{None: true}
	}
}

func TestCancelDuringRun(t *testing.T) {
	for name, x := range map[string]struct {
		refuse bool
		shell  func(chan struct{}) sshtest.Shell
		grace  sshexec.Grace
		want   sshexec.Result
	}{
		"ended by our signal": {shell: func(c chan struct{}) sshtest.Shell {
			return func(ctx context.Context, _ sshtest.Exec) sshtest.Exit {
				c <- struct{}{}
				<-ctx.Done()
				return sshtest.Exit{}
			}
		}, want: sshexec.Result{Outcome: sshexec.FailedRemote, Signal: "TERM", Sent: true, Reason: "exit_signal", Ended: true}},
		"signal refused": {refuse: true, shell: func(c chan struct{}) sshtest.Shell { return waits(c) },
			want: sshexec.Result{Outcome: sshexec.SentUnconfirmed, Sent: true, Reason: "cancelled"}},
		"no word": {shell: func(c chan struct{}) sshtest.Shell { return waits(c) }, grace: silence,
			want: sshexec.Result{Outcome: sshexec.SentUnconfirmed, Sent: true, Reason: "cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{}, 1)
			b := newBed(t, sshtest.Options{Shell: x.shell(started), RefuseSignals: x.refuse}, sshexec.PoolOptions{Grace: x.grace})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-started; cancel() }()
			began := time.Now()
			r := b.run(ctx, t, sshexec.Input{Argv: []string{"run"}})
			if d := time.Since(began); d > time.Minute {
				t.Errorf("took %v", d)
			}
			if x.refuse && !strings.Contains(r.Detail, "refused the signal") {
				t.Errorf("detail %q", r.Detail)
			}
			r.Detail = ""
			if r.Result != x.want {
				t.Errorf("got %+v, want %+v", r.Result, x.want)
			}
			if s := b.host.Signals(); len(s) == 0 || s[0] != "TERM" {
				t.Errorf("signals %q", s)
			}
		})
	}
}

func TestNoWriteAfterCancel(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	c := b.dial(t)
	cancel()
	cmd := command(t, sshexec.Input{Argv: []string{"true"}})
	m, _ := b.rules.Match(cmd)
	r := c.Run(ctx, cmd, m, nil, nil)
	b.pool.Put(c)
	if r.Outcome != sshexec.NotSent || r.Sent {
		t.Fatalf("%+v", r)
	}
	// The place is still good for another: and the host was asked for that one alone.
	if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"echo", "x"}}); r.Outcome != sshexec.Confirmed {
		t.Fatalf("%+v", r)
	}
	if got := b.host.Commands(); !slices.Equal(got, []string{"'echo' 'x'"}) {
		t.Errorf("the host was given %q", got)
	}
	if _, err := b.pool.Dial(ctx, b.target, b.auth); !errors.Is(err, context.Canceled) {
		t.Errorf("dial after the end: %v", err)
	}
}

// A host that never answers the request loses the connection: the request could
// still wait behind a key exchange.
func TestCancelBeforeTheAnswer(t *testing.T) {
	b := newBed(t, sshtest.Options{Fault: sshtest.StallExec}, sshexec.PoolOptions{Grace: silence})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for end := time.Now().Add(2 * time.Minute); len(b.host.Commands()) == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	r := b.run(ctx, t, sshexec.Input{Argv: []string{"true"}})
	if r.Outcome != sshexec.SentUnconfirmed || !r.Sent || r.Reason != "cancelled" {
		t.Fatalf("%+v", r)
	}
	waitFor(t, "the connection's end", func() bool { return b.host.Open() == 0 })
}

func TestConnectionCut(t *testing.T) {
	started := make(chan struct{}, 1)
	b := newBed(t, sshtest.Options{Shell: waits(started)}, sshexec.PoolOptions{})
	go func() { <-started; b.host.DropConns() }()
	r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"run"}})
	if r.Outcome != sshexec.SentUnconfirmed || r.Reason != "connection_lost" || r.Complete() {
		t.Fatalf("%+v", r)
	}
}

func TestOutputOfBothStreams(t *testing.T) {
	b := newBed(t, sshtest.Options{Shell: func(_ context.Context, x sshtest.Exec) sshtest.Exit {
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		var wg sync.WaitGroup
		for _, w := range []io.Writer{x.Stdout, x.Stderr} {
			wg.Go(func() {
				for range 100 { // 6.4 MiB each, three windows
					_, _ = w.Write(chunk)
				}
			})
		}
		wg.Wait()
		return sshtest.Exit{}
	}}, sshexec.PoolOptions{})
	r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"run"}})
	if r.Outcome != sshexec.Confirmed || r.Truncated || !r.Complete() || len(r.out) != 100*64<<10 || len(r.err) != 100*64<<10 {
		t.Fatalf("%+v with %d and %d bytes", r.Result, len(r.out), len(r.err))
	}
}

// S11: a command that never ends its output is read up to the limit, then ended.
func TestEndlessOutput(t *testing.T) {
	b := newBed(t, sshtest.Options{Shell: func(ctx context.Context, x sshtest.Exec) sshtest.Exit {
		chunk := make([]byte, 32<<10)
		for ctx.Err() == nil {
			if _, err := x.Stdout.Write(chunk); err != nil {
				break
			}
		}
		return sshtest.Exit{None: true}
	}}, sshexec.PoolOptions{})
	r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"run"}})
	if r.Outcome != sshexec.SentUnconfirmed || r.Reason != "output_limit" || len(r.out) != sshexec.OutputLimit || !r.Truncated {
		t.Fatalf("%+v with %d bytes", r.Result, len(r.out))
	}
}

// The command's own time counts from Run.
func TestCommandTimeout(t *testing.T) {
	started := make(chan struct{}, 1)
	b := newBed(t, sshtest.Options{Shell: waits(started)}, sshexec.PoolOptions{})
	r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"run"}, TimeoutSeconds: 1})
	if r.Reason != "deadline" || r.Outcome != sshexec.SentUnconfirmed && r.Outcome != sshexec.NotSent {
		t.Fatalf("%+v", r)
	}
}

// A command that reads none of a large stdin does not hold Run up.
func TestStdinUnread(t *testing.T) {
	b := newBed(t, sshtest.Options{Shell: func(context.Context, sshtest.Exec) sshtest.Exit { return sshtest.Exit{Status: 7} }}, sshexec.PoolOptions{})
	r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"run"}, Stdin: make([]byte, sshexec.MaxStdin)})
	if r.Outcome != sshexec.Confirmed || r.ExitStatus != 7 {
		t.Fatalf("%+v", r.Result)
	}
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}
