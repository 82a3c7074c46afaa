package gateway

import (
	"cmp"
	"fmt"
	"slices"

	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// Whose card is next, and who is told of beside the cards.

// partyKey is who shares room for cards with whom: all of one program, however many processes and sessions they make of
// themselves, and apart from them what of it is seen whole and was trusted before.
type partyKey struct {
	program string // the digest of the run's client
	trusted bool
}

// party is one that asks.
type party struct {
	partyKey
	asks, shown int
}

// partyOf names an epoch's party. What it is told by is attribution: it settles who is shown first, and nothing else.
func (s *cards) partyOf(e *epoch) partyKey {
	owner := e.run.owner.facts
	whole := e.facts.Identity == peer.Strong && owner.Identity == peer.Strong
	return partyKey{owner.ExeDigest, whole && s.known != nil && s.known(owner.ExeDigest)}
}

// crowded tells whether no more of a party may wait: it has half of all places, or what is not trusted has all but those
// of one session. mu must be held.
func (s *cards) crowded(k partyKey) bool {
	p := s.parties[k]
	return s.all >= allAsks || p != nil && p.asks >= allAsks/2 || !k.trusted && s.all-s.trusted >= allAsks-sessionAsks
}

// enter counts an ask of a party. mu must be held.
func (s *cards) enter(k partyKey) *party {
	p := s.parties[k]
	if p == nil {
		p = &party{partyKey: k}
		s.parties[k] = p
	}
	p.asks++
	s.all++
	if k.trusted {
		s.trusted++
	}
	return p
}

// exit counts it out. mu must be held.
func (s *cards) exit(p *party) {
	s.all--
	if p.trusted {
		s.trusted--
	}
	if p.asks--; p.asks == 0 {
		delete(s.parties, p.partyKey)
	}
}

// fill gives room, within the budgets, to whoever comes next: the party with the fewest cards, what is trusted before what
// is new, and then whoever came first. A session at its budget lets the next one pass, and so does a party before the last
// place: what swarms, under whatever names of sessions, is one. mu must be held.
func (s *cards) fill() {
	for s.room < s.limits.Installation {
		best := -1
		for i, a := range s.line {
			if a.from.shown >= s.limits.Session || a.party.shown >= max(1, s.limits.Installation-1) {
				continue
			}
			if best < 0 || a.party.before(s.line[best].party) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		a := s.line[best]
		s.line = slices.Delete(s.line, best, best+1)
		a.place = hasRoom
		a.from.shown++
		a.party.shown++
		s.room++
		close(a.room)
	}
}

// before tells whether a party's turn comes before another's.
func (p *party) before(o *party) bool {
	if p.shown != o.shown {
		return p.shown < o.shown
	}
	return p.trusted && !o.trusted
}

// more tells of each session how many asks wait without a card, and how many were refused: of each party the busiest
// first, then the next of each, so that a party of many sessions hides no other. What is beyond toldChains is one line
// without a key.
func (s *cards) more() []api.Chain {
	s.mu.Lock()
	defer s.mu.Unlock()
	type line struct {
		api.Chain
		party partyKey
		turn  int // how many of its party come first
	}
	var lines []line
	for key, x := range s.sessions {
		if c := (api.Chain{Key: key, Text: x.text, Waiting: x.asks - x.shown, Muted: x.muted, Refused: x.refused}); c.Waiting > 0 || c.Muted || c.Refused > 0 {
			lines = append(lines, line{Chain: c, party: x.party})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Key, b.Key)) })
	turns := map[partyKey]int{}
	for i := range lines {
		lines[i].turn = turns[lines[i].party]
		turns[lines[i].party]++
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		if a.turn == b.turn && a.party.trusted != b.party.trusted {
			if a.party.trusted {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.turn, b.turn)
	})
	out := []api.Chain{}
	for _, l := range lines {
		out = append(out, l.Chain)
	}
	if len(out) <= toldChains {
		return out
	}
	rest := api.Chain{Text: fmt.Sprintf("%d other sessions", len(out)-toldChains)}
	for _, c := range out[toldChains:] {
		rest.Waiting, rest.Refused = rest.Waiting+c.Waiting, rest.Refused+c.Refused
	}
	return append(out[:toldChains], rest)
}
