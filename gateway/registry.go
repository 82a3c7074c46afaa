package gateway

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/peer"
	"sallyport/gateway/store"
)

// registry knows every run by its owner's process key, and every epoch by its peer's.
type registry struct {
	mu     sync.Mutex
	runs   map[string]*run   // by id
	owners map[string]*run   // by owner's process key
	peers  map[string]*epoch // by peer's process key: its current instance
	past   []*run            // whose client is gone, oldest first
}

// pastRuns is how many runs stay in memory after their client has gone; their rows stay in the database.
const pastRuns = 1024

// bury counts a run among the past ones, and forgets the oldest beyond the bound. A process key never comes back, so
// nobody can return to a run that was forgotten.
func (r *registry) bury(x *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = append(r.past, x)
	for len(r.past) > pastRuns {
		old := r.past[0]
		r.past = r.past[1:]
		delete(r.runs, old.id)
		if r.owners[old.owner.key] == old {
			delete(r.owners, old.owner.key)
		}
	}
}

func newRegistry() *registry {
	return &registry{runs: map[string]*run{}, owners: map[string]*run{}, peers: map[string]*epoch{}}
}

func (r *registry) byID(id string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[id]
}

func (r *registry) all() []*run {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*run, 0, len(r.runs))
	for _, x := range r.runs {
		out = append(out, x)
	}
	return out
}

// owns tells whether a process key is the owner of a run that an agent's process may descend from.
func (r *registry) owns(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.peers[key]; e != nil && !e.run.owner.shell {
		return true
	}
	x := r.owners[key]
	return x != nil && !x.owner.shell
}

