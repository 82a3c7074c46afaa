package gateway

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// The end of a server's child, in one order whoever begins it: nothing new is forwarded, a look, SIGTERM, a moment, a look,
// SIGKILL, a moment, then whoever escaped. Signals go to single processes by pidfd; what is one of ours is known by key.

// Moments of the order.
const (
	exitLeast = 100 * time.Millisecond // for the exit of a child of which nothing is expected, once its stdin is closed
	endWait   = 500 * time.Millisecond // after each signal
)

// Reasons for a look, as process_observed names them.
const (
	whyServerTerm = "server_term"
	whyServerKill = "server_kill"
)

// serverEnd ends the wrapper's child.
func (a *agentConn) serverEnd(ctx context.Context, params []byte) api.Response {
	var r api.ServerEnd
	who, s, fault := a.wrapper(ctx, api.MethodServerEnd, params, &r)
	if fault != nil {
		return api.Response{Error: fault}
	}
	if !slices.Contains([]string{"eof", "signal", "reload", "operator", "crash"}, r.Reason) {
		return api.Response{Error: a.denied(ctx, who, api.MethodServerEnd, "", api.Fail("invalid_request", "reason: eof, signal, reload, operator or crash"))}
	}
	s.run.mu.Lock()
	e := s.current
	s.run.mu.Unlock()
	if e == nil || e.id != r.ExecutionEpoch {
		if _, fault = s.meant(r.ExecutionEpoch); fault == nil {
			fault = api.Fail(string(authz.ServerDown), "")
		}
		return api.Response{Error: a.denied(ctx, who, api.MethodServerEnd, "", fault)}
	}
	return api.Response{Result: encode(a.g.endServer(context.WithoutCancel(ctx), s, e, r.Reason))}
}

// ender is one child's end under way.
type ender struct {
	g    *Gateway
	ctx  context.Context
	s    *server
	e    *epoch
	kin  []*peer.Process // the child's own, but for itself
	out  api.ServerEnded
	pgid int
}

// endServer walks the order, once for each child; whoever comes later is told how it went.
func (g *Gateway) endServer(ctx context.Context, s *server, e *epoch, reason string) api.ServerEnded {
	in := e.inst
	in.ending.Lock()
	defer in.ending.Unlock()
	if in.finished != nil {
		return *in.finished
	}
	x := &ender{g: g, ctx: ctx, s: s, e: e, pgid: in.child.Facts().PGID}
	s.run.mu.Lock()
	options := s.options
	e.state = authz.EpochEnded // nothing passes the gate from here on
	s.run.mu.Unlock()
	closed := make(chan struct{})
	g.task(func() {
		defer close(closed)
		g.endEpoch(ctx, e, "server_"+reason, word{})
	})
	x.gather()
	x.out.Exited = x.wait(max(time.Duration(options.ExitWithin)*time.Millisecond, exitLeast), in.child)
	x.judge(options)
	if !x.out.Exited || options.Children != "keep" {
		x.force(options.Children == "keep")
	}
	<-closed
	for _, p := range x.living(in.child) {
		x.out.Left = append(x.out.Left, p.Facts().PID)
	}
	ev := event.ServerStopped{Run: s.run.id, Epoch: e.id, ServerLabel: s.label, Reason: reason, Exited: x.out.Exited, Forced: x.out.Forced,
		Swept: x.out.Swept, Left: x.out.Left}
	x.record(ev)
	for _, p := range x.kin {
		p.Close()
	}
	in.finished = &x.out
	return x.out
}

// gather pins what is below the child, and what was seen below it before and has left the tree since. A gateway that a server
// started is nobody's: this process is left out.
func (x *ender) gather() {
	known := map[string]bool{x.e.inst.child.Key(): true}
	add := func(ps []*peer.Process) {
		for _, p := range ps {
			if known[p.Key()] || p.Facts().PID == os.Getpid() {
				p.Close()
				continue
			}
			known[p.Key()] = true
			x.kin = append(x.kin, p)
		}
	}
	if all, err := x.e.inst.child.Descendants(); err == nil {
		add(all)
	}
	// Our own wrapper adopts whoever leaves the tree, and has no other children.
	if w := x.s.conn.proc; x.g.cfg.Ours(w.Facts().ExeDigest) {
		if all, err := w.Descendants(); err == nil {
			add(all)
		}
	}
	x.s.run.mu.Lock()
	for _, m := range x.e.inst.kin {
		if !known[m.key] {
			pid, key := m.pid, m.key
			if p, err := peer.Find(pid); err == nil {
				if p.Key() == key {
					known[key] = true
					x.kin = append(x.kin, p)
				} else {
					p.Close()
				}
			}
		}
	}
	x.s.run.mu.Unlock()
	for _, p := range slices.Clone(x.kin) { // whom they started after they had left it
		if all, err := p.Descendants(); err == nil {
			add(all)
		}
	}
}

