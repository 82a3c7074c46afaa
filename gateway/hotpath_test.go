package gateway

import (
	"context"
	"sync"
	"testing"

	"sallyport/gateway/api"
)

// No SQL statement is on a call's path: with the lock held that everything written to the database needs, calls are
// decided, recorded, executed and answered, their status is asked for, and the database was asked nothing at all.
func TestNoSQLOnTheHotPath(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	ctx, stop := context.WithCancel(t.Context())
	go r.approveAll(ctx, "run")
	agents := []*agent0{r.agent(), r.agent()}
	if got := code(agents[0].ask("call", call0(up.URL+"/warm", "POST"))); got != "confirmed" {
		t.Fatal(got)
	}
	stop()
	if err := r.flushActions(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.authority.Lock() // the writer behind waits
	before := r.db.Uses()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			a := agents[i%2]
			q := call0(up.URL+"/x", []string{"GET", "POST"}[i%2])
			q.IdempotencyKey = newID("k_")
			res := a.ask("call", q)
			if code(res) != "confirmed" {
				t.Errorf("call %d: %s", i, code(res))
				return
			}
			if got := code(a.ask(api.MethodStatus, api.StatusRequest{Action: res.Action.ID})); got != "confirmed" {
				t.Errorf("status %d: %s", i, got)
			}
			if got := code(a.ask("call", q)); got != "confirmed" { // the same key again
				t.Errorf("replay %d: %s", i, got)
			}
			if got := code(a.ask("call", call0("http://127.0.0.1:1/x", "POST"))); got != "rule_mismatch" && got != "target_unknown" {
				t.Errorf("refusal %d: %s", i, got)
			}
		})
	}
	all.Wait()
	after := r.db.Uses()
	r.authority.Unlock()
	if after != before {
		t.Errorf("400 requests asked the database %d times", after-before)
	}
	if err := r.flushActions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.db.Uses() == after {
		t.Error("the count does not see the write behind: this test could not fail")
	}
}
