package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// card is one question to the operator, bound to one plan of one epoch. It is answered at most once.
type card struct {
	shown  api.Approval
	bytes  []byte // its RFC 8785 form without its own digest: what the answer names
	plan   *plan
	epoch  *epoch
	ask    *ask
	ends   authz.Instant
	answer chan verdict // buffered 1; receives exactly once
	signed bool         // a passkey said yes; set before the answer
}

// verdict is how a card ended. Reason is empty for yes.
type verdict struct{ reason string }

// approval is the card as Decide judges it: a yes to exactly this plan in exactly this epoch.
func (c *card) approval() authz.Approval {
	return authz.Approval{ID: c.shown.ID, Run: c.shown.AgentRun, Epoch: c.shown.ExecutionEpoch, Digest: c.shown.Digest,
		Version: c.plan.authz.Version, Ends: c.ends, Reserved: true, Passkey: c.signed}
}

// weak tells whether the caller's identity is weak; what a yes gives is less then.
func (c *card) weak() bool { return c.epoch.facts.Identity == peer.Weak }

// newCard writes down what the operator will see.
func (g *Gateway) newCard(who caller, p *plan, a *ask) (*card, error) {
	ends := after(now(), g.cfg.ApprovalLife)
	c := &card{plan: p, epoch: who.epoch, ask: a, ends: ends, answer: make(chan verdict, 1)}
	c.shown = api.Approval{
		ID: newID("ap_"), AgentRun: who.run.id, ExecutionEpoch: who.epoch.id, Tool: p.tool, Credential: p.authz.Credential,
		Account: p.account, Confirm: p.authz.Confirm.String(), Target: p.authz.Target, Summary: p.summary,
		Effect: p.authz.Effect.String(), Digest: p.authz.Digest, ExpiresAt: ends.Wall, Agent: agent(who.run.owner.facts),
		Origin: g.origin(who), Gaps: p.gaps(), Offers: offers(g.targets(), p, c.weak()), Past: g.past.of(who, p), Reason: p.reason,
	}
	if p.access != nil {
		c.shown.Access = p.access.tools
		if p.access.missing {
			c.shown.Missing = p.adding()
		}
	}
	if p.relay != nil {
		c.shown.Defaults = p.relay.defaults
		c.shown.Server = g.shownServer(p.relay.server, p)
	}
	var err error
	if c.bytes, err = c.shown.Bytes(); err != nil {
		return nil, err
	}
	c.shown.CardDigest = api.DigestOf(c.bytes)
	return c, nil
}

// origin is what was observed of the caller besides its run's agent.
func (g *Gateway) origin(who caller) api.Origin {
	r := who.run
	o := api.Origin{Program: api.ProgramNew, RunOpenedAt: r.opened, Chain: who.epoch.chain.key, Launchers: who.epoch.chain.shown, Drift: who.epoch.drift.Load()}
	if g.past.known(r.owner.facts.ExeDigest) {
		o.Program = api.ProgramKnown
	}
	if who.epoch.facts.Identity == peer.Weak {
		o.Weak = who.epoch.facts.Weak
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.epochs {
		if e != who.epoch && e.state != authz.EpochEnded && !r.served.supervises(e) {
			o.Others++
		}
	}
	return o
}

// ask lays a card before the operator and waits for the answer. again decides afresh once there is room for it, and when
// something was decided meanwhile: an earlier card's grant may cover this call too. A nil error and a nil card mean that
// it does, or that what the call was bound to is gone.
func (g *Gateway) ask(ctx context.Context, who caller, p *plan, again func() authz.Decision) (*card, *api.Error) {
	if p.authz.Confirm == authz.ConfirmPasskey && !g.canSign() {
		return nil, api.Fail("not_authorized", fmt.Sprintf("credential %s wants a passkey for each use, and none can answer: the operator may enrol one (sp passkey add), or set its confirm to click", p.authz.Credential))
	}
	a, refused := g.cards.join(who.epoch, p)
	if refused != nil {
		return nil, refused
	}
	defer g.cards.part(a)
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.ApprovalLife, errTimeout)
	defer cancel()
	for waits := true; waits; {
		select {
		case <-a.room:
			waits = false
		case <-a.poke:
		case <-a.mute:
			return nil, mutedAsk()
		case <-ctx.Done():
			return nil, askEnded(ctx)
		}
		if d := again(); d.Verdict != authz.Ask {
			return nil, nil
		}
	}
	c, err := g.newCard(who, p, a)
	if err != nil {
		g.complain("write card", err)
		return nil, api.Fail("internal", "")
	}
	g.cards.lay(c)
	s := c.shown
	asked := event.ApprovalRequested{Approval: s.ID, Run: s.AgentRun, Epoch: s.ExecutionEpoch, Tool: s.Tool, Credential: s.Credential,
		Target: s.Target, Digest: s.Digest, CardDigest: s.CardDigest}
	if err := g.log.note(ctx, s.ID, asked); err != nil {
		g.cards.withdraw(c, "audit_unavailable")
		return nil, api.Fail("audit_unavailable", "")
	}
	g.teller.Laid()
	poke(a) // what was lost just before the card lay there, expire did not find
	return g.awaitAnswer(ctx, c, again)
}

// awaitAnswer waits for a card's one answer.
func (g *Gateway) awaitAnswer(ctx context.Context, c *card, again func() authz.Decision) (*card, *api.Error) {
	for {
		select {
		case v := <-c.answer:
			return g.answered(ctx, c, v)
		case <-c.ask.poke:
			switch d := again(); d.Verdict {
			case authz.Ask:
			case authz.Allow:
				g.cards.withdraw(c, "covered")
			default:
				g.cards.withdraw(c, string(d.Reason))
			}
		case <-ctx.Done():
			g.cards.withdraw(c, askEnded(ctx).Code)
			return g.answered(ctx, c, <-c.answer) // a yes that came first wins
		}
	}
}

// answered tells the log how a card ended without a yes.
func (g *Gateway) answered(ctx context.Context, c *card, v verdict) (*card, *api.Error) {
	switch v.reason {
	case "":
		return c, nil
	case "approval_denied":
		return nil, api.Fail("approval_denied", "")
	}
	s := c.shown
	g.complain("record expired card", g.log.note(context.WithoutCancel(ctx), s.ID, event.ApprovalExpired{Approval: s.ID, Run: s.AgentRun, Epoch: s.ExecutionEpoch, Reason: v.reason}))
	if v.reason == "approval_timeout" {
		return nil, api.Fail("approval_timeout", "")
	}
	return nil, nil // what it was bound to has changed: the next decision says how
}

var errTimeout = api.Fail("approval_timeout", "")

// askEnded: the time was over, the call was called back, or the caller is gone.
func askEnded(ctx context.Context) *api.Error {
	if e, ok := errors.AsType[*api.Error](context.Cause(ctx)); ok {
		return e
	}
	return callerGone
}

var callerGone = api.Fail("not_sent", "the caller went away before anything was sent")

// reasonLimit bounds the agent's own words on a card, in bytes.
const reasonLimit = 512

// lastDenied is how a denied card is told on later ones.
func lastDenied(c *card, at time.Time) string {
	return at.Format(time.RFC3339) + " " + cut(firstLine(c.shown.Summary), 160)
}
