package gateway

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// asker is an epoch of a session, of a program of its own.
func asker(key string) *epoch { return askerOf(key, key) }

func askerOf(program, key string) *epoch {
	return &epoch{chain: chain{key: key, text: "in " + key}, facts: peer.Facts{Identity: peer.Strong},
		run: &run{owner: owner{facts: peer.Facts{ExeDigest: program, Identity: peer.Strong}}}}
}

func (s *cards) mustJoin(t *testing.T, e *epoch) *ask {
	t.Helper()
	a, refused := s.join(e, nil)
	if refused != nil {
		t.Fatal(refused)
	}
	return a
}

func roomy(a *ask) bool {
	select {
	case <-a.room:
		return true
	default:
		return false
	}
}

// I18 and its kind: sessions that fill their budgets do not keep another session's card away for ever, and nobody
// passes who came later and has no more right.
func TestCardsAreLaidInTurn(t *testing.T) {
	s := newCards()
	var first []*ask
	for i := range 4 {
		for range defaultBudgets.Session {
			first = append(first, s.mustJoin(t, asker(fmt.Sprint(i))))
		}
	}
	greedy := s.mustJoin(t, asker("0")) // at its session's budget
	honest := s.mustJoin(t, asker("9"))
	late := s.mustJoin(t, asker("9"))
	for _, a := range first {
		if !roomy(a) {
			t.Fatal("one within the budgets waits")
		}
	}
	s.part(first[2]) // of session 1: room for one
	if roomy(greedy) || !roomy(honest) {
		t.Fatal("the one who came first and had room was not let in")
	}
	s.part(first[0])
	if !roomy(greedy) {
		t.Fatal("session 0 has room again and came before the late one")
	}
	if roomy(late) {
		t.Fatal("let in beyond the eight")
	}
	s.part(first[3])
	if !roomy(late) {
		t.Fatal("the last was not let in")
	}
}

// However asks come and go, the budgets hold, nothing is lost count of, and room is not left empty.
func TestBudgetsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		s := newCards()
		b := budgets{Epoch: 1 + r.IntN(2), Session: 2 + r.IntN(2), Installation: 4 + r.IntN(4), Queue: r.IntN(6)}
		s.set(b)
		var epochs []*epoch
		for i := range 12 {
			epochs = append(epochs, asker(fmt.Sprint(i%5)))
		}
		var in []*ask
		for range 600 {
			switch r.IntN(9) {
			case 0:
				if r.IntN(4) == 0 {
					s.mute(fmt.Sprint(r.IntN(5)), r.IntN(2) == 0)
				}
			case 1, 2, 3:
				if len(in) > 0 {
					i := r.IntN(len(in))
					s.part(in[i])
					in = slices.Delete(in, i, i+1)
				}
			default:
				if a, refused := s.join(epochs[r.IntN(len(epochs))], nil); refused == nil {
					in = append(in, a)
				}
			}
			checkTable(t, s, b, in)
		}
		for _, a := range in {
			s.part(a)
		}
		if len(s.desks) != 0 || len(s.line) != 0 || s.all != 0 || s.room != 0 {
			t.Fatalf("left over: %+v", s)
		}
	}
}

func checkTable(t *testing.T, s *cards, b budgets, in []*ask) {
	t.Helper()
	byEpoch, bySession, all := map[*epoch]int{}, map[string]int{}, 0
	asks := map[*epoch]int{}
	for _, a := range in {
		asks[a.epoch]++
		if roomy(a) {
			byEpoch[a.epoch]++
			bySession[a.epoch.chain.key]++
			all++
		}
	}
	for e, n := range asks {
		if n > b.Epoch+b.Queue || byEpoch[e] > b.Epoch {
			t.Fatalf("an epoch has %d asks, %d with room, of %+v", n, byEpoch[e], b)
		}
	}
	for _, n := range bySession {
		if n > b.Session {
			t.Fatalf("a session has %d of %+v", n, b)
		}
	}
	if all > b.Installation || s.room != all || s.all != len(in) {
		t.Fatalf("%d have room, %d counted, of %+v", all, s.room, b)
	}
	for _, a := range in {
		if !roomy(a) && all < b.Installation && bySession[a.epoch.chain.key] < b.Session && byEpoch[a.epoch] < b.Epoch {
			t.Fatalf("one waits though there is room: %+v", b)
		}
	}
}

// What waits behind the cards is one line a session, and one for the rest.
func TestMoreIsBounded(t *testing.T) {
	s := newCards()
	for i := range 40 {
		for range 3 + i%2 {
			s.mustJoin(t, asker(fmt.Sprintf("session-%02d", i)))
		}
	}
	more := s.more()
	waiting := 0
	for _, c := range more {
		waiting += c.Waiting
	}
	if last := more[len(more)-1]; len(more) != toldChains+1 || last.Key != "" || waiting != s.all-s.room {
		t.Fatalf("%d lines, %d waiting of %d, last %+v", len(more), waiting, s.all-s.room, last)
	}
	if !slices.IsSortedFunc(more[:toldChains], func(a, b api.Chain) int { return b.Waiting - a.Waiting }) {
		t.Fatalf("not the busiest first: %+v", more)
	}
	if _, ok := s.mute("", true); ok {
		t.Fatal("all of them were muted at once")
	}
}

// A swarm of processes, each a session of its own, is one program's: it leaves another program room, and a line.
func TestSwarmHidesNobody(t *testing.T) {
	swarm := map[string]func(i int) string{
		"of one program":        func(int) string { return "python" },
		"of as many programs":   func(i int) string { return fmt.Sprint("copy-", i) },
		"of the honest program": func(i int) string { return []string{"python", "claude"}[i%2] },
	}
	for name, program := range swarm {
		s := newCards()
		s.known = func(p string) bool { return p == "claude" }
		var all []*ask
		for i := range 500 {
			for range 3 { // busier than anybody honest
				e := askerOf(program(i), fmt.Sprint("session-", i))
				e.run.owner.facts.Identity = peer.Weak // its parents are gone
				all = append(all, s.mustJoin(t, e))
			}
		}
		honest := s.mustJoin(t, askerOf("claude", "desk"))
		if name == "of one program" {
			if !roomy(honest) {
				t.Errorf("%s: it has no room", name)
			}
			continue
		}
		if !slices.ContainsFunc(s.more()[:toldChains], func(c api.Chain) bool { return c.Key == "desk" && c.Waiting == 1 }) {
			t.Errorf("%s: nobody is told that it waits: %+v", name, s.more())
		}
		s.part(all[slices.IndexFunc(all, roomy)])
		if !roomy(honest) {
			t.Errorf("%s: it was not the next one", name)
		}
	}
}

// Nor does a swarm use up what may wait in all: another program may still ask, and what is trusted also beside copies
// without end.
func TestSwarmLeavesOthersToAsk(t *testing.T) {
	s := newCards()
	s.known = func(p string) bool { return p == "claude" }
	fill := func(program func(i int) string) {
		for i := range allAsks { // far more than may wait
			s.join(askerOf(program(i), fmt.Sprint("session-", len(s.sessions))), nil)
		}
	}
	fill(func(int) string { return "python" })
	s.mustJoin(t, askerOf("new", "another"))
	fill(func(i int) string { return fmt.Sprint("copy-", i) })
	s.mustJoin(t, askerOf("claude", "desk"))
	if s.all > allAsks {
		t.Errorf("%d wait", s.all)
	}
}
