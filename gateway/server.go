package gateway

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/launch"
	"sallyport/gateway/peer"
)

// Supervised servers. A wrapper launches an MCP server and speaks for it on one connection; the gateway measures what is
// launched, makes an epoch of each process that can act, and decides each tools/call on the one road. What the wrapper
// reports is a label; what the gateway measures counts.

// servers is what all of them share.
type servers struct {
	measurer *launch.Measurer
	places   chan struct{} // of measurements before exec: each may read a whole tree; see turn
	mu       sync.Mutex
	by       map[*agentConn]*server // by its wrapper's connection
	room     room                   // of what is kept of them: plans, catalogs, and calls that wait for a card
}

// keptRoom bounds what is kept of all servers, in bytes as JSON, and keptShare what one wrapper's process has of it.
const (
	keptRoom  = 256 << 20
	keptShare = 64 << 20
)

// hold takes n bytes for a wrapper's connection; nil: there is no room.
func (v *servers) hold(a *agentConn, n int) *hold {
	h := &hold{room: &v.room, pid: a.proc.Facts().PID}
	h.refs.Store(1)
	if !h.take(n) {
		return nil
	}
	return h
}

func newServers() *servers {
	key := make([]byte, 32) // of hashes that are compared within this life alone
	rand.Read(key)
	v := &servers{measurer: &launch.Measurer{Key: key}, places: make(chan struct{}, measuresMax), by: map[*agentConn]*server{}}
	v.room.open(keptRoom, keptShare)
	return v
}

// server is one wrapper's. What follows run is guarded by run.mu.
type server struct {
	label   string
	conn    *agentConn
	run     *run
	options api.ServerPlan // the latest, without its environment

	planned *launch.Record    // for the next child
	latest  launch.Revision   // the last one that it listed
	current *epoch            // the newest; nil before the first
	shown   string            // the revision that the host was last served
	wanted  map[string]parsed // tools that were refused for want of approval, by name
	asking  map[string]bool   // of those, the ones whose card was asked for
	changed chan struct{}     // closed, and made anew, when another epoch is current
	gone    bool              // its wrapper's connection is over
	kept    map[string]*hold  // room that its plan and its catalog take
	pins    []*peer.Process   // let go of with it

	attending sync.Mutex // one look at its processes at a time; before every other lock
}

// instance is what an epoch of a supervised server has besides a process. What follows over is guarded by run.mu.
type instance struct {
	server    *server
	child     *peer.Process // what the wrapper started; the epoch's own process may be a worker below it
	stdin     string        // what it reads, as the kernel names it
	cause     string
	old       string        // the epoch before it on this connection
	over      chan struct{} // closed at its end
	once      sync.Once
	measuring sync.Mutex // one second measurement at a time; before every other lock but ending
	ending    sync.Mutex // one clean-up at a time; before every other lock

	plan     launch.Record
	record   launch.Record    // of the second measurement; zero before it
	members  map[string]bool  // processes that may read stdin, by key; nil before the second measurement
	revoked  bool             // the operator ended it
	finished *api.ServerEnded // its clean-up is over
	unstable []string         // what the second measurement found different
	revision launch.Revision
	diff     []string                 // of it, from the one before
	drifted  []string                 // files that changed since
	nextLook time.Duration            // at its files, on the boot clock
	kin      map[string]member        // processes that were seen below child
	calls    map[string]*relayed      // forwarded, by action
	ended    map[string]time.Duration // tools/calls that ended less than callGrace ago, on the boot clock
}

// relayed is one forwarded call.
type relayed struct {
	report chan api.ServerReport // buffered 1
}

// served is what a run remembers of its servers, by label. Guarded by run.mu.
type served struct {
	servers  []*server
	approved map[string]string          // the epoch that last held a grant
	catalogs map[string]launch.Revision // the last one that was known of any server of the label
	turn     chan struct{}              // holds one who measures, or waits for a place to
}

// supervises tells a server's epoch, or its wrapper's: neither is another connection of the client. run.mu must be held.
func (v served) supervises(e *epoch) bool {
	return e.inst != nil || slices.ContainsFunc(v.servers, func(s *server) bool { return s.conn.proc.Key() == e.proc.Key() })
}

