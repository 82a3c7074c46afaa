package gateway

import (
	"context"
	"time"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
)

// The road, read from top to bottom. Every call walks it once, forwards:
//
//	accept -> identify -> plan -> decide -> [ask a human] -> record intent -> enter gate -> lend+execute -> record result -> answer
//
// accept and identify stand in agents.go and registry.go, the gate in gate.go.

// walk takes one call from its plan to its result. asking ends when the caller goes away: until the intent is recorded
// a call can still be dropped; from then on it runs under the gateway's own life. The action it returns is final.
func (g *Gateway) walk(asking context.Context, who caller, q parsed, id string) api.Action {
	asking, drop := context.WithCancelCause(asking)
	defer drop(nil)
	a := api.Action{ID: id, Tool: q.tool, Target: escape(q.target, 128), State: api.Pending}
	if who.run != nil {
		a.AgentRun, a.ExecutionEpoch = who.run.id, who.epoch.id
	}
	g.acts.begin(a, drop)
	a = g.act(asking, who, q, a)
	g.complain("walk", placed(a))
	g.acts.end(id, a)
	return a
}

// act is walk without the bookkeeping.
func (g *Gateway) act(asking context.Context, who caller, q parsed, a api.Action) api.Action {
	p := bind(q, g.targets())
	a.Target, a.Credential = p.authz.Target, p.authz.Credential
	if who.run == nil {
		// Nobody to hold a lock for: without a run there is nothing to allow, and the ladder says why.
		return g.deny(asking, who, p, a, authz.Decide(g.facts(who, who.same(), p, nil, authz.FullWalk)))
	}
	p.run = who.run.id
	if p.access != nil {
		return g.giveAccess(asking, who, p, a)
	}
	if p.key != "" {
		if err := g.recallKeys(asking, who.run); err != nil {
			g.complain("recall idempotency keys", err)
			return g.refuse(asking, who, p, a, api.Fail("internal", "the keys used before can't be read"))
		}
	}
	c := &call{id: a.ID, epoch: who.epoch, left: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(g.life)
	c.dial, c.cancelDial = context.WithCancel(c.ctx)
	g.acts.hold(c)

	d, used, refused := g.authorize(asking, who, p, c)
	if p.relay != nil && refused == nil && d.Verdict != authz.Allow {
		d, a = g.unapproved(p, d, a)
	}
	switch {
	case refused != nil:
		c.cancel()
		return g.refuse(asking, who, p, a, refused)
	case used != nil:
		c.cancel()
		return g.replay(asking, who, p, a, *used)
	case d.Verdict != authz.Allow:
		c.cancel()
		return g.deny(asking, who, p, a, d)
	}

	a.StartedAt = now().Wall
	if err := g.intend(who, p, c, d); err != nil {
		g.forget(who, p, c)
		g.leave(who.run, c)
		return g.refuse(asking, who, p, a, api.Fail("audit_unavailable", ""))
	}
	a.State = api.Running
	g.acts.update(a)
	if p.relay != nil {
		g.attend(p.relay.server)
	}
	var out outcome
	if d := g.enter(who, p, c); d.Verdict != authz.Allow {
		out = outcome{word: "denied", reason: string(d.Reason)}
		out.fail = g.refusal(d)
	} else {
		out = g.execute(c, p)
	}
	return g.conclude(who, p, c, a, out)
}

// authorize decides, and asks the operator where the decision is to ask, until it is yes or no.
func (g *Gateway) authorize(asking context.Context, who caller, p *plan, c *call) (authz.Decision, *keyUse, *api.Error) {
	for range 4 { // each turn means that something changed while the operator was asked
		if asking.Err() != nil {
			return authz.Decision{}, nil, askEnded(asking) // what was not sent goes with its caller
		}
		if p.relay != nil {
			g.attend(p.relay.server)
		}
		d, used := g.reserve(who, p, c)
		if d.Verdict != authz.Ask || used != nil || p.relay != nil { // a supervised server's host has no way to wait
			return d, used, nil
		}
		card, refused := g.ask(asking, who, p, func() authz.Decision { return g.judge(who, p, authz.FullWalk) })
		if refused != nil {
			return d, nil, refused
		}
		c.card = card
	}
	return authz.Decision{}, nil, api.Fail("not_authorized", "what this call was approved for kept changing")
}

// own is what the gateway seals to itself in an intent or result: enough to rebuild the action's row, and no more.
type own struct {
	Run       string  `json:"run,omitempty"`
	Epoch     string  `json:"epoch,omitempty"`
	Tool      string  `json:"tool,omitempty"`
	Target    string  `json:"target,omitempty"`
	Cred      string  `json:"credential,omitempty"`
	Digest    []byte  `json:"digest,omitempty"`
	EffectKey []byte  `json:"effectKey,omitempty"` // SHA-256
	Key       string  `json:"key,omitempty"`
	Read      bool    `json:"read,omitzero"`
	Outcome   string  `json:"outcome,omitempty"`
	Job       string  `json:"job,omitempty"`  // what the remote side calls the job that was started
	Ended     bool    `json:"ended,omitzero"` // in a note: the job has
	Counter   uint64  `json:"counter"`        // the vault's manifest counter: its lower bound
	Deed      ownDeed `json:",embed"`
}

// ownDeed is what an incident record needs of a call whose row a crash kept from being written.
type ownDeed struct {
	Operation string `json:"operation,omitempty"`
	Grant     string `json:"grant,omitempty"`
	Approval  string `json:"approval,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Status    int    `json:"status,omitzero"`
	Exit      *int   `json:"exitStatus,omitempty"`
}

// intend makes the intent durable before the first byte leaves.
func (g *Gateway) intend(who caller, p *plan, c *call, d authz.Decision) error {
	ev := event.ToolCalled{
		Call: g.recordCall(who, p, c.id), Digest: p.authz.Digest, Preview: p.preview(), Decision: string(d.Reason),
		Grant: d.Grant, Approval: d.Approval, IdempotencyKey: p.key, BytesOut: p.bytesOut(), ArtifactDrift: who.epoch.drift.Load(),
	}
	g.recordServer(who, p, &ev)
	seq, err := g.log.append(c.ctx, auditlog.Entry{Kind: auditlog.Intent, Subject: event.Subject(c.id), Body: event.Encode(ev),
		Own: g.own(who, p, "", "", ownDeed{Operation: ev.Operation, Grant: d.Grant, Approval: d.Approval})})
	if err != nil {
		g.complain("record intent", err)
		return err
	}
	g.acts.intended(c.id, seq)
	return nil
}

// conclude records what is known, lets go of the gate, and makes the answer.
func (g *Gateway) conclude(who caller, p *plan, c *call, a api.Action, out outcome) api.Action {
	if who.epoch.drift.Load() {
		out.flags = append(out.flags, "artifact_drift")
	}
	a.State, a.FinishedAt, a.Outcome, a.Flags, a.ReflectedCount = api.Done, now().Wall, out.word, out.flags, out.reflected
	a.Error, a.Result, a.JobID = out.fail, out.result, out.job
	if a.State = standing(a.Tool, a.Outcome, a.JobID); a.State != api.Done {
		a.FinishedAt = time.Time{}
	}
	if a.Error != nil {
		a.Error.Action = a.ID
	}
	ev := out.event(a)
	_, err := g.log.append(c.ctx, auditlog.Entry{Kind: auditlog.Result, Subject: event.Subject(a.ID), Body: event.Encode(ev),
		Own: g.own(who, p, out.word, out.job, ownDeed{Reason: ev.Reason, Status: ev.Status, Exit: ev.Exit})})
	g.acts.finished(a, p, out.file, err == nil)
	if err != nil {
		g.complain("record result", err)
		a.Error = api.Fail("audit_unavailable", "the outcome is "+out.word+", and it could not be recorded")
		a.Error.Action = a.ID
	}
	g.leave(who.run, c)
	g.settle(c.ctx, who.run)
	g.reflected(who.epoch, out.reflected)
	if a.State != api.Done {
		g.watchJob(a.ID)
	}
	return a
}

// own seals the gateway's own part of a record; nil when the vault is closed, which only a refusal can meet.
func (g *Gateway) own(who caller, p *plan, outcome, job string, deed ownDeed) []byte {
	o := own{Run: who.run.id, Epoch: who.epoch.id, Tool: p.tool, Target: p.authz.Target, Cred: p.authz.Credential, Digest: p.digest[:],
		EffectKey: p.effectHash(), Key: p.key, Read: p.authz.Effect == authz.Read, Outcome: outcome, Job: job, Deed: deed}
	return g.sealOwn(o)
}

// sealOwn seals an own part with the vault's counter in it.
func (g *Gateway) sealOwn(o own) []byte {
	if s := g.vault.Snapshot(); s != nil {
		o.Counter = s.Counter
	}
	plain := encode(o)
	if len(plain) > maxOwn {
		o.Deed = ownDeed{} // what a call can't do without goes first
		plain = encode(o)
	}
	box, err := g.vault.Seal(useOwn, nil, plain)
	if err != nil {
		return nil
	}
	return box
}

// maxOwn leaves a box room for what sealing adds, within auditlog.MaxOwn.
const maxOwn = auditlog.MaxOwn - 128

// useOwn is the vault's key for the own parts of records.
const useOwn = "log own"

// replay answers a repeated idempotency key: the call was authorized afresh, and uses nothing up.
func (g *Gateway) replay(ctx context.Context, who caller, p *plan, a api.Action, used keyUse) api.Action {
	if used.digest != p.digest {
		return g.refuse(ctx, who, p, a, api.Fail("idempotency_mismatch", ""))
	}
	old, ok := g.find(ctx, used.action)
	switch {
	case !ok, old.State == api.Done && len(old.Result) == 0 && api.Succeeded(old.Outcome):
		e := api.Fail("result_lost", "")
		e.Action = used.action
		return g.refuse(ctx, who, p, a, e)
	case old.State == api.Pending, old.State == api.Running && old.Outcome == "":
		e := api.Fail("in_progress", "")
		e.Action = used.action
		return g.refuse(ctx, who, p, a, e)
	}
	return old
}

// forget gives an idempotency key back: nothing was recorded under it.
func (g *Gateway) forget(who caller, p *plan, c *call) {
	who.run.mu.Lock()
	defer who.run.mu.Unlock()
	if u, ok := who.run.keys[p.key]; ok && u.action == c.id {
		delete(who.run.keys, p.key)
	}
}

// deny records a decision against the call and answers it.
func (g *Gateway) deny(ctx context.Context, who caller, p *plan, a api.Action, d authz.Decision) api.Action {
	e := g.refusal(d)
	if p.detail != "" && (d.Reason == p.authz.Fault || d.Reason == p.authz.Unbound) {
		e.Reason = p.detail
	}
	if d.Reason == authz.RuleMismatch && p.authz.Bound {
		e.Reason, e.Retry, e.Next = "the credential or host changed while this call was on its way", "call again", api.NextLater
	}
	if id := g.acts.blocker(p); d.Reason == authz.OutcomeUnresolved && id != "" {
		e.Reason += ": " + id
	}
	return g.refuse(ctx, who, p, a, e)
}

// refusal is a decision as the caller is told it.
func (g *Gateway) refusal(d authz.Decision) *api.Error {
	e := api.Fail(string(d.Reason), "")
	e.ApprovedEpoch, e.CurrentEpoch = d.ApprovedEpoch, d.CurrentEpoch
	return e
}

// refuse records a refusal with the care of a success, and answers it. Before init there is no log: it is counted.
func (g *Gateway) refuse(ctx context.Context, who caller, p *plan, a api.Action, e *api.Error) api.Action {
	ev := event.AuthorizationDenied{Call: g.recordCall(who, p, a.ID), Method: api.MethodCall, Reason: e.Code, Detail: escape(e.Reason, 256),
		ApprovedEpoch: e.ApprovedEpoch, CurrentEpoch: e.CurrentEpoch}
	g.recordDenied(ctx, a.ID, ev)
	said := *e // some refusals are one value for everybody
	if e = &said; e.Action == "" {
		e.Action = a.ID
	}
	a.State, a.Outcome, a.Error, a.FinishedAt = api.Done, "denied", e, now().Wall
	return a
}

// recordCall is the call as every Activity event tells it.
func (g *Gateway) recordCall(who caller, p *plan, id string) event.Call {
	c := event.Call{Action: id}
	if who.run != nil {
		c.Run, c.Epoch = who.run.id, who.epoch.id
	}
	if who.proc != nil {
		c.Peer = recorded(who.proc.Facts())
	}
	if p != nil {
		c.Tool, c.Credential, c.Target, c.Operation = p.tool, p.authz.Credential, escape(p.authz.Target, 256), escape(p.operation, 512)
	}
	return c
}

// await waits for an action's end, or for the start of the job it asked for, at most d, and shows it as it then is.
func (g *Gateway) await(ctx context.Context, id string, d time.Duration) (api.Action, bool) {
	news, ok := g.acts.next(id)
	if !ok {
		return api.Action{}, false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-news:
	case <-t.C:
	case <-ctx.Done():
	}
	return g.acts.get(id)
}
