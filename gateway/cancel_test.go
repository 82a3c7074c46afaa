package gateway

import (
	"context"
	"net"
	"net/http"
	"testing"

	"sallyport/gateway/api"
)

// A call is called back at each stage of its life, by the agent and by the operator; each time the outcome says no more
// than is known, and who asked is in the log.
func TestCancel(t *testing.T) {
	arrived := make(chan struct{}, 8)
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/quick" {
			return
		}
		if q.URL.Path == "/half" {
			w.Write([]byte("the first half"))
			w.(http.Flusher).Flush()
			delivered(t, q)
		}
		arrived <- struct{}{}
		<-q.Context().Done()
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	a := r.agent()
	byAgent := func(id string) api.Response { return a.ask(api.MethodCancel, api.CancelRequest{Action: id}) }
	byOperator := func(id string) api.Response {
		x := op[api.Action](r, r.opActionCancel, api.IDArgs{ID: id})
		return api.Response{Action: &x}
	}
	under := func() (id string) { // the one action under way
		until(t, "an action under way", func() bool {
			for _, x := range r.acts.list("") {
				if x.State != api.Done {
					id = x.ID
				}
			}
			return id != ""
		})
		return id
	}
	for who, cancel := range map[string]func(string) api.Response{"agent": byAgent, "operator": byOperator} {
		// Its card lies there: nothing is recorded, nothing leaves, the card goes.
		first := a.send("call", call0(up.URL+"/card", "POST"))
		r.card()
		got := cancel(under())
		if code(got) != "cancelled" || got.Action.Outcome != "denied" {
			t.Errorf("%s, waiting for the card: %+v", who, got.Action)
		}
		if res := <-first; code(res) != "cancelled" {
			t.Errorf("%s: the call was told %s", who, code(res))
		}
		if n := len(r.cards.list()); n != 0 {
			t.Errorf("%s: %d cards are left", who, n)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	for who, cancel := range map[string]func(string) api.Response{"agent": byAgent, "operator": byOperator} {
		// It has left and no answer came: it may have taken effect.
		first := a.send("call", call0(up.URL+"/sent/"+who, "POST"))
		<-arrived
		if got := cancel(under()); code(got) != "sent_unconfirmed" || got.Action.State != api.Done {
			t.Errorf("%s, sent: %+v", who, got.Action)
		}
		<-first
		// The status line came: confirmed, and its body is not complete.
		first = a.send("call", call0(up.URL+"/half?"+who, "POST"))
		<-arrived
		if got := cancel(under()); code(got) != "confirmed" {
			t.Errorf("%s, in the body: %+v", who, got.Action)
		}
		<-first
		// It has ended: nothing changes.
		done := a.ask("call", call0(up.URL+"/quick", "POST"))
		if got := cancel(done.Action.ID); code(got) != "confirmed" {
			t.Errorf("%s, ended: %s", who, code(got))
		}
	}
	if got := code(a.ask(api.MethodCancel, api.CancelRequest{Action: "act_00000000000000000000000000"})); got != "action_unknown" {
		t.Errorf("unknown: %s", got)
	}
	before := len(up.paths())
	run := r.book.all()[0]
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run.id})
	if got := code(a.ask(api.MethodCancel, api.CancelRequest{Action: "act_00000000000000000000000000"})); got != "run_revoked" {
		t.Errorf("after the revocation: %s", got)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if n := count(evs, "tool_cancel_requested"); n != 6 {
		t.Errorf("%d cancellations recorded, want 6", n)
	}
	if n := count(evs, "tool_called"); n != before {
		t.Errorf("%d intents, %d requests arrived", n, before)
	}
}

// A dial under way is ended at once, and provably nothing was sent.
func TestCancelWhileDialling(t *testing.T) {
	r := newRig(t, "")
	r.init()
	l, err := net.Listen("tcp", "127.0.0.1:0") // it takes the connection, and never answers the TLS handshake
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url := "https://" + l.Addr().String()
	r.addBearer("deaf", "POST "+url+"/**")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	first := a.send("call", call0(url+"/x", "POST"))
	id := ""
	until(t, "the call is under way", func() bool {
		for _, x := range r.acts.list("") {
			if x.State == api.Running {
				id = x.ID
			}
		}
		return id != ""
	})
	if got := a.ask(api.MethodCancel, api.CancelRequest{Action: id}); code(got) != "not_sent" {
		t.Errorf("while dialling: %+v", got.Action)
	}
	<-first
}
