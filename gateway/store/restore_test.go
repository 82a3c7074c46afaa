package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sallyport/gateway/store"
	"sallyport/vault"
)

const roomy = 64 << 20

func backup(t testing.TB, v *vault.Vault) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := v.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func restore(t testing.TB, d *store.DB, b []byte, k vault.Key) (*vault.Vault, error) {
	t.Helper()
	v, err := vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Restore(t.Context(), bytes.NewReader(b), k, vault.RestoreOptions{Limit: roomy}, nil)
	return v, err
}

// TestBackupDuringWrites: V09. Taken while others write, restored elsewhere: it
// opens, it is of one moment, and every grant in it is void.
func TestBackupDuringWrites(t *testing.T) {
	path, recovery := created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	peopled(t, d, v)
	var wg sync.WaitGroup
	done := make(chan struct{})
	busy := func(f func(n int) error) {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if err := f(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	busy(func(n int) error {
		_, err := v.AddCredential(context.Background(), vault.Meta{Name: fmt.Sprintf("n%05d", n)}, []byte("v"), store.Batch{ID: [16]byte{3, byte(n >> 16), byte(n >> 8), byte(n)}}.Bytes())
		return err
	})
	busy(func(n int) error {
		return d.Redo(context.Background(), uint64(10+n), []store.Action{{ID: fmt.Sprintf("act_w%05d", n), Run: "run_1", Seq: uint64(10 + n)}})
	})
	var taken [][]byte
	for range 5 {
		taken = append(taken, backup(t, v))
	}
	close(done)
	wg.Wait()
	alone(t, path)
	for i, b := range taken {
		e := open(t, filepath.Join(t.TempDir(), "vault.db"))
		w, err := restore(t, e, b, vault.Recovery(recovery))
		if err != nil {
			t.Fatalf("backup %d: %v", i, err)
		}
		if err := w.Unlock(t.Context(), key()); err != nil {
			t.Fatalf("backup %d: %v", i, err)
		}
		s := w.Snapshot()
		for _, m := range s.Credentials() {
			if m.Name != "alpha" && m.Name != "bravo" && m.Name[0] != 'n' {
				t.Errorf("credential %s", m.Name)
			}
		}
		p, err := e.Pending(t.Context())
		if err != nil || len(p) != len(s.Credentials()) { // two of peopled's, one for each but alpha and bravo
			t.Errorf("backup %d: %d batches beside %d credentials, %v", i, len(p), len(s.Credentials()), err)
		}
		seq, err := e.Applied(t.Context())
		a, err2 := e.Actions(t.Context(), "", 1)
		if err != nil || err2 != nil || a[0].Seq != seq && seq != 9 {
			t.Errorf("backup %d: applied %d, last action %+v, %v, %v", i, seq, a, err, err2)
		}
		g, err := e.Grants(t.Context(), "run_1")
		if err != nil || len(g) != 1 || g[0].State != "restored" || g[0].Ended.IsZero() {
			t.Errorf("V09 backup %d: grants %+v, %v", i, g, err)
		}
		if got, err := w.Unseal(store.UseGrant, []byte("gr_1"), g[0].Sealed); string(got) != "the grant" || err != nil {
			t.Errorf("backup %d: %q, %v", i, got, err)
		}
	}
}

// TestRestoreKeepsRevocations: restoring is no way around a revocation, and
// loses no event.
func TestRestoreKeepsRevocations(t *testing.T) {
	path, _ := created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	peopled(t, d, v)
	b := backup(t, v)
	box, err := v.Seal(store.UseBatch, []byte("0123456789abcdef"), []byte("run revoked"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(2000, 0)
	err = d.Change(t.Context(), func(tx *store.Tx) error {
		return errors.Join(tx.SetRun("run_1", "active", "revoked", at),
			tx.PutRun(store.Run{ID: "run_9", State: "revoked", Opened: at, Changed: at}),
			tx.PutRun(store.Run{ID: "run_x", State: "active", Opened: at, Changed: at, Sealed: []byte("nobody's box")}),
			tx.Outbox(store.Batch{ID: [16]byte([]byte("0123456789abcdef")), Sealed: true, Body: box}))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Rekey(t.Context(), []vault.Key{key()}, quick, nil); err != nil { // the backup knows nothing of this key
		t.Fatal(err)
	}
	v.Lock()
	if _, err := v.Restore(t.Context(), bytes.NewReader(b), key(), vault.RestoreOptions{Limit: roomy}, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	readable(t, v)
	runs, err := d.Runs(t.Context())
	if err != nil || len(runs) != 2 || runs[0].State != "revoked" || !runs[0].Changed.Equal(at) || runs[1].ID != "run_9" || runs[1].State != "revoked" {
		t.Fatalf("runs %+v, %v", runs, err)
	}
	if got, err := v.Unseal(store.UseRun, []byte("run_1"), runs[0].Sealed); string(got) != "the run" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	p, err := d.Pending(t.Context())
	if err != nil || len(p) != 3 {
		t.Fatalf("pending %+v, %v", p, err)
	}
	if got, err := v.Unseal(store.UseBatch, p[2].ID[:], p[2].Body); string(got) != "run revoked" || err != nil {
		t.Errorf("the batch that the log did not have: %q, %v", got, err)
	}
}

// TestBadRestores: V16, with a real database in the stream.
func TestBadRestores(t *testing.T) {
	path, _ := created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	good := backup(t, v)
	e := open(t, filepath.Join(t.TempDir(), "vault.db"))
	for at := 0; at < len(good); at += len(good)/40 + 1 {
		flipped := bytes.Clone(good)
		flipped[at] ^= 1
		for name, b := range map[string][]byte{"cut": good[:at], "flipped": flipped} {
			// A byte of the header may be one of the passphrase's own slot.
			if _, err := restore(t, e, b, key()); !errors.Is(err, vault.ErrInvalid) && !errors.Is(err, vault.ErrWrongKey) {
				t.Errorf("%s at %d: %v", name, at, err)
			}
		}
	}
	w, err := vault.Open(t.Context(), e)
	if err != nil || w.State() != vault.Absent {
		t.Fatalf("%v, %v", w.State(), err)
	}
	if _, err := w.Restore(t.Context(), bytes.NewReader(good), key(), vault.RestoreOptions{Limit: 5000}, nil); !errors.Is(err, vault.ErrInvalid) {
		t.Errorf("over the limit: %v", err)
	}
	for name, tt := range map[string]struct {
		spoil string
		want  error
	}{
		"newer schema": {`INSERT INTO goose_db_version (version_id, is_applied) VALUES (20990101000000, 1)`, store.ErrNewer},
		"trigger":      {`CREATE TRIGGER t AFTER INSERT ON outbox BEGIN DELETE FROM outbox; END`, vault.ErrInvalid},
		"row gone":     {`DELETE FROM vault_rows WHERE class = 'credential'`, vault.ErrInvalid},
		"table gone":   {`DROP TABLE actions`, vault.ErrInvalid},
		"no reference": {`PRAGMA foreign_keys = OFF; INSERT INTO epochs VALUES ('e', 'nobody', 'live', 1, 0, NULL)`, vault.ErrInvalid},
	} {
		path, _ := created(t)
		d := open(t, path)
		v := unlocked(t, d, key())
		sqlite(t, path, func(db *sql.DB) { run(t, db, tt.spoil) })
		if _, err := restore(t, e, backup(t, v), key()); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rows, base, err := e.Load(t.Context()); err != nil || len(rows) != 0 || base != 0 {
		t.Errorf("V16 half stored: %d rows, counter %d, %v", len(rows), base, err)
	}
	if w, err = restore(t, e, good, key()); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	if err := w.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	readable(t, w)
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) > 3 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// A backup's boxes open however many generations have come since: the keys remember fewer.
func TestRestoreOften(t *testing.T) {
	path, _ := scene(t)
	d, v, err := opened(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 40 {
		if err := restoreOnce(t.Context(), path, v); err != nil {
			t.Fatal(err)
		}
	}
	if got := boxesOf(t, d, v); got != boxesWanted {
		t.Errorf("boxes: %s", got)
	}
}
