package gateway

import (
	"context"
	"testing"
	"time"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
)

// A yes that is being written while its run is locked out or revoked: the row follows memory, so that later yeses and,
// above all, the revocation can be written.
func TestGrantLosesToLockAndRevoke(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("up", "GET "+up.URL+"/**")
	a := r.agent()
	// meanwhile runs f while the yes to the next card is held up in the database.
	meanwhile := func(f func()) {
		t.Helper()
		r.unlock()
		a.send(api.MethodCall, call0(up.URL+"/x", "GET"))
		card := r.card()
		held, release := make(chan struct{}), make(chan struct{})
		written := make(chan struct{})
		go func() {
			defer close(written)
			r.db.Change(context.Background(), func(*store.Tx) error { close(held); <-release; return nil })
		}()
		<-held
		yes := make(chan error, 1)
		go func() {
			_, err := r.opApprovalGrant(opRequest{ctx: context.Background(), who: "passphrase",
				args: encode(api.ApproveArgs{ID: card.ID, CardDigest: card.CardDigest, Scope: "run"})})
			yes <- err
		}()
		until(t, "the yes has the lock", func() bool {
			free := r.authority.TryLock()
			if free {
				r.authority.Unlock()
			}
			return !free
		})
		time.Sleep(5 * time.Millisecond) // no proof hangs on it: most rounds then catch it in the write; those that don't must hold too
		f()
		close(release)
		<-written
		if err := <-yes; err == nil {
			t.Error("the yes was given though the run had lost its standing")
		}
	}
	for range 5 {
		locked := make(chan error, 1)
		meanwhile(func() {
			go func() {
				_, err := r.opLock(opRequest{ctx: context.Background(), who: "unproved"})
				locked <- err
			}()
			until(t, "the lock", func() bool { return !r.open.Load() })
		})
		if err := <-locked; err != nil {
			t.Fatalf("lock: %v", err)
		}
	}
	r.unlock()
	ctx, cancel := context.WithCancel(t.Context())
	go r.approveAll(ctx, "use")
	if got := code(a.ask(api.MethodCall, call0(up.URL+"/after", "GET"))); got != "confirmed" {
		t.Fatalf("a yes after the locks: %s", got)
	}
	cancel()
	run := r.book.all()[0]
	revoked := make(chan error, 1)
	meanwhile(func() {
		go func() {
			_, err := r.revoke(context.Background(), run, word{operator: "test"})
			revoked <- err
		}()
		until(t, "the revocation", func() bool { return run.show().State == authz.Revoked.String() })
	})
	if err := <-revoked; err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if r.unrecorded.Load() {
		t.Error("the revocation is said to be unrecorded")
	}
	rows, err := r.db.Runs(t.Context())
	if err != nil || len(rows) != 1 || rows[0].State != authz.Revoked.String() {
		t.Errorf("rows: %+v %v", rows, err)
	}
}
