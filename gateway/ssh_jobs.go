package gateway

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/scrub"
	"sallyport/sshexec"
)

// A job on a host outlives its connection, its run and this process. Its action stays "running" until the gateway, which
// looks again and again while the vault is open, has found the job's exit status; that looking is part of the job's own
// life, so only what it finds is recorded. A cancellation is a call of its own.

// When a watched job is looked at.
const (
	jobFirstLook = 500 * time.Millisecond
	jobLastLook  = 30 * time.Second // the pause grows up to this
	jobLimit     = 40 * time.Second // one request about a job, login included
)

// standing is the state of an action that has this outcome: a job on a host runs on, and may run where its start had no
// answer.
func standing(tool, outcome, job string) string {
	if tool == api.ToolJob && job != "" && (outcome == "accepted" || outcome == "sent_unconfirmed") {
		return api.Running
	}
	return api.Done
}

// hostJob is a job's id on its host: the action's ULID.
func hostJob(action string) string { return strings.TrimPrefix(action, "act_") }

// startJob starts what the plan asks. Its id is known beforehand, so that a start whose answer is lost can be looked up.
func (g *Gateway) startJob(ctx context.Context, c *call, p *plan, conn *sshexec.Conn, out *outcome) error {
	r, err := conn.StartJob(ctx, hostJob(c.id), p.host.cmd, p.way.match)
	out.hostSettled(r)
	if r.Sent {
		out.job = hostJob(c.id)
	}
	return err
}

// bindHostJob resolves a request about a job. The rule that let it start is not asked again: what is sent holds nothing of
// the agent's but the id.
func (p *plan) bindHostJob(t *targets, of api.Action) {
	p.target, p.authz.Target, p.authz.Effect = of.Target, of.Target, authz.Read
	if p.job.verb == askCancel {
		p.authz.Effect = authz.Write
	}
	if t == nil {
		return
	}
	h, ok := t.hosts[of.Target]
	if !ok {
		p.unbound(authz.TargetUnknown, "the host is gone")
		return
	}
	p.operation = p.job.verb + " of job " + of.JobID
	p.summary = "ssh " + escape(of.Target, 64) + ": " + p.operation + "\nthe job that action " + of.ID + " started"
	if p.login(t, h) {
		p.effectKey = strings.Join([]string{p.secret.Name, of.Target, p.operation}, "\n")
	}
}

// askHostJob does what the plan asks of a job.
func (g *Gateway) askHostJob(ctx context.Context, p *plan, conn *sshexec.Conn, out *outcome) error {
	var j sshexec.Job
	var err error
	if p.job.verb == askCancel {
		j, err = conn.CancelJob(ctx, p.job.of.JobID)
	} else {
		j, err = conn.JobStatus(ctx, p.job.of.JobID, 0, 0, io.Discard, io.Discard)
	}
	if e, ok := errors.AsType[*sshexec.DialError](err); ok {
		out.settled("sent_unconfirmed", "", e.Detail)
		return nil
	}
	out.settled("confirmed", "", "")
	out.result = encode(shownJob(j))
	return err
}

func shownJob(j sshexec.Job) api.JobResult {
	r := api.JobResult{State: j.State.String(), Cancelled: j.Cancel, Proof: j.Proof, Detail: j.Detail}
	if j.State == sshexec.JobEnded {
		r.ExitStatus = &j.ExitStatus
	}
	return r
}

// cancelledJob is what the answer to a cancellation says of the job.
func cancelledJob(asked api.Action) jobChange {
	var r api.JobResult
	switch {
	case asked.Outcome == "sent_unconfirmed":
		return jobChange{outcome: "cancel_unconfirmed"}
	case asked.Outcome != "confirmed" || json.Unmarshal(asked.Result, &r) != nil:
		return jobChange{}
	case r.Proof && r.Cancelled:
		return jobChange{outcome: "cancelled", ended: true, exit: r.ExitStatus}
	case r.Proof, r.State == sshexec.JobNone.String():
		return jobChange{} // it had ended before, or never began: the watch tells
	}
	return jobChange{outcome: "cancel_unconfirmed"}
}

