package gateway

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/vault"
)

// answered puts one confirmed call on the record, with a grant for more.
func (r *rig) answered(up *upstream) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	if got := code(r.agent().ask("call", call0(up.URL+"/1", "POST"))); got != "confirmed" {
		r.t.Fatal(got)
	}
}

func rekeyed(t testing.TB, proof string, more ...string) opRequest {
	q := proved(t, "passphrase", proof, plain(struct{}{}), "")
	for _, p := range more {
		q.keys = append(q.keys, api.Proof{Kind: "passphrase", Value: p})
	}
	return q
}

// A new key: everything opens as before, every grant ended, deeds and log stay known, the old copy of the database is
// worth what it was and no more.
func TestRekey(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	r.answered(up)
	if _, err := r.opSlotAdd(proved(t, "passphrase", testPassphrase, slotArgs("passphrase"), "a second passphrase")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    opRequest
		want string
	}{
		"one of two":     {rekeyed(t, testPassphrase), "proof_required"},
		"a wrong one":    {rekeyed(t, testPassphrase, "wrong"), "proof_wrong"},
		"only wrong":     {rekeyed(t, "wrong", "wrong too"), "proof_wrong"},
		"too many":       {rekeyed(t, testPassphrase, "a second passphrase", "third"), "proof_required"},
		"keychain":       {proved(t, "keychain", "", plain(struct{}{}), ""), "proof_required"},
		"paper, not all": {proved(t, "recovery", r.created.RecoveryIdentity, plain(struct{}{}), ""), "proof_required"},
	} {
		if got := turnedDown(r.opRekey, c.q); got != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
	if live := liveGrants(r); live != 1 {
		t.Fatalf("%d grants after refusals, want the 1", live)
	}
	was := r.vault.Snapshot()
	old := snapshot(t, r.dir)
	out, err := r.opRekey(rekeyed(t, testPassphrase, "a second passphrase"))
	if err != nil {
		t.Fatal(err)
	}
	if m := out.(api.Rekeyed); m.Generation != was.Generation+1 || m.Resealed == 0 || m.Unreadable != 0 {
		t.Errorf("%+v", m)
	}
	if s := r.status(); s.Vault != "ready" || liveGrants(r) != 0 {
		t.Errorf("vault %s, %d grants", s.Vault, liveGrants(r))
	}
	r.answered(up) // a new approval, with the same credential
	for kind, value := range map[string]string{"passphrase": testPassphrase, "recovery": r.created.RecoveryIdentity} {
		if !r.opens(kind, value) {
			t.Errorf("%s does not open the new vault", kind)
		}
	}
	if !r.opens("passphrase", "a second passphrase") {
		t.Error("the second passphrase does not open the new vault")
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if n := count(evs, "vault_rekeyed"); n != 1 {
		t.Errorf("%d rekeys told", n)
	}
	// The database of before, put back: the log knows better.
	dir := snapshot(t, r.dir)
	for _, name := range []string{"vault.db", "vault.db-wal", "vault.db-shm"} {
		os.Remove(filepath.Join(dir, name))
		if out, err := copyInto(filepath.Join(old, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(out, err)
		}
	}
	again := newRig(t, dir)
	if got := turnedDown(again.opUnlock, opRequest{ctx: t.Context(), who: "passphrase", proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}}); got != "vault_quarantined" {
		t.Errorf("the vault of before the rekey beside the log of after: %q", got)
	}
	release := opRequest{ctx: t.Context(), who: "passphrase", proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}, args: encode(api.ReleaseArgs{AcceptLogHead: true})}
	if got := turnedDown(again.opRelease, release); got != "" {
		t.Errorf("released with the log as it is: %q", got)
	}
	again.answered(up)
	again.stop()
	events(t, dir, r.created.ReaderIdentity)
}

func liveGrants(r *rig) (n int) {
	for _, x := range r.book.all() {
		x.mu.Lock()
		n += len(x.grants)
		x.mu.Unlock()
	}
	return n
}

// A rekey that fails leaves the old vault, locked, and says so.
func TestRekeyFails(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	r.answered(up)
	next := filepath.Join(r.dir, "vault.db.next")
	if err := os.MkdirAll(filepath.Join(next, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := turnedDown(r.opRekey, rekeyed(t, testPassphrase)); got == "" {
		t.Fatal("rekeyed")
	}
	if got := r.vault.State(); got != vault.Locked {
		t.Errorf("vault is %s", got)
	}
	if err := os.RemoveAll(next); err != nil {
		t.Fatal(err)
	}
	r.unlock()
	r.answered(up)
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "vault_rekeyed") != 0 {
		t.Error("a rekey that failed was told as one")
	}
	for _, e := range evs {
		if l, ok := e.(event.VaultLocked); ok && l.Reason == "rekey" {
			return
		}
	}
	t.Error("the lock was not told")
}
