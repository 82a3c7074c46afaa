package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	c, known := g.cards.take(a.ID, a.CardDigest)
	switch {
	case !known:
		return nil, api.Fail("not_found", "no card of this id waits: it was answered, or its time is over")
	case c == nil:
		return nil, api.Fail("invalid_request", "cardDigest: not the card that waits; look at it again")
	}
	x, err := g.grant(r, c, a)
	if err != nil {
		c.answer <- verdict{refusalOf(err).Code} // the next decision says what is left of it
		return nil, err
	}
	c.answer <- verdict{}
	return x, nil
}

// grant writes approval and grant, then gives them to the run, unless it lost its standing meanwhile.
func (g *Gateway) grant(r opRequest, c *card, a api.ApproveArgs) (api.Grant, error) {
	run, t := c.epoch.run, now()
	if t.Past(c.ends) {
		return api.Grant{}, api.Fail("not_found", "the card's time is over")
	}
	x := newGrant(c, a, t, r.who)
	s := x.shown
	args := jsontext.Value(slices.Clone(r.args))
	if err := args.Canonicalize(); err != nil {
		return api.Grant{}, api.Fail("invalid_request", "args: no canonical form")
	}
	evs := []event.Event{
		event.ApprovalGranted{Approval: c.shown.ID, Run: run.id, Epoch: c.epoch.id, Scope: a.Scope, Card: c.bytes, CardDigest: c.shown.CardDigest, Proof: r.who, Operator: r.who, Args: args},
		event.GrantIssued{Grant: s.ID, Run: run.id, Epoch: c.epoch.id, ToolScope: s.ToolScope, CredentialScope: s.CredentialScope,
			IssuedAt: s.IssuedAt, ExpiresWhen: s.ExpiresWhen, Approval: s.Approval, Operator: s.Operator},
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	run.mu.Lock()
	was := run.state
	next, bad := was.Next(authz.Granted)
	gone := c.epoch.state != authz.Live
	run.mu.Unlock()
	if bad != nil || gone {
		return api.Grant{}, api.Fail("not_found", "what the card asked for has lost its standing")
	}
	err := g.change(r.ctx, false, evs, func(tx *store.Tx) error {
		if err := moveRun(tx, run, next); err != nil {
			return err
		}
		box, err := g.vault.Seal("grant", []byte(s.ID), encode(s))
		if err != nil {
			return err
		}
		return tx.PutGrant(store.Grant{ID: s.ID, Run: run.id, Epoch: c.epoch.id, State: "live", Issued: t.Wall, Sealed: box})
	})
	if err != nil {
		return api.Grant{}, err
	}
	run.mu.Lock()
	lost := run.state != was || c.epoch.state != authz.Live || !g.open.Load()
	if !lost {
		run.step(authz.Granted)
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
	return s, nil
}

// newGrant is what one yes gives: this plan once, or its tool with its credential for the run.
func newGrant(c *card, a api.ApproveArgs, t authz.Instant, operator string) *grant {
	p := c.plan
	x := &grant{Grant: authz.Grant{ID: newID("gr_"), Run: c.epoch.run.id, Epoch: c.epoch.id, Tools: []string{p.tool},
		Credentials: []string{p.authz.Credential}, State: authz.GrantLive, Version: p.authz.Version}}
	expires := "agent-run-ends"
	if a.Scope == "use" {
		x.Counted, x.Uses, x.Digest, expires = true, 1, p.authz.Digest, "1 use"
	}
	if a.Uses > 0 {
		x.Counted, x.Uses, expires = true, a.Uses, fmt.Sprintf("%d uses", a.Uses)
	}
	if !a.Until.IsZero() {
		x.Ends = after(t, a.Until.Sub(t.Wall))
		expires = a.Until.UTC().Format(time.RFC3339)
	}
	x.shown = api.Grant{ID: x.ID, AgentRun: x.Run, ExecutionEpoch: x.Epoch, ToolScope: x.Tools, CredentialScope: x.Credentials,
		IssuedAt: t.Wall, ExpiresWhen: expires, Approval: c.shown.ID, Operator: operator}
	return x
}

// opApprovalDeny answers a card with no. It needs no proof; two of them make the run denied.
func (g *Gateway) opApprovalDeny(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	c, known := g.cards.take(a.ID, "")
	if !known {
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
	evs := []event.Event{event.ApprovalDenied{Approval: c.shown.ID, Run: run.id, Epoch: c.epoch.id, Operator: r.who}}
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

func (g *Gateway) opRunList(r opRequest) (any, error) {
	out := []api.Run{}
	for _, x := range g.book.all() {
		out = append(out, x.show())
	}
	rows, err := g.db.Runs(r.ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if g.book.byID(row.ID) == nil {
			out = append(out, g.storedRun(row))
		}
	}
	slices.SortFunc(out, func(a, b api.Run) int { return -strings.Compare(a.ID, b.ID) })
	return out, nil
}

// storedRun shows a run of an earlier start; while the vault is closed only what is in the clear.
func (g *Gateway) storedRun(row store.Run) api.Run {
	out := api.Run{ID: row.ID, State: row.State, Epochs: []api.Epoch{}, OpenedAt: row.Opened}
	if row.State == authz.Revoked.String() {
		out.RevokedAt = row.Changed
	}
	if plain, err := g.vault.Unseal(useRun, []byte(row.ID), row.Sealed); err == nil {
		var s storedRun
		if json.Unmarshal(plain, &s) == nil {
			out.Agent = s.Agent
		}
	}
	return out
}

// runOf finds the run that args name: in memory, else (nil) by its row, which is all there is of an earlier start's run
// while the vault is locked.
func (g *Gateway) runOf(r opRequest) (*run, store.Run, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, store.Run{}, fault
	}
	if a.ID == "" {
		return nil, store.Run{}, api.Fail("invalid_request", "id: name a run")
	}
	if x := g.book.byID(a.ID); x != nil {
		return x, store.Run{}, nil
	}
	rows, err := g.db.Runs(r.ctx)
	if err != nil {
		return nil, store.Run{}, err
	}
	if i := slices.IndexFunc(rows, func(x store.Run) bool { return x.ID == a.ID }); i >= 0 {
		return nil, rows[i], nil
	}
	return nil, store.Run{}, api.Fail("not_found", "no run "+escape(a.ID, 64)+" here; list them with `sp run ls`")
}

func (g *Gateway) opRunShow(r opRequest) (any, error) {
	x, row, err := g.runOf(r)
	if err != nil {
		return nil, err
	}
	if x == nil {
		return g.storedRun(row), nil
	}
	return x.show(), nil
}

func (g *Gateway) opRunRevoke(r opRequest) (any, error) {
	x, row, err := g.runOf(r)
	if err != nil {
		return nil, err
	}
	var out api.Revoked
	if x == nil {
		out, x, err = g.revokeStored(r, row)
	}
	if x != nil {
		out, err = g.revoke(r.ctx, x, r.who)
	}
	if err != nil {
		g.complain("revoke", err)
		return nil, api.Fail("not_recorded", "revoked here, not yet recorded")
	}
	return out, nil
}

// revokeStored revokes a run that memory does not hold; if an unlock has brought it there meanwhile, it is returned.
func (g *Gateway) revokeStored(r opRequest, row store.Run) (api.Revoked, *run, error) {
	g.authority.Lock()
	defer g.authority.Unlock()
	if x := g.book.byID(row.ID); x != nil {
		return api.Revoked{}, x, nil
	}
	if row.State != authz.Revoked.String() {
		t := now().Wall
		err := g.lose(r.ctx, []event.Event{event.RunRevoked{Run: row.ID, Operator: r.who}}, func(tx *store.Tx) error {
			return tx.SetRun(row.ID, row.State, authz.Revoked.String(), t)
		})
		if err != nil {
			return api.Revoked{}, nil, err
		}
		row.State, row.Changed = authz.Revoked.String(), t
	}
	return api.Revoked{Run: g.storedRun(row), Left: []api.Action{}}, nil, nil
}

// opEpochRevoke ends one epoch: its process stays refused, the run's other epochs keep what they have.
func (g *Gateway) opEpochRevoke(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	e := g.book.epoch(a.ID)
	if e == nil {
		return nil, api.Fail("not_found", "no epoch of this id lives; see `sp run show`")
	}
	left, err := g.endEpoch(r.ctx, e, "operator")
	return revoked(g, e.run, left, err)
}

// revoked answers a revocation of part of a run.
func revoked(g *Gateway, x *run, left []string, err error) (any, error) {
	if err != nil {
		g.complain("revoke", err)
		return nil, api.Fail("not_recorded", "revoked here, not yet recorded")
	}
	return api.Revoked{Run: x.show(), Left: g.departed(left)}, nil
}

// opGrantList shows every live grant.
func (g *Gateway) opGrantList(r opRequest) (any, error) {
	out := []api.Grant{}
	for _, x := range g.book.all() {
		x.mu.Lock()
		for _, gr := range x.grants {
			out = append(out, gr.shown)
		}
		x.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b api.Grant) int { return -strings.Compare(a.ID, b.ID) })
	return out, nil
}

// opGrantRevoke ends one grant, and the calls that are under way by it.
func (g *Gateway) opGrantRevoke(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	for _, x := range g.book.all() {
		x.mu.Lock()
		i := slices.IndexFunc(x.grants, func(gr *grant) bool { return gr.ID == a.ID })
		if i < 0 {
			x.mu.Unlock()
			continue
		}
		gr := x.grants[i]
		gr.State = authz.GrantVoid
		x.grants = slices.Delete(x.grants, i, i+1)
		if len(x.grants) == 0 {
			x.step(authz.Lock)
		}
		x.mu.Unlock()
		left := g.stopHeld(x, func(c *call) bool { return c.grant == gr })
		ev := event.GrantRevoked{Grant: gr.ID, Run: x.id, Epoch: gr.Epoch, Reason: "operator"}
		g.authority.Lock()
		err := g.lose(r.ctx, []event.Event{ev}, setRun(x, []*grant{gr}))
		g.authority.Unlock()
		return revoked(g, x, left, err)
	}
	return nil, api.Fail("not_found", "no live grant of this id; list them with `sp grant ls`")
}

func (g *Gateway) opActionList(r opRequest) (any, error) {
	var a api.ListArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	out := g.acts.list(a.AgentRun)
	seen := map[string]bool{}
	for _, x := range out {
		seen[x.ID] = true
	}
	rows, err := g.db.Actions(r.ctx, a.AgentRun, recentActions)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if !seen[row.ID] {
			out = append(out, g.kept(row))
		}
	}
	slices.SortFunc(out, func(a, b api.Action) int { return -strings.Compare(a.ID, b.ID) })
	for i := range out {
		out[i].Result = nil // a listing says what happened; `action show` says what came back
	}
	return out, nil
}

func (g *Gateway) opActionShow(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	x, ok := g.find(r.ctx, a.ID)
	if !ok {
		return nil, api.Fail("not_found", "")
	}
	return x, nil
}

// opActionResolve takes the operator's word for what became of a write nobody knows the end of; its twin may then be
// asked for again. The row's own transaction holds the event, so it is told once and for good.
func (g *Gateway) opActionResolve(r opRequest) (any, error) {
	var a api.ResolveArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if !slices.Contains([]string{"happened", "did-not-happen", "replay"}, a.Resolution) {
		return nil, api.Fail("invalid_request", "resolution: happened, did-not-happen or replay")
	}
	if err := g.ready(); err != nil {
		return nil, err
	}
	if err := g.flushActions(r.ctx); err != nil {
		return nil, err
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	row, ok, err := g.db.ActionByID(r.ctx, a.ID)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, api.Fail("not_found", "")
	case !row.Unresolved:
		return nil, api.Fail("invalid_request", "the outcome of "+row.ID+" is "+row.Outcome+"; there is nothing to resolve")
	}
	ev := event.ToolResolved{Action: row.ID, Resolution: a.Resolution, Operator: r.who}
	if err := g.change(r.ctx, true, []event.Event{ev}, func(tx *store.Tx) error { return tx.Resolve(row.ID) }); err != nil {
		return nil, err
	}
	g.acts.unblock(row.ID)
	return g.kept(row), nil
}
