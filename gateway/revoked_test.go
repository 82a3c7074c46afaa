package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"sallyport/gateway/api"
)

// I35: a revoked run asks for everything that it could ask for before: its actions' status, files and cancellation, the
// result of an idempotency key, what it may do. It gets nothing, and each attempt is recorded.
func TestI35RevokedRunGetsNothing(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/long" {
			io.WriteString(w, strings.Repeat("x", 2<<20))
		}
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	keyed := call0(up.URL+"/once", "POST")
	keyed.IdempotencyKey = "k1"
	first := a.ask("call", keyed).Action
	long := a.ask("call", call0(up.URL+"/long", "GET")).Action
	if first == nil || long == nil {
		t.Fatal("the calls before the revocation")
	}
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: first.AgentRun})
	seen := len(up.paths())
	tries := []struct {
		method string
		params any
	}{
		{"call", keyed}, {"call", call0(up.URL+"/new", "GET")},
		{api.MethodStatus, api.StatusRequest{Action: first.ID}}, {api.MethodStatus, api.StatusRequest{Action: first.ID, WaitSeconds: 1, Cursor: "0"}},
		{api.MethodCancel, api.CancelRequest{Action: first.ID}}, {api.MethodFile, api.FileRequest{Action: long.ID}},
		{api.MethodBlob, api.BlobRequest{Data: []byte("x")}}, {api.MethodTargets, struct{}{}}, {api.MethodSession, struct{}{}},
	}
	for _, x := range tries {
		for _, from := range []*agent0{a, r.agent()} { // the connection it had, and a new one
			res := from.ask(x.method, x.params)
			if code(res) != "run_revoked" || res.Action != nil || len(res.Result) > 0 {
				t.Errorf("%s: %s %+v", x.method, code(res), res.Action)
			}
		}
	}
	if n := len(up.paths()); n != seen {
		t.Errorf("%d requests left after the revocation", n-seen)
	}
	r.stop()
	if n := count(events(t, r.dir, r.created.ReaderIdentity), "authorization_denied"); n != 2*len(tries) {
		t.Errorf("%d refusals recorded, want %d", n, 2*len(tries))
	}
}
