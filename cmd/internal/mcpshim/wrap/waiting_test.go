package wrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport/gateway/api"
)

// unlisted is a rig whose server does not list its tools before list is called.
func unlisted(t *testing.T) (r *rig, list func()) {
	t.Helper()
	r = newRig(t, "slow")
	r.say(hello)
	r.answered("0")
	r.say(helloed)
	r.eventually("the tools are fetched", func() bool { return strings.Contains(strings.Join(r.received(), "\n"), "tools/list") })
	return r, func() {
		if err := os.WriteFile(filepath.Join(r.dir, "grown"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// unstarted is a rig whose server is not started before start is called.
func unstarted(t *testing.T) (r *rig, start func()) {
	t.Helper()
	slow := make(chan struct{})
	r = newRig(t, "", func(r *rig) { r.g.slow, r.cfg.Reload = slow, "restart" })
	r.eventually("a start", func() (ok bool) { r.g.locked(func() { ok = len(r.g.plans) == 1 }); return ok })
	return r, func() { close(slow) }
}

const duplicate = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a request with this id is still unanswered"}}`

// A call that is cancelled while it waits for the server's tools is never made, and nobody hears of it.
func TestCancelledBeforeTheToolsAreKnown(t *testing.T) {
	t.Parallel()
	r, list := unlisted(t)
	r.call("5", "echo")
	r.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	r.call("6", "echo")
	list()
	if _, before := r.answered("6"); len(before) > 0 {
		t.Errorf("answered %q", before)
	}
	r.call("5", "echo") // its id is free again
	r.answered("5")
	r.g.locked(func() {
		if len(r.g.calls) != 2 || r.g.calls[0].RequestID != "6" {
			t.Errorf("calls %+v", r.g.calls)
		}
	})
	if slices.ContainsFunc(r.received(), func(l string) bool { return strings.Contains(l, "cancelled") }) {
		t.Error("the server was told")
	}
}

// A server whose tools change each time that it lists them keeps no call waiting once a list of them is known.
func TestCallToARestlessServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, "restless")
	r.say(hello)
	r.answered("0")
	r.say(helloed)
	r.call("5", "echo")
	r.answered("5")
}

// The host's answer to a server that has ended meanwhile is nobody's: it is not answered, and starts none.
func TestAnswerToAnEndedServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	r.call("5", "ask")
	if got := r.hear(); !strings.Contains(got, "roots/list") {
		t.Fatalf("heard %s", got)
	}
	r.call("6", "die")
	r.hear() // 5 and 6 are answered, in either order
	r.hear()
	r.say(`{"jsonrpc":"2.0","id":9007199254740993,"result":{"roots":[]}}`)
	r.call("7", "echo")
	if _, before := r.answered("7"); len(before) > 0 {
		t.Errorf("answered %q", before)
	}
}

// A request that is cancelled while the server starts is never made either, and its cancellation is no news to a server.
func TestCancelledBeforeTheStart(t *testing.T) {
	t.Parallel()
	r, start := unstarted(t)
	r.say(hello, `{"jsonrpc":"2.0","id":5,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`,
		`{"jsonrpc":"2.0","id":6,"method":"ping"}`, `{"jsonrpc":"2.0","id":6,"method":"tools/list"}`)
	if got := r.hear(); got != duplicate {
		t.Errorf("a second 6: %s", got)
	}
	start()
	if _, before := r.answered("6"); len(before) != 1 {
		t.Errorf("answered %q", before)
	}
	if got := r.received(); len(got) != 2 {
		t.Errorf("the server was given %q", got)
	}
}

// An id is open from its request's line on, also while that waits.
func TestIDIsOpenOnce(t *testing.T) {
	t.Parallel()
	r, list := unlisted(t)
	r.call("5", "echo")
	r.call("5", "grow")
	r.say(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	for range 2 {
		if got := r.hear(); got != duplicate {
			t.Errorf("a second 5: %s", got)
		}
	}
	list()
	if got, _ := r.answered("5"); !strings.Contains(got, "9007199254740993") {
		t.Errorf("answered %s", got)
	}
	r.call("5", "hang")
	r.eventually("the call is sent", func() bool { return strings.Contains(strings.Join(r.received(), "\n"), `"name":"hang"`) })
	r.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	r.call("5", "echo") // the server may answer the one before it still
	if got := r.hear(); got != duplicate {
		t.Errorf("a second 5 while the server owes the first: %s", got)
	}
	r.g.locked(func() {
		if len(r.g.calls) != 2 {
			t.Errorf("calls %+v", r.g.calls)
		}
	})
}

// At the host's end a call that waits is answered: nothing of it was sent, and nothing will be.
func TestEndWhileACallWaits(t *testing.T) {
	t.Parallel()
	r, _ := unlisted(t)
	r.call("5", "echo")
	r.in.Close()
	got, _ := r.answered("5")
	if d := doc(t, got); d["error"] != "not_sent" {
		t.Errorf("told %v", d)
	}
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	r.g.locked(func() {
		if len(r.g.calls) != 0 {
			t.Errorf("calls %+v", r.g.calls)
		}
	})
}

// The operator stops a server that is being started: it is ended as soon as it is there, and none comes after it.
func TestStopDuringAStart(t *testing.T) {
	t.Parallel()
	r, start := unstarted(t)
	r.say(hello)
	r.g.locked(func() { r.g.refuse = func(api.ActionRequest) *api.Error { return api.Fail("run_revoked", "") } })
	r.g.links[0].pushed(api.Push{Kind: api.PushStop, Reason: "run_revoked"})
	start()
	if got, _ := r.answered("0"); !strings.Contains(got, "-32012") || !strings.Contains(got, "run_revoked") {
		t.Errorf("told %s", got)
	}
	r.call("5", "echo")
	if got, _ := r.answered("5"); doc(t, got)["error"] != "run_revoked" {
		t.Errorf("told %s", got)
	}
	r.eventually("its end", func() (ok bool) {
		r.g.locked(func() { ok = slices.Equal(r.g.ends, []string{"operator"}) })
		return ok
	})
	r.g.links[0].Close() // a new gateway does not bring it back
	r.eventually("the gateway's end is seen", func() bool {
		r.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}`)
		got, _ := r.answered("7")
		return strings.Contains(got, "-32012")
	})
	r.g.locked(func() {
		if len(r.g.plans) != 1 {
			t.Errorf("started %d times", len(r.g.plans))
		}
	})
}
