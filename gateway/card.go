package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
)

// Budgets of shown cards nest: one per epoch (epoch.cards), two per session leader, eight in all. Further asks wait
// behind, and are answered by the same grant if it covers them.
const (
	sessionCards = 2
	shownCards   = 8
	queuedAsks   = 32 // behind one epoch's card
	waitingCards = 1024
)

// card is one question to the operator, bound to one plan of one epoch. It is answered at most once.
type card struct {
	shown  api.Approval
	bytes  []byte // canonical JSON of shown without its own digest: what the answer names
	plan   *plan
	epoch  *epoch
	ends   authz.Instant
	answer chan verdict // buffered 1; receives exactly once
	taken  bool         // under run.mu: its single use is reserved
}

// verdict is how a card ended. Reason is empty for yes.
type verdict struct{ reason string }

// approval is the card as Decide judges it: a yes to exactly this plan in exactly this epoch.
func (c *card) approval() authz.Approval {
	return authz.Approval{ID: c.shown.ID, Run: c.shown.AgentRun, Epoch: c.shown.ExecutionEpoch, Digest: c.shown.Digest,
		Version: c.plan.authz.Version, Ends: c.ends, Reserved: true}
}

// newCard writes down what the operator will see.
func newCard(who caller, p *plan, life time.Duration) *card {
	ends := after(now(), life)
	c := &card{plan: p, epoch: who.epoch, ends: ends, answer: make(chan verdict, 1)}
	c.shown = api.Approval{
		ID: newID("ap_"), AgentRun: who.run.id, ExecutionEpoch: who.epoch.id, Tool: p.tool, Credential: p.authz.Credential,
		Target: p.authz.Target, Summary: p.summary, Effect: p.authz.Effect.String(), Digest: p.authz.Digest, ExpiresAt: ends.Wall,
		Agent: agent(who.run.owner.facts), Gaps: p.gaps(),
	}
	c.bytes = encode(c.shown)
	sum := sha256.Sum256(c.bytes)
	c.shown.CardDigest = "sha256:" + hex.EncodeToString(sum[:])
	return c
}

// cards holds what waits for the operator.
type cards struct {
	mu    sync.Mutex
	open  map[string]*card
	bySID map[int]int
	queue map[*epoch]int
	line  []*place // waiting for room, in the order they came
}

// place is a card that waits for room. laid is closed once it lies there.
type place struct {
	card *card
	laid chan struct{}
}

func newCards() *cards {
	return &cards{open: map[string]*card{}, bySID: map[int]int{}, queue: map[*epoch]int{}}
}

// list shows the open cards, oldest first.
func (s *cards) list() []api.Approval {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []api.Approval{}
	for _, c := range s.open {
		out = append(out, c.shown)
	}
	slices.SortFunc(out, func(a, b api.Approval) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	return out
}

// take removes an open card for its one answer; nil if it is not open any more.
func (s *cards) take(id string, digest string) (*card, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[id]
	if c == nil {
		return nil, false
	}
	if digest != "" && c.shown.CardDigest != digest {
		return nil, true
	}
	s.remove(c)
	return c, true
}

// remove takes c off the table. mu must be held.
func (s *cards) remove(c *card) {
	delete(s.open, c.shown.ID)
	if sid := c.epoch.facts.SID; s.bySID[sid] > 1 {
		s.bySID[sid]--
	} else {
		delete(s.bySID, sid)
	}
	s.fill()
}

// fill lays down whoever waits and has room, first come first served: a session that is at its budget lets the next one
// pass. mu must be held.
func (s *cards) fill() {
	s.line = slices.DeleteFunc(s.line, func(p *place) bool {
		sid := p.card.epoch.facts.SID
		if len(s.open) >= shownCards || s.bySID[sid] >= sessionCards {
			return false
		}
		s.open[p.card.shown.ID] = p.card
		s.bySID[sid]++
		close(p.laid)
		return true
	})
}

// expire ends every card that match names, unanswered.
func (s *cards) expire(match func(*card) bool, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Collect(maps.Values(s.open)) { // what fill lays down meanwhile decides for itself
		if match(c) {
			s.remove(c)
			c.answer <- verdict{reason}
		}
	}
}

// lay waits until the budgets have room and lays the card down; false when ctx ended first, or too many wait already.
func (s *cards) lay(ctx context.Context, c *card) bool {
	p := &place{c, make(chan struct{})}
	s.mu.Lock()
	if len(s.line) >= waitingCards {
		s.mu.Unlock()
		return false
	}
	s.line = append(s.line, p)
	s.fill()
	s.mu.Unlock()
	select {
	case <-p.laid:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-p.laid: // at the last moment: the card lies there, and its own end takes it away
		return true
	default:
	}
	s.line = slices.DeleteFunc(s.line, func(x *place) bool { return x == p })
	return false
}

// stand lets an ask queue behind its epoch's card; false when too many already do.
func (s *cards) stand(e *epoch, by int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by > 0 && s.queue[e] >= queuedAsks {
		return false
	}
	if s.queue[e] += by; s.queue[e] <= 0 {
		delete(s.queue, e)
	}
	return true
}

// queued is how many asks stand behind an epoch's card, that one included.
func (s *cards) queued(e *epoch) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue[e]
}

