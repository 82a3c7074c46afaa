package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// At the tenth reflection the epoch's grants end; its next call asks anew.
func TestTenthReflection(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(strings.Repeat("you sent "+r.Header.Get("Authorization")+"\n", 3)))
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("echo", "GET "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := r.agent()
	cards := 0
	call := func() {
		t.Helper()
		done := a.send("call", call0(up.URL+"/x", "GET"))
		for {
			select {
			case res := <-done:
				if code(res) != "confirmed" || res.Action.ReflectedCount != 3 || strings.Contains(string(res.Action.Result), testSecret) {
					t.Fatalf("%s %+v", code(res), res.Action)
				}
				return
			case <-ctx.Done():
				return
			default:
				for _, c := range r.cards.list() {
					if _, err := r.opApprovalGrant(opRequest{ctx: ctx, who: "passphrase", args: encode(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})}); err == nil {
						cards++
					}
				}
			}
		}
	}
	for i := range 8 {
		call()
		if want := 1 + i/4; cards != want {
			t.Fatalf("call %d: %d cards, want %d", i+1, cards, want)
		}
	}
	r.stop()
	revoked := 0
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if x, ok := e.(event.GrantRevoked); ok && x.Reason == "epoch_paused" {
			revoked++
		}
	}
	if revoked != 2 {
		t.Errorf("%d grants revoked for reflections", revoked)
	}
}