// labels and bounds.
const (
	labelMax   = 64
	wordsMax   = 1024    // of a command
	environMax = 4096    // variables
	wantedMax  = 32      // tools of one server that wait for a card
	replyMax   = 1 << 20 // bytes of a reply that are kept

	measuresMax = 2                // at once
	measureHold = 15 * time.Second // for how long one keeps its place
)

// serverOf finds a connection's server.
func (g *Gateway) serverOf(a *agentConn) *server {
	g.servers.mu.Lock()
	defer g.servers.mu.Unlock()
	return g.servers.by[a]
}

// push tells the wrapper something it did not ask for.
func (s *server) push(p api.Push) { s.conn.answer(api.Response{Push: &p}) }

// is tells whether e is the server's current epoch. run.mu must be held.
func (s *server) is(e *epoch) bool { return s.current == e && e != nil && e.state != authz.EpochEnded }

// state is the server's word. suspends is the setting. run.mu must be held.
func (s *server) state(suspends bool) string {
	e := s.current
	if e == nil || e.state == authz.EpochEnded {
		return api.ServerDown
	}
	switch {
	case len(e.inst.unstable) > 0:
		return api.ServerUnstable
	case suspends && e.drift.Load():
		return api.ServerSuspended
	case e.state == authz.IdentityPending:
		return api.ServerIdentityPending
	case len(s.run.live(e)) == 0:
		return api.ServerCatalogReady
	}
	return api.ServerReady
}

// show is the server as its wrapper is told. run.mu must be held.
func (s *server) show(suspends bool) api.ServerState {
	out := api.ServerState{ServerLabel: s.label, AgentRun: s.run.id, State: s.state(suspends), Shown: s.shown}
	if e := s.current; e != nil {
		out.ExecutionEpoch, out.OldEpoch, out.Cause, out.ProcessID = e.id, e.inst.old, e.inst.cause, e.facts.PID
		out.Catalog, out.ArtifactChanged = e.inst.revision.ID, slices.Clone(e.inst.drifted)
	}
	return out
}

// serverState is show for whoever does not hold the run's lock.
func (g *Gateway) serverState(s *server) api.ServerState {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	return s.show(g.suspends.Load())
}

// wrapper walks the rungs of what a wrapper says of its child, and finds its server: server.plan makes one. raw are pointers of
// others' documents in params.
func (a *agentConn) wrapper(ctx context.Context, method string, params []byte, into any, raw ...string) (caller, *server, *api.Error) {
	g := a.g
	plans := method == api.MethodServerPlan
	fault := decodeRaw(params, into, raw...)
	if plans && g.log.w.Load() == nil {
		return caller{}, nil, a.denied(ctx, caller{proc: a.proc}, method, "", api.Fail("vault_absent", ""))
	}
	who, err := g.identify(ctx, a.proc, plans && fault == nil)
	if err != nil {
		g.complain("identify", err)
		return who, nil, a.denied(ctx, who, method, "", a.unidentified(err))
	}
	s := g.serverOf(a)
	p := &plan{}
	switch {
	case fault != nil:
	case s == nil && !plans:
		fault = api.Fail("invalid_request", "no server.plan was said on this connection")
	}
	if fault != nil {
		p.authz.Fault, p.detail = authz.Reason(fault.Code), fault.Reason
	}
	d := g.judge(who, p, authz.WrapperWalk)
	if d.Verdict == authz.Allow || fault == nil && onlyEnds(method, d.Reason) {
		return who, s, nil
	}
	e := g.refusal(d)
	if p.detail != "" && d.Reason == p.authz.Fault {
		e.Reason = p.detail
	}
	return who, s, a.denied(ctx, who, method, "", e)
}

// onlyEnds tells what a wrapper may say whatever became of its run: how a call ended that was forwarded before, and that its
// child is to end. Neither gives it anything.
func onlyEnds(method string, refused authz.Reason) bool {
	switch refused {
	case authz.RunRevoked, authz.RunOrphaned, authz.RunDenied, authz.RunEnded:
		return method == api.MethodServerReport || method == api.MethodServerEnd
	}
	return false
}

