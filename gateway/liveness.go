package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"sallyport/auditlog/event"
	"sallyport/auditlog/incident"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// Four facts are kept apart. A logical orphan (the client is gone) closes the gate, and is told by a pidfd: registry.go.
// An OS orphan (a launcher is gone, the client lives) and a silent client are recorded and shown, and take nothing away.
// Three times class each call.

// How many looks in a row, a second apart, tell that a client is silent. Being stopped is no accident; a moment in the
// kernel or a pipe that is being read is everyday.
const (
	lookEvery     = time.Second
	stoppedLooks  = 2
	blockedLooks  = 5
	unreadLooks   = 5
	orphansKept   = 16
	silentStopped = "stopped"
	silentBlocked = "blocked"
	silentUnread  = "unread_output"
)

// reparented is one launcher that went while the client lived.
type reparented struct {
	pid, parent, ppid int
	at                time.Time
}

// silence counts looks at a client that does nothing.
type silence struct {
	reason string
	since  time.Time // of the first look in the row
	looks  int
	unread int  // bytes at the last look
	told   bool // as client_unresponsive
}

// quiet takes one look in; an empty reason: the client does something. It returns what is to be told, or nil. mu must be held.
func (r *run) quiet(reason string, unread int, at time.Time) event.Event {
	s := &r.roster.silence
	if reason == "" || reason == silentUnread && unread < s.unread { // somebody has read
		was := *s
		*s = silence{}
		if !was.told {
			return nil
		}
		r.times.unresponsive = time.Time{}
		return event.ClientResponsive{Run: r.id, ProcessID: r.owner.facts.PID, Since: was.since}
	}
	if s.looks == 0 {
		s.since = at
	}
	s.reason, s.unread = reason, unread
	s.looks++
	enough := map[string]int{silentStopped: stoppedLooks, silentBlocked: blockedLooks, silentUnread: unreadLooks}[reason]
	if s.told || s.looks < enough {
		return nil
	}
	s.told, r.times.unresponsive = true, s.since
	return event.ClientUnresponsive{Run: r.id, ProcessID: r.owner.facts.PID, Reason: reason, Since: s.since}
}

// lookAround looks at the processes of all runs, each second, as long as there are any.
func (g *Gateway) lookAround(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			g.lookOnce(ctx)
		}
	}
}

func (g *Gateway) lookOnce(ctx context.Context) {
	var alive []*run
	for _, r := range g.book.all() {
		if len(r.relatives()) > 0 {
			alive = append(alive, r)
		}
	}
	if len(alive) == 0 {
		return // a server's run has its wrapper
	}
	roll, err := peer.CallRoll()
	if err != nil {
		g.complain("look at processes", err)
		return
	}
	g.lookAtServers(ctx, roll)
	for _, r := range alive {
		r.enrol(roll)
		if ev := r.listen(roll, now().Wall); ev != nil && g.log.w.Load() != nil {
			g.complain("record silent client", g.log.note(ctx, r.id, ev))
		}
	}
}

