package gateway

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/auditlog/incident"
	"sallyport/authz"
	"sallyport/gateway/api"
)

// Containment walks one order, and each step is an event before the next begins: look, review the calls, revoke, list what
// goes on far away, prove the denial; then, in terminate.go and by another word of the operator, the signals. To kill first
// would be quicker, and would leave live authority behind and no evidence.

// containment is one walk.
type containment struct {
	g     *Gateway
	ctx   context.Context
	r     *run
	by    word
	calls []api.Action
	out   api.Contained
}

// opRunContain walks the order up to the proof of denial. It signals nothing.
func (g *Gateway) opRunContain(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	g.containing.Lock()
	defer g.containing.Unlock()
	c, err := g.containmentOf(r, a.ID)
	if err != nil {
		return nil, err
	}
	if !g.evidence.take(r, boot()) {
		if err := c.revoke(); err != nil {
			return c.done(err)
		}
		return nil, api.Fail("rate_limited", "it is revoked; there were too many containments without a proof within a minute: go on with --pid, which takes the passphrase")
	}
	return c.done(c.walk())
}

// containmentOf begins a walk for a run. One that only its row is left of is brought to mind: its
// processes are not known.
func (g *Gateway) containmentOf(r opRequest, id string) (*containment, error) {
	x, row, err := g.runOf(r.ctx, id)
	if err != nil {
		return nil, err
	}
	if x == nil {
		if _, x, err = g.revokeStored(r, row); err != nil {
			g.complain("revoke", err)
			return nil, api.Fail("not_recorded", "revoked here, not yet recorded")
		}
	}
	if x == nil {
		x = newRun(owner{}, row.Opened)
		x.id, x.state, x.roster.earlier, x.roster.recorded = row.ID, authz.Revoked, true, true
		x.times.revoked = g.storedRun(row).RevokedAt
		if x.times.revoked.IsZero() {
			x.times.revoked = now().Wall
		}
	}
	g.recollect(r.ctx, x)
	c := &containment{g: g, ctx: context.WithoutCancel(r.ctx), r: x, by: r.word()}
	c.out = api.Contained{Verdict: api.VerdictNotContained, Uncertain: []api.Action{}, Left: []api.Action{}, Remote: []api.Action{},
		Processes: []api.Survivor{}, Rotate: []string{}, Steps: []jsontext.Value{}}
	return c, nil
}

// record makes one step durable.
func (c *containment) record(e event.Event) error {
	seq, err := c.g.log.append(c.ctx, auditlog.Entry{Kind: auditlog.Note, Subject: event.Subject(c.r.id), Body: event.Encode(e), Reserved: true})
	if err != nil {
		return fmt.Errorf("record %s: %w", event.Type(e), err)
	}
	c.step(seq, e)
	return nil
}

// step shows one that is recorded.
func (c *containment) step(seq uint64, e event.Event) {
	c.out.Steps = append(c.out.Steps, jsontext.Value(event.Line{Item: event.Item{Seq: seq, Time: now().Wall, Event: e}}.JSON()))
}

// miss names something that keeps the verdict from being "contained".
func (c *containment) miss(format string, a ...any) {
	c.out.Missing = append(c.out.Missing, fmt.Sprintf(format, a...))
}

// walk is everything that comes before a signal.
func (c *containment) walk() error {
	if err := c.record(event.ContainmentStarted{Run: c.r.id, Operator: c.by.operator, State: c.r.stands().String()}); err != nil {
		return err
	}
	if err := c.look(whyContain); err != nil {
		return err
	}
	if err := c.review(); err != nil {
		return err
	}
	if err := c.revoke(); err != nil {
		return err
	}
	if err := c.listRemote(); err != nil {
		return err
	}
	if err := c.prove(); err != nil {
		return err
	}
	return c.finish()
}

// done answers with what was found, or says that a step could not be recorded: then the next was not taken.
func (c *containment) done(err error) (any, error) {
	c.out.Run = c.r.show()
	if err == nil {
		return c.out, nil
	}
	c.g.complain("contain", err)
	if c.r.stands() == authz.Revoked {
		return nil, api.Fail("not_recorded", "revoked here; the containment stopped at a step that could not be recorded")
	}
	return nil, err
}