// hangUp ends what a wrapper's connection held. Whatever it left alive is cleaned up, unless it is the gateway that goes: its
// wrapper lives then, and starts it anew.
func (a *agentConn) hangUp(stopping bool) {
	g := a.g
	g.servers.mu.Lock()
	s := g.servers.by[a]
	delete(g.servers.by, a)
	g.servers.mu.Unlock()
	if s == nil {
		return
	}
	s.run.mu.Lock()
	s.gone = true
	s.run.served.leave(s)
	s.letGo()
	s.run.mu.Unlock()
	g.task(func() { g.abandon(s, stopping) })
}

// abandon ends the child of a server whose wrapper is gone, and lets go of its processes.
func (g *Gateway) abandon(s *server, stopping bool) {
	s.run.mu.Lock()
	e := s.current
	alive := e != nil && e.state != authz.EpochEnded
	s.run.mu.Unlock()
	if alive && !stopping {
		g.endServer(context.WithoutCancel(g.life), s, e, "wrapper_gone")
	}
	s.run.mu.Lock()
	pins := s.pins
	s.pins = nil
	s.run.mu.Unlock()
	for _, p := range pins {
		p.Close()
	}
}

// prune lets go of processes that have ended and are not the current epoch's: a server that is started again and again
// would use up the gateway's descriptors. run.mu must be held.
func (s *server) prune() {
	s.pins = slices.DeleteFunc(s.pins, func(p *peer.Process) bool {
		if p == s.current.proc || p == s.current.inst.child || !over(p) {
			return false
		}
		p.Close()
		return true
	})
}

// letGo gives back the room of what a server that is gone had said. run.mu must be held.
func (s *server) letGo() {
	for what, h := range s.kept {
		h.drop()
		delete(s.kept, what)
	}
	for name := range s.wanted {
		s.unwant(name)
	}
}

// unwant forgets a tool that was wanted. run.mu must be held.
func (s *server) unwant(name string) {
	if q, ok := s.wanted[name]; ok {
		q.relay.held.drop()
		delete(s.wanted, name)
	}
}

// catalogRemembered bounds the catalog of a server that is gone, in bytes, and labelsRemembered how many of them a run
// remembers, to tell what is different when it comes again.
const (
	catalogRemembered = 128 << 10
	labelsRemembered  = 16
)

// leave takes a server out, and forgets its catalog where that is more than a run may keep. run.mu must be held.
func (v *served) leave(s *server) {
	v.servers = slices.DeleteFunc(v.servers, func(x *server) bool { return x == s })
	there := func(label string) bool {
		return slices.ContainsFunc(v.servers, func(x *server) bool { return x.label == label })
	}
	absent := 0
	for label := range v.catalogs {
		if !there(label) {
			absent++
		}
	}
	if sizeOf(v.catalogs[s.label]) > catalogRemembered || !there(s.label) && absent > labelsRemembered {
		delete(v.catalogs, s.label)
	}
}

// end closes the instance to whoever waits for its calls.
func (in *instance) end() { in.once.Do(func() { close(in.over) }) }

// runAbove is the run of the wrapper that p was started below; nil: there is none.
func (g *Gateway) runAbove(p *peer.Process) (found *run) {
	g.servers.mu.Lock()
	above := make(map[string]*run, len(g.servers.by))
	for a, s := range g.servers.by {
		above[a.proc.Key()] = s.run
	}
	g.servers.mu.Unlock()
	if len(above) == 0 || above[p.Key()] != nil {
		return nil
	}
	p.Descends(func(key string) bool { found = above[key]; return found != nil })
	return found
}

// childGone ends whichever epoch speaks through a child that has ended.
func (g *Gateway) childGone(s *server, child *peer.Process) {
	s.run.mu.Lock()
	e := s.current
	s.run.mu.Unlock()
	if e == nil || e.inst.child != child {
		return
	}
	g.endEpoch(context.WithoutCancel(g.life), e, processGone, word{})
	g.book.forget(e)
	state := g.serverState(s)
	s.push(api.Push{Kind: api.PushEpoch, Server: &state})
}

// stopServers tells the wrappers of a run that its servers are not wanted any more.
func (g *Gateway) stopServers(r *run, match func(*server) bool, reason string) {
	r.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(r.served.servers), func(s *server) bool { return !match(s) })
	r.mu.Unlock()
	for _, s := range all {
		g.task(func() { s.push(api.Push{Kind: api.PushStop, Reason: reason}) })
	}
}
