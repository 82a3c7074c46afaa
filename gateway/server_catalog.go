package gateway

import (
	"context"
	"maps"
	"slices"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/launch"
)

// diffMax is how many changes of a catalog are told.
const diffMax = 64

// serverCatalog takes a whole tools/list. The first one of an epoch says that its handshake was answered: then the running
// process is measured again.
func (a *agentConn) serverCatalog(ctx context.Context, params []byte) api.Response {
	g := a.g
	var r api.ServerCatalog
	who, s, fault := a.wrapper(ctx, api.MethodServerCatalog, params, &r, "/pages")
	if fault != nil {
		return api.Response{Error: fault}
	}
	refused := func(e *api.Error) api.Response {
		return api.Response{Error: a.denied(ctx, who, api.MethodServerCatalog, "", e)}
	}
	pages := make([][]byte, len(r.Pages))
	for i, p := range r.Pages {
		pages[i] = p
	}
	rev, err := launch.Catalog(pages)
	if err != nil {
		return refused(api.Fail("invalid_request", escape(err.Error(), 256)))
	}
	room := g.servers.hold(a, sizeOf(rev))
	if room == nil {
		return refused(api.Fail("busy", "the catalogs of too many servers are kept already"))
	}
	defer func() { room.drop() }() // it was refused, or is the one of the catalog before
	g.attend(s)
	e, fault := s.meant(r.ExecutionEpoch)
	if fault != nil {
		return refused(fault)
	}
	if fault := g.settled(ctx, s, e); fault != nil {
		return refused(fault)
	}
	out, fault := g.takeCatalog(ctx, s, e, rev, r.Served)
	if fault != nil {
		return refused(fault)
	}
	room = s.keepRoom(keptCatalog, room)
	g.openCards(s)
	return api.Response{Result: encode(out)}
}

// sizeOf is what a revision's documents take, in bytes.
func sizeOf(rev launch.Revision) (n int) {
	for _, t := range rev.Tools {
		n += len(t.ContractDoc) + len(t.PresentationDoc)
	}
	return n
}

// What of a server takes room.
const (
	keptPlan    = "plan"
	keptCatalog = "catalog"
)

// keepRoom makes room what the server's plan or catalog takes, and returns what is to be given back.
func (s *server) keepRoom(what string, room *hold) *hold {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if s.gone {
		return room
	}
	old := s.kept[what]
	s.kept[what] = room
	return old
}

// meant is the current epoch, for what is said of it; what is said of another one is refused.
func (s *server) meant(id string) (*epoch, *api.Error) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	return s.named(id)
}

// named is meant for whoever holds run.mu.
func (s *server) named(id string) (*epoch, *api.Error) {
	switch {
	case s.current != nil && s.current.id != id:
		e := api.Fail(string(authz.AuthorizationStale), "")
		e.ApprovedEpoch, e.CurrentEpoch = id, s.current.id
		return nil, e
	case !s.is(s.current):
		return nil, api.Fail(string(authz.ServerDown), "")
	}
	return s.current, nil
}

