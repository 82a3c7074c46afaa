package gateway

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/launch"
	"sallyport/gateway/peer"
)

// run is one live instance of an agent client process, and the lock that everything of it turns on. Every decision
// about a run is made under mu, so what one call sees no other can change before it acts.
//
// Lock order: Gateway.door, Gateway.containing, Gateway.authority, registry.mu, run.mu, then cards.mu or actions.mu; never back.
// server.attending, instance.ending and instance.measuring come before all of them.
// Nobody waits for calls to leave while holding Gateway.authority: a call may want it to keep a token (keeper.go).
type run struct {
	id     string
	opened time.Time
	owner  owner

	mu     sync.Mutex
	state  authz.RunState
	times  times
	epochs []*epoch
	grants []*grant
	held   map[string]*call  // reserved or entered: revoke waits until they have left
	keys   map[string]keyUse // a caller's idempotency key -> what it was used for
	recall []string          // runs of this owner whose keys of before this start are still only in rows
	denied int               // cards the operator denied
	plea   time.Duration     // when, while denied, it last asked for access, on the boot clock; 0: never
	calls  int
	roster roster // the processes of it
	served served // the supervised servers of it
}

// owner is the process a run belongs to, as facts; the process itself is kept by its watcher.
type owner struct {
	key   string // peer.Process.Key
	facts peer.Facts
	shell bool // an interactive shell: `sp call` made the run, so the operator may share the terminal with it
}

// times are kept apart on purpose: together they class each call as before, in, or after the uncertain window. What an
// earlier gateway knew of them is read back when it is asked for (recollect.go).
type times struct {
	clientUnavailable, lastAction, revoked time.Time
	unresponsive                           time.Time // since when the client lives and does nothing
}

// keyUse is what an idempotency key was used for.
type keyUse struct {
	digest [32]byte
	action string
}

// epoch is one process instance able to act in a run.
type epoch struct {
	id    string
	run   *run
	proc  *peer.Process
	facts peer.Facts
	state authz.EpochState // under run.mu
	chain chain            // where it stands among other processes
	drift atomic.Bool      // its program was exchanged on disk
	echo  int              // reflections since its grants were last paused, under run.mu
	told  bool             // that it has ended is recorded; under Gateway.authority
	inst  *instance        // of a supervised server; nil: an agent's own process
}

// grant is live authority in memory. Only memory counts while spd runs.
type grant struct {
	authz.Grant
	shown api.Grant
}

// call is one action on its way through the gate. dial ends before ctx when the run is revoked.
type call struct {
	id         string
	epoch      *epoch
	ctx, dial  context.Context
	cancel     context.CancelFunc
	cancelDial context.CancelFunc
	grant      *grant        // whose use was taken
	card       *card         // the approval reserved for it
	entered    bool          // under run.mu: the gate let it pass
	left       chan struct{} // closed once it has left
}

// spent says that nothing is waited for any more of an epoch that has ended: no report of its calls may still come.
// run.mu must be held.
func (e *epoch) spent() bool {
	return e.state == authz.EpochEnded && (e.inst == nil || len(e.inst.calls) == 0)
}

// newRun makes a run nobody has granted anything.
func newRun(o owner, opened time.Time) *run {
	return &run{id: newID("run_"), opened: opened, owner: o, state: authz.Pending, held: map[string]*call{}, keys: map[string]keyUse{},
		served: served{approved: map[string]string{}, catalogs: map[string]launch.Revision{}, turn: make(chan struct{}, 1)}}
}

// stands is the run's state, for whoever does not hold mu.
func (r *run) stands() authz.RunState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// step moves the state machine; an impossible pair leaves the state and answers false. mu must be held.
func (r *run) step(e authz.RunEvent) bool {
	next, err := r.state.Next(e)
	if err != nil {
		return false
	}
	r.state = next
	return true
}

// hold registers a call, so that a revocation waits for it. mu must be held.
func (r *run) hold(c *call) {
	r.held[c.id] = c
}

// leave takes a call out of the gate, after its result is recorded.
func (r *run) leave(c *call) {
	r.mu.Lock()
	delete(r.held, c.id)
	r.mu.Unlock()
	c.cancel()
	close(c.left)
}

// void ends every grant of the run (or of one epoch) in memory and returns them. mu must be held.
func (r *run) void(of *epoch) []*grant {
	var ended []*grant
	r.grants = slices.DeleteFunc(r.grants, func(g *grant) bool {
		if of != nil && g.Epoch != of.id {
			return false
		}
		g.State = authz.GrantVoid
		ended = append(ended, g)
		return true
	})
	return ended
}

// live lists an epoch's grants as they may be shown. mu must be held.
func (r *run) live(e *epoch) []api.Grant {
	out := []api.Grant{}
	for _, g := range r.grants {
		if g.Epoch == e.id {
			out = append(out, g.shown)
		}
	}
	return out
}

// show is the run as the operator sees it.
func (r *run) show() api.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := api.Run{
		ID: r.id, State: r.state.String(), Agent: agent(r.owner.facts), Epochs: []api.Epoch{}, OpenedAt: r.opened,
		ClientUnavailableAt: r.times.clientUnavailable, UnresponsiveSince: r.times.unresponsive, LastActionStartedAt: r.times.lastAction,
		RevokedAt: r.times.revoked, Calls: r.calls,
	}
	for _, x := range r.roster.orphaned {
		out.Reparented = append(out.Reparented, api.Reparented{ProcessID: x.pid, Parent: x.parent, PPID: x.ppid, At: x.at})
	}
	for _, e := range r.epochs {
		x := api.Epoch{ID: e.id, State: e.state.String(), ProcessID: e.facts.PID}
		if e.inst != nil {
			x.ServerLabel = e.inst.server.label
		}
		out.Epochs = append(out.Epochs, x)
	}
	return out
}

// agent shows a process; what the process itself chose (its command) is escaped.
func agent(f peer.Facts) api.Agent {
	return api.Agent{ProcessID: f.PID, Command: command(f), ExeDigest: f.ExeDigest, Identity: f.Identity}
}