// wait waits until all of ps have ended, at most d; true if they have.
func (x *ender) wait(d time.Duration, ps ...*peer.Process) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for _, p := range ps {
		select {
		case <-p.Gone():
		case <-t.C:
			return len(living(ps)) == 0
		}
	}
	return true
}

func living(ps []*peer.Process) (out []*peer.Process) {
	for _, p := range ps {
		if !over(p) {
			out = append(out, p)
		}
	}
	return out
}

// living are those of the child and its own that have not ended.
func (x *ender) living(child *peer.Process) []*peer.Process {
	return living(append([]*peer.Process{child}, x.kin...))
}

// judge holds what is seen once the child had its time against what was written down for it.
func (x *ender) judge(o api.ServerPlan) {
	x.out.Cleanup = "kept"
	var expected, seen string
	left := living(x.kin)
	switch {
	case o.ExitWithin == 0 && o.Children == "":
		x.out.Cleanup = "unstated"
		return
	case o.ExitWithin > 0 && !x.out.Exited:
		expected, seen = fmt.Sprintf("exit within %d ms of EOF", o.ExitWithin), "it lives"
	case o.Children == "die" && len(left) > 0:
		expected, seen = "its children end with it", pidsOf(left)+" live"
	case o.Children == "keep" && len(x.kin) > len(left):
		expected, seen = "its children live on", fmt.Sprintf("%d ended", len(x.kin)-len(left))
	default:
		return
	}
	x.out.Cleanup, x.out.Broken = "broken", "expected: "+expected+"; seen: "+seen
	x.record(event.CleanupExpectationBroken{Run: x.s.run.id, Epoch: x.e.id, ServerLabel: x.s.label, Expected: expected, Seen: seen})
}

func pidsOf(ps []*peer.Process) string {
	var pids []int
	for _, p := range ps {
		pids = append(pids, p.Facts().PID)
	}
	return "pid " + pidList(pids)
}

// force ends what lives: the group first, then whoever left it. childAlone spares the rest.
func (x *ender) force(childAlone bool) {
	child := x.e.inst.child
	var group, escaped []*peer.Process
	for _, p := range append([]*peer.Process{child}, x.kin...) {
		switch {
		case p == child || !childAlone && p.Facts().PGID == x.pgid:
			group = append(group, p)
		case !childAlone:
			escaped = append(escaped, p)
		}
	}
	x.round(group, false)
	x.round(escaped, true)
}

// round is look, SIGTERM, wait, look, SIGKILL, wait.
func (x *ender) round(ps []*peer.Process, escaped bool) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if ps = living(ps); len(ps) == 0 {
			return
		}
		why := whyServerTerm
		if s == syscall.SIGKILL {
			why = whyServerKill
		}
		x.look(ps, why)
		for _, p := range ps {
			pid := p.Facts().PID
			x.record(event.ServerSignalled{Run: x.s.run.id, Epoch: x.e.id, ServerLabel: x.s.label, ProcessID: pid, Signal: signalName(s),
				Escaped: escaped, Forced: s == syscall.SIGKILL})
			if err := p.Signal(s); err != nil && !isGone(err) {
				x.g.complain("signal a server's process", err)
			}
			if escaped && !slices.Contains(x.out.Swept, pid) {
				x.out.Swept = append(x.out.Swept, pid)
			}
			x.out.Forced = x.out.Forced || s == syscall.SIGKILL
		}
		x.wait(endWait, ps...)
	}
}

// look records what processes look like before they are signalled.
func (x *ender) look(ps []*peer.Process, why string) {
	snaps, errs := peer.Snapshots(ps[:min(len(ps), observedMax)])
	ours := map[int]bool{}
	for _, p := range ps {
		ours[p.Facts().PID] = true
	}
	for i, s := range snaps {
		if errs[i] != nil {
			continue // it has ended, or may not be looked at
		}
		role := roleDescendant
		if ps[i] == x.e.inst.child {
			role = roleServer
		}
		x.record(portrait(x.s.run.id, why, relative{member: member{pid: s.Process.PID}, role: role, epoch: x.e.id,
			launched: command(ps[i].Facts()), exists: "the supervised server " + x.s.label + " is ended"}, s, ours))
	}
}

func (x *ender) record(ev event.Event) {
	if x.g.log.w.Load() != nil {
		x.g.complain("record a server's end", x.g.log.note(x.ctx, x.s.run.id, ev))
	}
}
