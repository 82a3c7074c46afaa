package gateway

import (
	"runtime"
	"testing"
	"time"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
)

// A run can lose its standing while somebody else holds the authority lock, so what is written about it comes in
// another order than it happened. Whoever writes last, the row ends where memory is, and nothing stays unrecorded.

// busy keeps every write of the database waiting until the func it returns is called.
func (r *rig) busy() (free func()) {
	r.t.Helper()
	began, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.db.Change(r.t.Context(), func(*store.Tx) error { close(began); <-end; return nil })
	}()
	<-began
	return func() {
		close(end)
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
}

// until waits for something that another goroutine is about to do.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(60 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not yet", what)
		}
	}
}

func (r *rig) authorityHeld() bool {
	if r.authority.TryLock() {
		r.authority.Unlock()
		return false
	}
	return true
}

// rowIs fails unless x's row has the state that memory has, and all of it is recorded.
func (r *rig) rowIs(x *run, want authz.RunState) {
	r.t.Helper()
	rows, err := r.db.Runs(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	got := ""
	for _, row := range rows {
		if row.ID == x.id {
			got = row.State
		}
	}
	if got != want.String() || x.stands() != want {
		r.t.Errorf("row %q, memory %s, want %s", got, x.stands(), want)
	}
	if r.unrecorded.Load() {
		r.t.Error("a loss counts as unrecorded")
	}
}

func TestRevokedWhileGranting(t *testing.T) {
	r, _, c, _ := carded(t)
	x := c.epoch.run
	free := r.busy()
	granted := make(chan error, 1)
	go func() {
		_, err := r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.ApproveArgs{ID: c.shown.ID, CardDigest: c.shown.CardDigest, Scope: "run"})})
		granted <- err
	}()
	r.until("grant", r.authorityHeld)
	revoked := make(chan error, 1)
	go func() { _, err := r.revoke(t.Context(), x, word{operator: "unproved"}); revoked <- err }()
	r.until("revoke", func() bool { return x.stands() == authz.Revoked })
	free()
	if err := <-granted; err == nil {
		t.Error("a revoked run was granted something")
	}
	if err := <-revoked; err != nil {
		t.Errorf("revoke: %v", err)
	}
	r.rowIs(x, authz.Revoked)
	first := x.show().RevokedAt
	if _, err := r.revoke(t.Context(), x, word{operator: "unproved"}); err != nil || !x.show().RevokedAt.Equal(first) {
		t.Errorf("revoked again: %v, and its time moved from %v to %v", err, first, x.show().RevokedAt)
	}
	r.rowIs(x, authz.Revoked)
}

func TestClientGoneWhileUnlocking(t *testing.T) {
	r := newRig(t, "")
	r.init()
	op[api.Status](r, r.opLock, struct{}{})
	if got := code(r.agent().ask("call", call0("https://api.example.com/", "GET"))); got != "vault_locked" {
		t.Fatal(got)
	}
	x := r.book.all()[0]
	free := r.busy()
	unlocked := make(chan error, 1)
	go func() {
		_, err := r.opUnlock(opRequest{ctx: t.Context(), who: "passphrase", proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}})
		unlocked <- err
	}()
	r.until("unlock", r.authorityHeld)
	gone := make(chan struct{})
	go func() { defer close(gone); r.clientGone(x) }()
	r.until("loss", func() bool { return x.stands() == authz.Orphaned })
	free()
	if err := <-unlocked; err != nil {
		t.Fatal(err)
	}
	<-gone
	r.rowIs(x, authz.Orphaned)
}

// The agent's process and the client above it die at one moment: the epoch's end and the run's reach the row either way.
func TestEpochAndClientEndTogether(t *testing.T) {
	r, _, c, first := carded(t)
	x := c.epoch.run
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.shown.ID, CardDigest: c.shown.CardDigest, Scope: "run"})
	if got := code(<-first); got != "confirmed" {
		t.Fatal(got)
	}
	r.rowIs(x, authz.Active)
	// Memory goes active, pending, ended; the last step is written first.
	x.mu.Lock()
	c.epoch.state = authz.EpochEnded
	ended := x.void(c.epoch)
	x.step(authz.Lock)
	x.mu.Unlock()
	r.clientGone(x)
	r.rowIs(x, authz.Ended)
	r.authority.Lock()
	err := r.lose(t.Context(), nil, setRun(x, ended))
	r.authority.Unlock()
	if err != nil {
		t.Error(err)
	}
	r.rowIs(x, authz.Ended)
}