// ask lays a card before the operator and waits for the answer. again decides afresh once the epoch's place is ours:
// an earlier card's grant may cover this call too. A nil error and a nil card mean that it does.
func (g *Gateway) ask(ctx context.Context, who caller, p *plan, again func() authz.Decision) (*card, *api.Error) {
	if !g.cards.stand(who.epoch, 1) {
		return nil, api.Fail("rate_limited", "too many calls wait for the operator already")
	}
	defer g.cards.stand(who.epoch, -1)
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.ApprovalLife, errTimeout)
	defer cancel()
	select {
	case who.epoch.cards <- struct{}{}:
		defer func() { <-who.epoch.cards }()
	case <-ctx.Done():
		return nil, askEnded(ctx)
	}
	if d := again(); d.Verdict != authz.Ask {
		return nil, nil
	}
	c := newCard(who, p, g.cfg.ApprovalLife)
	if !g.cards.lay(ctx, c) {
		if ctx.Err() == nil {
			return nil, api.Fail("rate_limited", "too many calls wait for the operator already")
		}
		return nil, askEnded(ctx)
	}
	s := c.shown
	asked := event.ApprovalRequested{Approval: s.ID, Run: s.AgentRun, Epoch: s.ExecutionEpoch, Tool: s.Tool, Credential: s.Credential,
		Target: s.Target, Digest: s.Digest, CardDigest: s.CardDigest}
	if err := g.log.note(ctx, s.ID, asked); err != nil {
		g.cards.expire(func(x *card) bool { return x == c }, "audit_unavailable")
		return nil, api.Fail("audit_unavailable", "")
	}
	if d := again(); d.Verdict != authz.Ask { // lost just before the card lay there for expire to find
		g.cards.expire(func(x *card) bool { return x == c }, string(d.Reason))
	}
	select {
	case v := <-c.answer:
		return g.answered(ctx, c, v)
	case <-ctx.Done():
		g.cards.expire(func(x *card) bool { return x == c }, askEnded(ctx).Code)
		return g.answered(ctx, c, <-c.answer) // a yes that came first wins
	}
}

// answered tells the log how a card ended without a yes.
func (g *Gateway) answered(ctx context.Context, c *card, v verdict) (*card, *api.Error) {
	switch v.reason {
	case "":
		return c, nil
	case "approval_denied":
		return nil, api.Fail("approval_denied", "")
	}
	s := c.shown
	g.complain("record expired card", g.log.note(ctx, s.ID, event.ApprovalExpired{Approval: s.ID, Run: s.AgentRun, Epoch: s.ExecutionEpoch, Reason: v.reason}))
	if v.reason == "approval_timeout" {
		return nil, api.Fail("approval_timeout", "")
	}
	return nil, nil // what it was bound to has changed: the next decision says how
}

var errTimeout = api.Fail("approval_timeout", "")

// askEnded: the time was over, the call was called back, or the caller is gone.
func askEnded(ctx context.Context) *api.Error {
	if e, ok := errors.AsType[*api.Error](context.Cause(ctx)); ok {
		return e
	}
	return callerGone
}

var callerGone = api.Fail("not_sent", "the caller went away before anything was sent")
