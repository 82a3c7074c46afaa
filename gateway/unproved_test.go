package gateway

import (
	"errors"
	"strconv"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// Who proves nothing may look and take away, and not fill the log by it: neither with the same loss again and again, nor
// with evidence that it asks for.
func TestUnprovedFillsNoLog(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("up", "GET "+up.URL+"/**")
	a := r.agent()
	a.send(api.MethodCall, call0(up.URL+"/x", "GET"))
	a.send(api.MethodCall, call0(up.URL+"/y", "GET"))
	until(t, "one waits behind the card", func() bool { return len(r.cards.list()) == 1 && len(r.cards.more()) == 1 })
	key := r.cards.more()[0].Key
	run := r.book.all()[0]
	id := encode(api.IDArgs{ID: run.id})
	verbs := map[string]struct {
		h    opHandler
		args []byte
	}{
		"mute":         {r.opApprovalMute, encode(api.MuteArgs{Key: key})},
		"contain":      {r.opRunContain, id},
		"incident":     {r.opRunIncident, encode(api.IncidentArgs{ID: run.id})},
		"revoke":       {r.opRunRevoke, id},
		"revoke epoch": {r.opEpochRevoke, encode(api.IDArgs{ID: run.epochs[0].id})},
		"lock":         {r.opLock, encode(struct{}{})},
	}
	for _, name := range []string{"mute", "contain", "incident", "revoke", "revoke epoch", "lock"} {
		v := verbs[name]
		before := r.log.head().Seq
		for range 3 * evidenceMinute {
			_, err := v.h(opRequest{ctx: t.Context(), args: v.args, who: "unproved"})
			if e, ok := errors.AsType[*api.Error](err); err != nil && (!ok || e.Code != "rate_limited") {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := r.log.head().Seq - before; n > 20*evidenceMinute {
			t.Errorf("%s: %d records by 3 times %d", name, n, evidenceMinute)
		} else {
			t.Logf("%s: %d records", name, n)
		}
	}
	if run.stands().String() != "revoked" {
		t.Error("not revoked")
	}
	// With a proof there is evidence all the same.
	r.unlock()
	before := r.log.head().Seq
	if c := op[api.Contained](r, r.opRunContain, api.IDArgs{ID: run.id}); len(c.Steps) == 0 || r.log.head().Seq == before {
		t.Errorf("with a proof: %+v", c)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	for what, n := range map[string]int{"run_revoked": 1, "epoch_ended": 1, "approvals_muted": 1, "vault_locked": 1} {
		if got := count(evs, what); got != n {
			t.Errorf("%s: %d times", what, got)
		}
	}
	if n := count(evs, event.Type(event.ContainmentStarted{})); n > evidenceMinute+1 {
		t.Errorf("%d containments", n)
	}
}

// The banner counts every verb that takes something away without a proof, whatever way it takes.
func TestBannerCountsEveryLoss(t *testing.T) {
	for _, path := range []string{api.PathApprovalDeny, api.PathApprovalMute, api.PathRunRevoke, api.PathRunContain, api.PathEpochRevoke,
		api.PathGrantRevoke, api.PathActionCancel, api.PathSittingClose, api.PathLock, api.PathStop} {
		if !takesAway(path) {
			t.Errorf("%s takes away, and counts as nothing", path)
		}
	}
}

// A no needs no proof, and a program's digest is what it likes: what is remembered of them is bounded.
func TestDenialsRememberedAreBounded(t *testing.T) {
	p := newPast()
	for i := range 3 * pastYes {
		p.denied(strconv.Itoa(i), "no")
	}
	if len(p.no) > pastYes || len(p.no[strconv.Itoa(3*pastYes-1)]) != 1 {
		t.Errorf("%d programs", len(p.no))
	}
}

// So are the sessions that stay muted.
func TestMutesAreBounded(t *testing.T) {
	s := newCards()
	for i := range 3 * mutedMost {
		e := asker(strconv.Itoa(i))
		a := s.mustJoin(t, e)
		s.mute(e.chain.key, true)
		s.part(a)
	}
	if len(s.sessions) > mutedMost || len(s.mutes) > mutedMost {
		t.Errorf("%d sessions, %d mutes", len(s.sessions), len(s.mutes))
	}
	if _, refused := s.join(asker(strconv.Itoa(3*mutedMost-1)), nil); refused == nil {
		t.Error("the last one is not muted")
	}
}
