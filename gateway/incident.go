package gateway

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
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
	x, row, err := g.runOf(opRequest{ctx: r.ctx, args: encode(api.IDArgs{ID: a.ID})})
	if err != nil {
		return nil, err
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
		c.Account = g.account(c)
	}
	g.look(records)
	for i := range records {
		records[i].Follow()
	}
	out.Records = encode(records)
	if a.Entries {
		for _, it := range items {
			out.Entries = append(out.Entries, api.IncidentEntry{Seq: it.Seq, Time: it.Time, Event: event.Encode(it.Event)})
		}
	}
	ctx := context.WithoutCancel(r.ctx)
	err = g.log.note(ctx, a.ID, event.IncidentRecorded{Run: a.ID, Upto: out.Upto, Operator: r.who})
	g.complain("record incident record", err) // a log that takes nothing any more is no reason to show nothing
	g.complain("write behind what the log was told", g.flushTold(ctx))
	return out, nil
}

// ungranted: a run goes between these two with its grants, whose times and uses the records do not tell.
func ungranted(state string) bool { return state == "pending" || state == "active" }

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

// look lays a live snapshot beside each record: secondary evidence, all taken in one round.
func (g *Gateway) look(records []incident.Record) {
	var live []*peer.Process
	var of []*incident.Record
	for i := range records {
		r := &records[i]
		who := &r.Client
		if r.Server != nil {
			who = r.Server
		}
		r.Live = &incident.Live{At: now().Wall, Reaches: []string{}, Children: []string{}, Siblings: []string{}, Gaps: []string{}}
		p := same(*who)
		if p == nil {
			continue
		}
		defer p.Close()
		live, of = append(live, p), append(of, r)
	}
	shots, errs := peer.Snapshots(live)
	for i, r := range of {
		if errs[i] != nil {
			continue // it ended between two looks
		}
		show(r.Live, shots[i])
		for _, l := range leads(shots[i]) {
			if l.Rotate != "" {
				r.Rotate = append(r.Rotate, l.Rotate)
			}
		}
	}
}

// same is the process that was recorded, if it still lives: a number alone names nobody.
func same(was incident.Process) *peer.Process {
	if was.ProcessID <= 0 || was.Started.IsZero() {
		return nil
	}
	p, err := peer.Find(was.ProcessID)
	if err != nil {
		return nil
	}
	// The kernel counts ticks since boot: as wall time they move a little with the clock. No number comes round in a second.
	if d := p.Facts().Start.Sub(was.Started); d.Abs() > time.Second {
		p.Close()
		return nil
	}
	return p
}

// show is a snapshot in a record. What processes chose is escaped.
func show(l *incident.Live, s peer.Snapshot) {
	l.At, l.Alive = s.At, true
	l.Kin = incident.Kin{Parent: s.Process.PPID, Group: s.Process.PGID, Session: s.Process.SID}
	l.Stat, l.Elapsed, l.User = s.Process.Stat, s.Process.ETime, escape(s.User, 64)
	l.Command = words(s.Process)
	for _, d := range s.Descriptors {
		switch d.Class {
		case peer.ClassDevice, peer.ClassKernel, peer.ClassFile, peer.ClassTerminal:
			continue
		}
		l.Reaches = append(l.Reaches, reached(d))
	}
	for _, k := range s.Children {
		l.Children = append(l.Children, kin(k))
	}
	for _, k := range s.Group {
		l.Siblings = append(l.Siblings, kin(k))
	}
	for _, gap := range s.Gaps {
		l.Gaps = append(l.Gaps, escape(gap, 256))
	}
}

// reached is one open channel in words: "fd 5 tcp 127.0.0.1:1 -> 127.0.0.1:2 ESTABLISHED (held by 12 node)".
func reached(d peer.Descriptor) string {
	out := "fd " + strconv.Itoa(d.FD) + " " + d.Class
	switch {
	case d.Local != "" || d.Remote != "":
		out += " " + strings.TrimSpace(d.Local+" -> "+d.Remote+" "+d.State)
	default:
		out += " " + d.Target
	}
	var ends []string
	for _, e := range d.Peers {
		ends = append(ends, strconv.Itoa(e.PID)+" "+e.Comm)
	}
	switch {
	case len(ends) > 0:
		out += " (other end: " + strings.Join(ends, ", ") + ")"
	case d.Class == peer.ClassPipe:
		out += " (nobody at the other end)"
	}
	return escape(out, 512)
}

func kin(k peer.Kin) string {
	return "pid " + strconv.Itoa(k.PID) + " " + k.Stat + " " + words(k)
}
