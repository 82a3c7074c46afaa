package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sallyport/authz"
	"sallyport/gateway/api"
)

// Results of ended actions are bounded in memory by their bytes as well as their number.
func TestResultsKeptInMemory(t *testing.T) {
	s := newActions()
	big := encode(strings.Repeat("r", 1<<20))
	for i := range 200 {
		id := fmt.Sprintf("act_%03d", i)
		s.begin(api.Action{ID: id, State: api.Pending}, nil)
		s.end(id, api.Action{ID: id, State: api.Done, Result: big})
	}
	held := 0
	for _, a := range s.list("") {
		held += len(a.Result)
	}
	if held > recentBytes || held < recentBytes/2 {
		t.Errorf("%d bytes of results are held, at most %d", held, recentBytes)
	}
	if _, ok := s.get("act_199"); !ok {
		t.Error("the latest is gone")
	}
	if _, ok := s.get("act_000"); ok {
		t.Error("the oldest is still held")
	}
}

func TestBodyOfControlsIsNoText(t *testing.T) {
	for body, want := range map[string]string{"plain\ttext\r\n": "utf-8", strings.Repeat("\x1b", 64): "base64", "\xff": "base64", "a\x00b": "base64",
		strings.Repeat("a", 64) + "\x1b[0m": "utf-8"} {
		if _, got := bodyText([]byte(body)); got != want {
			t.Errorf("%.20q: %s, want %s", body, got, want)
		}
	}
}

// A run revoked between the decision to ask and the card's being laid down leaves no card and no caller waiting.
func TestNoCardForALostRun(t *testing.T) {
	r := newRig(t, "")
	r.init()
	r.addBearer("up", "GET http://127.0.0.1:9/**")
	a := r.agent()
	first := a.send(api.MethodCall, call0("http://127.0.0.1:9/a", "GET"))
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: r.card().ID})
	<-first
	run := r.book.all()[0]
	who := caller{run.epochs[0].proc, run, run.epochs[0]}
	p := bind(parse(call0("http://127.0.0.1:9/b", "GET")), r.targets())
	turns := 0
	c, refused := r.ask(t.Context(), who, p, func() authz.Decision {
		d := r.judge(who, p, authz.FullWalk)
		if turns++; turns == 1 {
			if _, err := r.revoke(context.Background(), run, word{operator: "test"}); err != nil {
				t.Error(err)
			}
		}
		return d
	})
	if c != nil || refused != nil || len(r.cards.list()) != 0 || turns < 2 {
		t.Errorf("card %v, refused %v, %d cards wait", c, refused, len(r.cards.list()))
	}
}
