package gateway

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// The fault table of "What is true after a crash". Each row stops between two steps, copies what lies on disk (that is
// what a kill -9 there leaves), and opens the copy: authority is gained last and lost first, deeds are told as unknown,
// nothing is told twice, and the log verifies.

// crashed is what a copy says once it is opened and unlocked.
type crashed struct {
	r    *rig
	evs  []event.Event
	rows []store.Run
}

// reopen starts a gateway on the copy, unlocks it, stops it again and reads its log.
func reopen(t *testing.T, copy, reader string) crashed {
	t.Helper()
	r := newRig(t, copy)
	r.unlock()
	rows, err := r.db.Runs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.book.all() {
		if len(x.grants) != 0 {
			t.Errorf("%s still holds a grant after a crash", x.id)
		}
	}
	for _, row := range rows {
		grants, err := r.db.Grants(t.Context(), row.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range grants {
			if g.State == "live" {
				t.Errorf("grant %s is live after a crash", g.ID)
			}
		}
	}
	if left, err := r.db.Pending(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("outbox after unlock: %d batches, %v", len(left), err)
	}
	c := crashed{r: r, rows: rows}
	r.stop()
	c.evs = events(t, copy, reader)
	return c
}

// carded is a rig with one card open and the call behind it.
func carded(t *testing.T) (*rig, *upstream, *card, <-chan api.Response) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	a := r.agent()
	first := a.send("call", call0(up.URL+"/1", "POST"))
	shown := r.card()
	r.cards.mu.Lock()
	c := r.cards.open[shown.ID]
	r.cards.mu.Unlock()
	return r, up, c, first
}