// look takes the snapshot, before anything is done to the processes.
func (c *containment) look(why string) error {
	seen, gaps, err := c.g.observe(c.ctx, c.r, why)
	for _, o := range seen {
		c.step(o.seq, o.ProcessObserved)
	}
	if err != nil {
		return err
	}
	for _, gap := range gaps {
		c.miss("%s", gap)
	}
	c.r.mu.Lock()
	unknown := c.r.roster.earlier && c.r.roster.chief == nil
	c.r.mu.Unlock()
	if unknown && why == whyContain {
		c.miss("the gateway was started after this run's client had gone: which processes were the run's is not known")
	}
	c.list(seen)
	for _, o := range seen {
		c.out.Rotate = append(c.out.Rotate, incident.Rotated(o.ProcessObserved)...)
	}
	slices.Sort(c.out.Rotate)
	c.out.Rotate = slices.Compact(c.out.Rotate)
	return nil
}

// list brings the list of processes to what a look saw: new ones are added, and what was there before and is not any more
// has ended.
func (c *containment) list(seen []observed) {
	for i := range c.out.Processes {
		p := &c.out.Processes[i]
		if !slices.ContainsFunc(seen, func(o observed) bool { return o.key == p.Key }) && gone(p.ProcessID) {
			p.State = stateExited
		}
	}
	for _, o := range seen {
		if c.place(o.key) < 0 {
			c.out.Processes = append(c.out.Processes, survivor(o))
		}
	}
}

// place is where the answer lists a process; -1: nowhere.
func (c *containment) place(key string) int {
	return slices.IndexFunc(c.out.Processes, func(p api.Survivor) bool { return p.Key == key })
}

// survivor is an observed process as the operator is shown it.
func survivor(o observed) api.Survivor {
	p := o.Process
	s := api.Survivor{ProcessRef: api.ProcessRef{ProcessID: p.ProcessID, Key: o.key}, Role: o.Role, Command: p.Command,
		PPID: p.PPID, PGID: p.PGID, Stat: p.Stat, State: stateRunning}
	for _, k := range o.Group {
		if k.Stranger {
			s.Strangers = append(s.Strangers, k.ProcessID)
		}
	}
	for _, l := range o.Authority {
		s.Authority = append(s.Authority, l.Kind+" "+l.Name)
	}
	return s
}

// review finds the last attempted action and classes the calls by the times.
func (c *containment) review() (err error) {
	if c.calls, err = c.g.callsOf(c.ctx, c.r.id); err != nil {
		return err
	}
	c.r.mu.Lock()
	t := c.r.times
	c.r.mu.Unlock()
	ev := event.ActionsReviewed{Run: c.r.id, ClientUnavailableAt: t.lost(), LastActionStartedAt: t.lastAction, RevokedAt: t.revoked}
	if len(c.calls) > 0 {
		last := c.calls[0]
		c.out.Last, ev.Last, ev.LastActionStartedAt = &last, last.ID, last.StartedAt
	}
	for _, a := range c.calls {
		switch t.class(a) {
		case incident.Uncertain:
			c.out.Uncertain = append(c.out.Uncertain, a)
			if len(ev.Uncertain) < reviewMax {
				ev.Uncertain = append(ev.Uncertain, a.ID)
			}
		case incident.After:
			if len(ev.After) < reviewMax {
				ev.After = append(ev.After, a.ID)
			}
		}
	}
	return c.record(ev)
}

// reviewMax bounds the ids that one record names.
const reviewMax = 1024

// revoke ends the run's authority: all that a run can do it does by its own authority, so this is the narrowest unit that
// suffices. One whose revocation is recorded is not revoked a second time; one that is still on its way is waited for.
func (c *containment) revoke() error {
	c.r.mu.Lock()
	recorded := c.r.roster.recorded
	c.r.mu.Unlock()
	if recorded {
		return nil
	}
	out, err := c.g.revoke(c.ctx, c.r, c.by)
	c.out.Left = out.Left
	if err != nil {
		return err
	}
	c.r.mu.Lock()
	seq := c.r.roster.revocation
	c.r.mu.Unlock()
	c.step(seq, event.RunRevoked{Run: c.r.id, Operator: c.by.operator, Peer: c.by.peer, Left: ids(out.Left)})
	return nil
}

func ids(as []api.Action) (out []string) {
	for _, a := range as {
		out = append(out, a.ID)
	}
	return out
}

