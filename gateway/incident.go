package gateway

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sallyport/auditlog/event"
	"sallyport/auditlog/incident"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// opRunIncident makes the incident record of a run: from its rows, each with its place in the log, and beside them a look
// at those of its processes that live. It works for a run of any state, of an earlier start too; what a locked vault
// hides is told. That a record was taken is itself recorded.
func (g *Gateway) opRunIncident(r opRequest) (any, error) {
	var a api.IncidentArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	x, row, err := g.runOf(r.ctx, a.ID)
	if err != nil {
		return nil, err
	}
	var seen []observed
	var gaps []string
	keep := g.evidence.take(r, boot())
	if !keep {
		gaps = append(gaps, "this look is not recorded: there were too many without a proof within a minute")
	} else if x != nil {
		if seen, gaps, err = g.observe(context.WithoutCancel(r.ctx), x, whyIncident); err != nil {
			gaps = append(gaps, "the look at its processes could not be recorded")
		}
	}
	if err := g.flushTold(r.ctx); err != nil {
		g.complain("write behind what the log was told", err) // what waits is read all the same
	}
	out := api.Incident{AgentRun: a.ID, State: row.State, Upto: g.log.head().Seq, Vault: g.status().Vault}
	client := g.storedRun(row).Agent
	if x != nil {
		out.State, client = x.stands().String(), agent(x.owner.facts)
	}
	items, unknown, err := g.toldOf(r.ctx, a.ID)
	if err != nil {
		return nil, err
	}
	unknown = append(unknown, gaps...)
	if gone := g.forgotten(row.Opened, now().Wall); gone != "" {
		unknown = append(unknown, gone)
	}
	records := incident.Of(a.ID, slices.Values(items), "rows", now().Wall)
	if len(records) == 0 {
		records = []incident.Record{g.bare(a.ID, out.State)}
	}
	for i := range records {
		c := &records[i]
		c.Unknown = append(c.Unknown, unknown...)
		if c.Client.ProcessID == 0 {
			c.Client = incident.Process{ProcessID: client.ProcessID, Command: client.Command, ExeDigest: client.ExeDigest, Identity: client.Identity}
		}
		if !ungranted(c.State) || !ungranted(out.State) {
			if c.State != out.State {
				c.Differences = append(c.Differences, "authorizationState: the gateway acts by "+out.State+", its rows make it "+c.State)
			}
		}
		c.State = out.State
		if c.Times.ClientUnavailable == nil && x != nil {
			c.Times.ClientUnavailable = x.lost()
		}
		c.Account = g.account(c)
	}
	g.look(records, seen)
	for i := range records {
		records[i].Follow()
	}
	out.Records = encode(records)
	if a.Entries {
		for _, it := range items {
			out.Entries = append(out.Entries, api.IncidentEntry{Seq: it.Seq, Time: it.Time, Event: event.Encode(it.Event)})
		}
	}
	if !keep {
		return out, nil
	}
	ctx := context.WithoutCancel(r.ctx)
	err = g.log.note(ctx, a.ID, event.IncidentRecorded{Run: a.ID, Upto: out.Upto, Operator: r.who})
	g.complain("record incident record", err) // a log that takes nothing any more is no reason to show nothing
	g.complain("write behind what the log was told", g.flushTold(ctx))
	return out, nil
}

// ungranted: a run goes between these two with its grants, whose times and uses the records do not tell.
func ungranted(state string) bool { return state == "pending" || state == "active" }

// lost is when the run's client was no longer there, as memory has it: of a run that was revoked before no record tells it.
func (r *run) lost() *time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.times.lost()
	if t.IsZero() {
		return nil
	}
	return &t
}

// bare is the record of a run of which no row is left.
func (g *Gateway) bare(run, state string) incident.Record {
	r := incident.Of(run, slices.Values([]event.Item{{Seq: 1, Event: event.RunOpened{Run: run}}}), "rows", now().Wall)[0]
	r.State = state
	r.Sources = []incident.Source{}
	r.Unknown = append(r.Unknown, "no row of this run's events can be shown: read the log with --identity")
	return r
}

// account is the label that the vault has for the last action's credential.
func (g *Gateway) account(r *incident.Record) string {
	if r.Target == nil || r.Target.Credential == "" {
		return ""
	}
	snap := g.vault.Snapshot()
	if snap == nil {
		r.Unknown = append(r.Unknown, "account: the vault is locked, which holds the credential's label")
		return ""
	}
	for _, m := range snap.Credentials() {
		if m.Name == r.Target.Credential {
			return cmp.Or(m.Account, "no label was given")
		}
	}
	return "the credential was removed"
}

// look lays beside each record how its process is now, and what it can reach without the gateway: secondary evidence, all
// taken in one round. seen is what was recorded of the run's processes a moment ago.
func (g *Gateway) look(records []incident.Record, seen []observed) {
	var live []*peer.Process
	var of []*incident.Record
	for i := range records {
		r := &records[i]
		who := &r.Client
		if r.Server != nil {
			who = r.Server
		}
		r.Live = &incident.Live{At: now().Wall, Reaches: []string{}, Children: []string{}, Siblings: []string{}, Gaps: []string{}}
		if i := slices.IndexFunc(seen, func(o observed) bool { return isProcess(*who, o.Process.ProcessID, o.Process.Started) }); i >= 0 {
			r.Live, r.Rotate = incident.LiveOf(seen[i].ProcessObserved, seen[i].seq), incident.Rotated(seen[i].ProcessObserved)
			continue
		}
		if p := stillLives(*who); p != nil {
			defer p.Close()
			live, of = append(live, p), append(of, r)
		}
	}
	shots, errs := peer.Snapshots(live)
	for i, r := range of {
		if errs[i] != nil {
			continue // it ended between two looks
		}
		ev := portrait(r.Run, whyIncident, relative{exists: "it is the process that was recorded, and of an earlier start of the gateway"}, shots[i], nil)
		r.Live, r.Rotate = incident.LiveOf(ev, 0), incident.Rotated(ev)
	}
}

// stillLives is the process that was recorded, if it still lives: a number alone names nobody.
func stillLives(was incident.Process) *peer.Process {
	if was.ProcessID <= 0 || was.Started.IsZero() {
		return nil
	}
	p, err := peer.Find(was.ProcessID)
	if err != nil {
		return nil
	}
	if !isProcess(was, was.ProcessID, p.Facts().Start) {
		p.Close()
		return nil
	}
	return p
}

// isProcess: the kernel counts a start in ticks since boot; as wall time that moves a little with the clock. No number comes
// round within a second.
func isProcess(was incident.Process, pid int, started time.Time) bool {
	return was.ProcessID == pid && was.Started.Sub(started).Abs() < time.Second
}