func TestCrashWhileGranting(t *testing.T) {
	r, _, c, _ := carded(t)
	ctx := t.Context()
	x := newGrant(c, api.ApproveArgs{ID: c.shown.ID, Scope: "run"}, now(), "passphrase")
	run := c.epoch.run
	evs := []event.Event{
		event.ApprovalGranted{Approval: c.shown.ID, Run: run.id, Epoch: c.epoch.id, Scope: "run", Card: c.bytes, CardDigest: c.shown.CardDigest, Proof: "passphrase", Operator: "passphrase"},
		event.GrantIssued{Grant: x.ID, Run: run.id, Epoch: c.epoch.id, ToolScope: x.Tools, CredentialScope: x.Credentials, IssuedAt: now().Wall, ExpiresWhen: "agent-run-ends", Approval: c.shown.ID, Operator: "passphrase"},
	}
	table := map[string]int{} // step -> grants told
	check := func(step string, told int) {
		t.Helper()
		got := reopen(t, snapshot(t, r.dir), r.created.ReaderIdentity)
		if n := count(got.evs, "grant_issued"); n != told {
			t.Errorf("%s: %d grants told, want %d", step, n, told)
		}
		for _, row := range got.rows {
			if row.State == "active" {
				t.Errorf("%s: run %s is active", step, row.ID)
			}
		}
		table[step] = told
	}
	r.authority.Lock()
	defer r.authority.Unlock()
	check("before the row", 0)
	b, err := r.batch(false, evs)
	if err != nil {
		t.Fatal(err)
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		if err := tx.SetRun(run.id, "pending", "active", now().Wall); err != nil {
			return err
		}
		if err := tx.PutGrant(store.Grant{ID: x.ID, Run: run.id, Epoch: c.epoch.id, State: "live", Issued: now().Wall}); err != nil {
			return err
		}
		return tx.Outbox(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	check("row and outbox, not yet in the log", 1)
	if _, err := r.log.append(ctx, notes(b.ID, evs)...); err != nil {
		t.Fatal(err)
	}
	check("in the log, outbox still there", 1)
	if err := r.db.Logged(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	check("outbox gone, memory not yet", 1)
	if err := r.db.Change(ctx, func(tx *store.Tx) error { return tx.SetRun(run.id, "active", "pending", now().Wall) }); err != nil {
		t.Fatal(err)
	}
	if len(table) != 4 {
		t.Fatal("a step is missing")
	}
}

func TestCrashWhileRevoking(t *testing.T) {
	r, _, c, _ := carded(t)
	ctx := t.Context()
	run := c.epoch.run
	evs := []event.Event{event.RunRevoked{Run: run.id, Operator: "unproved"}}
	check := func(step string, told int) {
		t.Helper()
		got := reopen(t, snapshot(t, r.dir), r.created.ReaderIdentity)
		if n := count(got.evs, "run_revoked"); n != told {
			t.Errorf("%s: %d revocations told, want %d", step, n, told)
		}
		for _, row := range got.rows {
			if revoked := row.State == authz.Revoked.String(); row.ID == run.id && revoked != (told > 0) {
				t.Errorf("%s: run is %s", step, row.State)
			}
		}
	}
	r.authority.Lock()
	defer r.authority.Unlock()
	check("memory only", 0) // every grant is void all the same
	b, err := r.batch(true, evs)
	if err != nil {
		t.Fatal(err)
	}
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		if err := tx.SetRun(run.id, "pending", "revoked", now().Wall); err != nil {
			return err
		}
		return tx.Outbox(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	check("row and outbox, not yet in the log", 1)
	if _, err := r.log.append(ctx, notes(b.ID, evs)...); err != nil {
		t.Fatal(err)
	}
	check("in the log, outbox still there", 1)
	if err := r.db.Logged(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	check("all of it", 1)
	if err := r.db.Change(ctx, func(tx *store.Tx) error { return tx.SetRun(run.id, "revoked", "pending", now().Wall) }); err != nil {
		t.Fatal(err)
	}
}

// A clear batch is told at the next start, with the vault still locked.
func TestCrashClearOutboxIsToldLocked(t *testing.T) {
	r, _, c, _ := carded(t)
	r.authority.Lock()
	b, err := r.batch(true, []event.Event{event.RunRevoked{Run: c.epoch.run.id, Operator: "unproved"}})
	if err == nil {
		err = r.db.Change(t.Context(), func(tx *store.Tx) error {
			if err := tx.SetRun(c.epoch.run.id, "pending", "revoked", now().Wall); err != nil {
				return err
			}
			return tx.Outbox(b)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	copy := snapshot(t, r.dir)
	err = r.db.Change(t.Context(), func(tx *store.Tx) error { return tx.SetRun(c.epoch.run.id, "revoked", "pending", now().Wall) })
	r.authority.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	again := newRig(t, copy)
	again.stop()
	if n := count(events(t, copy, r.created.ReaderIdentity), "run_revoked"); n != 1 {
		t.Fatalf("told %d times", n)
	}
	// The revoked client comes back: while locked it is told locked, after unlock it is revoked, whatever was opened between.
	back := newRig(t, copy)
	a := back.agent()
	if got := code(a.ask("call", call0("http://127.0.0.1:1/x", "GET"))); got != "vault_locked" {
		t.Fatalf("locked: %s", got)
	}
	back.unlock()
	if got := code(a.ask("call", call0("http://127.0.0.1:1/x", "GET"))); got != "run_revoked" {
		t.Fatalf("after unlock: %s", got)
	}
}

func TestCrashWhileActing(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/warm" {
			return
		}
		arrived <- struct{}{}
		<-release
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	a.ask("call", call0(up.URL+"/warm", "POST"))

	first := a.send("call", call0(up.URL+"/1", "POST"))
	<-arrived
	sent := snapshot(t, r.dir) // the intent is durable, the request has left, no result
	close(release)
	res := <-first
	if code(res) != "confirmed" {
		t.Fatal(code(res))
	}
	done := snapshot(t, r.dir) // the result is durable, its row perhaps not yet
	if err := r.flushActions(ctx); err != nil {
		t.Fatal(err)
	}
	flushed := snapshot(t, r.dir)

	got := reopen(t, sent, r.created.ReaderIdentity)
	if n := count(got.evs, "tool_unresolved"); n != 1 {
		t.Errorf("sent: %d unresolved told", n)
	}
	again := newRig(t, sent)
	again.unlock()
	row, ok, err := again.db.ActionByID(ctx, res.Action.ID)
	if err != nil || !ok || row.Outcome != "sent_unconfirmed" || !row.Unresolved {
		t.Errorf("sent: row %+v %v %v", row, ok, err)
	}
	b := again.agent()
	go again.approveAll(ctx, "run")
	if got := code(b.ask("call", call0(up.URL+"/1", "POST"))); got != "outcome_unresolved" {
		t.Errorf("the twin after the crash: %s", got)
	}
	if got := code(b.ask("call", call0(up.URL+"/warm", "POST"))); got != "confirmed" {
		t.Errorf("another write after the crash: %s", got)
	}
	again.stop()
	for name, copy := range map[string]string{"done": done, "flushed": flushed} {
		got := reopen(t, copy, r.created.ReaderIdentity)
		if n := count(got.evs, "tool_unresolved"); n != 0 {
			t.Errorf("%s: %d unresolved told", name, n)
		}
		again := newRig(t, copy)
		again.unlock()
		row, ok, err := again.db.ActionByID(ctx, res.Action.ID)
		if err != nil || !ok || row.Outcome != "confirmed" || row.Unresolved {
			t.Errorf("%s: row %+v %v %v", name, row, ok, err)
		}
		again.stop()
	}
	if n := len(up.paths()); n != 3 {
		t.Errorf("the upstream saw %v: something was sent again", up.paths())
	}
}

func TestCrashWhileInit(t *testing.T) {
	// A log without a vault is absent, and the next init replaces it.
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	id, err := auditlog.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	_, recipient, err := auditlog.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := auditlog.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	w, err := auditlog.Create(dir, id, "sallyport/abandoned", []string{recipient, other}, auditlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	r := newRig(t, dir)
	if s := r.vault.State(); s != vault.Absent {
		t.Fatalf("a log alone is %s", s)
	}
	r.init()
	whole := snapshot(t, dir)
	got := reopen(t, whole, r.created.ReaderIdentity)
	if count(got.evs, "vault_created") != 1 || event.Type(got.evs[0]) != "gateway_started" {
		t.Errorf("log: %v", kinds(got.evs))
	}
}

// The vault put back to an older copy beside its log, or its note of the log's head edited: quarantined at unlock.
func TestUnlockQuarantines(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	early := snapshot(t, r.dir)
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	if got := code(r.agent().ask("call", call0(up.URL+"/1", "POST"))); got != "confirmed" {
		t.Fatal(got)
	}
	cancel()
	r.stop()

	old := snapshot(t, r.dir)
	for _, f := range []string{"vault.db", "vault.db-wal", "vault.db-shm"} {
		os.Remove(filepath.Join(old, f))
		if b, err := os.ReadFile(filepath.Join(early, f)); err == nil {
			os.WriteFile(filepath.Join(old, f), b, 0o600)
		}
	}
	edited := snapshot(t, r.dir)
	db, err := store.Open(t.Context(), filepath.Join(edited, "vault.db"))
	if err != nil {
		t.Fatal(err)
	}
	seq, head, box, err := db.Anchor(t.Context())
	if err == nil {
		err = db.SetAnchor(t.Context(), seq+1, head, box)
	}
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	for name, dir := range map[string]string{"older vault": old, "same vault": snapshot(t, r.dir)} {
		again := newRig(t, dir)
		_, err := again.opUnlock(opRequest{ctx: t.Context(), who: "passphrase", proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}})
		want := map[bool]string{true: "vault_quarantined"}[name == "older vault"]
		if got := refusalOf(err).Code; err != nil && got != want || err == nil && want != "" {
			t.Errorf("%s: %v", name, err)
		}
		if want != "" {
			if got := code(again.agent().ask("call", call0(up.URL+"/1", "GET"))); got != want {
				t.Errorf("%s: a call: %s", name, got)
			}
		}
		again.stop()
	}
	g, err := New(t.Context(), testConfig(t, edited))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if s := g.vault.State(); s != vault.Quarantined {
		t.Errorf("a head that the log does not have: %s", s)
	}
}

// A run of an earlier start is revoked while the vault is locked, and stays so for its client.
func TestRevokeWhileLocked(t *testing.T) {
	r, _, c, _ := carded(t)
	id := c.epoch.run.id
	r.stop()
	again := newRig(t, r.dir)
	if got := op[api.Run](again, again.opRunShow, api.IDArgs{ID: id}); got.State != "pending" {
		t.Fatalf("shown while locked: %+v", got)
	}
	for range 2 {
		if got := op[api.Revoked](again, again.opRunRevoke, api.IDArgs{ID: id}); got.Run.State != "revoked" || got.Run.RevokedAt.IsZero() {
			t.Fatalf("revoked while locked: %+v", got)
		}
	}
	again.unlock()
	if got := code(again.agent().ask("call", call0("http://127.0.0.1:1/x", "GET"))); got != "run_revoked" {
		t.Fatalf("its client after unlock: %s", got)
	}
	again.stop()
	if n := count(events(t, r.dir, r.created.ReaderIdentity), "run_revoked"); n != 1 {
		t.Fatalf("recorded %d times", n)
	}
}

// Past runs do not stay in memory for ever.
func TestPastRunsAreForgotten(t *testing.T) {
	b := newRegistry()
	for i := range pastRuns + 10 {
		x := newRun(owner{key: fmt.Sprint(i)}, now().Wall)
		b.runs[x.id], b.owners[x.owner.key] = x, x
		b.bury(x)
	}
	if len(b.runs) != pastRuns || len(b.owners) != pastRuns || b.owners["0"] != nil || b.owners["12"] == nil {
		t.Fatalf("%d runs, %d owners", len(b.runs), len(b.owners))
	}
}
