package gateway

import (
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
)

// A run's times outlive the gateway that saw them: of a run that is in memory again, and of one that only its row is left of.
func TestTimesOutliveRestart(t *testing.T) {
	for name, state := range map[string]authz.RunState{"row": authz.Ended, "memory": authz.Revoked} {
		t.Run(name, func(t *testing.T) {
			r, id := acted(t)
			run := r.book.byID(id)
			since := now().Wall.Add(-time.Minute)
			if err := r.log.note(t.Context(), id, event.ClientUnresponsive{Run: id, ProcessID: 1, Reason: "stopped", Since: since}); err != nil {
				t.Fatal(err)
			}
			r.clientGone(run)
			if state == authz.Revoked {
				op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: id})
			}
			if _, err := r.endEpoch(t.Context(), run.epochs[0], processGone, word{}); err != nil || run.stands() != state {
				t.Fatalf("%v, run %s", err, run.stands())
			}
			want := run.show()
			want.UnresponsiveSince = since
			r.stop()

			r = newRig(t, r.dir)
			r.unlock()
			x := r.book.byID(id)
			if (x != nil) != (name == "memory") {
				t.Fatalf("in memory: %v", x)
			}
			if x != nil { // its client is this process, which can't be gone
				x.mu.Lock()
				x.roster.chief = nil
				x.mu.Unlock()
			}
			got := op[api.Run](r, r.opRunShow, api.IDArgs{ID: id})
			for what, pair := range map[string][2]time.Time{"client unavailable": {got.ClientUnavailableAt, want.ClientUnavailableAt},
				"unresponsive": {got.UnresponsiveSince, since}, "last action": {got.LastActionStartedAt, want.LastActionStartedAt},
				"revoked": {got.RevokedAt, want.RevokedAt}} {
				if d := pair[0].Sub(pair[1]).Abs(); d > time.Second || pair[0].IsZero() != pair[1].IsZero() {
					t.Errorf("%s: %v, was %v", what, pair[0], pair[1])
				}
			}
			if got.Calls != want.Calls || got.Calls == 0 {
				t.Errorf("%d calls, were %d", got.Calls, want.Calls)
			}
			if out := op[api.Contained](r, r.opRunContain, api.IDArgs{ID: id}); len(out.Uncertain) != 1 {
				t.Errorf("uncertain: %+v", out.Uncertain)
			}
		})
	}
}
