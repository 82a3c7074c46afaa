package gateway

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/launch"
	"sallyport/gateway/peer"
	"sallyport/gateway/store"
)

// serverPlan measures what a wrapper is about to execute.
func (a *agentConn) serverPlan(ctx context.Context, params []byte) api.Response {
	var r api.ServerPlan
	who, s, fault := a.wrapper(ctx, api.MethodServerPlan, params, &r)
	if fault == nil {
		if fault = checkPlan(r); fault == nil && s != nil && s.label != r.ServerLabel {
			fault = api.Fail("invalid_request", "serverLabel: this connection's server is "+s.label)
		}
		if fault != nil {
			fault = a.denied(ctx, who, api.MethodServerPlan, "", fault)
		}
	}
	if fault != nil {
		return api.Response{Error: fault}
	}
	rec, fault := a.measure(who.run, r)
	if fault != nil {
		return api.Response{Error: a.denied(ctx, who, api.MethodServerPlan, "", fault)}
	}
	rec.ServerLabel = r.ServerLabel
	r.Environment = nil
	room := a.g.servers.hold(a, rec.Size())
	if room == nil {
		return api.Response{Error: a.denied(ctx, who, api.MethodServerPlan, "", api.Fail("busy", "the plans of too many servers are kept already"))}
	}
	defer func() { room.drop() }() // it was refused, or is the one of the plan before
	if s == nil {
		if s, fault = a.newServer(who.run, r); fault != nil {
			return api.Response{Error: a.denied(ctx, who, api.MethodServerPlan, "", fault)}
		}
	}
	s.run.mu.Lock()
	s.options, s.planned = r, &rec
	s.run.mu.Unlock()
	room = s.keepRoom(keptPlan, room)
	return api.Response{Result: encode(api.ServerPlanned{AgentRun: s.run.id, Record: encode(rec)})}
}

// newServer makes the connection's server, once.
func (a *agentConn) newServer(r *run, p api.ServerPlan) (*server, *api.Error) {
	g := a.g
	g.servers.mu.Lock()
	defer g.servers.mu.Unlock()
	select {
	case <-a.over: // hangUp has been, or waits for the lock: it ends what it finds
		return nil, api.Fail("gateway_restarted", "")
	default:
	}
	if g.servers.by[a] != nil {
		return nil, api.Fail("invalid_request", "another server.plan of this connection is under way")
	}
	s := &server{label: p.ServerLabel, conn: a, run: r, wanted: map[string]parsed{}, asking: map[string]bool{}, kept: map[string]*hold{}, changed: make(chan struct{})}
	g.servers.by[a] = s
	r.mu.Lock()
	r.served.servers = append(r.served.servers, s)
	r.mu.Unlock()
	return s, nil
}

func checkPlan(r api.ServerPlan) *api.Error {
	bad := func(s string) *api.Error { return api.Fail("invalid_request", s) }
	named := r.ServerLabel != "" && len(r.ServerLabel) <= labelMax
	for _, c := range r.ServerLabel {
		named = named && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	}
	switch {
	case !named:
		return bad("serverLabel: 1 to 64 letters, digits, dots, underscores and dashes")
	case len(r.LaunchCommand) == 0 || len(r.LaunchCommand) > wordsMax || r.LaunchCommand[0] == "":
		return bad("launchCommand: a program and its arguments")
	case !filepath.IsAbs(r.WorkingDirectory):
		return bad("workingDirectory: an absolute path")
	case len(r.Environment) > environMax:
		return bad("environment: at most 4096 variables")
	case !slices.Contains([]string{"", "supervisor", "crash", "reload", "operator"}, r.Cause):
		return bad("cause: supervisor, crash, reload or operator")
	case r.Workers < 0 || r.Workers > 64:
		return bad("workers: 0 to 64")
	case !slices.Contains([]string{"", "none", "restart"}, r.Reload):
		return bad("reload: none or restart")
	case r.ExitWithin < 0 || r.ExitWithin > 60_000:
		return bad("exitWithin: 0 to 60000 milliseconds")
	case !slices.Contains([]string{"", "die", "keep"}, r.Children):
		return bad("children: die or keep")
	}
	return nil
}

// measure says what the command would run. A wrapper in another mount namespace names files that are not ours: nothing of
// them can be told before they run.
func (a *agentConn) measure(of *run, r api.ServerPlan) (launch.Record, *api.Error) {
	if at, err := a.proc.Place(); err != nil || at.Foreign {
		return launch.Record{LaunchCommand: r.LaunchCommand, WorkingDirectory: r.WorkingDirectory, Environment: []launch.Variable{},
			Launchers: []launch.Artifact{}, Deferred: true, Unpinned: []string{"the wrapper runs in other namespaces: its paths mean other files"}}, nil
	}
	leave, ok := a.g.servers.place(of.served.turn, a.over)
	if !ok {
		return launch.Record{}, api.Fail("gateway_restarted", "")
	}
	defer leave()
	rec, err := a.g.servers.measurer.Plan(r.LaunchCommand, r.WorkingDirectory, r.Environment)
	if err != nil {
		return launch.Record{}, api.Fail("invalid_request", escape(err.Error(), 256))
	}
	return rec, nil
}

