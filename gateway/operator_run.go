package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
)

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
	if plain, err := g.vault.Unseal(store.UseRun, []byte(row.ID), row.Sealed); err == nil {
		var s storedRun
		if json.Unmarshal(plain, &s) == nil {
			out.Agent = s.Agent
		}
	}
	return out
}

// runOf finds a run: in memory, else (nil) by its row, which is all there is of an earlier start's run while the vault is
// locked.
func (g *Gateway) runOf(ctx context.Context, id string) (*run, store.Run, error) {
	if id == "" {
		return nil, store.Run{}, api.Fail("invalid_request", "id: name a run")
	}
	if x := g.book.byID(id); x != nil {
		return x, store.Run{}, nil
	}
	rows, err := g.db.Runs(ctx)
	if err != nil {
		return nil, store.Run{}, err
	}
	if i := slices.IndexFunc(rows, func(x store.Run) bool { return x.ID == id }); i >= 0 {
		return nil, rows[i], nil
	}
	return nil, store.Run{}, api.Fail("not_found", "no run "+escape(id, 64)+" here; list them with `sp run ls`")
}

func (g *Gateway) opRunShow(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	x, row, err := g.runOf(r.ctx, a.ID)
	if err != nil {
		return nil, err
	}
	if x == nil {
		out := g.storedRun(row)
		t, err := g.timesTold(r.ctx, row.ID)
		g.complain("read times of run", err)
		out.ClientUnavailableAt, out.UnresponsiveSince, out.LastActionStartedAt = t.clientUnavailable, t.unresponsive, t.lastAction
		if out.EndedGrants, err = g.endedGrants(r.ctx, out); err != nil {
			return nil, err
		}
		calls, err := g.callsOf(r.ctx, row.ID)
		out.Calls = len(calls)
		return out, err
	}
	g.recollect(r.ctx, x)
	out := x.show()
	if out.EndedGrants, err = g.endedGrants(r.ctx, out); err != nil {
		return nil, err
	}
	calls, err := g.callsOf(r.ctx, x.id)
	if err != nil {
		return nil, err
	}
	out.Calls = max(out.Calls, len(calls)) // the run itself knows of this start's alone
	x.mu.Lock()
	classes := x.times.classed(calls)
	classes.Refused = x.roster.refused.count
	x.mu.Unlock()
	out.CallClasses = &classes
	return out, nil
}

func (g *Gateway) opRunRevoke(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	x, row, err := g.runOf(r.ctx, a.ID)
	if err != nil {
		return nil, err
	}
	var out api.Revoked
	if x == nil {
		out, x, err = g.revokeStored(r, row)
	}
	if x != nil {
		out, err = g.revoke(r.ctx, x, r.word())
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
		t, by := now().Wall, r.word()
		err := g.lose(r.ctx, []event.Event{event.RunRevoked{Run: row.ID, Operator: by.operator, Peer: by.peer}}, func(tx *store.Tx) error {
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
	left, err := g.endEpoch(r.ctx, e, "operator", r.word())
	if e.inst != nil {
		g.stopServers(e.run, func(s *server) bool { return s == e.inst.server }, string(authz.ReasonEpochEnded))
	}
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
		by := r.word()
		ev := event.GrantRevoked{Grant: gr.ID, Run: x.id, Epoch: gr.Epoch, Reason: "operator", Operator: by.operator, Peer: by.peer}
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
	if hasJob(x) && bind(askOf(askStatus, x), g.targets()).authz.Bound && g.evidence.take(r, boot()) {
		return g.operateJob(r, askStatus, x)
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
	k := keptAction{Doc: g.kept(row)}
	if len(row.Sealed) > 0 {
		if k, err = g.openKept(row); err != nil {
			return nil, err
		}
	}
	k.Doc.Resolution = a.Resolution
	if a.Resolution != "happened" {
		k.Key = "" // the caller's own key may send it again
	}
	if err := g.sealKept(&row, k); err != nil {
		return nil, err
	}
	ev := event.ToolResolved{Action: row.ID, Resolution: a.Resolution, Operator: r.who}
	if err := g.change(r.ctx, false, []event.Event{ev}, func(tx *store.Tx) error { return tx.Resolve(row.ID, row.Sealed) }); err != nil {
		return nil, err
	}
	g.acts.resolved(row.ID, a.Resolution)
	if k.Key == "" {
		g.freeKey(row.Run, row.ID)
	}
	return k.Doc, nil
}
