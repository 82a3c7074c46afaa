package gateway

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/vault"
)

// backup is the file that the operator gets.
func (r *rig) backup() []byte {
	r.t.Helper()
	out, err := r.opBackup(opRequest{ctx: r.t.Context(), who: "passphrase"})
	if err != nil {
		r.t.Fatal(err)
	}
	s := out.(*spooled)
	defer s.Close()
	b, err := io.ReadAll(s)
	if err != nil || int64(len(b)) != s.length {
		r.t.Fatalf("%d bytes of %d: %v", len(b), s.length, err)
	}
	return b
}

// restoring is a request to restore file, with the keys' kind and value in turn: the proof, then the backup's.
func restored(t testing.TB, file []byte, keys ...string) opRequest {
	sum := sha256.Sum256(file)
	q := opRequest{ctx: t.Context(), who: keys[0], file: bytes.NewReader(file), proof: &api.Proof{Kind: keys[0], Value: keys[1]},
		args: encode(api.RestoreArgs{FileLength: int64(len(file)), FileDigest: sum[:]})}
	for i := 2; i < len(keys); i += 2 {
		q.keys = append(q.keys, api.Proof{Kind: keys[i], Value: keys[i+1]})
	}
	return q
}

func (r *rig) restore(q opRequest) api.Restored {
	r.t.Helper()
	out, err := r.opRestore(q)
	if err != nil {
		r.t.Fatalf("restore: %v", err)
	}
	return out.(api.Restored)
}

func (r *rig) credentials() (names []string) {
	for _, m := range r.vault.Snapshot().Credentials() {
		names = append(names, m.Name)
	}
	return names
}

// V09, over the vault that made it: what came after is gone but for the log, revocations and unresolved writes; grants are void.
func TestRestoreOver(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	r.answered(up)
	b := r.backup()
	r.addBearer("later", "POST "+up.URL+"/later/**")
	run := r.book.all()[0]
	if _, err := r.Gateway.revoke(t.Context(), run, word{operator: "passphrase"}); err != nil {
		t.Fatal(err)
	}
	was := r.vault.Snapshot()
	for name, c := range map[string]struct {
		q    opRequest
		want string
	}{
		"wrong proof":  {restored(t, b, "passphrase", "wrong"), "proof_wrong"},
		"no backup":    {restored(t, []byte("age-encryption.org/v1\n"), "passphrase", testPassphrase), "invalid_request"},
		"cut":          {restored(t, b[:len(b)-1], "passphrase", testPassphrase), "invalid_request"},
		"the backup's": {restored(t, b, "passphrase", testPassphrase, "passphrase", "wrong"), "proof_wrong"},
		"keychain":     {restored(t, b, "keychain", ""), "proof_required"},
	} {
		if got := turnedDown(r.opRestore, c.q); got != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
		if r.vault.State() != vault.Ready {
			t.Errorf("%s: the vault is %s", name, r.vault.State())
		}
	}
	m := r.restore(restored(t, b, "passphrase", testPassphrase))
	if now := r.vault.Snapshot(); m.Generation <= was.Generation || now.Counter <= was.Counter || m.NewLog || m.Passed != 0 {
		t.Errorf("%+v, counter %d after %d", m, now.Counter, was.Counter)
	}
	if got := r.credentials(); !slices.Equal(got, []string{"ledger"}) || liveGrants(r) != 0 || r.status().Vault != "ready" {
		t.Errorf("credentials %v, %d grants, vault %s", got, liveGrants(r), r.status().Vault)
	}
	if got := code(r.agent().ask("call", call0(up.URL+"/2", "POST"))); got != "run_revoked" {
		t.Errorf("the run that was revoked after the backup: %s", got)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "backup_made") != 1 || count(evs, "vault_restored") != 1 {
		t.Errorf("%d backups and %d restores told", count(evs, "backup_made"), count(evs, "vault_restored"))
	}
	var made event.BackupMade
	for _, e := range evs {
		switch e := e.(type) {
		case event.BackupMade:
			made = e
		case event.VaultRestored:
			if e.Digest != made.Digest || e.Length != int64(len(b)) {
				t.Errorf("the restored file is not the one that was made: %+v, %+v", e, made)
			}
		}
	}
	again := reopen(t, snapshot(t, r.dir), r.created.ReaderIdentity) // and it opens again
	if got := count(again.evs, "vault_unlocked"); got != 2 {
		t.Errorf("%d unlocks told", got)
	}
}