// listRemote names what may go on at the other end. Ending that is an operator's act of its own: it has another lifetime
// than the processes here.
func (c *containment) listRemote() error {
	calls, err := c.g.callsOf(c.ctx, c.r.id) // once more: the revocation ended some
	if err != nil {
		return err
	}
	ev := event.RemoteWorkListed{Run: c.r.id, Unfinished: []event.Remote{}}
	for _, a := range calls {
		if !c.g.unfinished(a) {
			continue
		}
		c.out.Remote = append(c.out.Remote, a)
		if len(ev.Unfinished) < reviewMax {
			ev.Unfinished = append(ev.Unfinished, event.Remote{Action: a.ID, Outcome: a.Outcome, Target: a.Target, JobID: escape(a.JobID, 256)})
		}
	}
	return c.record(ev)
}

// prove records why the run can do nothing any more: by its own refused attempt, else by asking the gate itself.
func (c *containment) prove() error {
	c.r.mu.Lock()
	seen := c.r.roster.refused
	c.r.mu.Unlock()
	if seen.seq != 0 {
		c.out.Denial = api.Denial{Method: "observed", Reason: string(authz.RunRevoked), Record: seen.seq}
		return c.record(event.DenialProved{Run: c.r.id, Method: "observed", Reason: string(authz.RunRevoked), Record: seen.seq})
	}
	reason, epochs := c.g.probeGate(c.r)
	c.out.Denial = api.Denial{Method: "probe", Reason: string(reason)}
	if reason != authz.RunRevoked {
		c.miss("the gate would not refuse this run: it answers %s", string(reason))
		return nil
	}
	return c.record(event.DenialProved{Run: c.r.id, Method: "probe", Reason: string(reason), Epochs: epochs})
}

// probeGate plays a call of the run against the gate's own decision, once for each of its epochs, with nothing else in its
// way. It returns the first answer that is no refusal for the revocation. Nothing is reserved, counted or recorded as a call.
func (g *Gateway) probeGate(r *run) (reason authz.Reason, epochs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range append([]*epoch{nil}, r.epochs...) {
		f := g.facts(caller{run: r, epoch: e}, true, nil, nil, authz.FullWalk)
		f.Caller.Identified, f.Caller.Same, f.Caller.Identity = true, true, authz.Strong
		f.Vault, f.Request.Bound = authz.VaultReady, true
		d := authz.Decide(f)
		if reason = d.Reason; d.Verdict != authz.Deny || reason != authz.RunRevoked {
			return reason, nil
		}
		if e != nil {
			epochs = append(epochs, e.id)
		}
	}
	return reason, epochs
}

// finish gives the verdict. It is contained only if the denial is proved, and everything that lives on is listed.
func (c *containment) finish() error {
	ev := event.ContainmentFinished{Run: c.r.id, Operator: c.by.operator, Verdict: api.VerdictNotContained, Rotate: c.out.Rotate}
	for _, p := range c.out.Processes {
		if p.State != stateExited {
			ev.Left = append(ev.Left, p.ProcessID)
		}
	}
	for _, m := range c.out.Missing {
		ev.Missing = append(ev.Missing, escape(m, pathMax))
	}
	if len(c.out.Missing) == 0 && c.out.Denial.Reason == string(authz.RunRevoked) {
		ev.Verdict = api.VerdictContained
	}
	c.out.Verdict = ev.Verdict
	if err := c.record(ev); err != nil {
		return err
	}
	if c.out.Denial.Reason == string(authz.RunRevoked) {
		c.r.mu.Lock()
		c.r.roster.proved = c.out.Denial
		c.r.mu.Unlock()
	}
	return nil
}

// unfinished tells whether a call may go on, or may have taken effect unknown to anybody, at the other end.
func (g *Gateway) unfinished(a api.Action) bool {
	return a.State != api.Done || a.Outcome == "accepted" || g.acts.blocks(a.ID)
}

// blocks tells whether the action stands among the unresolved writes.
func (s *actions) blocks(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, by := range s.unresolved {
		if by[id] {
			return true
		}
	}
	return false
}

// pidList names processes for people.
func pidList(pids []int) (out string) {
	for i, pid := range pids {
		if i > 0 {
			out += ", "
		}
		out += strconv.Itoa(pid)
	}
	return out
}
