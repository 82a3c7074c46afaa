package gateway

import (
	"context"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// cancelWait is how long a cancellation waits for its action's end before it answers with what is known so far.
const cancelWait = 2 * time.Second

// calledBack is why an action ended of which nothing was recorded yet.
var calledBack = api.Fail("cancelled", "")

// hold notes the call that an action has become.
func (s *actions) hold(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.byID[c.id]; x != nil {
		x.call = c
	}
}

// stop calls an action back: what waits is dropped, a dial ends at once, and an exchange after the grace, which an answer
// that is on its way may still use. False if there is nothing under way. What is known in the end the executor says.
func (s *actions) stop(id string, grace time.Duration) bool {
	s.mu.Lock()
	x := s.byID[id]
	if x == nil || x.drop == nil {
		s.mu.Unlock()
		return false
	}
	drop, c := x.drop, x.call
	s.mu.Unlock()
	drop(calledBack)
	if c != nil {
		c.cancelDial()
		time.AfterFunc(grace, c.cancel)
	}
	return true
}

// cancel calls an action back for the agent or an operator (by), and shows it as it then is. The request is recorded; if
// it can't be, the action is stopped all the same.
func (g *Gateway) cancel(ctx context.Context, act api.Action, by string) (api.Action, error) {
	if !g.acts.stop(act.ID, g.cfg.Grace) {
		return act, nil // it has ended, and stays what it is
	}
	ev := event.ToolCancelRequested{Action: act.ID, Run: act.AgentRun, Epoch: act.ExecutionEpoch, By: by}
	err := g.log.note(ctx, act.ID, ev)
	if now, ok := g.await(ctx, act.ID, cancelWait); ok {
		act = now
	}
	return act, err
}

// opActionCancel is the operator's. It needs no proof: what it sends is the one request that the credential's rules name
// for it.
func (g *Gateway) opActionCancel(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	act, ok := g.find(r.ctx, a.ID)
	if !ok {
		return nil, api.Fail("not_found", "")
	}
	if hasJob(act) {
		return g.operateJob(r, askCancel, act)
	}
	act, err := g.cancel(r.ctx, act, "operator")
	if err != nil {
		g.complain("record cancellation", err)
		return nil, api.Fail("not_recorded", "cancelled here, not yet recorded")
	}
	return act, nil
}