// takeCatalog makes a revision the current one. What it takes away holds before it is recorded; that the host knows it, after.
func (g *Gateway) takeCatalog(ctx context.Context, s *server, e *epoch, rev launch.Revision, served bool) (api.ServerState, *api.Error) {
	r := s.run
	r.mu.Lock()
	_, fault := s.named(e.id) // its process may have been replaced, or have ended, while it was measured
	if s.gone && fault == nil {
		fault = api.Fail("gateway_restarted", "")
	}
	if fault != nil {
		r.mu.Unlock()
		return api.ServerState{}, fault
	}
	old := s.latest
	if old.ID == "" {
		old = r.served.catalogs[s.label]
	}
	changed := e.inst.revision.ID != rev.ID
	if next, err := e.state.Next(authz.CatalogFetched); err == nil {
		e.state = next
	}
	e.inst.revision, s.latest, r.served.catalogs[s.label] = rev, rev, rev
	tellServed := served && s.shown != rev.ID
	r.mu.Unlock()

	diff, contract := revised(old, rev)
	var evs []event.Event
	if changed {
		evs = append(evs, event.CatalogChanged{Run: r.id, Epoch: e.id, ServerLabel: s.label, Catalog: rev.ID, Old: old.ID, Tools: len(rev.Tools),
			Contract: bounded(contract, diffMax, 256), Diff: diff})
	}
	if tellServed || served && changed {
		evs = append(evs, event.CatalogServed{Run: r.id, Epoch: e.id, ServerLabel: s.label, Catalog: rev.ID})
	}
	if len(evs) > 0 {
		if err := g.log.note(ctx, r.id, evs...); err != nil {
			g.complain("record catalog", err)
			return api.ServerState{}, api.Fail("audit_unavailable", "")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if served && s.current == e && e.inst.revision.ID == rev.ID {
		s.shown = rev.ID
	}
	if changed {
		e.inst.diff = diff
	}
	out := s.show(g.suspends.Load())
	out.Changed, out.ContractChanged = diff, contract
	return out, nil
}

// revised tells the changes from one revision to another, one a line, and the tools whose contract is not what it was.
func revised(old, rev launch.Revision) (lines, contract []string) {
	for _, name := range slices.Sorted(maps.Keys(rev.Tools)) {
		if was, ok := old.Tools[name]; !ok || was.Contract != rev.Tools[name].Contract {
			contract = append(contract, name)
		}
	}
	if old.ID == "" || old.ID == rev.ID {
		return nil, contract
	}
	var all []string
	for _, c := range launch.Diff(old, rev) {
		all = append(all, c.String())
	}
	return bounded(all, diffMax, 512), contract
}

// unapproved turns a decision that wants approval into a refusal: the host of a supervised server can't wait, and calls again
// once the operator has answered the card that is opened for it.
func (g *Gateway) unapproved(p *plan, d authz.Decision, a api.Action) (authz.Decision, api.Action) {
	s := p.relay.server
	s.run.mu.Lock()
	if s.current != nil {
		a.ExecutionEpoch = s.current.id
	}
	s.run.mu.Unlock()
	if d.Verdict == authz.Ask || d.Reason == authz.NotAuthorized || d.Reason == authz.AuthorizationStale {
		d.Verdict = authz.Deny
		g.want(s, p.parsed)
	}
	return d, a
}

// want remembers a tool that was refused for want of approval, and opens its card once that is possible.
func (g *Gateway) want(s *server, q parsed) {
	s.run.mu.Lock()
	s.unwant(q.tool)
	if !s.gone && len(s.wanted) < wantedMax {
		if h := g.servers.hold(s.conn, len(q.relay.args)); h != nil { // without room the host has to call again
			asked := *q.relay
			asked.held, q.relay = h, &asked
			s.wanted[q.tool] = q
		}
	}
	s.run.mu.Unlock()
	g.openCards(s)
}

// openCards lays a card for each wanted tool that the current epoch could be given.
func (g *Gateway) openCards(s *server) {
	r := s.run
	r.mu.Lock()
	e := s.current
	var asks []parsed
	if s.is(e) && len(e.inst.unstable) == 0 && (e.state == authz.CatalogReady || e.state == authz.Live) {
		for _, name := range slices.Sorted(maps.Keys(s.wanted)) {
			if _, offered := e.inst.revision.Tools[name]; offered && !s.asking[name] {
				s.asking[name] = true
				asks = append(asks, s.wanted[name])
			}
		}
	}
	r.mu.Unlock()
	for _, q := range asks {
		g.task(func() { g.askRelay(s, e, q) })
	}
}

// askRelay asks the operator for one tool of an epoch. The call that wanted it is over.
func (g *Gateway) askRelay(s *server, e *epoch, q parsed) {
	asked := *q.relay
	asked.meant = e.id
	q.relay = &asked
	p := bind(q, nil)
	p.run = s.run.id
	who := caller{proc: s.conn.proc, run: s.run, epoch: e}
	again := func() authz.Decision {
		d := g.judge(who, p, authz.FullWalk)
		s.run.mu.Lock()
		defer s.run.mu.Unlock()
		if d.Verdict == authz.Deny && s.is(e) && len(e.inst.unstable) == 0 && s.contract(q.tool) == p.relay.contract {
			switch d.Reason {
			case authz.NotAuthorized, authz.AuthorizationStale, authz.CatalogStale:
				d = authz.Decision{Verdict: authz.Ask, Reason: authz.NotAuthorized}
			}
		}
		return d
	}
	ctx, stop := context.WithCancel(g.life)
	defer stop()
	g.task(func() {
		select {
		case <-s.conn.over:
			stop()
		case <-ctx.Done():
		}
	})
	yes, refused := g.ask(ctx, who, p, again)
	s.run.mu.Lock()
	granted := yes != nil && s.is(e)
	if s.current == e {
		delete(s.asking, q.tool)
		if granted || refused != nil {
			s.unwant(q.tool)
		}
	}
	state := s.show(g.suspends.Load())
	s.run.mu.Unlock()
	if granted {
		s.push(api.Push{Kind: api.PushReady, Server: &state})
	}
}

// contract is a tool's now; empty: there is none of that name. run.mu must be held.
func (s *server) contract(tool string) string {
	if s.current == nil {
		return ""
	}
	t, ok := s.current.inst.revision.Tools[tool]
	if !ok {
		return ""
	}
	return t.ContractID()
}

// stands tells whether what a card asks for could still be given. run.mu must be held.
func (c *card) stands() bool {
	in := c.epoch.inst
	if in == nil {
		return c.epoch.state == authz.Live
	}
	s, q := in.server, c.plan.relay
	return s.is(c.epoch) && len(in.unstable) == 0 && (c.epoch.state == authz.Live || c.epoch.state == authz.CatalogReady && q != nil) &&
		(q == nil || q.contract != "" && s.contract(c.plan.tool) == q.contract)
}

// granted notes that the card's epoch was given something. run.mu must be held.
func (c *card) granted() {
	in := c.epoch.inst
	if in == nil {
		return
	}
	if next, err := c.epoch.state.Next(authz.Approved); err == nil {
		c.epoch.state = next
	}
	c.epoch.run.served.approved[in.server.label] = c.epoch.id
}

// recordServer adds to an intent what it has to say of a supervised server.
func (g *Gateway) recordServer(who caller, p *plan, ev *event.ToolCalled) {
	in := who.epoch.inst
	if in == nil {
		return
	}
	who.run.mu.Lock()
	defer who.run.mu.Unlock()
	ev.ServerLabel = in.server.label
	if p.relay == nil {
		ev.During = in.during()
		slices.Sort(ev.During)
		return
	}
	ev.CatalogShown, ev.Catalog, ev.Contract, ev.RequestID = p.relay.shown, p.relay.current, p.relay.contract, p.relay.request
}