// place waits for a place to measure. Of one run one server at a time waits for it, and those who wait get it in the order in
// which they came: a run with many servers, or with one on a file system that never answers, does not keep others from theirs.
// turn is the run's.
func (v *servers) place(turn chan struct{}, over <-chan struct{}) (leave func(), ok bool) {
	select {
	case turn <- struct{}{}:
	case <-over:
		return nil, false
	}
	select {
	case v.places <- struct{}{}:
	case <-over:
		<-turn
		return nil, false
	}
	giveBack := sync.OnceFunc(func() { <-v.places })
	t := time.AfterFunc(measureHold, giveBack)
	return func() {
		t.Stop()
		giveBack()
		<-turn
	}, true
}

// serverStarted makes an epoch of the wrapper's child.
func (a *agentConn) serverStarted(ctx context.Context, params []byte) api.Response {
	var r api.ServerStarted
	who, s, fault := a.wrapper(ctx, api.MethodServerStarted, params, &r)
	if fault != nil {
		return api.Response{Error: fault}
	}
	refused := func(e *api.Error) api.Response {
		return api.Response{Error: a.denied(ctx, who, api.MethodServerStarted, "", e)}
	}
	s.run.mu.Lock()
	plan := s.planned
	s.planned = nil
	old := s.current
	lives := old != nil && old.state != authz.EpochEnded
	s.run.mu.Unlock()
	switch {
	case plan == nil:
		return refused(api.Fail("invalid_request", "no server.plan came before it"))
	case lives && !over(old.inst.child):
		return refused(api.Fail("invalid_request", "the child before it lives: end that first"))
	case lives:
		a.g.endEpoch(ctx, old, processGone, word{})
	}
	child, stdin, fault := a.settledChild(ctx, who, r.ProcessID)
	if fault != nil {
		return refused(fault)
	}
	if fault = a.g.openServer(ctx, s, child, stdin, *plan); fault != nil {
		child.Close()
		return refused(fault)
	}
	a.g.watch(child.Gone(), func() { a.g.childGone(s, child) })
	return api.Response{Result: encode(a.g.serverState(s))}
}

// child pins the process that the wrapper names, if it is its own living child, started after this connection, executed,
// and nobody else's.
func (a *agentConn) child(who caller, pid int) (*peer.Process, string, *api.Error) {
	g := a.g
	refuse := func(why string) (*peer.Process, string, *api.Error) {
		return nil, "", api.Fail("peer_unidentified", childReason(why))
	}
	kids, err := a.proc.Children() // reads the list before and after it holds each of them
	if err != nil {
		g.complain("look at wrapper's children", err)
		return refuse("can't be looked at")
	}
	var child *peer.Process
	for _, p := range kids {
		if p.Facts().PID == pid {
			child = p
		} else {
			p.Close()
		}
	}
	if child == nil {
		return refuse("is no living child of the one that says so")
	}
	why := g.unfit(who, child, a.since)
	stdin, err := child.FedBy(a.proc)
	if why == "" && err != nil {
		why = "can read no pipe that its wrapper can write"
	}
	if why == "" && child.Same() != nil {
		why = changedMeanwhile
	}
	if why != "" {
		child.Close()
		return refuse(why)
	}
	return child, stdin, nil
}

// unfit says why a child may not become a server; empty: it may.
func (g *Gateway) unfit(who caller, child *peer.Process, since time.Duration) string {
	if child.Facts().UID != g.cfg.ServeUID {
		return "is another user's"
	}
	if began, err := child.Began(); err != nil || began < since.Truncate(10*time.Millisecond) {
		return "was started before the wrapper connected; start it anew"
	}
	if done, err := child.Executed(); err != nil || !done {
		return "has not executed a program yet"
	}
	g.book.mu.Lock()
	e, r := g.book.peers[child.Key()], g.book.owners[child.Key()]
	g.book.mu.Unlock()
	if r != nil || e != nil && e.run != who.run {
		return "belongs to another run"
	}
	if e != nil {
		e.run.mu.Lock()
		defer e.run.mu.Unlock()
		if e.inst != nil || len(e.run.live(e)) > 0 {
			return "is an epoch of this run already"
		}
	}
	return ""
}

// openServer records and opens the epoch of a child.
func (g *Gateway) openServer(ctx context.Context, s *server, child *peer.Process, stdin string, plan launch.Record) *api.Error {
	r, f := s.run, child.Facts()
	plan.ProcessID = f.PID
	if early := g.book.at(child.Key()); early != nil { // it called before its wrapper named it
		g.endEpoch(ctx, early, string(authz.PeerReplaced), word{})
		g.book.forget(early)
	}
	r.mu.Lock()
	o := s.options
	r.mu.Unlock()
	in := &instance{server: s, child: child, stdin: stdin, cause: o.Cause, over: make(chan struct{}), plan: plan,
		calls: map[string]*relayed{}, ended: map[string]time.Duration{}}
	if in.cause == "" {
		in.cause = "supervisor"
	}
	e := &epoch{id: newID("ep_"), run: r, proc: child, facts: f, state: authz.IdentityPending, chain: chainOf(child), inst: in}
	started := event.ServerStarted{Run: r.id, Epoch: e.id, ServerLabel: s.label, ProcessID: f.PID, Cause: in.cause, Execution: execution(plan),
		Workers: o.Workers, Reload: o.Reload, ExitWithin: o.ExitWithin, Children: o.Children}
	if err := g.openInstance(ctx, s, e, started); errors.Is(err, errTwoChildren) {
		return api.Fail("invalid_request", err.Error())
	} else if err != nil {
		g.complain("open server epoch", err)
		return api.Fail("audit_unavailable", "this server could not be recorded, so nothing is done for it")
	}
	return nil
}

