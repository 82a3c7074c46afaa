package gateway

import (
	"context"
	"fmt"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/vault"
)

// A request for access to a target that does not exist is a question too: the operator may add the target, which ends it,
// or say no. A yes has nothing to give, so no card of this kind takes one.

// missing makes p such a question, where name is one that a target could have.
func (p *plan) missing(t *targets) {
	const detail = "no target of this name: choose one from list_targets"
	if !name.MatchString(p.target) || !p.absent(t.snap) { // the latter: its rules can't be read
		p.unbound(authz.TargetUnknown, detail)
		return
	}
	p.access.missing = true
	p.authz.Target, p.authz.Confirm = p.target, authz.ConfirmClick
	p.summary += ", a target that does not exist"
	if p.access.taken = t.known(p.target); p.access.taken {
		p.summary += "; a login of this name does"
	}
	p.unbound(authz.TargetUnknown, detail+", or call request_access for it and the operator is asked; never ask anybody for its value")
}

// adding is how the operator answers such a card.
func (p *plan) adding() string {
	how := fmt.Sprintf("`sp secret add %[1]s`, or `sp host add %[1]s` for an SSH host; the console's Credentials and Hosts", p.target)
	if p.access.taken {
		how = fmt.Sprintf("as an SSH host: `sp host add %s`, or the console's Hosts; a credential of this name, a login, is there already", p.target)
	}
	return "a yes has nothing to give. Add the target if you want it (" + how + "), which ends this request and gives nothing; or deny it"
}

// absent tells whether s still has no such target.
func (p *plan) absent(s *vault.Snapshot) bool {
	m, ok := s.Credential(p.target)
	_, host := s.Host(p.target)
	return !host && !(ok && isHTTP(m.Kind))
}

// targetsAdded ends the requests for targets that exist now. It does so by the vault alone: a target is there, whatever
// became of the record of it.
func (g *Gateway) targetsAdded() {
	now := g.vault.Snapshot()
	g.cards.expire(func(c *card) bool {
		return c.plan.access != nil && c.plan.access.missing && (now == nil || !c.plan.absent(now))
	}, "target_added")
}

// askForTarget asks for a target that does not exist, until it does or somebody says no.
func (g *Gateway) askForTarget(asking context.Context, who caller, p *plan, a api.Action) api.Action {
	judge := func() authz.Decision {
		d := g.judge(who, p, authz.FullWalk)
		if d.Verdict == authz.Deny && d.Reason == authz.TargetUnknown {
			d.Verdict = authz.Ask
			if s := g.vault.Snapshot(); s != nil && !p.absent(s) {
				d.Verdict = authz.Allow
			}
		}
		return d
	}
	for range 4 { // each turn means that something changed while the operator was asked
		if asking.Err() != nil {
			return g.refuse(asking, who, p, a, askEnded(asking))
		}
		switch d := judge(); d.Verdict {
		case authz.Allow:
			a.State, a.Outcome, a.FinishedAt = api.Done, "confirmed", now().Wall
			a.Result = encode(api.Access{Added: p.target, Note: "the operator has added this target and given nothing yet: make the call, or request access again"})
			return a
		case authz.Deny:
			return g.deny(asking, who, p, a, d)
		}
		if _, refused := g.ask(asking, who, p, judge); refused != nil {
			return g.refuse(asking, who, p, a, refused)
		}
	}
	return g.refuse(asking, who, p, a, api.Fail("target_unknown", "whether this target exists kept changing"))
}
