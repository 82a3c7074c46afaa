package gateway

import (
	"cmp"
	"context"
	"sync"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// sittingProof is the kind of a proof by sitting.
const sittingProof = "sitting"

// sitting lets one process instance, or one tab of the console, answer cards with yes for a while, by one proof. It covers
// nothing else.
type sitting struct {
	id    string
	by    string        // the proof that opened it
	proc  *peer.Process // held: what became of the process that opened it is seen here
	tab   *tab          // whose it is; nil: a process's
	began moment
	ends  authz.Instant
	over  chan struct{} // closed when it has ended
}

// moment is an instant, and how long the machine has been awake: a suspend shows in the difference.
type moment struct {
	authz.Instant
	awake time.Duration
}

func at() moment { return moment{now(), awake()} }

// How far the clocks may part before a sitting ends: beyond it the machine slept, or somebody set the time.
const (
	sleptLimit = time.Second
	setLimit   = 30 * time.Second
)

// ended is why a sitting is over at t by the clocks; "" while it stands. A clock that is not known ends it.
func (s *sitting) ended(t moment) string {
	boot, wall := t.Boot-s.began.Boot, t.Wall.Sub(s.began.Wall)
	switch {
	case t.Boot <= 0 || t.awake <= 0 || boot < 0:
		return "clock"
	case boot-(t.awake-s.began.awake) > sleptLimit:
		return "suspend"
	case t.Past(s.ends):
		return "time_over"
	case (boot - wall).Abs() > setLimit:
		return "clock"
	}
	return ""
}

// sittings are the open ones. mu is a leaf.
type sittings struct {
	mu   sync.Mutex
	open map[string]*sitting
}

// sittingsLimit: a terminal and a console, and some that were left open.
const sittingsLimit = 8

func newSittings() *sittings { return &sittings{open: map[string]*sitting{}} }

func (s *sittings) add(x *sitting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= sittingsLimit {
		return false
	}
	s.open[x.id] = x
	return true
}

func (s *sittings) get(id string) *sitting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// stands tells whether a sitting is open now.
func (s *sittings) stands(id string) bool {
	x := s.get(id)
	return x != nil && x.ended(at()) == ""
}

// take removes those that match names: from then on they cover nothing.
func (s *sittings) take(match func(*sitting) bool) (out []*sitting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, x := range s.open {
		if match(x) {
			delete(s.open, id)
			out = append(out, x)
		}
	}
	return out
}

func sittingOver() *api.Error {
	return api.Fail("proof_required", "this sitting has ended; open another one with the passphrase")
}

// openSitting begins one for a process, or a tab, whose operator gave a proof just now.
func (g *Gateway) openSitting(r opRequest) (api.Sitting, error) {
	held, err := holder(r)
	if err != nil {
		return api.Sitting{}, err
	}
	who := r.peer()
	if held != nil {
		who = recorded(held.Facts())
	}
	t := at()
	s := &sitting{id: newID("sit_"), by: r.who, proc: held, tab: r.tab, began: t, ends: after(t.Instant, api.SittingLife*time.Second), over: make(chan struct{})}
	g.authority.Lock()
	defer g.authority.Unlock()
	if kept, err := g.keptPasskeys(); err == nil && !kept.stand(s.by) { // its removal ends only the sittings that it finds
		s.letGo()
		return api.Sitting{}, api.Fail("proof_wrong", "this passkey has been removed")
	}
	// The log knows of it before anything is answered by it; and a lock that is under way ends what it finds.
	err = g.log.note(r.ctx, "", event.SittingOpened{Sitting: s.id, Proof: r.who, Ends: s.ends.Wall, Peer: who})
	switch {
	case err != nil:
		s.letGo()
		return api.Sitting{}, api.Fail("audit_unavailable", "")
	case !g.sittings.add(s):
		s.letGo()
		g.complain("record sitting", g.log.note(r.ctx, "", event.SittingClosed{Sitting: s.id, Reason: "too_many"}))
		return api.Sitting{}, api.Fail("rate_limited", "too many sittings are open already")
	case !g.open.Load():
		g.closeTaken(r.ctx, g.sittings.take(func(x *sitting) bool { return x == s }), "vault_locked")
		return api.Sitting{}, api.Fail("vault_locked", "")
	}
	g.task(func() { g.mind(s) })
	return api.Sitting{ID: s.id, EndsAt: s.ends.Wall}, nil
}

// holder is the process that a sitting will be of; nil for a tab's.
func holder(r opRequest) (*peer.Process, error) {
	if r.tab != nil {
		return nil, nil
	}
	if r.proc == nil {
		return nil, api.Fail("operator_refused", "a sitting belongs to a process, and there is none to see")
	}
	held, err := peer.Find(r.proc.Facts().PID)
	if err != nil {
		return nil, api.Fail("operator_refused", "the caller could not be looked at twice")
	}
	if held.Key() != r.proc.Key() || held.Facts().ExeDigest != r.proc.Facts().ExeDigest || r.proc.Same() != nil {
		held.Close()
		return nil, api.Fail("operator_refused", "the caller is no longer the program that connected")
	}
	return held, nil
}

// letGo closes what a sitting holds.
func (s *sitting) letGo() {
	if s.proc != nil {
		s.proc.Close()
	}
}

// gone is closed once whoever opened the sitting is no more, and how the log says that.
func (s *sitting) gone() (<-chan struct{}, string) {
	if s.tab != nil {
		return s.tab.gone, "tab_gone"
	}
	return s.proc.Gone(), "process_gone"
}

// other tells why a request is not from whoever opened the sitting; "" if it is.
func (s *sitting) other(r opRequest) string {
	switch {
	case r.tab != s.tab:
		return "second_peer"
	case s.tab != nil:
		return ""
	case r.proc == nil || r.proc.Key() != s.proc.Key():
		return "second_peer"
	case s.proc.Same() != nil || r.proc.Same() != nil:
		return "peer_replaced"
	}
	return ""
}

// mind ends a sitting once its time is over, its process is gone, or the machine slept.
func (g *Gateway) mind(s *sitting) {
	defer s.letGo()
	gone, how := s.gone()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		why := ""
		select {
		case <-s.over:
			return
		case <-g.life.Done():
			return
		case <-gone:
			why = how
		case <-t.C:
			why = s.ended(at())
		}
		if why != "" {
			g.endSittings(context.Background(), func(x *sitting) bool { return x == s }, why)
			return
		}
	}
}