// keptInstances is how many ended epochs of servers a run holds: each remembers every file that it was started from.
const keptInstances = 8

// letGo forgets the oldest ended epochs of servers, but for those that a report may still come for. run.mu must be held.
func (r *run) letGo() {
	ended := func(e *epoch) bool { return e.inst != nil && e.spent() }
	over := -keptInstances
	for _, e := range r.epochs {
		if ended(e) {
			over++
		}
	}
	r.epochs = slices.DeleteFunc(r.epochs, func(e *epoch) bool {
		if over <= 0 || !ended(e) {
			return false
		}
		over--
		return true
	})
}

var errTwoChildren = errors.New("another child of this connection was started meanwhile, and lives")

// openInstance records a server's epoch and makes it the current one. more follows epoch_opened and comes before server_replaced.
func (g *Gateway) openInstance(ctx context.Context, s *server, e *epoch, more ...event.Event) error {
	r := s.run
	g.authority.Lock()
	defer g.authority.Unlock()
	r.mu.Lock()
	old := s.current
	two := old != nil && old.state != authz.EpochEnded
	r.mu.Unlock()
	if two {
		return errTwoChildren
	}
	evs := append([]event.Event{event.EpochOpened{Run: r.id, Epoch: e.id, ServerLabel: s.label, Process: evidence(e.facts)}}, more...)
	if old != nil {
		e.inst.old = old.id
		evs = append(evs, event.ServerReplaced{Run: r.id, ServerLabel: s.label, OldEpoch: old.id, NewEpoch: e.id,
			OldProcessID: old.facts.PID, NewProcessID: e.facts.PID, Cause: e.inst.cause})
	}
	if !g.open.Load() {
		if err := g.log.note(ctx, r.id, evs...); err != nil {
			return err
		}
	} else if err := g.change(ctx, false, evs, func(tx *store.Tx) error {
		return tx.PutEpoch(store.Epoch{ID: e.id, Run: r.id, State: e.state.String(), Opened: now().Wall})
	}); err != nil {
		return err
	}
	g.book.mu.Lock()
	g.book.peers[e.proc.Key()] = e
	g.book.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epochs = append(r.epochs, e)
	r.letGo()
	if old != nil {
		old.inst.revision = launch.Revision{ID: old.inst.revision.ID} // its tools are nobody's any more
	}
	s.current, s.pins = e, append(s.pins, e.proc)
	s.prune()
	if s.gone { // its end came while this was under way
		g.task(func() { g.abandon(s, g.life.Err() != nil) })
	}
	close(s.changed)
	s.changed = make(chan struct{})
	clear(s.asking)
	return nil
}

// at is the epoch of a process.
func (r *registry) at(key string) *epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peers[key]
}

// execution is a record as the log keeps it.
func execution(r launch.Record) event.Execution {
	c := r.Code
	x := event.Execution{WorkingDirectory: escape(r.WorkingDirectory, pathMax), Exe: escape(c.Exe, pathMax), ExeDigest: c.ExeDigest,
		Entry: escape(c.Entry, pathMax), EntryDigest: c.EntryDigest, Lockfile: escape(c.Lockfile, pathMax), LockfileDigest: c.LockfileDigest,
		TreeDigest: c.TreeDigest, Runtime: escape(c.Runtime, 128), Image: escape(c.Image, pathMax), ImageDigest: c.ImageDigest,
		LaunchCommand: bounded(r.LaunchCommand, 64, pathMax), Unpinned: bounded(r.Unpinned, 32, pathMax),
		Launchers: artifacts(r.Launchers), Files: artifacts(append(slices.Clone(c.Files), c.Config...))}
	var names []string
	for _, v := range r.Environment {
		names = append(names, v.Name)
	}
	x.Environment = bounded(names, 256, 128)
	return x
}

func artifacts(as []launch.Artifact) (out []event.Artifact) {
	for _, a := range as[:min(len(as), 64)] {
		out = append(out, event.Artifact{Path: escape(a.Path, pathMax), Digest: a.Digest})
	}
	return out
}

// bounded escapes at most n texts, and says how many there were beyond.
func bounded(all []string, n, limit int) []string {
	out := make([]string, 0, min(len(all), n+1))
	for i, s := range all {
		if i == n {
			return append(out, fmt.Sprintf("… %d more", len(all)-n))
		}
		out = append(out, escape(s, limit))
	}
	return out
}
