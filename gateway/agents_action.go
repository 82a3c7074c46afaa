package gateway

import (
	"context"
	"time"

	"sallyport/authz"
	"sallyport/gateway/api"
)

// own finds an action of the caller's own run. Whoever asks for another's is told the same as for one that never was.
func (a *agentConn) own(ctx context.Context, who caller, method, id string) (api.Action, *api.Error) {
	act, ok := a.g.find(ctx, id)
	if !ok || who.run == nil || act.AgentRun != who.run.id {
		return api.Action{}, a.denied(ctx, who, method, "", api.Fail("action_unknown", ""))
	}
	return act, nil
}

// status shows an action of the caller's own run.
func (a *agentConn) status(ctx context.Context, params []byte) api.Response {
	var r api.StatusRequest
	who, fault := a.control(ctx, api.MethodStatus, params, &r)
	if fault != nil {
		return api.Response{Error: fault}
	}
	if r.WaitSeconds < 0 || r.WaitSeconds > api.WaitLimit {
		return api.Response{Error: a.denied(ctx, who, api.MethodStatus, "", api.Fail("invalid_request", "waitSeconds: 0 to 45"))}
	}
	act, fault := a.own(ctx, who, api.MethodStatus, r.Action)
	if fault != nil {
		return api.Response{Error: fault}
	}
	at, given := parseCursor(r.Cursor)
	if r.Cursor != "" && !given {
		return api.Response{Error: a.denied(ctx, who, api.MethodStatus, "", api.Fail("invalid_request", `cursor: "0", or one that an output named`))}
	}
	if act.State != api.Done && (r.WaitSeconds > 0 || given) {
		wait := time.Duration(r.WaitSeconds) * time.Second
		look := func() (api.Action, bool) { return a.g.await(ctx, r.Action, wait) }
		if given {
			look = func() (api.Action, bool) { return a.g.awaitOutput(ctx, r.Action, at, wait) }
		}
		if now, ok := look(); ok {
			act = now
		}
		// A wait is long enough for everything to have changed.
		if d := a.g.judge(who, &plan{}, authz.ControlWalk); d.Verdict != authz.Allow {
			return api.Response{Error: a.denied(ctx, who, api.MethodStatus, "", a.g.refusal(d))}
		}
	}
	if hasJob(act) && !onHost(act.Tool) { // a host's job is watched: what is known of it is here
		return a.askJob(ctx, api.MethodStatus, askStatus, act, time.Duration(r.WaitSeconds)*time.Second)
	}
	return api.Response{Action: &act}
}

// leastAsk is how long a request about a job is waited for at least.
const leastAsk = 10 * time.Second

// askJob asks for the job of an action of the caller's own run. That is a call, so it opens the caller's epoch.
func (a *agentConn) askJob(ctx context.Context, method, verb string, act api.Action, wait time.Duration) api.Response {
	who, err := a.g.identify(ctx, a.proc, true)
	if err != nil {
		a.g.complain("identify", err)
		return api.Response{Error: a.denied(ctx, who, method, act.Tool, a.unidentified(err))}
	}
	if who.run == nil || who.run.id != act.AgentRun { // identified anew, it may be another run's by now
		return api.Response{Error: a.denied(ctx, who, method, act.Tool, api.Fail("action_unknown", ""))}
	}
	act = a.g.askJob(ctx, who, verb, act, max(wait, leastAsk))
	return api.Response{Action: &act}
}

// cancel calls an action of the caller's own run back.
func (a *agentConn) cancel(ctx context.Context, params []byte) api.Response {
	var r api.CancelRequest
	who, fault := a.control(ctx, api.MethodCancel, params, &r)
	if fault != nil {
		return api.Response{Error: fault}
	}
	if r.Request != "" {
		if r.Action != "" {
			return api.Response{Error: a.denied(ctx, who, api.MethodCancel, "", api.Fail("invalid_request", "action or request, one of them"))}
		}
		a.asked.withdraw(r.Request)
		return api.Response{Result: encode(struct{}{})}
	}
	act, fault := a.own(ctx, who, api.MethodCancel, r.Action)
	if fault != nil {
		return api.Response{Error: fault}
	}
	if hasJob(act) {
		return a.askJob(ctx, api.MethodCancel, askCancel, act, 0)
	}
	act, err := a.g.cancel(ctx, act, "agent")
	if err != nil {
		a.g.complain("record cancellation", err)
		return api.Response{Error: api.Fail("audit_unavailable", "it is cancelled, and that could not be recorded")}
	}
	return api.Response{Action: &act}
}
