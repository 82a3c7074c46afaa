package gateway

import (
	"context"

	"sallyport/auditlog/event"
	"sallyport/authz"
)

// echoLimit is how many reflections of a secret an epoch may see before somebody looks. Masking takes each one out; a
// caller that has many of them is asking an upstream to give a secret back, and may be looking for a way that masking
// does not know.
const echoLimit = 10

// paused is why grants end that too many reflections end.
const paused = "epoch_paused"

// reflected counts what a call of e, which has left the gate, was shown masks for. At the limit the epoch's grants end,
// and with them what is under way by them; its next call asks anew.
func (g *Gateway) reflected(e *epoch, hits int) {
	if hits == 0 {
		return
	}
	r := e.run
	r.mu.Lock()
	if e.echo += hits; e.echo < echoLimit {
		r.mu.Unlock()
		return
	}
	e.echo = 0
	ended := r.void(e)
	if len(ended) > 0 && len(r.grants) == 0 {
		r.step(authz.Lock) // without a live grant the run is no longer active
	}
	r.mu.Unlock()
	if len(ended) == 0 {
		return // approved for one use only, or ended already
	}
	g.stopHeld(r, func(c *call) bool { return c.epoch == e })
	var evs []event.Event
	for _, x := range ended {
		evs = append(evs, event.GrantRevoked{Grant: x.ID, Run: r.id, Epoch: e.id, Reason: paused})
	}
	g.authority.Lock()
	err := g.lose(context.Background(), evs, setRun(r, ended))
	g.authority.Unlock()
	g.complain("pause epoch", err)
}
