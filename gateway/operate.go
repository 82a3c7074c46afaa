package gateway

import (
	"context"
	"time"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
)

// The operator's own calls: a remote job is asked for or cancelled, a credential is tried. They are made by a stored
// credential's own rule, for no run, and so by no grant; recorded and held by the gate like every other.

// operateLimit bounds one of them.
const operateLimit = 30 * time.Second

// operate makes one. purpose and of are what the log is told; the error is a refusal, before anything was recorded.
func (g *Gateway) operate(ctx context.Context, q parsed, operator, purpose, of string) (api.Action, error) {
	if err := g.ready(); err != nil {
		return api.Action{}, err
	}
	p := bind(q, g.targets())
	if !p.authz.Bound {
		return api.Action{}, api.Fail(string(p.authz.Unbound), p.detail)
	}
	if twin, _ := g.acts.blocked(p); twin && p.authz.Effect != authz.Read {
		e := api.Fail("outcome_unresolved", "")
		e.Action = g.acts.blocker(p)
		return api.Action{}, e
	}
	who := caller{run: g.operator, epoch: &epoch{run: g.operator}}
	c := &call{id: newID("act_"), epoch: who.epoch, left: make(chan struct{})}
	c.ctx, c.cancel = context.WithTimeout(g.life, operateLimit)
	c.dial, c.cancelDial = context.WithCancel(c.ctx)
	a := api.Action{ID: c.id, Tool: p.tool, Target: p.authz.Target, Credential: p.authz.Credential, State: api.Running, StartedAt: now().Wall}
	if err := g.admit(c); err != nil {
		c.cancel()
		return api.Action{}, err
	}
	g.acts.begin(a, func(error) {})
	g.acts.hold(c)
	ev := event.OperatorCalled{Call: g.recordCall(who, p, c.id), Digest: p.authz.Digest, Operator: operator, Purpose: purpose, Of: of}
	seq, err := g.log.append(ctx, auditlog.Entry{Kind: auditlog.Intent, Subject: event.Subject(c.id), Body: event.Encode(ev), Own: g.own(who, p, "", "", ownDeed{})})
	if err != nil {
		g.complain("record intent", err)
		g.leave(who.run, c)
		refused := api.Fail("audit_unavailable", "")
		a.State, a.Outcome, a.Error = api.Done, "denied", refused
		g.acts.end(c.id, a)
		return api.Action{}, refused
	}
	g.acts.intended(c.id, seq)
	out := outcome{word: "denied", reason: string(authz.RuleMismatch), fail: api.Fail("rule_mismatch", "the credential changed, or the vault was closed")}
	if g.passes(c, p) {
		out = g.execute(c, p)
	}
	a = g.conclude(who, p, c, a, out)
	g.acts.end(c.id, a)
	return a, nil
}

// admit holds an operator's call, so that a lock or a stop waits for it.
func (g *Gateway) admit(c *call) error {
	r := g.operator
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := g.ready(); err != nil {
		return err
	}
	r.hold(c)
	g.acts.flight.Add(1)
	return nil
}

// passes is the gate: what the call was bound to still stands.
func (g *Gateway) passes(c *call, p *plan) bool {
	r := g.operator
	r.mu.Lock()
	defer r.mu.Unlock()
	s := g.vault.Snapshot()
	c.entered = g.open.Load() && s != nil && p.current(s)
	return c.entered
}