// endSittings ends those that match names, in memory first, and records it. g.authority must not be held.
func (g *Gateway) endSittings(ctx context.Context, match func(*sitting) bool, reason string) {
	ended := g.sittings.take(match)
	if len(ended) == 0 {
		return
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	g.closeTaken(ctx, ended, reason)
}

// closeTaken records the end of sittings that cover nothing any more. g.authority must be held: an answer that was on its
// way by one of them is in the log before this.
func (g *Gateway) closeTaken(ctx context.Context, ended []*sitting, reason string) {
	for _, s := range ended {
		close(s.over)
		g.complain("record sitting's end", g.log.note(context.WithoutCancel(ctx), "", event.SittingClosed{Sitting: s.id, Reason: reason}))
	}
}

// sat checks a proof by sitting: only for a yes to a card, only by the process instance that opened it. Whoever else
// names it ends it.
func (g *Gateway) sat(ctx context.Context, r opRequest, path string) error {
	if path != api.PathApprovalGrant {
		return api.Fail("proof_required", "a sitting answers cards, and nothing else; give the passphrase")
	}
	s := g.sittings.get(r.sitting)
	if s == nil {
		return sittingOver()
	}
	why := cmp.Or(s.ended(at()), s.other(r))
	if why == "" {
		return nil
	}
	g.endSittings(ctx, func(x *sitting) bool { return x == s }, why)
	if why == "second_peer" || why == "peer_replaced" {
		g.complain("record refused operator", g.log.note(ctx, "", event.OperatorRefused{Path: path, Reason: "the sitting is another's", Peer: r.peer()}))
		return api.Fail("operator_refused", "this sitting belongs to another process or tab; it has ended")
	}
	return sittingOver()
}

// opSittingOpen begins a sitting; its route has checked the proof.
func (g *Gateway) opSittingOpen(r opRequest) (any, error) {
	if fault := decode(r.args, &struct{}{}); fault != nil {
		return nil, fault
	}
	return g.openSitting(r)
}

// opSittingClose ends one; it only takes away.
func (g *Gateway) opSittingClose(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	g.endSittings(r.ctx, func(x *sitting) bool { return x.id == a.ID }, "operator")
	return struct{}{}, nil
}