// restore takes a run of an earlier start into memory. If its owner was seen again while the vault was locked, the
// stored state stands for that run too: a revocation is final.
func (r *registry) restore(row store.Run, state authz.RunState, s storedRun) *run {
	x := newRun(owner{key: s.Owner, facts: s.facts(), shell: s.Shell}, row.Opened)
	x.id, x.state, x.roster.earlier, x.recall = row.ID, state, true, []string{row.ID}
	if state == authz.Revoked {
		x.times.revoked, x.roster.recorded = row.Changed, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[x.id] = x
	seen := r.owners[s.Owner]
	if seen == nil {
		r.owners[s.Owner] = x
		return x
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.recall = append(seen.recall, x.id)
	if state == authz.Revoked || state == authz.Denied {
		seen.state, seen.times.revoked = state, x.times.revoked
	}
	return x
}

// caller is who speaks on one connection: the kernel's facts, and the run and epoch once something of them exists.
type caller struct {
	proc  *peer.Process
	run   *run   // nil: this process has not asked for anything yet
	epoch *epoch // nil with run
}

// same asks the kernel whether this is still the program that connected, and notes whether its file still is.
func (c caller) same() bool {
	if c.proc == nil || c.proc.Same() != nil {
		return false
	}
	if c.epoch != nil && c.epoch.inst == nil && !c.epoch.drift.Load() && c.proc.Exchanged() {
		c.epoch.drift.Store(true)
	}
	return true
}

// identify finds the caller's run and epoch. Only a call opens them (open): a process start is not a session.
func (g *Gateway) identify(ctx context.Context, p *peer.Process, open bool) (caller, error) {
	g.book.mu.Lock()
	e := g.book.peers[p.Key()]
	g.book.mu.Unlock()
	if e != nil && e.inst != nil && e.proc.Same() != nil {
		g.attend(e.inst.server) // another program speaks: that is for the server's rule
		e = g.book.at(p.Key())
	}
	if e != nil {
		same := e.proc.Same()
		if same == nil {
			return caller{p, e.run, e}, nil
		}
		// The same process, another program: what was given to the old instance is void. One that ended right after it
		// had spoken is none, and what it sent goes on.
		why := string(authz.PeerReplaced)
		if errors.Is(same, peer.ErrGone) {
			why = processGone
		}
		g.endEpoch(ctx, e, why, word{})
		g.book.forget(e)
	}
	chief, passed, err := p.Owner(g.cfg.Ours)
	if err != nil {
		return caller{proc: p}, err
	}
	var kept keeps
	defer func() {
		if !kept.chief {
			chief.Close()
		}
		for _, x := range passed {
			if !kept.passed {
				x.Close()
			}
		}
	}()
	if !open {
		g.book.mu.Lock()
		defer g.book.mu.Unlock()
		return caller{proc: p, run: g.book.owners[chief.Key()]}, nil
	}
	above, under := chainOf(p), g.runAbove(p)
	g.authority.Lock()
	c, kept, err := g.opened(ctx, p, chief, passed, above, under)
	g.authority.Unlock()
	if errors.Is(err, errReplaced) {
		return g.identify(ctx, p, open) // another call opened an epoch meanwhile, and its program is gone already
	}
	return c, err
}

var errReplaced = errors.New("the process of this epoch runs another program")

// keptEpochs is how many epochs a run holds before those that ended are let go; the log has them all.
const keptEpochs = 64

// keeps says which of a caller's kin are watched from now on: by a new run its client, by a new epoch its launchers.
type keeps struct{ chief, passed bool }

// opened opens what is missing of run and epoch. g.authority must be held, which also makes it once for parallel calls.
func (g *Gateway) opened(ctx context.Context, p, chief *peer.Process, passed []*peer.Process, above chain, under *run) (c caller, kept keeps, err error) {
	g.book.mu.Lock()
	e, r := g.book.peers[p.Key()], g.book.owners[chief.Key()]
	g.book.mu.Unlock()
	if e != nil {
		if e.proc.Same() != nil {
			return caller{proc: p}, keeps{}, errReplaced
		}
		return caller{p, e.run, e}, keeps{}, nil
	}
	t := now().Wall
	if under != nil {
		r = under // whatever runs below a wrapper belongs to the wrapper's run
	}
	fresh := r == nil
	var evs []event.Event
	if fresh {
		f := chief.Facts()
		r = newRun(owner{key: chief.Key(), facts: f, shell: shell(f)}, t)
		evs = append(evs, event.RunOpened{Run: r.id, Agent: evidence(f), Launchers: evidenceOf(passed)})
	}
	e = &epoch{id: newID("ep_"), run: r, proc: p, facts: p.Facts(), state: authz.Live, chain: above}
	evs = append(evs, event.EpochOpened{Run: r.id, Epoch: e.id, Process: evidence(e.facts), Launchers: evidenceOf(passed)})
	if err := g.recordOpened(ctx, r, e, fresh, evs); err != nil {
		return caller{proc: p}, keeps{}, err
	}
	r.mu.Lock()
	if fresh {
		r.roster.chief = chief
	}
	r.epochs = append(r.epochs, e)
	if len(r.epochs) > keptEpochs { // a shell's run gets one with each `sp call`
		r.epochs = slices.DeleteFunc(r.epochs, (*epoch).spent)
	}
	r.mu.Unlock()
	g.book.mu.Lock()
	g.book.runs[r.id], g.book.peers[p.Key()] = r, e
	if under == nil {
		g.book.owners[chief.Key()] = r
	}
	g.book.mu.Unlock()
	if fresh {
		g.watch(chief.Gone(), func() { g.clientGone(r); chief.Close() })
	}
	g.watch(p.Gone(), func() { g.endEpoch(context.Background(), e, processGone, word{}); g.book.forget(e); p.Close() })
	g.watchLaunchers(e, passed)
	return caller{p, r, e}, keeps{chief: fresh, passed: true}, nil
}

// recordOpened writes rows and events. While the vault is closed rows can't be sealed: the run then lives in memory
// and in the log, and its row is written at unlock.
func (g *Gateway) recordOpened(ctx context.Context, r *run, e *epoch, fresh bool, evs []event.Event) error {
	if !g.open.Load() {
		return g.log.note(ctx, r.id, evs...)
	}
	return g.change(ctx, false, evs, func(tx *store.Tx) error {
		if fresh {
			if err := g.putRun(tx, r); err != nil {
				return err
			}
		}
		return tx.PutEpoch(store.Epoch{ID: e.id, Run: r.id, State: e.state.String(), Opened: r.opened})
	})
}

// endEpoch voids what an epoch was given: its process is gone, is another program now, or the operator revoked it. It
// returns the ids of the calls that had left. It may come more than once, and at the same time: each waits for what it
// promises, and one of them is recorded.
func (g *Gateway) endEpoch(ctx context.Context, e *epoch, reason string, by word) (left []string, err error) {
	r := e.run
	r.mu.Lock()
	e.state = authz.EpochEnded
	ended := r.void(e)
	if e.inst != nil {
		e.inst.end()
		e.inst.revoked = e.inst.revoked || reason == "operator"
	}
	if len(r.grants) == 0 {
		r.step(authz.Lock) // without a live grant the run is no longer active
	}
	r.mu.Unlock()

	g.cards.expire(func(c *card) bool { return c.epoch == e }, reason)
	if reason != processGone { // what a process sent before it went goes on to its end, and is kept as a late result
		left = g.stopHeld(r, func(c *call) bool { return c.epoch == e })
	}
	err = g.recordEnd(ctx, e, event.EpochEnded{Run: r.id, Epoch: e.id, Reason: reason, Operator: by.operator, Peer: by.peer}, ended)
	g.complain("end epoch", err)
	g.settle(ctx, r)
	return left, err
}

// recordEnd writes that an epoch has ended, once, and the grants that ended with it.
func (g *Gateway) recordEnd(ctx context.Context, e *epoch, ev event.EpochEnded, ended []*grant) error {
	g.authority.Lock()
	defer g.authority.Unlock()
	if e.told && len(ended) == 0 {
		return nil
	}
	var evs []event.Event
	if !e.told {
		evs = append(evs, ev)
	}
	err := g.lose(ctx, evs, func(tx *store.Tx) error {
		if err := tx.EndEpoch(e.id, now().Wall); err != nil && !errors.Is(err, store.ErrConflict) { // it may have no row yet
			return err
		}
		return setRun(e.run, ended)(tx)
	})
	e.told = e.told || err == nil
	return err
}

// processGone is why an epoch ends whose process exited.
const processGone = "process_gone"

// forget lets an epoch's process be another epoch's: that process is gone, or is another program. An epoch that the
// operator revoked stays, so that its process stays refused.
func (r *registry) forget(e *epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers[e.proc.Key()] == e {
		delete(r.peers, e.proc.Key())
	}
}

// epoch finds an epoch by its id.
func (r *registry) epoch(id string) *epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.peers {
		if e.id == id {
			return e
		}
	}
	return nil
}

// lose records a loss of authority that memory already has: rows and clear events. g.authority must be held.
// A loss that could not be written still holds, and nobody is granted anything until the gateway starts anew.
func (g *Gateway) lose(ctx context.Context, evs []event.Event, f func(*store.Tx) error) error {
	err := g.change(ctx, true, evs, f)
	if err != nil && !errors.Is(err, errNoLog) {
		g.unrecorded.Store(true)
	}
	return err
}

// clientGone: the process this run belongs to has died. The gate closes at once.
func (g *Gateway) clientGone(r *run) {
	ctx := context.Background()
	r.mu.Lock()
	r.times.clientUnavailable = now().Wall
	r.roster.chief = nil
	was := r.state
	what := authz.ClientGoneBusy
	if r.idle() {
		what = authz.ClientGoneIdle
	}
	r.step(what)
	state := r.state
	ended := r.void(nil)
	r.mu.Unlock()
	g.cards.expire(func(c *card) bool { return c.epoch.run == r }, "run_orphaned")
	g.book.bury(r)
	defer g.task(func() { g.witnessSurvivors(r) })
	if state == was {
		return // revoked before: nothing more to lose
	}
	ev := event.Event(event.RunOrphaned{Run: r.id})
	if state == authz.Ended {
		ev = event.RunEnded{Run: r.id}
	}
	g.authority.Lock()
	err := g.lose(ctx, []event.Event{ev}, setRun(r, ended))
	g.authority.Unlock()
	g.complain("record lost client", err)
	g.settle(ctx, r) // it may have become idle meanwhile
}

// settle ends an orphaned run once nothing of it is left.
func (g *Gateway) settle(ctx context.Context, r *run) {
	r.mu.Lock()
	ends := r.state == authz.Orphaned && r.idle() && r.step(authz.Drained)
	r.mu.Unlock()
	if !ends {
		return
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	g.complain("record ended run", g.lose(ctx, []event.Event{event.RunEnded{Run: r.id}}, setRun(r, nil)))
}

// idle: nothing of the run is connected or in flight. mu must be held.
func (r *run) idle() bool {
	if len(r.held) > 0 {
		return false
	}
	for _, e := range r.epochs {
		if e.state != authz.EpochEnded {
			return false
		}
	}
	return true
}

// shell tells an interactive shell by its program's name; the name only widens what the operator may do beside it.
func shell(f peer.Facts) bool {
	switch strings.TrimPrefix(path.Base(f.Exe), "-") {
	case "sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "tcsh", "csh":
		return true
	}
	return false
}

// recorded is a process as the log keeps it.
func recorded(f peer.Facts) event.Peer {
	return event.Peer{ProcessID: f.PID, Started: f.Start, Exe: escape(f.Exe, 256), ExeDigest: f.ExeDigest, Identity: f.Identity}
}
