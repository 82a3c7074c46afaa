package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// filesShare bounds what looking at files costs: one part of so many of the time.
const filesShare = 20

// lookAtServers looks at every server once: at its processes, and at the files that it was started from. A look costs what
// its files' stamps cost, so it is made each second and not for each call.
func (g *Gateway) lookAtServers(ctx context.Context, roll peer.Roll) {
	for _, s := range g.supervised() {
		at := boot()
		s.run.mu.Lock()
		e := s.current
		due := e != nil && at >= e.inst.nextLook
		known := e != nil && e.inst.members != nil && e.state != authz.EpochEnded
		s.run.mu.Unlock()
		if e == nil || over(e.inst.child) {
			continue
		}
		s.enrol(roll, e.inst)
		g.attend(s)
		if known && due {
			g.lookAtFiles(ctx, s, e)
			took := boot() - at
			s.run.mu.Lock()
			e.inst.nextLook = at + filesShare*took // a large tree is looked at less often
			s.run.mu.Unlock()
		}
	}
}

// enrol remembers what runs below the child: whoever leaves the tree is known by its key.
func (s *server) enrol(roll peer.Roll, in *instance) {
	var fresh []member
	for _, pid := range roll.Below(in.child.Facts().PID) {
		if pid == os.Getpid() {
			continue
		}
		if key, err := roll.KeyOf(pid); err == nil {
			fresh = append(fresh, member{key: key, pid: pid, start: roll[pid].Start, parent: roll[pid].PPID})
		}
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	for key, m := range in.kin {
		if e, ok := roll[m.pid]; !ok || e.Start != m.start || e.Ended() {
			delete(in.kin, key)
		}
	}
	for _, m := range fresh {
		if len(in.kin) < rosterLimit {
			if in.kin == nil {
				in.kin = map[string]member{}
			}
			in.kin[m.key] = m
		}
	}
}

// lookAtFiles tells when files differ from what the running process was started from. The process is the same, and so is
// its epoch.
func (g *Gateway) lookAtFiles(ctx context.Context, s *server, e *epoch) {
	changed, err := e.inst.record.Changed()
	planned, err2 := e.inst.plan.Changed() // what a launcher read stands there alone
	for _, name := range planned {
		if !slices.Contains(changed, name) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if err = errors.Join(err, err2); err != nil {
		g.complain("look at a server's files", err)
	}
	if len(changed) == 0 && err == nil {
		return // also where they are what they were again: what was loaded meanwhile nobody knows
	}
	shown := bounded(changed, 32, 256)
	s.run.mu.Lock()
	news := len(shown) > 0 && !slices.Equal(e.inst.drifted, shown)
	if news {
		e.inst.drifted = shown
		e.drift.Store(true)
	}
	pid := e.facts.PID
	s.run.mu.Unlock()
	if !news {
		return
	}
	ev := event.ArtifactChanged{Run: s.run.id, Epoch: e.id, ServerLabel: s.label, ProcessID: pid, Changed: shown}
	g.complain("record changed artifacts", g.log.note(ctx, s.run.id, ev))
	state := g.serverState(s)
	s.push(api.Push{Kind: api.PushStatus, Server: &state, Lines: driftLines(shown, pid, e.id, interpreted(e))})
}

// driftLines are the one wording of a build that changed under a process that did not.
func driftLines(changed []string, pid int, epoch string, interpreted bool) []string {
	if len(changed) == 0 {
		return nil
	}
	out := []string{"build changed: " + strings.Join(changed, ", "), fmt.Sprintf("running process unchanged: pid=%d epoch=%s", pid, epoch)}
	if interpreted {
		out = append(out, "files changed since start may be loaded later")
	}
	return out
}

// interpreted tells whether what runs loads files as it goes: its entry is none of its own executable.
func interpreted(e *epoch) bool {
	c := e.inst.record.Code
	return c.Runtime != "" || c.Entry != "" && c.Entry != c.Exe
}

// shownServer is a server as the operator sees it; of a card it tells what the card is about.
func (g *Gateway) shownServer(s *server, p *plan) *api.Server {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	st := s.show(g.suspends.Load())
	out := &api.Server{ServerLabel: st.ServerLabel, AgentRun: st.AgentRun, ExecutionEpoch: st.ExecutionEpoch, State: st.State, Catalog: st.Catalog,
		ProcessID: st.ProcessID, ArtifactChanged: []string{}, OldEpoch: st.OldEpoch, Cause: st.Cause, Shown: st.Shown,
		Workers: s.options.Workers, Reload: s.options.Reload}
	e := s.current
	if e == nil {
		return out
	}
	in := e.inst
	out.ArtifactChanged = append(out.ArtifactChanged, in.drifted...)
	out.Lines = driftLines(in.drifted, e.facts.PID, e.id, interpreted(e))
	out.Diff, out.Unstable = in.diff, bounded(in.unstable, 32, 256)
	rec := in.record
	if rec.LaunchCommand == nil {
		rec = in.plan
	}
	unpinned := slices.Concat(in.plan.Unpinned, in.record.Unpinned) // what a launcher chose the plan alone can tell
	slices.Sort(unpinned)
	out.Unpinned = bounded(slices.Compact(unpinned), 32, pathMax)
	rec.ServerLabel = s.label
	x := execution(rec)
	if p != nil {
		out.Record = encode(x) // a card's is bounded, and escaped
		return out
	}
	out.Record = encode(rec)
	for name := range in.revision.Tools {
		out.Tools = append(out.Tools, escape(name, 256))
	}
	slices.Sort(out.Tools)
	for _, x := range s.run.live(e) {
		out.ToolScope = append(out.ToolScope, x.ToolScope...)
	}
	return out
}
