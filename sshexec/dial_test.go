package sshexec_test

import (
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

func dialReason(err error) string {
	var d *sshexec.DialError
	if !errors.As(err, &d) {
		return "no DialError"
	}
	return d.Reason
}

// S01: the pinned type is asked for, whatever the host would offer first.
func TestPinnedTypeOnly(t *testing.T) {
	b := newBed(t, sshtest.Options{KeyTypes: []string{"ed25519", "ecdsa", "rsa"}}, sshexec.PoolOptions{})
	for i, k := range b.host.HostKeys() {
		b.target.HostKeys, b.auth.Version = []string{k}, uint64(i)
		if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
			t.Errorf("%s: %+v", k[:12], r)
		}
	}
}

// S02: no authentication is tried on a host that shows another key.
func TestHostKeyChanged(t *testing.T) {
	b := newBed(t, sshtest.Options{KeyTypes: []string{"ed25519"}}, sshexec.PoolOptions{})
	want, err := sshexec.Fingerprint(b.target.HostKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := b.host.ChangeKeys(); err != nil {
		t.Fatal(err)
	}
	got, err := sshexec.Fingerprint(b.host.HostKeys()[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.pool.Dial(t.Context(), b.target, b.auth)
	var h *sshexec.HostKeyError
	if !errors.As(err, &h) || dialReason(err) != "host_key_changed" {
		t.Fatalf("dial: %v", err)
	}
	if h.Target != "web" || h.Want != want || h.Got != got {
		t.Errorf("%+v, want %s, got %s", h, want, got)
	}

	rsa := newBed(t, sshtest.Options{KeyTypes: []string{"rsa"}}, sshexec.PoolOptions{})
	rsa.target.HostKeys = b.target.HostKeys // a type that this host does not have
	_, err = rsa.pool.Dial(t.Context(), rsa.target, rsa.auth)
	if !errors.As(err, &h) || dialReason(err) != "host_key_changed" || h.Got != "" {
		t.Errorf("type gone: %v", err)
	}
	if n := len(b.host.Auths()) + len(rsa.host.Auths()); n != 0 {
		t.Errorf("%d authentications were tried", n)
	}
}

// S04: one deadline over all of it; goleak finds what stays.
func TestStalls(t *testing.T) {
	for name, f := range map[string]sshtest.Fault{"silent": sshtest.Silent, "kex": sshtest.StallKex, "auth": sshtest.StallAuth} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, sshtest.Options{Fault: f}, sshexec.PoolOptions{DialTimeout: 150 * time.Millisecond})
			began := time.Now()
			_, err := b.pool.Dial(t.Context(), b.target, b.auth)
			if dialReason(err) != "deadline" || time.Since(began) > time.Minute {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
			waitFor(t, "the connection's end", func() bool { return b.host.Open() == 0 })

			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for end := time.Now().Add(2 * time.Minute); b.host.Opened() < 2 && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			_, err = b.pool.Dial(ctx, b.target, b.auth)
			if r := dialReason(err); r != "dial_failed" && r != "deadline" {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
}

// S14 and no forwarding: every channel of the host's is refused.
func TestHostOpensChannels(t *testing.T) {
	b := newBed(t, sshtest.Options{Fault: sshtest.OpensChannel}, sshexec.PoolOptions{})
	if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"echo", "x"}}); r.out != "x\n" {
		t.Fatalf("%+v", r)
	}
	waitFor(t, "four refusals", func() bool { return b.host.Rejected() == 4 })
}

func TestAccountRefused(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	b.target.User = "root"
	_, err := b.pool.Dial(t.Context(), b.target, b.auth)
	if dialReason(err) != "dial_failed" || !strings.Contains(err.Error(), "refused the account or its key") {
		t.Fatal(err)
	}
	if a := b.host.Auths(); len(a) != 1 || a[0].OK || a[0].User != "root" {
		t.Errorf("%+v", a)
	}
	b.auth.Secret = []byte("-----BEGIN RUBBISH " + "s3cr3t")
	_, err = b.pool.Dial(t.Context(), b.target, b.auth)
	if dialReason(err) != "dial_failed" || strings.Contains(err.Error(), "s3cr3t") {
		t.Error(err)
	}
}

func TestNoSession(t *testing.T) {
	b := newBed(t, sshtest.Options{Fault: sshtest.NoSession}, sshexec.PoolOptions{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := b.pool.Dial(t.Context(), b.target, b.auth); dialReason(err) != "dial_failed" {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	waitFor(t, "the connections' end", func() bool { return b.host.Open() == 0 })
}

func TestAddressRefused(t *testing.T) {
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
	b.target.AllowNetwork = nil
	_, err := b.pool.Dial(t.Context(), b.target, b.auth)
	if dialReason(err) != "address_refused" || b.host.Opened() != 0 {
		t.Fatalf("%v, %d connections", err, b.host.Opened())
	}
	if _, err := sshexec.Enrol(t.Context(), sshexec.Target{Address: b.host.Addr(), AllowNetwork: []string{"10.0.0.0/8"}}, sshexec.Auth{}); dialReason(err) != "address_refused" {
		t.Errorf("enrol: %v", err)
	}
}

// A name is resolved to all its addresses; only permitted ones are dialled.
func TestResolve(t *testing.T) {
	answer := []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("::ffff:127.0.0.1")}
	b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "web.example" {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return answer, nil
	}})
	_, port, _ := net.SplitHostPort(b.host.Addr())
	b.target.Address = "Web.Example.:" + port
	if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
		t.Errorf("%+v", r)
	}
	b.target.Address, b.auth.Run = "gone.example:"+port, "run_2"
	if _, err := b.pool.Dial(t.Context(), b.target, b.auth); dialReason(err) != "dial_failed" {
		t.Errorf("unknown name: %v", err)
	}
	answer = answer[:2]
	b.target.Address = "web.example:" + port
	if _, err := b.pool.Dial(t.Context(), b.target, b.auth); dialReason(err) != "address_refused" {
		t.Errorf("no permitted address: %v", err)
	}
}

// overdue ends as if by its deadline, but when the test says so.
type overdue struct{ context.Context }

func (o overdue) Err() error {
	if o.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// Value hides the inner context, else a derived one asks that for its error.
func (overdue) Value(any) any { return nil }

// A waiter has more time than the one who opens.
func TestOpenerOutOfTime(t *testing.T) {
	b := newBed(t, sshtest.Options{Fault: sshtest.StallAuth}, sshexec.PoolOptions{})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.pool.Dial(overdue{ctx}, b.target, b.auth); dialReason(err) != "deadline" {
			t.Errorf("opener: %v", err)
		}
	})
	waitFor(t, "the opener", func() bool { return len(b.host.Auths()) == 1 })
	wg.Go(func() {
		if _, err := b.pool.Dial(t.Context(), b.target, b.auth); dialReason(err) != "dial_failed" {
			t.Errorf("waiter: %v", err)
		}
	})
	waitFor(t, "the waiter", func() bool { return sshexec.Leases(b.pool) == 2 })
	end()
	waitFor(t, "the waiter's own attempt", func() bool { return len(b.host.Auths()) == 2 })
	b.pool.Close()
	wg.Wait()
}