// listen looks whether the run's client does anything.
func (r *run) listen(roll peer.Roll, at time.Time) event.Event {
	r.mu.Lock()
	alive := r.roster.chief != nil
	var shims []*peer.Process
	if !r.owner.shell { // nobody promised that a person reads on
		for _, e := range r.epochs {
			if e.state != authz.EpochEnded {
				shims = append(shims, e.proc)
			}
		}
	}
	r.mu.Unlock()
	if !alive {
		return nil
	}
	reason, unread := "", 0
	switch e := roll[r.owner.facts.PID]; {
	case e.Stopped():
		reason = silentStopped
	case e.Blocked():
		reason = silentBlocked
	default:
		for _, p := range shims {
			if n, err := p.Unread(); err == nil {
				unread = max(unread, n)
			}
		}
		if unread > 0 {
			reason = silentUnread
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.roster.chief == nil {
		return nil // gone meanwhile: run_orphaned says it
	}
	return r.quiet(reason, unread, at)
}

// watchLaunchers tells when a launcher between client and shim ends while both live. passed is nearest the shim first, and
// is closed here.
func (g *Gateway) watchLaunchers(e *epoch, passed []*peer.Process) {
	child := e.facts.PID
	for _, l := range passed {
		pid := child
		child = l.Facts().PID
		g.task(func() {
			defer l.Close()
			select {
			case <-l.Gone():
				g.launcherGone(e, pid, l.Facts().PID)
			case <-e.proc.Gone():
			case <-g.life.Done():
			}
		})
	}
}

// launcherGone records an OS orphan, unless its client went too: that is another fact.
func (g *Gateway) launcherGone(e *epoch, pid, parent int) {
	r := e.run
	x := reparented{pid: pid, parent: parent, at: now().Wall}
	if roll, err := peer.CallRoll(); err == nil {
		x.ppid = roll[pid].PPID
	}
	r.mu.Lock()
	tell := r.roster.chief != nil && e.state != authz.EpochEnded && x.ppid != 0
	if tell && len(r.roster.orphaned) < orphansKept {
		r.roster.orphaned = append(r.roster.orphaned, x)
	}
	r.mu.Unlock()
	if tell && g.log.w.Load() != nil {
		ev := event.ProcessReparented{Run: r.id, Epoch: e.id, ProcessID: pid, Parent: parent, PPID: x.ppid}
		g.complain("record reparented process", g.log.note(context.Background(), r.id, ev))
	}
}

// lost is when the client was no longer there for its calls: gone, or silent before that. Zero: it is there.
func (t times) lost() time.Time {
	if !t.unresponsive.IsZero() && (t.clientUnavailable.IsZero() || t.unresponsive.Before(t.clientUnavailable)) {
		return t.unresponsive
	}
	return t.clientUnavailable
}

// class of a call, as an incident record has it.
func (t times) class(a api.Action) string {
	return incident.Class(t.lost(), t.revoked, a.StartedAt, a.FinishedAt)
}

// classed counts a run's calls by class.
func (t times) classed(calls []api.Action) api.CallClasses {
	var out api.CallClasses
	for _, a := range calls {
		switch t.class(a) {
		case incident.Before:
			out.Before++
		case incident.Uncertain:
			out.Uncertain++
		case incident.After:
			out.After++
		}
	}
	return out
}

// refused is what a revoked run still tried.
type refused struct {
	count int    // attempts that were refused after the revocation
	seq   uint64 // the latest that has a record of its own
}

// noticeRefusal keeps what proves that a revocation holds: the run's own attempt, refused. seq is its record, 0 if it was
// only counted.
func (g *Gateway) noticeRefusal(ev event.AuthorizationDenied, seq uint64) {
	if ev.Run == "" || ev.Reason != string(authz.RunRevoked) {
		return
	}
	r := g.book.byID(ev.Run)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roster.refused.count++
	if seq != 0 {
		r.roster.refused.seq = seq
	}
}

// callsOf lists the calls of a run whose intent was recorded, newest first: those in memory, and the rows of older ones.
func (g *Gateway) callsOf(ctx context.Context, run string) ([]api.Action, error) {
	seen := map[string]bool{}
	var out []api.Action
	for _, a := range g.acts.list(run) {
		if !a.StartedAt.IsZero() {
			seen[a.ID], a.Result = true, nil // what came back is no part of who did what
			out = append(out, a)
		}
	}
	rows, err := g.db.Actions(ctx, run, 1<<20)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if !seen[row.ID] && !row.Started.IsZero() {
			out = append(out, api.Action{ID: row.ID, AgentRun: row.Run, ExecutionEpoch: row.Epoch, State: row.State, Outcome: row.Outcome,
				StartedAt: row.Started, FinishedAt: row.Finished})
		}
	}
	slices.SortFunc(out, func(a, b api.Action) int { return -strings.Compare(a.ID, b.ID) })
	return out, nil
}

// witnessSurvivors records what of a run lives on when its client has gone.
func (g *Gateway) witnessSurvivors(r *run) {
	if g.log.w.Load() == nil || g.life.Err() != nil {
		return
	}
	_, _, err := g.observe(g.life, r, whyClientGone)
	g.complain("observe survivors", err)
}

// endedGrants says of each grant of a run that is void why it is. A grant's row knows the reason where it ended with others
// (restart, lock, stop); else the run's own state says it.
func (g *Gateway) endedGrants(ctx context.Context, r api.Run) (out []api.EndedGrant, err error) {
	rows, err := g.db.Grants(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Ended.IsZero() {
			continue
		}
		why := row.State
		if why == authz.GrantVoid.String() {
			switch authz.ParseRunState(r.State) {
			case authz.Revoked, authz.Orphaned, authz.Ended:
				why = "run_" + r.State
			}
		}
		out = append(out, api.EndedGrant{ID: row.ID, ExecutionEpoch: row.Epoch, Why: why, EndedAt: row.Ended})
	}
	return out, nil
}
