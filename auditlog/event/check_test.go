package event

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// right is what Check says of whole's log: every call, approval and open end of it, and no breach.
var right = Verdict{Calls: 18, Signed: 5, Unsigned: 8, Unresolved: 1}

func judged(v Verdict) string { return fmt.Sprintf("%+v", v) }

func TestWholeLogHasNoBreach(t *testing.T) {
	log := whole(t)
	if got := Check(slices.Values(log)); judged(got) != judged(right) {
		t.Errorf("got  %+v\nwant %+v", got, right)
	}
	var read []Item // as it comes back from the log
	for _, it := range log {
		e, err := Decode(Encode(it.Event))
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, Item{it.Seq, it.Time, e}, Item{it.Seq, it.Time, nil})
	}
	if got := Check(slices.Values(read)); judged(got) != judged(right) {
		t.Errorf("decoded: %+v", got)
	}
	if got := Check(slices.Values([]Item(nil))); judged(got) != judged(Verdict{}) {
		t.Errorf("empty: %+v", got)
	}
}

func TestEachRule(t *testing.T) {
	have := map[string]bool{moreBreaches: true}
	for _, w := range slices.Concat(wrongs, wrongProofs, wrongSittings, wrongContainments) {
		t.Run(w.rule+"/"+w.name, func(t *testing.T) {
			have[w.rule] = true
			s := newScene(t)
			if v := Check(slices.Values(s.items)); len(v.Breaches) > 0 {
				t.Fatalf("the sound log: %+v", v)
			}
			w.wrong(s)
			v := Check(slices.Values(s.items))
			want := s.items[len(s.items)-1-w.at].Seq
			if len(v.Breaches) != 1 || v.Breaches[0].Rule != w.rule || v.Breaches[0].Seq[0] != want {
				t.Fatalf("want %s at %d, got %+v", w.rule, want, v.Breaches)
			}
			checkBreach(t, v.Breaches[0])
			if w.right == nil {
				return
			}
			s = newScene(t)
			w.right(s)
			if v := Check(slices.Values(s.items)); len(v.Breaches)+v.Doubtful > 0 {
				t.Errorf("without the wrong thing: %+v", v)
			}
		})
	}
	for _, r := range rules {
		if !have[r[0]] {
			t.Errorf("no log here breaks %s", r[0])
		}
	}
}

func checkBreach(t testing.TB, b Breach) {
	t.Helper()
	if len(b.Seq) == 0 || slices.Contains(b.Seq, 0) || b.Text == "" || strings.Contains(b.Text, "%!") {
		t.Errorf("breach %+v", b)
	}
	for _, r := range b.Text {
		if !visible(r) {
			t.Errorf("%q shows %U", b.Text, r)
		}
	}
	if !slices.ContainsFunc(rules, func(r [2]string) bool { return r[0] == b.Rule }) {
		t.Errorf("rule %s is not in the list", b.Rule)
	}
}

// A breach names every record that it shows in.
func TestBreachNamesItsRecords(t *testing.T) {
	s := newScene(t)
	s.tell(EpochEnded{Run: s.who.run, Epoch: s.who.epoch})
	ended := s.items[len(s.items)-1].Seq
	s.done(s.yes, "a", false)
	issued := s.items[slices.IndexFunc(s.items, func(it Item) bool { _, ok := it.Event.(GrantIssued); return ok })].Seq
	v := Check(slices.Values(s.items))
	if want := []uint64{ended + 1, ended, issued, ended + 2}; len(v.Breaches) != 1 || !slices.Equal(v.Breaches[0].Seq, want) {
		t.Errorf("got %+v, want records %v", v.Breaches, want)
	}
}

