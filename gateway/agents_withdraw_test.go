package gateway

import (
	"testing"

	"sallyport/gateway/api"
)

// M05: a caller withdraws one call by its line's id. Its card goes, nothing is sent, and the connection's other calls stay.
func TestWithdrawCall(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	a := r.agent()
	a.send("call", call0(up.URL+"/one", "POST"))
	card := r.card()
	for _, bad := range []api.CancelRequest{{Action: "act_x", Request: "1"}, {}} {
		if res := a.ask(api.MethodCancel, bad); res.Error == nil {
			t.Errorf("%+v: %+v", bad, res)
		}
	}
	if res := a.ask(api.MethodCancel, api.CancelRequest{Request: "1"}); res.Error != nil {
		t.Fatalf("%+v", res.Error)
	}
	for len(r.cards.list()) > 0 {
	}
	if res := a.ask(api.MethodSession, struct{}{}); res.Error != nil {
		t.Errorf("the connection: %+v", res.Error)
	}
	r.stop()
	if len(up.paths()) != 0 {
		t.Fatal("a withdrawn call was sent")
	}
	if evs := events(t, r.dir, r.created.ReaderIdentity); count(evs, "tool_called") != 0 || count(evs, "approval_expired") != 1 {
		t.Fatalf("log after %s: %v", card.ID, kinds(evs))
	}
}

// The word may come before what it is about.
func TestWithdrawEarly(t *testing.T) {
	var s outstanding
	s.withdraw("7")
	if c, _, end := s.begin(t.Context(), "7"); c.Err() == nil {
		t.Error("withdrawn before it began, and it goes on")
	} else {
		end()
	}
	c, withdraw, end := s.begin(t.Context(), "7")
	defer withdraw()
	if c.Err() != nil {
		t.Error("the withdrawal holds for the next request of that id")
	}
	end()
	s.withdraw("7")
	if c.Err() != nil {
		t.Error("an answered call was withdrawn")
	}
	for range 3 * earlyLimit {
		s.withdraw("x")
	}
	if len(s.early) > earlyLimit {
		t.Errorf("%d remembered", len(s.early))
	}
}
