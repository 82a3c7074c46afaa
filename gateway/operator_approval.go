package gateway

import (
	"errors"
	"fmt"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
)

func (g *Gateway) opApprovalList(r opRequest) (any, error) { return g.cards.list(), nil }

// opApprovalGrant answers a card with yes: row and outbox, then the log, and only then memory.
func (g *Gateway) opApprovalGrant(r opRequest) (any, error) {
	var a api.ApproveArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if err := g.ready(); err != nil {
		return nil, err
	}
	switch {
	case a.CardDigest == "":
		return nil, api.Fail("invalid_request", "cardDigest: name the card that was shown")
	case a.Scope != "use" && a.Scope != "run":
		return nil, api.Fail("invalid_request", "scope: use or run")
	case a.Uses < 0 || a.Scope == "use" && (a.Uses != 0 || !a.Until.IsZero()):
		return nil, api.Fail("invalid_request", "uses and until narrow the scope run; uses is at least 1")
	case !a.Until.IsZero() && !a.Until.After(now().Wall):
		return nil, api.Fail("invalid_request", "until: is over already")
	case g.unrecorded.Load():
		return nil, api.Fail("not_recorded", "a revocation is not yet recorded; nothing is granted before it is")
	}
	c, err := g.takeCard(r, a)
	if err != nil {
		return nil, err
	}
	x, err := g.grant(r, c, a)
	if err != nil {
		c.answer <- verdict{refusalOf(err).Code} // the next decision says what is left of it
		return nil, err
	}
	c.answer <- verdict{}
	g.cards.decided(c.epoch)
	return x, nil
}

// takeCard takes the card that args name off the table, if this proof may answer it so.
func (g *Gateway) takeCard(r opRequest, a api.ApproveArgs) (*card, error) {
	gone := api.Fail("not_found", "no card of this id waits: it was answered, or its time is over")
	c, known := g.cards.look(a.ID, a.CardDigest)
	switch {
	case !known:
		return nil, gone
	case c == nil:
		return nil, api.Fail("invalid_request", "cardDigest: not the card that waits; look at it again")
	case c.plan.access != nil && c.plan.access.missing:
		return nil, api.Fail("invalid_request", "no target of this name exists: "+c.shown.Missing)
	case c.plan.authz.Confirm == authz.ConfirmPasskey && r.signed == nil:
		return nil, api.Fail("proof_required", "this credential wants a passkey for each use; a "+r.who+" is none")
	case a.AcceptWeak && !c.weak():
		return nil, api.Fail("invalid_request", "acceptWeak: the agent's identity is not weak")
	case !a.AcceptWeak && c.weak() && c.plan.authz.Effect != authz.Read:
		return nil, api.Fail("invalid_request", "the agent's identity is weak: what it writes needs acceptWeak beside the scope (--accept-weak), or deny the card")
	case c.plan.access != nil && a.Scope != "run":
		return nil, api.Fail("invalid_request", "scope: nothing waits that one use could be for; run, which --uses and --until narrow")
	case !g.cards.take(c):
		return nil, gone
	}
	c.signed = r.signed != nil
	return c, nil
}

