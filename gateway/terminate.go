package gateway

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// Signals go to single processes that the operator named, by pidfd: never by a name, never to a group. SIGTERM first, then
// two seconds, then a second look; SIGKILL only by another word of the operator, and only after that look.

// termWait is how long a process may take to end after a signal.
const termWait = 2 * time.Second

// What became of a process.
const (
	stateRunning  = "running"
	stateExited   = "exited"
	stateStopping = "stopping"
	stateBlocked  = "blocked_in_io"
	stateHeld     = "held_by_child"
)

// target is one process that is to end.
type target struct {
	proc *peer.Process
	key  string
}

// opRunTerminate signals processes of a run. Unless the run was contained before, it is first: nothing is signalled while
// the run still has authority.
func (g *Gateway) opRunTerminate(r opRequest) (any, error) {
	var a api.TerminateArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if len(a.Processes) == 0 {
		return nil, api.Fail("invalid_request", "processes: name those to end")
	}
	g.containing.Lock()
	defer g.containing.Unlock()
	c, err := g.containmentOf(r, a.ID)
	if err != nil {
		return nil, err
	}
	targets, err := c.pick(r, a.Processes)
	defer func() {
		for _, t := range targets {
			t.proc.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	c.r.mu.Lock()
	proved := c.r.roster.proved
	c.r.mu.Unlock()
	if proved.Reason == "" {
		if err := c.walk(); err != nil {
			return c.done(err)
		}
	} else {
		c.out.Denial = proved
		if err := c.look(whyContain); err != nil {
			return c.done(err)
		}
	}
	if c.out.Denial.Reason != string(authz.RunRevoked) {
		return c.done(nil)
	}
	for i, n := range a.Processes {
		if c.place(n.Key) < 0 { // it ended just now
			c.out.Processes = append(c.out.Processes, api.Survivor{ProcessRef: n, Command: command(targets[i].proc.Facts()), State: stateExited})
		}
	}
	return c.done(c.terminate(targets, a.Kill))
}

// pick pins the named processes. One that is not known to be the run's, or is what the operator works in, is refused
// before any is signalled.
func (c *containment) pick(r opRequest, named []api.ProcessRef) (out []target, err error) {
	known := c.r.relatives()
	for i, n := range named {
		pid := strconv.Itoa(n.ProcessID)
		if slices.Contains(named[:i], n) {
			return out, api.Fail("invalid_request", "processes: pid "+pid+" is named twice")
		}
		ours := slices.ContainsFunc(known, func(x relative) bool { return x.pid == n.ProcessID && x.key == n.Key })
		if !ours || n.ProcessID == os.Getpid() {
			return out, api.Fail("invalid_request", "pid "+pid+" is not known to be a process of "+c.r.id+"; nothing was signalled")
		}
		if conn, ok := r.ctx.Value(peerKey{}).(*opConn); ok {
			if p, err := conn.peer(); err != nil || p.Descends(func(key string) bool { return key == n.Key }) {
				return out, api.Fail("invalid_request", "pid "+pid+" is what this command itself was started from; nothing was signalled")
			}
		}
		p, err := peer.Find(n.ProcessID)
		if err == nil && p.Key() != n.Key {
			p.Close()
			err = peer.ErrGone
		}
		if err != nil {
			return out, api.Fail("not_found", "pid "+pid+" has ended; nothing was signalled")
		}
		out = append(out, target{p, n.Key})
	}
	return out, nil
}

// terminate sends the signals and looks after each.
func (c *containment) terminate(targets []target, kill bool) error {
	if err := c.signal(targets, syscall.SIGTERM); err != nil {
		return err
	}
	left, err := c.check(targets, syscall.SIGTERM, whyAfterTerm)
	if err != nil {
		return err
	}
	if kill && len(left) > 0 {
		if err := c.signal(left, syscall.SIGKILL); err != nil {
			return err
		}
		if _, err := c.check(left, syscall.SIGKILL, whyAfterKill); err != nil {
			return err
		}
	}
	return c.finish()
}

// signalName is a signal as the log names it.
func signalName(s syscall.Signal) string {
	if s == syscall.SIGKILL {
		return "SIGKILL"
	}
	return "SIGTERM"
}

// signal records and then sends, one process after the other.
func (c *containment) signal(targets []target, s syscall.Signal) error {
	for _, t := range targets {
		f := t.proc.Facts()
		forced := s == syscall.SIGKILL
		err := c.record(event.ProcessSignalled{Run: c.r.id, ProcessID: f.PID, Started: f.Start, Signal: signalName(s), Operator: c.by.operator,
			Forced: forced, CleanupMayBeIncomplete: forced})
		if err != nil {
			return err
		}
		c.out.Processes[c.place(t.key)].Forced = forced
		if err := t.proc.Signal(s); err != nil && !isGone(err) {
			c.miss("pid %d could not be signalled: %v", f.PID, err)
		}
	}
	return nil
}

// check waits for the ends, takes the second snapshot and says what became of each process. It returns those that live.
func (c *containment) check(targets []target, s syscall.Signal, why string) (left []target, err error) {
	wait := time.NewTimer(termWait)
	defer wait.Stop()
waiting:
	for _, t := range targets {
		select {
		case <-t.proc.Gone():
		case <-wait.C:
			break waiting
		}
	}
	if err := c.look(why); err != nil {
		return nil, err
	}
	for _, t := range targets {
		f := t.proc.Facts()
		ev := event.ProcessChecked{Run: c.r.id, ProcessID: f.PID, Started: f.Start, After: signalName(s)}
		ev.State, ev.Detail, ev.Children = condition(t.proc)
		if err := c.record(ev); err != nil {
			return nil, err
		}
		at := &c.out.Processes[c.place(t.key)]
		at.State, at.Detail = ev.State, ev.Detail
		if ev.State != stateExited {
			left = append(left, t)
		}
	}
	return left, nil
}

// condition says why a process that was told to end is still there.
func condition(p *peer.Process) (state, detail string, children []int) {
	c, err := p.Condition()
	switch {
	case isGone(err):
		return stateExited, "", nil
	case err != nil:
		return stateStopping, escape(err.Error(), pathMax), nil
	case c.Blocked:
		return stateBlocked, "it waits in the kernel (stat D), where no signal reaches it before the wait is over", c.Children
	case len(c.Children) > 0:
		return stateHeld, "it has living children: " + pidList(c.Children), c.Children
	case c.State == 'T' || c.State == 't':
		return stateStopping, "it is stopped (stat T): SIGTERM waits until it goes on", nil
	case c.Keeps:
		return stateStopping, "it handles or ignores SIGTERM itself", nil
	}
	return stateStopping, "", nil
}

func isGone(err error) bool { return errors.Is(err, peer.ErrGone) }