// V09, elsewhere: into an empty home, without and with the log beside it; with the paper where the passphrase is lost.
func TestRestoreElsewhere(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	r.answered(up)
	b := r.backup()
	r.answered(up) // the log knows of more than the backup
	if _, err := r.opSlotAdd(proved(t, "passphrase", testPassphrase, slotArgs("recovery"), "")); err != nil {
		t.Fatal(err)
	}
	r.stop()
	seen := events(t, r.dir, r.created.ReaderIdentity)

	t.Run("alone", func(t *testing.T) {
		n := newRig(t, "")
		if got := turnedDown(n.opRestore, restored(t, b, "passphrase", "wrong")); got != "proof_wrong" || n.vault.State() != vault.Absent {
			t.Errorf("%q, vault %s", got, n.vault.State())
		}
		m := n.restore(restored(t, b, "recovery", r.created.RecoveryIdentity))
		if got := n.credentials(); !m.NewLog || !slices.Equal(got, []string{"ledger"}) || liveGrants(n) != 0 {
			t.Errorf("%+v, credentials %v", m, got)
		}
		n.answered(up)
		if !n.opens("passphrase", testPassphrase) {
			t.Error("the passphrase does not open it")
		}
		n.stop()
		evs := events(t, n.dir, r.created.ReaderIdentity)
		if event.Type(evs[0]) != "vault_restored" || count(evs, "tool_called") != 1 {
			t.Errorf("the new log begins with %s and has %d calls", event.Type(evs[0]), count(evs, "tool_called"))
		}
	})
	t.Run("with its log", func(t *testing.T) {
		n := newRig(t, "")
		for _, name := range []string{"audit", "audit.pub"} {
			if out, err := copyInto(filepath.Join(r.dir, name), filepath.Join(n.dir, name)); err != nil {
				t.Fatal(out, err)
			}
		}
		m := n.restore(restored(t, b, "passphrase", testPassphrase))
		if m.NewLog || m.Passed != 0 || len(n.vault.Slots()) != 2 {
			t.Errorf("%+v, %d slots", m, len(n.vault.Slots()))
		}
		n.answered(up)
		n.stop()
		evs := events(t, n.dir, r.created.ReaderIdentity)
		if len(evs) <= len(seen) || count(evs, "tool_called") != count(seen, "tool_called")+1 {
			t.Errorf("%d events after %d", len(evs), len(seen))
		}
		reopen(t, snapshot(t, n.dir), r.created.ReaderIdentity)
	})
	t.Run("beside another's log", func(t *testing.T) {
		n := newRig(t, "")
		n.init()
		n.stop()
		dir := snapshot(t, n.dir)
		for _, name := range []string{"vault.db", "vault.db-wal", "vault.db-shm"} {
			os.Remove(filepath.Join(dir, name))
		}
		o := newRig(t, dir)
		if m := o.restore(restored(t, b, "passphrase", testPassphrase)); !m.NewLog {
			t.Errorf("%+v", m)
		}
		if aside, _ := filepath.Glob(filepath.Join(dir, "audit.abandoned.*")); len(aside) == 0 {
			t.Error("the other log is not kept aside")
		}
	})
	t.Run("over another vault", func(t *testing.T) {
		n := newRig(t, "")
		n.init()
		if got := turnedDown(n.opRestore, restored(t, b, "passphrase", testPassphrase)); got != "invalid_request" {
			t.Errorf("%q", got)
		}
		n.unlock()
	})
}

// A backup older than a rekey, where only the log survived: what the newer key sealed is passed over, and said.
func TestRestoreOlderThanRekey(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	b := r.backup()
	if _, err := r.opRekey(rekeyed(t, testPassphrase)); err != nil {
		t.Fatal(err)
	}
	r.answered(up)
	r.stop()
	dir := snapshot(t, r.dir)
	for _, name := range []string{"vault.db", "vault.db-wal", "vault.db-shm"} {
		os.Remove(filepath.Join(dir, name))
	}
	n := newRig(t, dir)
	if m := n.restore(restored(t, b, "passphrase", testPassphrase)); m.Passed == 0 || m.NewLog {
		t.Errorf("%+v", m)
	}
	n.answered(up)
	n.stop()
	reopen(t, snapshot(t, n.dir), r.created.ReaderIdentity)
}

// V16: what is no whole file stores nothing, and leaves nothing behind.
func TestRestoreMalformed(t *testing.T) {
	r := newRig(t, "")
	r.init()
	b := r.backup()
	args := func(length int64, digest []byte) opRequest {
		q := restored(t, b, "passphrase", testPassphrase)
		q.args = encode(api.RestoreArgs{FileLength: length, FileDigest: digest})
		return q
	}
	sum := sha256.Sum256(b)
	more := restored(t, b, "passphrase", testPassphrase)
	more.file = io.MultiReader(bytes.NewReader(b), strings.NewReader("x"))
	early := restored(t, b, "passphrase", testPassphrase)
	early.file = io.MultiReader(bytes.NewReader(b[:100]), failing{})
	for name, q := range map[string]opRequest{
		"longer than said": more, "ends early": early, "shorter": args(int64(len(b))+1, sum[:]), "another digest": args(int64(len(b)), make([]byte, 32)),
		"nothing": args(0, nil), "below nothing": args(-1, nil), "oversized": args(maxBackup+1, sum[:]),
	} {
		if got := turnedDown(r.opRestore, q); got != "invalid_request" || r.vault.State() != vault.Ready {
			t.Errorf("%s: %q, vault %s", name, got, r.vault.State())
		}
	}
	left, err := filepath.Glob(filepath.Join(r.dir, "spool-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "vault.db.next")); err == nil {
		t.Error("half a database is left behind")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func copyInto(from, to string) (string, error) {
	i, err := os.Stat(from)
	if err != nil {
		return from, err
	}
	if i.IsDir() {
		return from, os.CopyFS(to, os.DirFS(from))
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return from, err
	}
	return from, os.WriteFile(to, b, 0o600)
}
