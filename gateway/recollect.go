package gateway

import (
	"context"
	"time"

	"sallyport/auditlog/event"
)

// recollect fills in what a run's memory does not know of its times, because an earlier gateway saw it. Without the times
// a call of before could not be classed. What can't be read stays unknown.
func (g *Gateway) recollect(ctx context.Context, r *run) {
	t, err := g.timesTold(ctx, r.id)
	g.complain("read times of run", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.roster.earlier {
		return
	}
	fill := func(have *time.Time, told time.Time) {
		if have.IsZero() {
			*have = told
		}
	}
	fill(&r.times.clientUnavailable, t.clientUnavailable)
	fill(&r.times.lastAction, t.lastAction)
	fill(&r.times.revoked, t.revoked)
	if r.roster.chief == nil { // else the next look tells whether it is silent
		fill(&r.times.unresponsive, t.unresponsive)
	}
}

// timesTold are a run's times by what the log was told.
func (g *Gateway) timesTold(ctx context.Context, run string) (t times, err error) {
	items, _, err := g.toldOf(ctx, run)
	for _, it := range items {
		switch e := it.Event.(type) {
		case event.RunOrphaned, event.RunEnded:
			if t.clientUnavailable.IsZero() {
				t.clientUnavailable = it.Time
			}
		case event.ClientUnresponsive:
			t.unresponsive = e.Since
		case event.ClientResponsive:
			t.unresponsive = time.Time{}
		case event.ToolCalled:
			t.lastAction = it.Time
		case event.RunRevoked:
			if t.revoked.IsZero() {
				t.revoked = it.Time
			}
		}
	}
	return t, err
}
