package gateway

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"

	"sallyport/gateway/api"
)

// Budgets of shown cards nest: an epoch's, its session's, and the installation's. Further asks wait behind, in the order
// they came, and are answered by the same grant if it covers them.
type budgets struct {
	Epoch        int `toml:"epoch" json:"epoch"`               // cards shown of one epoch
	Session      int `toml:"session" json:"session"`           // of one session of processes
	Installation int `toml:"installation" json:"installation"` // in all
	Queue        int `toml:"queue" json:"queue"`               // asks that wait behind one epoch's cards
}

// defaultBudgets stand where the operator set none.
var defaultBudgets = budgets{Epoch: 1, Session: 2, Installation: 8, Queue: 32}

// Bounds of what waits, whatever the budgets.
const (
	sessionAsks = 1024 // of one session
	allAsks     = 8192
	toldChains  = 16 // lines of sessions beyond the cards; one more stands for the rest
)

// cards holds what waits for the operator.
type cards struct {
	mu       sync.Mutex
	limits   budgets
	open     map[string]*card
	desks    map[*epoch]*desk          // of epochs that ask
	sessions map[string]*session       // that ask, or are muted
	line     []*ask                    // have their epoch's place, and wait for room in the session and the installation
	parties  map[partyKey]*party       // that ask
	trusted  int                       // asks of trusted parties
	all      int                       // asks
	mutes    []string                  // keys, the longest muted first
	known    func(program string) bool // was given something before; nil: none was
	room     int                       // asks that have room
}

// desk is one epoch's asks.
type desk struct {
	asks, at int    // in all; those in line or with room
	wait     []*ask // the rest
}

// session is one session of processes that asks.
type session struct {
	text                 string
	party                partyKey // of whoever asked first
	asks, shown, refused int
	muted                bool
	told                 bool // that it is muted, or is not any more, is recorded
}

// ask is one call that wants an answer. room is closed once the budgets have room for its card; poke says that what it
// asks for may have been decided meanwhile; mute is closed when the operator wants to hear no more of its session.
type ask struct {
	epoch *epoch
	from  *session
	party *party
	plan  *plan
	place askPlace
	room  chan struct{}
	poke  chan struct{}
	mute  chan struct{}
}

type askPlace uint8

const (
	atDesk askPlace = iota
	inLine
	hasRoom
)

func newCards() *cards {
	return &cards{limits: defaultBudgets, open: map[string]*card{}, desks: map[*epoch]*desk{}, sessions: map[string]*session{}, parties: map[partyKey]*party{}}
}

// set changes the budgets; cards that are shown already stay.
func (s *cards) set(b budgets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limits = b; b == (budgets{}) {
		s.limits = defaultBudgets
	}
	for _, d := range s.desks {
		s.promote(d)
	}
	s.fill()
}

// asksOf is how many asks of an epoch wait or are shown, and how many may.
func (s *cards) asksOf(e *epoch) (asks, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit = s.limits.Epoch + s.limits.Queue + 1 // one of them may ask about itself
	if d := s.desks[e]; d != nil {
		asks = d.asks
	}
	return asks, limit
}

// join lets a call ask. It parts again, whatever becomes of it.
func (s *cards) join(e *epoch, p *plan) (*ask, *api.Error) {
	who := s.partyOf(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	x, d := s.sessions[e.chain.key], s.desks[e]
	if x == nil {
		x = &session{text: e.chain.text, party: who}
		s.sessions[e.chain.key] = x
	}
	if d == nil {
		d = &desk{}
	}
	switch {
	case x.muted:
		x.refused++
		return nil, mutedAsk()
	case d.asks >= s.limits.Epoch+s.limits.Queue, x.asks >= sessionAsks, s.crowded(who):
		x.refused++
		s.tidy(e.chain.key)
		return nil, api.Fail("rate_limited", "too many calls wait for the operator already")
	}
	a := &ask{epoch: e, from: x, party: s.enter(who), plan: p, room: make(chan struct{}), poke: make(chan struct{}, 1), mute: make(chan struct{})}
	s.desks[e] = d
	d.asks++
	x.asks++
	d.wait = append(d.wait, a)
	s.promote(d)
	s.fill()
	return a, nil
}

func mutedAsk() *api.Error {
	return api.Fail("approval_denied", "the operator muted the questions of this session")
}

// part ends an ask, wherever it waits.
func (s *cards) part(a *ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, x := s.desks[a.epoch], s.sessions[a.epoch.chain.key]
	same := func(y *ask) bool { return y == a }
	switch a.place {
	case atDesk:
		d.wait = slices.DeleteFunc(d.wait, same)
	case inLine:
		s.line = slices.DeleteFunc(s.line, same)
		d.at--
	case hasRoom:
		d.at--
		x.shown--
		s.room--
		a.party.shown--
	}
	d.asks--
	x.asks--
	s.exit(a.party)
	s.promote(d)
	if d.asks == 0 {
		delete(s.desks, a.epoch)
	}
	s.tidy(a.epoch.chain.key)
	s.fill()
}

// tidy forgets a session of which nothing waits. mu must be held.
func (s *cards) tidy(key string) {
	if x := s.sessions[key]; x != nil && x.asks == 0 && !x.muted {
		delete(s.sessions, key)
	}
}

// promote lets an epoch's next asks into the line. mu must be held.
func (s *cards) promote(d *desk) {
	for d.at < s.limits.Epoch && len(d.wait) > 0 {
		a := d.wait[0]
		d.wait = d.wait[1:]
		a.place = inLine
		d.at++
		s.line = append(s.line, a)
	}
}

// lay shows a card, whose ask has room.
func (s *cards) lay(c *card) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c.shown.ID] = c
}

