package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
	"sallyport/gateway/store"
	"sallyport/sshexec"
	"sallyport/vault"
)

// The gate. A call is decided three times: when it is asked for, again after a human answered, and in the gate itself
// after its intent is durable. From reserve to leave the run holds the call, so a revocation can wait for it: once
// revoke has returned, no write of a request of that run begins.

// grace is Config.Grace's default: how long calls in flight may finish by themselves when their run is revoked.
const grace = 25 * time.Millisecond

// Limits of what is in flight.
const (
	runLimit   = 128
	totalLimit = 512
	keysLimit  = 1 << 16 // idempotency keys of one run
)

// facts gathers everything Decide looks at. r.mu must be held. c is the call that already holds its reservation, or nil.
// same was asked of the kernel just before the lock: it reads the peer's memory map, which a peer can make slow.
func (g *Gateway) facts(who caller, same bool, p *plan, c *call, walk authz.Walk) authz.Facts {
	f := authz.Facts{Walk: walk, Vault: g.vaultState(), Now: now(), Run: authz.Pending}
	f.Caller = authz.Caller{Identified: who.proc != nil}
	if who.proc != nil {
		f.Caller.Same = same
		f.Caller.Identity = identity(who.proc.Facts().Identity)
	}
	if p != nil {
		f.Request = p.authz
		if p.access != nil {
			f.Request.Reopens, f.Load.RateLimited = p.access.reopens, p.access.early
		}
		f.Request.Unresolved, f.Request.UnresolvedEffect = g.acts.blocked(p)
		if s := g.vault.Snapshot(); p.authz.Bound && (s == nil || !p.current(s)) {
			f.Request.Bound, f.Request.Unbound = false, authz.RuleMismatch // the credential or host changed since
		}
	}
	f.Load.RunLimit, f.Load.TotalLimit, f.Load.Total = runLimit, totalLimit, g.acts.inFlight()
	r := who.run
	if r == nil {
		f.Caller.Run = unopened
		return f
	}
	f.Run, f.Load.InFlight, f.Caller.Run = r.state, len(r.held), r.id
	if e := who.epoch; e != nil {
		f.Caller.Epoch, f.Caller.State = e.id, e.state
		f.Caller.Suspended = g.suspends.Load() && e.drift.Load()
		switch {
		case p != nil && p.relay != nil:
			g.relayFacts(&f, p)
		case e.inst != nil && walk == authz.FullWalk: // the server's own call
			f.Approved = r.served.approved[e.inst.server.label]
			f.Caller.Unstable = len(e.inst.unstable) > 0
			f.Caller.Idle = len(e.inst.during()) == 0
		}
	}
	f.Load.Asks, f.Load.AskLimit = g.cards.asksOf(who.epoch)
	for _, x := range r.grants {
		f.Grants = append(f.Grants, x.Grant)
	}
	if c != nil {
		// The call's own reservation is not somebody else's use, nor its own place one too many.
		f.Load.InFlight, f.Load.Total = f.Load.InFlight-1, f.Load.Total-1
		for i := range f.Grants {
			if c.grant != nil && f.Grants[i].ID == c.grant.ID && f.Grants[i].Counted {
				f.Grants[i].Uses++
			}
		}
		if c.card != nil {
			f.Approval = c.card.approval()
		}
	}
	return f
}

// unopened stands for the run of a caller that has asked for nothing yet: looking around opens none.
const unopened = "unopened"

// reserve decides and, when allowed, takes the use and the approval and registers the call: all or nothing, at once.
func (g *Gateway) reserve(who caller, p *plan, c *call) (authz.Decision, *keyUse) {
	r, same := who.run, who.same()
	r.mu.Lock()
	defer r.mu.Unlock()
	f := g.facts(who, same, p, nil, authz.FullWalk)
	if c.card != nil {
		f.Approval = c.card.approval()
	}
	d := authz.Decide(f)
	if d.Verdict != authz.Allow {
		return d, nil
	}
	if k := p.key; k != "" {
		if u, used := r.keys[k]; used {
			return d, &u
		}
		if len(r.keys) >= keysLimit {
			return authz.Decision{Reason: authz.RateLimited}, nil // none is forgotten: a forgotten one would let its write happen twice
		}
		r.keys[k] = keyUse{p.digest, c.id}
	}
	if i := slices.IndexFunc(r.grants, func(x *grant) bool { return x.ID == d.Grant }); i >= 0 {
		c.grant = r.grants[i]
		if c.grant.Counted {
			c.grant.Uses-- // never refunded
		}
	}
	r.hold(c)
	g.acts.flight.Add(1)
	r.calls++
	r.times.lastAction = f.Now.Wall
	return d, nil
}

// enter decides once more, on fresh facts and a fresh clock. Allowed means: registered for cancellation, may lend and write.
func (g *Gateway) enter(who caller, p *plan, c *call) authz.Decision {
	r, same := who.run, who.same()
	r.mu.Lock()
	defer r.mu.Unlock()
	f := g.facts(who, same, p, c, authz.FullWalk)
	d := authz.Decide(f)
	c.entered = d.Verdict == authz.Allow
	return d
}