// What a crash or the log's end hides is no breach: a refusal may have been about to be told.
func TestDoubtIsNoBreach(t *testing.T) {
	for name, end := range map[string]func(scene, string){
		"at the log's end": func(scene, string) {},
		"by a crash":       func(s scene, a string) { s.tell(ToolUnresolved{Action: a}) },
	} {
		s := newScene(t)
		s.tell(EpochEnded{Run: s.who.run, Epoch: s.who.epoch})
		end(s, s.call(s.yes, "a", false))
		if v := Check(slices.Values(s.items)); len(v.Breaches) != 0 || v.Doubtful != 1 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestBreachesAreBounded(t *testing.T) {
	s := newScene(t)
	for range maxBreaches + 7 {
		s.tell(ToolUnresolved{Action: "act\x1b[2J"})
	}
	v := Check(slices.Values(s.items))
	if n := len(v.Breaches); n != maxBreaches+1 {
		t.Fatalf("%d breaches", n)
	}
	last := v.Breaches[maxBreaches]
	if last.Rule != moreBreaches || !strings.HasPrefix(last.Text, "7 more") || last.Seq[0] != s.items[len(s.items)-1].Seq {
		t.Errorf("got %+v", last)
	}
	checkBreach(t, v.Breaches[0])
	checkBreach(t, last)
}

// Memory follows what is open: a long log of calls, cards and short epochs leaves nothing behind but the latest endings.
func TestMemoryIsBounded(t *testing.T) {
	a := newTale(t)
	a.begin()
	who := a.run(100)
	c := checker{authority: newAuthority(), intents: map[string]*intent{}, closed: newEndings(), keys: map[string]passkey{}}
	read := func() {
		for _, it := range a.items {
			c.at = it
			c.read(it.Event)
		}
		a.items = a.items[:0]
	}
	for i := range 3 * maxEnded {
		if i%3 == 0 {
			a.tell(EpochEnded{Run: who.run, Epoch: who.epoch})
			who.epoch = a.id("ep")
			a.tell(EpochOpened{Run: who.run, Epoch: who.epoch, Process: who.peer})
		}
		if i%1000 == 999 {
			a.tell(VaultLocked{}, VaultUnlocked{})
		}
		y := a.approve(who, "a", "use", "1 use", nil)
		a.done(y, "a", true)
		read()
	}
	a.tell(RunRevoked{Run: who.run})
	a.approve(who, "a", "run", "agent-run-ends", nil) // for nobody
	a.items = a.items[:len(a.items)-1]
	read()
	v := c.verdict()
	if len(v.Breaches) != 0 || v.Calls != 3*maxEnded {
		t.Fatalf("got %+v", v)
	}
	if n := len(c.runs) + len(c.epochs) + len(c.processes) + len(c.grants) + len(c.approvals) + len(c.loose) + len(c.intents); n != 0 {
		t.Errorf("%d things are remembered as open", n)
	}
	for _, s := range []endings{c.ended, c.closed} {
		if len(s.by) != maxEnded || len(s.order) != maxEnded {
			t.Errorf("%d endings, %d in the ring", len(s.by), len(s.order))
		}
	}
	// What has fallen out of memory is still a breach, under the word for the unknown.
	a.tell(VaultUnlocked{})
	for range maxEnded {
		a.tell(RunEnded{Run: a.id("run")})
	}
	a.tell(ToolCalled{Call: Call{Action: "act_x", Run: who.run}})
	read()
	if v := c.verdict(); len(v.Breaches) != 1 || v.Breaches[0].Rule != callOfUnknownRun {
		t.Errorf("got %+v", v.Breaches)
	}
}

// The rules in the package comment are the list's.
func TestRulesInDoc(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	seen := map[string]bool{}
	for _, r := range rules {
		fmt.Fprintf(&b, "//   - %s: %s\n", r[0], r[1])
		if seen[r[0]] {
			t.Errorf("%s is listed twice", r[0])
		}
		seen[r[0]] = true
	}
	if !strings.Contains(string(doc), "//\n"+b.String()+"//\n") {
		t.Errorf("doc.go does not hold this list:\n%s", b.String())
	}
}
