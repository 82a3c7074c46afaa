package gateway

import (
	"os"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// Whoever takes authority away without a proof is in the log as the kernel saw them, with no path: it may wait in the clear.
func TestTakenAwayUnproved(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, t.TempDir())
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	me, err := peer.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer me.Close()
	take := func(h opHandler, args any) {
		t.Helper()
		if _, err := h(opRequest{ctx: t.Context(), args: encode(args), who: "unproved", proc: me}); err != nil {
			t.Fatal(err)
		}
	}
	a := r.agent()
	ask := func() (<-chan api.Response, api.Approval) {
		return a.send("call", call0(up.URL+"/1", "POST")), r.card()
	}
	grant := func() string {
		t.Helper()
		ch, c := ask()
		x := op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})
		<-ch
		return x.ID
	}
	ch, c := ask()
	take(r.opApprovalDeny, api.IDArgs{ID: c.ID})
	<-ch
	take(r.opGrantRevoke, api.IDArgs{ID: grant()})
	run := r.book.all()[0]
	take(r.opEpochRevoke, api.IDArgs{ID: run.show().Epochs[0].ID})
	take(r.opRunRevoke, api.IDArgs{ID: run.id})
	take(r.opLock, struct{}{})
	take(r.opStop, struct{}{})
	r.stop()

	seen := map[string]bool{}
	for _, ev := range events(t, r.dir, r.created.ReaderIdentity) {
		var by string
		var p event.Peer
		switch e := ev.(type) {
		case event.ApprovalDenied:
			by, p = e.Operator, e.Peer
		case event.GrantRevoked:
			by, p = e.Operator, e.Peer
		case event.EpochEnded:
			by, p = e.Operator, e.Peer
		case event.RunRevoked:
			by, p = e.Operator, e.Peer
		case event.VaultLocked:
			by, p = e.Operator, e.Peer
		case event.GatewayStopped:
			by, p = e.Operator, e.Peer
		default:
			continue
		}
		seen[event.Type(ev)] = true
		if by != "unproved" || p.ProcessID != os.Getpid() || p.ExeDigest == "" || p.Exe != "" {
			t.Errorf("%s: by %q, %+v", event.Type(ev), by, p)
		}
	}
	if len(seen) != 6 {
		t.Errorf("told: %v", seen)
	}
}
