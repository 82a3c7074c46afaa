package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"sallyport/authz"
	"sallyport/gateway/api"
)

// request_access asks the operator for a target's tools before any call needs them. Nothing is sent anywhere, so there is
// no intent and no result: the log has the card, the answer and the grant. It is the one thing that a denied run may
// still ask, once a minute.

// accessAsk is what is asked for.
type accessAsk struct {
	tools   []string // that can use the target's credential, sorted
	missing bool     // there is no such target: nothing can be given
	taken   bool     // and a login has its name, so that no credential can have it
	reopens bool     // asked while the run was denied
	early   bool     // and less than pleaEvery after the last time
}

// pleaEvery is how often a denied run may ask.
const pleaEvery = time.Minute

func (q *parsed) parseAccess(args []byte) {
	q.access = &accessAsk{}
	var a api.AccessArgs
	if q.fault = decode(args, &a); q.fault != nil {
		return
	}
	q.target = a.Target
	if a.Reason != "" {
		q.reason = escape(a.Reason, reasonLimit)
	}
	switch {
	case q.key != "":
		q.fault = api.Fail("invalid_request", "idempotencyKey: request_access sends nothing that could happen twice")
	default:
		q.named()
	}
}

// bindAccess finds the target's credential, and what can be done with it there.
func (p *plan) bindAccess(t *targets) {
	p.authz.Effect = authz.EffectAccess
	p.operation = "access"
	p.summary = "access to " + escape(p.target, 256)
	if t == nil {
		return
	}
	c, h := t.byName[p.target], t.hosts[p.target]
	switch {
	case c != nil && h != nil:
		p.unbound(authz.RuleMismatch, "an HTTP target and an SSH host have this name; make the call itself, and it asks")
	case c != nil:
		p.access.tools = []string{api.ToolHTTP}
		p.bound(c.meta, c.meta.Confirm, p.target)
		p.summary += ": " + escape(strings.Join(c.rules.Origins(), ", "), shownLine)
	case h != nil:
		for _, tool := range hostTools() {
			if len(rulesOf(tool, h.rules)) > 0 {
				p.access.tools = append(p.access.tools, tool)
			}
		}
		if len(p.access.tools) == 0 {
			p.unbound(authz.RuleMismatch, "the rules of this host allow nothing yet; the operator changes them")
			return
		}
		p.login(t, h)
		p.summary += ": ssh " + escape(h.spec.User+"@"+h.spec.Address, 512)
	default:
		p.missing(t)
	}
	p.authz.Access = p.access.tools
}

// hostTools are the tools that act on an SSH host, sorted.
func hostTools() []string {
	tools := []string{api.ToolSSH, api.ToolJob, api.ToolUpload, api.ToolDownload, api.ToolGit}
	slices.Sort(tools)
	return tools
}

// given is all that a yes to a request for access gives, tool by tool.
func (p *plan) given(t *targets) string {
	var out []string
	for _, tool := range p.access.tools {
		one := *p
		one.access, one.tool = nil, tool
		out = append(out, one.reach(t))
	}
	return strings.Join(out, "; ")
}

// giveAccess asks for a grant and answers with it.
func (g *Gateway) giveAccess(asking context.Context, who caller, p *plan, a api.Action) api.Action {
	if !p.access.missing { // what gives nothing opens no denied run, and takes no turn of it
		g.plead(who.run, p)
	}
	for range 4 { // each turn means that something changed while the operator was asked
		if asking.Err() != nil {
			return g.refuse(asking, who, p, a, askEnded(asking))
		}
		d := g.judge(who, p, authz.FullWalk)
		switch d.Verdict {
		case authz.Allow:
			if x, ok := who.run.grantWhere(func(x *grant) bool { return x.ID == d.Grant }); ok {
				return accessGiven(a, x)
			}
			continue // it ended since
		case authz.Deny:
			if p.access.missing && d.Reason == authz.TargetUnknown && who.epoch.inst == nil { // a supervised server asks nothing by itself
				return g.askForTarget(asking, who, p, a)
			}
			return g.deny(asking, who, p, a, d)
		}
		card, refused := g.ask(asking, who, p, func() authz.Decision { return g.judge(who, p, authz.FullWalk) })
		if refused != nil {
			return g.refuse(asking, who, p, a, refused)
		}
		if card == nil {
			continue // covered by another grant, or what it was bound to is gone
		}
		if x, ok := who.run.grantWhere(func(x *grant) bool { return x.shown.Approval == card.shown.ID }); ok {
			return accessGiven(a, x)
		}
		if d := g.judge(who, p, authz.FullWalk); d.Verdict == authz.Deny {
			return g.deny(asking, who, p, a, d)
		}
		return g.refuse(asking, who, p, a, api.Fail("not_authorized", "what was given was taken back at once"))
	}
	return g.refuse(asking, who, p, a, api.Fail("not_authorized", "what this asks for kept changing"))
}

// plead notes that a denied run asks, and whether it is too early for that. A run that is denied while its request waits
// is refused like any other call: then its turn has not come.
func (g *Gateway) plead(r *run, p *plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != authz.Denied {
		return
	}
	at := boot()
	p.access.reopens, p.access.early = true, r.plea != 0 && at-r.plea < pleaEvery
	if !p.access.early {
		r.plea = at
	}
}

// grantWhere finds a live grant, as it may be shown.
func (r *run) grantWhere(is func(*grant) bool) (api.Grant, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.grants, is); i >= 0 {
		return r.grants[i].shown, true
	}
	return api.Grant{}, false
}

func accessGiven(a api.Action, x api.Grant) api.Action {
	a.State, a.Outcome, a.FinishedAt = api.Done, "confirmed", now().Wall
	a.Result = encode(api.Access{Grant: x})
	return a
}
