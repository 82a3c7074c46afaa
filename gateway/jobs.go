package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/httpexec"
)

// A remote job is what an accepted action left running far away. The action's own document is its handle: tool, target,
// credential and job id are enough to ask for it and to cancel it, by whoever may see the action, also after a restart.
//
// Asking is a call of its own and walks the one road: bound to a rule, decided, recorded, held by the gate. What it finds
// out may change the first action's outcome (changeJob), by an event of its own. A kind of job is one case of bindJob,
// and one of answeredJob.

// What can be asked of a job.
const (
	askStatus = httpexec.JobStatus
	askCancel = httpexec.JobCancel
)

// jobAsk is a request about a job: what is asked, and the action that started it.
type jobAsk struct {
	verb string
	of   api.Action
}

// askOf is a request about a job as the road takes it. Its tool is the job's own, so that the same grant covers it.
func askOf(verb string, of api.Action) parsed {
	return parsed{tool: of.Tool, job: &jobAsk{verb, of}}
}

// hasJob tells whether there is a job to ask for.
func hasJob(a api.Action) bool {
	switch a.Outcome {
	case "accepted", "cancel_requested", "cancel_unconfirmed":
		return a.JobID != ""
	case "sent_unconfirmed":
		return a.JobID != "" && a.State != api.Done // its id was known before it was sent
	}
	return false
}

// bindJob resolves a request about a job against the rules as they are now.
func (p *plan) bindJob(t *targets) {
	switch of := p.job.of; {
	case !hasJob(of):
		p.unbound(authz.TargetUnknown, "this action left no remote job")
	case of.Tool == api.ToolHTTP:
		p.bindHTTPJob(t, of)
	default:
		p.bindHostJob(t, of)
	}
}

func (p *plan) bindHTTPJob(t *targets, of api.Action) {
	p.authz.Effect, p.target, p.authz.Target = authz.Read, of.Target, of.Target
	if p.job.verb == askCancel {
		p.authz.Effect = authz.Write
	}
	if t == nil {
		return
	}
	c := t.byName[of.Credential]
	if c == nil {
		p.unbound(authz.TargetUnknown, "the credential that started the job is gone")
		return
	}
	q, m, err := c.rules.Job(p.job.verb, of.Target, of.JobID)
	if err != nil {
		p.unbound(authz.RuleMismatch, requestFault(err).Reason)
		return
	}
	p.http, p.httpMatch = q, m
	p.authz.Effect = effectOf(q.Effect())
	p.operation = q.Method() + " " + q.Path()
	p.summary = shownHTTP(q) + "\n" + p.job.verb + " of the job that action " + of.ID + " started"
	p.bound(c.meta, c.meta.Confirm, q.Origin())
	p.effectKey = strings.Join([]string{c.meta.Name, q.Method(), q.Origin(), q.Path()}, "\n")
}

// answeredJob is what the answer to a request says of the job; the zero value where it changes nothing. That a service took
// a cancellation is no proof that the work has stopped.
func answeredJob(ask *jobAsk, asked api.Action) jobChange {
	switch {
	case ask.verb != askCancel:
		return jobChange{}
	case onHost(ask.of.Tool):
		return cancelledJob(asked)
	case asked.Outcome == "sent_unconfirmed":
		return jobChange{outcome: "cancel_unconfirmed"}
	case asked.Outcome == "confirmed":
		var r api.HTTPResult
		if json.Unmarshal(asked.Result, &r) == nil && r.Status >= 200 && r.Status <= 299 {
			return jobChange{outcome: "cancel_requested"}
		}
	}
	return jobChange{}
}

// askJob walks a request about a job for its own run, and shows the first action with what was found out. wait bounds
// the waiting, not the request.
func (g *Gateway) askJob(asking context.Context, who caller, verb string, of api.Action, wait time.Duration) api.Action {
	q, id := askOf(verb, of), newID("act_")
	ended := make(chan api.Action, 1)
	g.task(func() {
		defer g.acts.host.asks(verb, of.ID)()
		asked := g.walk(asking, who, q, id)
		g.learn(q.job, asked)
		ended <- asked
	})
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case asked := <-ended:
		return g.withAnswer(of, verb, asked)
	case <-t.C:
	case <-asking.Done():
	}
	asked, _ := g.acts.get(id)
	return g.withAnswer(of, verb, asked)
}

// operateJob is the operator's request about a job: no run's, and by no grant.
func (g *Gateway) operateJob(r opRequest, verb string, of api.Action) (api.Action, error) {
	q := askOf(verb, of)
	defer g.acts.host.asks(verb, of.ID)()
	asked, err := g.operate(r.ctx, q, r.who, verb, of.ID)
	if err != nil {
		return api.Action{}, err
	}
	g.learn(q.job, asked)
	return g.withAnswer(of, verb, asked), nil
}