// watchJobs takes up the jobs that were not known to have ended.
func (g *Gateway) watchJobs(ctx context.Context) error {
	rows, err := g.db.Running(ctx)
	for _, row := range rows {
		g.watchJob(row.ID)
	}
	return err
}

// watchJob follows a job until its end is known and recorded, the vault is closed, or nothing can be asked any more. Only
// one watch of an action runs.
func (g *Gateway) watchJob(id string) {
	if !g.acts.host.watch(id) {
		return
	}
	g.task(func() {
		defer g.acts.host.unwatch(id)
		w := &jobWatch{out: &stream{}, err: &stream{}}
		for pause := jobFirstLook; ; pause = min(pause*3/2, jobLastLook) {
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-g.life.Done():
				t.Stop()
				return
			}
			if g.ready() != nil {
				return // the next unlock watches again
			}
			of, ok := g.find(g.life, id)
			if !ok || of.State == api.Done || of.JobID == "" {
				if ok && of.Outcome == "cancelled" {
					of.Outcome = "accepted" // as it was while there was something to ask for
					g.forgetJob(of)
				}
				return
			}
			if g.lookAtJob(of, w) {
				return
			}
		}
	})
}

// hostJobs is what is under way about jobs on hosts: who is watched, and who is being cancelled.
type hostJobs struct {
	mu      sync.Mutex
	watched map[string]bool
	cancels map[string]int
}

// watch is true for the first that watches a job.
func (s *hostJobs) watch(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched[id] {
		return false
	}
	if s.watched == nil {
		s.watched = map[string]bool{}
	}
	s.watched[id] = true
	return true
}

func (s *hostJobs) unwatch(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watched, id)
}

// asks notes that a job is being cancelled, until the returned func is called.
func (s *hostJobs) asks(verb, id string) func() {
	if verb != askCancel {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancels == nil {
		s.cancels = map[string]int{}
	}
	s.cancels[id]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cancels[id]--; s.cancels[id] == 0 {
			delete(s.cancels, id)
		}
	}
}

func (s *hostJobs) cancelling(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancels[id] > 0
}

// jobWatch is what a watch has read of a job's outputs.
type jobWatch struct {
	out, err *stream
	read     [2]int64 // bytes of each on the host
	ow, ew   *scrub.Writer
}

// atJobHost logs in to a job's host for a look of the gateway's own. over: nothing can be asked there any more.
func (g *Gateway) atJobHost(of api.Action, do func(ctx context.Context, conn *sshexec.Conn, secrets [][]byte) error) (over bool, err error) {
	p := bind(askOf(askStatus, of), g.targets())
	if !p.authz.Bound {
		g.cfg.Log.Warn("a job can't be watched any more", "action", of.ID, "reason", p.detail)
		return true, nil
	}
	c := &call{id: newID("act_"), epoch: &epoch{run: g.operator}, left: make(chan struct{})}
	c.ctx, c.cancel = context.WithTimeout(g.life, jobLimit)
	c.dial, c.cancelDial = context.WithCancel(c.ctx)
	if g.admit(c) != nil {
		c.cancel()
		return true, nil
	}
	defer g.leave(g.operator, c)
	if !g.passes(c, p) {
		return false, errNotNow
	}
	return false, g.lent(c.ctx, p.way.logins, of.ID, watching, func(a *sshexec.Auth, secrets [][]byte) error {
		dial, stop := joined(c.ctx, c.dial)
		defer stop()
		conn, err := g.ssh.Dial(dial, p.way.target, *a)
		if err != nil {
			return err
		}
		defer g.ssh.Put(conn)
		return do(c.ctx, conn, secrets)
	})
}

var errNotNow = errors.New("the gate lets nothing through now")

