package gateway

import (
	"context"
	"fmt"
	"time"

	"sallyport/gateway/api"
	"sallyport/vault"
)

// The vault locks itself: after a time without an operator's proof, before the machine sleeps where the system tells, and
// after it slept where it did not.

const (
	autoLockDefault = 8 * time.Hour
	autoLockLeast   = time.Second
	autoLockMost    = 30 * 24 * time.Hour
	autoLockLook    = 2 * time.Second // how often the clocks are read
	sleptAtLeast    = 2 * time.Second // the clocks part by scheduling alone, but not this far
	lockRetry       = 20 * time.Millisecond
)

// autoLock is the setting as a time; 0: never. Empty is the default.
func autoLock(setting string) (time.Duration, error) {
	switch setting {
	case "":
		return autoLockDefault, nil
	case "off":
		return 0, nil
	}
	d, err := time.ParseDuration(setting)
	if err != nil || d < autoLockLeast || d > autoLockMost {
		return 0, fmt.Errorf("a time such as 8h or 90m, from %v to 720h, or off", autoLockLeast)
	}
	return d, nil
}

// clocks are what the watch reads: one that goes on while the machine sleeps, and one that doesn't.
type clocks struct {
	boot, awake func() time.Duration
	tick        <-chan time.Time
}

// slept is how long the machine slept since it started.
func (c clocks) slept() time.Duration { return c.boot() - c.awake() }

// autoLockEvery looks at the clocks until ctx ends.
func (g *Gateway) autoLockEvery(ctx context.Context, c clocks) {
	slept := c.slept()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.tick:
		}
		was := slept
		slept = c.slept()
		switch {
		case slept-was >= sleptAtLeast:
			g.lockSoon(ctx, "suspend")
		case g.unattended(c.boot()):
			g.lockSoon(ctx, "auto_lock")
		}
	}
}

// unattended tells whether the last proof is longer ago than the setting allows. Settings that can't be read allow the default.
func (g *Gateway) unattended(boot time.Duration) bool {
	snap := g.vault.Snapshot()
	if snap == nil || !g.open.Load() {
		return false
	}
	limit := autoLockDefault
	if s, err := readSettings(snap); err == nil {
		if d, err := autoLock(s.AutoLock); err == nil {
			limit = d
		}
	}
	return limit > 0 && boot-time.Duration(g.proved.Load()) >= limit
}

// attended notes that an operator proved to be there.
func (g *Gateway) attended() { g.proved.Store(int64(boot())) }

// lockSoon locks as soon as the door is free. It waits for no door whose holder may wait for this task: a stop does.
func (g *Gateway) lockSoon(ctx context.Context, reason string) {
	for !g.door.TryLock() {
		select {
		case <-ctx.Done():
			return // closed for good
		case <-time.After(lockRetry):
		}
	}
	defer g.door.Unlock()
	if g.vault.State() == vault.Ready {
		g.complain("lock", g.lockNow(ctx, word{operator: automatic}, reason))
	}
}

// automatic is who locks where nobody did.
const automatic = "automatic"

// Lock locks the vault, such as on a signal. There being none to lock is no error.
func (g *Gateway) Lock(ctx context.Context, reason string) error {
	err := g.lock(ctx, word{operator: automatic}, reason)
	if e, ok := err.(*api.Error); ok && e.Code == "vault_absent" {
		return nil
	}
	return err
}
