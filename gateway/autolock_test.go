package gateway

import (
	"context"
	"crypto"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/vault"
)

// hands are clocks that the test sets.
type hands struct {
	boot, awake atomic.Int64
	tick        chan time.Time
}

// watchClocks runs the watch on clocks of the test's own until the test ends.
func (r *rig) watchClocks() *hands {
	h := &hands{tick: make(chan time.Time)}
	h.boot.Store(int64(boot()))
	h.awake.Store(int64(boot()))
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.autoLockEvery(ctx, clocks{func() time.Duration { return time.Duration(h.boot.Load()) }, func() time.Duration { return time.Duration(h.awake.Load()) }, h.tick})
	}()
	r.t.Cleanup(func() { cancel(); <-done })
	return h
}

// pass lets time go by: so much, of which so much asleep. The second tick returns only after the first was dealt with.
func (h *hands) pass(all, asleep time.Duration) {
	h.boot.Add(int64(all))
	h.awake.Add(int64(all - asleep))
	h.tick <- time.Time{}
	h.tick <- time.Time{}
}

// The vault locks eight hours after the last proof, or as the setting says, and after a sleep that nobody told of.
func TestAutoLock(t *testing.T) {
	r := newRig(t, "")
	r.init()
	h := r.watchClocks()
	is := func(when string, want vault.State) {
		t.Helper()
		if got := r.vault.State(); got != want {
			t.Fatalf("%s: %s, want %s", when, got, want)
		}
	}
	h.pass(autoLockDefault-time.Minute, 0)
	is("before the time", vault.Ready)
	h.pass(2*time.Minute, 0)
	is("after it", vault.Locked)
	h.boot.Store(int64(boot()))
	h.awake.Store(int64(boot()))
	h.pass(0, 0)
	r.unlock()
	h.pass(time.Minute, time.Second)
	is("a scheduler's pause", vault.Ready)
	h.pass(time.Minute, time.Minute)
	is("after a sleep", vault.Locked)

	for _, c := range []struct {
		setting string
		after   time.Duration
		locks   bool
	}{{"90m", 91 * time.Minute, true}, {"90m", 89 * time.Minute, false}, {"off", 1000 * time.Hour, false}} {
		r.unlock()
		if _, code := r.apply("[settings]\nauto_lock = \""+c.setting+"\"\n", false); code != "" {
			t.Fatal(code)
		}
		h.boot.Store(int64(boot()))
		h.awake.Store(int64(boot()))
		h.pass(0, 0)
		h.pass(c.after, 0)
		if got := r.vault.State() == vault.Locked; got != c.locks {
			t.Errorf("%s: locked %v after %v", c.setting, got, c.after)
		}
	}
	r.stop()
	reasons := map[string]int{}
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if l, ok := e.(event.VaultLocked); ok {
			reasons[l.Operator+" "+l.Reason]++
		}
	}
	if reasons["automatic auto_lock"] != 2 || reasons["automatic suspend"] != 1 {
		t.Errorf("told: %v", reasons)
	}
}

func TestAutoLockSetting(t *testing.T) {
	for setting, want := range map[string]time.Duration{"": 8 * time.Hour, "8h": 8 * time.Hour, "90m": 90 * time.Minute, "1s": time.Second, "off": 0} {
		if got, err := autoLock(setting); got != want || err != nil {
			t.Errorf("%q: %v, %v", setting, got, err)
		}
	}
	for _, setting := range []string{"8", "never", "-1h", "0", "999ms", "721h", "OFF", " 8h"} {
		if got, err := autoLock(setting); err == nil {
			t.Errorf("%q was taken as %v", setting, got)
		}
	}
}

// A lock that comes while the door is taken waits for it, and ends with the gateway: a stop waits for its tasks.
func TestLockSoonEndsWithTheGateway(t *testing.T) {
	r := newRig(t, "")
	r.init()
	r.Gateway.door.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.lockSoon(ctx, "suspend") }()
	cancel()
	<-done
	r.Gateway.door.Unlock()
	if got := r.vault.State(); got != vault.Ready {
		t.Errorf("vault is %s", got)
	}
	if err := r.Lock(t.Context(), "hangup"); err != nil || r.vault.State() != vault.Locked {
		t.Errorf("%v, vault is %s", err, r.vault.State())
	}
	if err := r.Lock(t.Context(), "hangup"); err != nil {
		t.Errorf("again: %v", err)
	}
}

// A lock that can write nothing, neither row nor record, closes the vault all the same, and says that it is not recorded.
func TestLockUnrecorded(t *testing.T) {
	for name, spoil := range map[string]func(g *Gateway) error{
		"no database": func(g *Gateway) error { return g.db.Close() },
		"no log":      func(g *Gateway) error { return g.log.w.Load().Close() },
		"neither":     func(g *Gateway) error { return errors.Join(g.db.Close(), g.log.w.Load().Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			os.Chmod(dir, 0o700)
			g, err := New(t.Context(), testConfig(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close() // what it could not close again is no matter here
			if _, err := g.initialize(t.Context(), []byte(testPassphrase)); err != nil {
				t.Fatal(err)
			}
			signer, err := g.identity(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(g); err != nil {
				t.Fatal(err)
			}
			_, err = g.opLock(opRequest{ctx: t.Context(), who: "unproved"})
			if err == nil || refusalOf(err).Code != "not_recorded" {
				t.Errorf("lock: %v", err)
			}
			if g.vault.State() != vault.Locked || g.status().Vault != "locked" {
				t.Errorf("vault is %s, told as %s", g.vault.State(), g.status().Vault)
			}
			if _, err := signer.Sign(nil, []byte("x"), crypto.Hash(0)); !errors.Is(err, vault.ErrLocked) {
				t.Errorf("a key of the locked vault still signs: %v", err)
			}
		})
	}
}