// lookAtJob asks once, and records an end. True: there is nothing more to see.
func (g *Gateway) lookAtJob(of api.Action, w *jobWatch) (over bool) {
	var j sshexec.Job
	over, err := g.atJobHost(of, func(ctx context.Context, conn *sshexec.Conn, secrets [][]byte) (err error) {
		if w.ow == nil {
			set := scrub.New(secrets...)
			w.ow, w.ew = set.Writer(w.out), set.Writer(w.err)
			g.acts.show(of.ID, &streams{out: w.out, err: w.err})
		}
		for {
			var now sshexec.Job
			out, errw := &counter{w: w.ow}, &counter{w: w.ew}
			if now, err = conn.JobStatus(ctx, of.JobID, w.read[0], w.read[1], out, errw); err != nil {
				return err
			}
			j = now
			w.read[0], w.read[1] = w.read[0]+out.n, w.read[1]+errw.n
			if out.n == 0 && errw.n == 0 {
				return nil
			}
		}
	})
	if over || err != nil {
		return over // asked again later: that nothing answers says nothing about the job
	}
	if g.acts.host.cancelling(of.ID) {
		return false // what the cancellation finds counts
	}
	ch, known := w.end(of, j)
	if !known {
		return false
	}
	ctx := context.WithoutCancel(g.life)
	if err := g.changeJob(ctx, of.ID, ch); err != nil {
		g.complain("record a job's change", err)
		return false
	}
	if ch.outcome == "confirmed" && j.Complete {
		g.forgetJob(of)
	}
	return ch.ended
}

// forgetJob removes what an ended job left on its host, once its end is in the log. It is tried for some 40 seconds: what
// stays then is a folder whose id no start names again.
func (g *Gateway) forgetJob(of api.Action) {
	for pause := time.Second; ; pause *= 3 {
		over, err := g.atJobHost(of, func(ctx context.Context, conn *sshexec.Conn, _ [][]byte) error {
			return conn.ForgetJob(ctx, of.JobID)
		})
		switch {
		case err == nil && !over:
			return
		case over || pause > 27*time.Second:
			g.cfg.Log.Info("an ended job's folder stays on its host", "action", of.ID)
			return
		}
		select {
		case <-time.After(pause):
		case <-g.life.Done():
			return
		}
	}
}

// watching stands where a run's id does in the pool's key: a job is looked at also after its run was revoked.
const watching = "watching"

// jobAppears is how long a start without an answer may take to show on its host.
const jobAppears = time.Minute

// end is what the host's word makes of the action. A command that left something holding its outputs has ended all the same.
func (w *jobWatch) end(of api.Action, j sshexec.Job) (jobChange, bool) {
	switch {
	case j.State == sshexec.JobEnded:
	case j.State == sshexec.JobLost, j.State == sshexec.JobNone && now().Wall.Sub(of.StartedAt) > jobAppears:
		return jobChange{outcome: "sent_unconfirmed", ended: true}, true
	case j.State == sshexec.JobRunning && of.Outcome == "sent_unconfirmed":
		return jobChange{outcome: "accepted"}, true
	default:
		return jobChange{}, false
	}
	hits := 0
	for _, x := range []*scrub.Writer{w.ow, w.ew} {
		n, _ := x.Close(j.Complete && !j.Truncated) // a stream of ours takes everything
		hits += n
	}
	ch := jobChange{outcome: "confirmed", ended: true, exit: &j.ExitStatus, hits: hits}
	if j.Cancel {
		ch.outcome = "cancel_unconfirmed" // it ended; that nothing of it lives was not shown
	}
	if j.Truncated {
		ch.flags = append(ch.flags, "output_truncated")
	}
	if !j.Complete {
		ch.flags = append(ch.flags, "pipes_held")
	}
	ch.result = encode(api.SSHResult{ExitStatus: j.ExitStatus, Stdout: text(w.out.bytes()), Stderr: text(w.err.bytes())})
	return ch, true
}

// counter counts what passes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
