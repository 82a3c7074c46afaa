package event

import "testing"

// walk is a sound containment of the scene's run, up to the signals.
func (s scene) walk() {
	run := s.who.run
	s.tell(ContainmentStarted{Run: run}, ProcessObserved{Run: run}, ActionsReviewed{Run: run}, RunRevoked{Run: run}, RemoteWorkListed{Run: run},
		DenialProved{Run: run, Method: "probe"}, ContainmentFinished{Run: run, Verdict: "contained"})
}

// signal and look are the two steps that follow it.
func (s scene) signal(name string) {
	s.tell(ProcessSignalled{Run: s.who.run, ProcessID: 100, Started: dawn, Signal: name, Forced: name == "SIGKILL"})
}

func (s scene) look(pid int) {
	s.tell(ProcessChecked{Run: s.who.run, ProcessID: pid, Started: dawn, After: "SIGTERM"})
}

// A containment that keeps its order has no breach; each step out of it is one.
var wrongContainments = []struct {
	rule, name   string
	right, wrong func(scene)
	at           int
}{
	{rule: denialBeforeRevocation, wrong: func(s scene) { s.tell(DenialProved{Run: s.who.run}) }, right: func(s scene) { s.walk() }},
	{rule: signalBeforeDenial, name: "no denial", wrong: func(s scene) { s.tell(RunRevoked{Run: s.who.run}); s.signal("SIGTERM") },
		right: func(s scene) { s.walk(); s.signal("SIGTERM") }},
	{rule: signalBeforeDenial, name: "another run's denial", wrong: func(s scene) {
		other := s.run(200)
		s.tell(RunRevoked{Run: other.run}, DenialProved{Run: other.run}, RunRevoked{Run: s.who.run})
		s.signal("SIGTERM")
	}},
	{rule: forcedBeforeLook, name: "no SIGTERM", wrong: func(s scene) { s.walk(); s.signal("SIGKILL") }},
	{rule: forcedBeforeLook, name: "no look", wrong: func(s scene) { s.walk(); s.signal("SIGTERM"); s.signal("SIGKILL") },
		right: func(s scene) { s.walk(); s.signal("SIGTERM"); s.look(100); s.signal("SIGKILL"); s.look(100) }},
	{rule: forcedBeforeLook, name: "a look before SIGTERM", wrong: func(s scene) { s.walk(); s.look(100); s.signal("SIGTERM"); s.signal("SIGKILL") }},
	{rule: forcedBeforeLook, name: "another process looked at", wrong: func(s scene) { s.walk(); s.signal("SIGTERM"); s.look(101); s.signal("SIGKILL") }},
	{rule: containedWithoutDenial, wrong: func(s scene) { s.tell(ContainmentFinished{Run: s.who.run, Verdict: "contained"}) },
		right: func(s scene) { s.tell(ContainmentFinished{Run: s.who.run, Verdict: "not_contained"}) }},
}

// What is remembered of containments is bounded.
func TestContainmentsBounded(t *testing.T) {
	s := newScene(t)
	var c containments
	for range maxEnded + 10 {
		c.of(s.id("run"))
	}
	if len(c.by) != maxEnded || len(c.order) != maxEnded {
		t.Errorf("%d, %d remembered", len(c.by), len(c.order))
	}
}
