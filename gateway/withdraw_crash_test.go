package gateway

import (
	"context"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/vault"
)

// Killed between every two steps of a rotation: the vault holds the old value or the new one, the log says which, once,
// and no grant of before is left.
func TestCrashWhileRotating(t *testing.T) {
	r, _, c, first := carded(t)
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.shown.ID, CardDigest: c.shown.CardDigest, Scope: "run"})
	<-first
	const value = "tok-rotated-77aa0c1d"
	steps := 0
	check := func(step, want string, told int) {
		t.Helper()
		steps++
		copied := newRig(t, snapshot(t, r.dir))
		copied.unlock()
		var got string
		err := copied.vault.With(t.Context(), vault.Ref{Name: "ledger"}, func(s vault.Secret) error { got = string(s.Bytes()); return nil })
		if err != nil || got != want {
			t.Errorf("%s: the vault holds %q, %v", step, got, err)
		}
		for _, x := range copied.book.all() {
			if len(x.grants) != 0 {
				t.Errorf("%s: a grant is left", step)
			}
		}
		copied.stop()
		if n := count(events(t, copied.dir, r.created.ReaderIdentity), "credential_rotated"); n != told {
			t.Errorf("%s: told %d times, want %d", step, n, told)
		}
	}
	g := r.Gateway
	g.authority.Lock()
	defer g.authority.Unlock()
	check("before anything", testSecret, 0)
	lost := g.takeBack(is("ledger"))
	if len(lost) != 1 {
		t.Fatalf("lost %v", lost)
	}
	check("memory has lost the grant", testSecret, 0)
	evs := append(revokedBy(lost, "credential_rotated"), event.CredentialRotated{Credential: "ledger", Version: nextVersion(g.vault.Snapshot()), Operator: "passphrase"})
	b, err := g.batch(false, evs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.vault.Rotate(context.Background(), "ledger", []byte(value), b.Bytes()); err != nil {
		t.Fatal(err)
	}
	check("the vault has it, the log not yet", value, 1)
	if _, err := g.log.append(t.Context(), notes(b.ID, evs)...); err != nil {
		t.Fatal(err)
	}
	check("the log has it, the outbox too", value, 1)
	if err := g.db.Logged(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	check("the outbox is done", value, 1)
	if err := g.change(t.Context(), true, nil, lostRows(lost)); err != nil {
		t.Fatal(err)
	}
	check("the grant's row has ended", value, 1)
	if steps != 6 {
		t.Fatal("a step is missing")
	}
}
