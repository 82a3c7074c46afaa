package gateway

import (
	"testing"

	"sallyport/gateway/api"
)

// A run and its revocation outlive a crash; what was granted is void, and says why.
func TestVoidSaysWhy(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	go r.approveAll(t.Context(), "run")
	if got := code(r.agent().ask("call", call0(up.URL+"/one", "POST"))); got != "confirmed" {
		t.Fatalf("call: %s", got)
	}
	run := r.book.all()[0].id
	crashed := snapshot(t, r.dir)
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run})
	revoked := snapshot(t, r.dir)
	r.stop()
	for why, dir := range map[string]string{"restart": crashed, "run_revoked": revoked} {
		again := newRig(t, dir)
		again.unlock()
		x := op[api.Run](again, again.opRunShow, api.IDArgs{ID: run})
		if len(x.EndedGrants) != 1 || x.EndedGrants[0].Why != why || x.EndedGrants[0].EndedAt.IsZero() {
			t.Errorf("%s: %+v", why, x.EndedGrants)
		}
		if (x.State == "revoked") != (why == "run_revoked") || x.State == "active" {
			t.Errorf("%s: the run is %s", why, x.State)
		}
		if l := op[[]api.Grant](again, again.opGrantList, struct{}{}); len(l) != 0 {
			t.Errorf("%s: live %+v", why, l)
		}
		again.stop()
	}
}