// learn makes what an answer says of a job the first action's outcome.
func (g *Gateway) learn(ask *jobAsk, asked api.Action) {
	if ch := answeredJob(ask, asked); ch.outcome != "" {
		ch.asked = asked.ID
		g.complain("record a job's change", g.changeJob(context.WithoutCancel(g.life), ask.of.ID, ch))
	}
}

// withAnswer shows a job's action as it is now, with the request that asked.
func (g *Gateway) withAnswer(of api.Action, verb string, asked api.Action) api.Action {
	if now, ok := g.find(context.WithoutCancel(g.life), of.ID); ok {
		of = now
	}
	of.Job = &api.JobAnswer{Asked: verb, Action: asked.ID, State: asked.State, Outcome: asked.Outcome, Error: asked.Error, Result: asked.Result}
	return of
}

// jobChange is what became known of a job after its action's result.
type jobChange struct {
	outcome string
	ended   bool // the job has: its action is done
	exit    *int
	signal  string
	result  []byte // what the action answers from now on; nil: as before
	flags   []string
	hits    int    // secrets masked in the result
	asked   string // the action that asked, if one did
}

// changeJob makes what became known of a job its action's, in the log first, then in memory and, behind it, in its row.
func (g *Gateway) changeJob(ctx context.Context, id string, ch jobChange) error {
	g.acts.jobs.Lock() // two changes of one action must reach log and row in one order
	defer g.acts.jobs.Unlock()
	k, err := g.keptOf(ctx, id)
	if err != nil {
		return err
	}
	a := &k.Doc
	if a.Outcome == ch.outcome && !ch.ended || ch.ended && onHost(a.Tool) && a.State == api.Done {
		return nil
	}
	a.Outcome, a.Flags, a.ReflectedCount = ch.outcome, append(a.Flags, ch.flags...), a.ReflectedCount+ch.hits
	if ch.ended {
		a.State, a.FinishedAt = api.Done, now().Wall
	}
	if a.Error = nil; !api.Succeeded(ch.outcome) && ch.outcome != "cancelled" {
		a.Error = api.Fail(ch.outcome, "")
		a.Error.Action = a.ID
	}
	if ch.result != nil {
		a.Result = ch.result
	}
	ev := event.JobChanged{Action: id, Run: a.AgentRun, Epoch: a.ExecutionEpoch, JobID: a.JobID, Outcome: a.Outcome, Exit: ch.exit, Signal: ch.signal, Asked: ch.asked}
	o := own{Run: a.AgentRun, Epoch: a.ExecutionEpoch, Tool: a.Tool, Target: a.Target, Cred: a.Credential, Outcome: a.Outcome, Job: a.JobID, Ended: ch.ended}
	hold := "job " + id
	g.acts.intended(hold, g.log.head().Seq+1) // the applied position waits for the row
	seq, err := g.log.append(ctx, auditlog.Entry{Kind: auditlog.Note, Subject: event.Subject(id), Body: event.Encode(ev), Own: g.sealOwn(o)})
	g.acts.changed(hold, k, seq, err == nil)
	if err == nil && ch.outcome != "sent_unconfirmed" {
		g.acts.unblock(id)
	}
	return err
}

// keptOf is what is kept of an action, from memory or from its row.
func (g *Gateway) keptOf(ctx context.Context, id string) (keptAction, error) {
	if k, ok := g.acts.keptOf(id); ok {
		return k, nil
	}
	row, ok, err := g.db.ActionByID(ctx, id)
	switch {
	case err != nil:
		return keptAction{}, err
	case !ok:
		return keptAction{}, errors.New("no action " + id)
	}
	return g.openKept(row)
}

func (s *actions) keptOf(id string) (keptAction, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.byID[id]
	if x == nil || x.doc.Outcome == "" {
		return keptAction{}, false
	}
	k := x.kept
	k.Doc = x.doc
	return k, true
}

// changed shows an action as its job's change left it, and has its row written behind. logged: the log has the change.
func (s *actions) changed(hold string, k keptAction, seq uint64, logged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.intents, hold)
	if !logged {
		return
	}
	a := k.Doc
	if x := s.byID[a.ID]; x != nil {
		ends := x.doc.State != api.Done && a.State == api.Done
		s.bytes += len(a.Result) - len(x.doc.Result)
		if x.doc = a; ends {
			s.ended = append(s.ended, a.ID)
			close(x.done)
		}
	}
	s.later(store.Action{ID: a.ID, Run: a.AgentRun, Epoch: a.ExecutionEpoch, State: a.State, Outcome: a.Outcome, Seq: seq, Started: a.StartedAt, Finished: a.FinishedAt}, k)
}