// leave lets go of a call whose result is recorded.
func (g *Gateway) leave(r *run, c *call) {
	g.acts.flight.Add(-1)
	r.leave(c)
}

// stopHeld ends the calls that r holds and match names: dials first, then after the grace everything, and waits until
// they have left. It returns the ids of those that were past the gate. What refuses new ones is set before.
func (g *Gateway) stopHeld(r *run, match func(*call) bool) []string {
	return g.stopWithin(r, g.cfg.Grace, match)
}

// stopWithin is stopHeld with another grace.
func (g *Gateway) stopWithin(r *run, grace time.Duration, match func(*call) bool) []string {
	r.mu.Lock()
	var left []string
	var held []*call
	for _, c := range r.held {
		if !match(c) {
			continue
		}
		held = append(held, c)
		if c.entered {
			left = append(left, c.id)
		}
	}
	r.mu.Unlock()
	for _, c := range held {
		c.cancelDial()
	}
	t := time.AfterFunc(grace, func() {
		for _, c := range held {
			c.cancel()
		}
	})
	defer t.Stop()
	for _, c := range held {
		<-c.left
	}
	slices.Sort(left)
	return left
}

// every matches all calls of a run.
func every(*call) bool { return true }

// departed shows the calls of a list that may have reached somebody, as they ended.
func (g *Gateway) departed(ids []string) []api.Action {
	out := []api.Action{}
	for _, id := range ids {
		if a, ok := g.acts.get(id); ok && a.Outcome != "denied" && a.Outcome != "not_sent" {
			out = append(out, a)
		}
	}
	return out
}

// revoke ends a run for good: memory first, then what is in flight, then row, outbox and log, then pooled connections.
func (g *Gateway) revoke(ctx context.Context, r *run, by word) (api.Revoked, error) {
	r.mu.Lock()
	r.step(authz.Revoke) // every state takes it, revoked too: what could not be recorded may be said again
	if r.times.revoked.IsZero() {
		r.times.revoked = now().Wall
	}
	ended := r.void(nil)
	r.mu.Unlock()

	g.cards.expire(func(c *card) bool { return c.epoch.run == r }, "run_revoked")
	g.stopServers(r, func(*server) bool { return true }, string(authz.RunRevoked))
	left := g.stopHeld(r, every)

	err := g.recordRevoked(ctx, r, event.RunRevoked{Run: r.id, Operator: by.operator, Peer: by.peer, Left: left}, ended)
	g.ssh.Drop(func(k sshexec.PoolKey) bool { return k.Run == r.id })

	out := api.Revoked{Run: r.show(), Left: g.departed(left)}
	if err != nil {
		return out, fmt.Errorf("revoked here, not yet recorded: %w", err)
	}
	return out, nil
}

// recordRevoked writes a run's revocation, once, and the grants that ended with it.
func (g *Gateway) recordRevoked(ctx context.Context, r *run, ev event.RunRevoked, ended []*grant) error {
	g.authority.Lock()
	defer g.authority.Unlock()
	r.mu.Lock()
	recorded := r.roster.recorded
	r.mu.Unlock()
	switch {
	case recorded && len(ended) == 0:
		return nil
	case recorded: // another one told it while these were still being taken
		return g.lose(ctx, nil, setRun(r, ended))
	}
	err := g.lose(ctx, []event.Event{ev}, setRun(r, ended))
	if err == nil {
		r.mu.Lock()
		r.roster.recorded, r.roster.revocation = true, g.lastTold
		r.mu.Unlock()
	}
	return err
}

// voidAll ends every grant and stops every call, for a lock or a stop, and returns the runs that were active. The flag
// that refuses new calls is set before.
func (g *Gateway) voidAll() (moved []*run) {
	runs := append(g.book.all(), g.operator)
	for _, r := range runs {
		r.mu.Lock()
		r.void(nil)
		was := r.state
		r.step(authz.Lock)
		if r.state != was {
			moved = append(moved, r)
		}
		r.mu.Unlock()
	}
	var wait sync.WaitGroup
	for _, r := range runs {
		wait.Go(func() { g.stopHeld(r, every) })
	}
	wait.Wait()
	return moved
}

// endAll is voidAll's row side.
func (g *Gateway) endAll(why string, moved []*run) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		if _, err := tx.EndAllGrants(why, now().Wall); err != nil {
			return err
		}
		for _, r := range moved {
			if err := setRun(r, nil)(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// vaultState is the vault as decisions see it: open only once unlock has replayed and compared everything.
func (g *Gateway) vaultState() authz.VaultState {
	switch g.vault.State() {
	case vault.Ready:
		if g.open.Load() {
			return authz.VaultReady
		}
		return authz.VaultLocked
	case vault.Locked:
		return authz.VaultLocked
	case vault.Quarantined:
		return authz.VaultQuarantined
	}
	return authz.VaultAbsent
}

func identity(s string) authz.Identity {
	switch s {
	case peer.Strong:
		return authz.Strong
	case peer.Weak:
		return authz.Weak
	case peer.Contained:
		return authz.Contained
	}
	return authz.IdentityUnknown
}