// grant writes approval and grant, then gives them to the run, unless it lost its standing meanwhile.
func (g *Gateway) grant(r opRequest, c *card, a api.ApproveArgs) (api.Grant, error) {
	run, t := c.epoch.run, now()
	if t.Past(c.ends) {
		return api.Grant{}, api.Fail("not_found", "the card's time is over")
	}
	x := newGrant(c, a, t, r.who)
	s, yes := x.shown, yesOf(c, t.Wall)
	said := event.ApprovalGranted{Approval: c.shown.ID, Run: run.id, Epoch: c.epoch.id, Scope: a.Scope, Card: c.bytes, CardDigest: c.shown.CardDigest,
		Proof: r.kind(), Operator: r.who, Args: canonicalArgs(r.args), Sitting: r.sitting}
	if r.signed != nil {
		said.Args, said.Assertion = r.signed.args, r.signed.assertion
	}
	evs := []event.Event{
		said,
		event.GrantIssued{Grant: s.ID, Run: run.id, Epoch: c.epoch.id, ToolScope: s.ToolScope, CredentialScope: s.CredentialScope,
			IssuedAt: s.IssuedAt, ExpiresWhen: s.ExpiresWhen, Approval: s.Approval, Operator: s.Operator, ServerLabel: s.ServerLabel, Contract: x.Contract},
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	if r.sitting != "" && !g.sittings.stands(r.sitting) { // its end is recorded under the same lock, so never before this
		return api.Grant{}, sittingOver()
	}
	run.mu.Lock()
	was := run.state
	next, bad := was.Next(authz.Granted)
	gone := !c.stands()
	run.mu.Unlock()
	if snap := g.vault.Snapshot(); snap == nil || !c.plan.current(snap) {
		gone = true // the credential or host changed after the card was taken
	}
	if bad != nil || gone {
		return api.Grant{}, api.Fail("not_found", "what the card asked for has lost its standing")
	}
	err := g.change(r.ctx, false, evs, func(tx *store.Tx) error {
		if err := moveRun(tx, run, next); err != nil {
			return err
		}
		box, err := g.vault.Seal(store.UseGrant, []byte(s.ID), encode(storedGrant{s, yes}))
		if err != nil {
			return err
		}
		return tx.PutGrant(store.Grant{ID: s.ID, Run: run.id, Epoch: c.epoch.id, State: "live", Issued: t.Wall, Sealed: box})
	})
	if err != nil {
		return api.Grant{}, err
	}
	run.mu.Lock()
	lost := run.state != was || !c.stands() || !g.open.Load()
	if !lost {
		run.step(authz.Granted)
		c.granted()
		run.grants = append(run.grants, x)
		run.denied = 0
	}
	run.mu.Unlock()
	if lost {
		// Memory lost it while the log gained it: the log is told, and nothing was ever allowed by it.
		ev := []event.Event{event.GrantRevoked{Grant: s.ID, Run: run.id, Epoch: c.epoch.id, Reason: "run_lost"}}
		err := g.lose(r.ctx, ev, setRun(run, []*grant{x}))
		return api.Grant{}, errors.Join(api.Fail("not_found", "what the card asked for has lost its standing"), err)
	}
	g.past.approved(c.shown.Credential, yes)
	return s, nil
}

// newGrant is what one yes gives: this plan once, or its tool with its credential for the run.
func newGrant(c *card, a api.ApproveArgs, t authz.Instant, operator string) *grant {
	p := c.plan
	x := &grant{Grant: authz.Grant{ID: newID("gr_"), Run: c.epoch.run.id, Epoch: c.epoch.id, Tools: []string{p.tool},
		Credentials: []string{p.authz.Credential}, State: authz.GrantLive, Version: p.authz.Version, Weak: a.AcceptWeak}}
	expires := "agent-run-ends"
	if p.access != nil {
		x.Tools = p.access.tools
	}
	if a.Scope == "use" {
		// The call waits for it now. One that has gone meanwhile leaves nothing behind for longer than its card.
		x.Counted, x.Uses, x.Digest, x.Ends, expires = true, 1, p.authz.Digest, c.ends, "1 use"
	}
	if a.Uses > 0 {
		x.Counted, x.Uses, expires = true, a.Uses, fmt.Sprintf("%d uses", a.Uses)
	}
	if !a.Until.IsZero() {
		x.Ends = after(t, a.Until.Sub(t.Wall))
		expires = a.Until.UTC().Format(time.RFC3339)
	}
	scope := x.Credentials
	var label string
	if p.relay != nil {
		x.Contract, label, scope = p.relay.contract, p.relay.server.label, []string{}
		if a.Scope == "use" {
			x.Ends = after(t, api.ApprovalLife*time.Second) // its host was refused, and has to call again
		}
	}
	x.shown = api.Grant{ServerLabel: label, ID: x.ID, AgentRun: x.Run, ExecutionEpoch: x.Epoch, ToolScope: x.Tools, CredentialScope: scope,
		IssuedAt: t.Wall, ExpiresWhen: expires, Approval: c.shown.ID, Operator: operator, AcceptedWeak: a.AcceptWeak}
	return x
}

// opApprovalDeny answers a card with no. It needs no proof; two of them make the run denied.
func (g *Gateway) opApprovalDeny(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	c, known := g.cards.look(a.ID, "")
	if !known || !g.cards.take(c) {
		return nil, api.Fail("not_found", "no card of this id waits: it was answered, or its time is over")
	}
	c.answer <- verdict{"approval_denied"}
	run := c.epoch.run
	run.mu.Lock()
	run.denied++
	was := run.state
	if run.denied >= 2 {
		run.step(authz.DeniedTwice)
	}
	state := run.state
	run.mu.Unlock()
	g.past.denied(run.owner.facts.ExeDigest, lastDenied(c, now().Wall))
	by := r.word()
	evs := []event.Event{event.ApprovalDenied{Approval: c.shown.ID, Run: run.id, Epoch: c.epoch.id, Operator: by.operator, Peer: by.peer}}
	if state != was {
		g.cards.expire(func(x *card) bool { return x.epoch.run == run }, "run_denied")
		evs = append(evs, event.RunDenied{Run: run.id})
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	if err := g.lose(r.ctx, evs, setRun(run, nil)); err != nil {
		g.complain("record denial", err)
		return nil, api.Fail("not_recorded", "denied here, not yet recorded")
	}
	return struct{}{}, nil
}