// list shows the open cards, oldest first.
func (s *cards) list() []api.Approval {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []api.Approval{}
	for _, c := range s.open {
		out = append(out, c.shown)
	}
	slices.SortFunc(out, func(a, b api.Approval) int { return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.ID, b.ID)) })
	return out
}

// look finds an open card; known is false if none of this id waits, and nil beside it that the digest is another card's.
func (s *cards) look(id, digest string) (c *card, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.open[id]
	if c == nil {
		return nil, false
	}
	if digest != "" && c.shown.CardDigest != digest {
		return nil, true
	}
	return c, true
}

// take removes an open card for its one answer; false if somebody or something answered it before.
func (s *cards) take(c *card) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(c)
}

// remove takes c off the table. mu must be held.
func (s *cards) remove(c *card) bool {
	if s.open[c.shown.ID] != c {
		return false
	}
	delete(s.open, c.shown.ID)
	return true
}

// expire ends every card that match names, unanswered. What waits without a card is shown to match as the card it would
// be (epoch and plan), and decides for itself.
func (s *cards) expire(match func(*card) bool, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Collect(maps.Values(s.open)) {
		if match(c) {
			s.remove(c)
			c.answer <- verdict{reason}
		}
	}
	s.pokeAll(func(a *ask) bool { return match(&card{epoch: a.epoch, plan: a.plan}) })
}

// withdraw ends one card, unanswered, unless it was answered before.
func (s *cards) withdraw(c *card, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.remove(c) {
		c.answer <- verdict{reason}
	}
}

// decided lets an epoch's asks see whether a grant covers them now.
func (s *cards) decided(e *epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pokeAll(func(a *ask) bool { return a.epoch == e })
	for _, c := range s.open {
		if c.epoch == e {
			poke(c.ask)
		}
	}
}

// pokeAll pokes what waits without a card. mu must be held.
func (s *cards) pokeAll(match func(*ask) bool) {
	for a := range s.waiting() {
		if match(a) {
			poke(a)
		}
	}
}

// waiting are the asks without a card. mu must be held.
func (s *cards) waiting() iter.Seq[*ask] {
	return func(yield func(*ask) bool) {
		for _, d := range s.desks {
			for _, a := range d.wait {
				if !yield(a) {
					return
				}
			}
		}
		for _, a := range s.line {
			if !yield(a) {
				return
			}
		}
	}
}

// silence tells an ask that its session was muted; it may have been told so before. cards.mu must be held.
func (a *ask) silence() {
	select {
	case <-a.mute:
	default:
		close(a.mute)
	}
}

func poke(a *ask) {
	select {
	case a.poke <- struct{}{}:
	default: // it has not looked at the last one yet
	}
}

// mute refuses what waits of a session without a card, and whatever it asks from now on; cards that are shown stay.
func (s *cards) mute(key string, on bool) (api.Chain, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[key]
	if x == nil || key == "" {
		return api.Chain{}, false
	}
	out := api.Chain{Key: key, Text: x.text, Waiting: x.asks - x.shown, Muted: on, Refused: x.refused}
	if x.muted == on {
		return out, true
	}
	x.muted, x.told = on, false
	if on {
		s.forgetMutes(key)
	} else {
		x.refused = 0
		s.tidy(key)
		return out, true
	}
	for a := range s.waiting() {
		if a.epoch.chain.key == key {
			a.silence()
		}
	}
	return out, true
}

// muteTold tells whether the session's last muting is recorded, and notes that it is.
func (s *cards) muteTold(key string, now bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[key]
	if x == nil {
		return false // unmuted, and nothing waits
	}
	x.told = x.told || now
	return x.told
}

// mutedMost is how many sessions stay muted that ask for nothing.
const mutedMost = 256

// forgetMutes lets go of the longest muted ones beyond the bound, and counts key among them. mu must be held.
func (s *cards) forgetMutes(key string) {
	s.mutes = append(slices.DeleteFunc(s.mutes, func(k string) bool { x := s.sessions[k]; return k == key || x == nil || !x.muted }), key)
	for len(s.mutes) > mutedMost {
		old := s.mutes[0]
		s.mutes = s.mutes[1:]
		s.sessions[old].muted = false
		s.tidy(old)
	}
}
