package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/gateway/store"
	"sallyport/vault"
)

func TestOpenPrivate(t *testing.T) {
	for _, name := range []string{"vault.db", "we?ird %41#name & more=1.db"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		d := open(t, path)
		if err := d.SetAnchor(t.Context(), 5, []byte("head"), nil); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), name) {
				t.Errorf("%q made the file %q", name, f.Name())
			}
			if i, err := f.Info(); err != nil || i.Mode().Perm() != 0o600 {
				t.Errorf("mode of %q: %v, %v", f.Name(), i.Mode(), err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		d = open(t, path)
		if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("mode of a reopened file: %v, %v", i.Mode(), err)
		}
		if seq, head, _, err := d.Anchor(t.Context()); seq != 5 || string(head) != "head" || err != nil {
			t.Errorf("anchor after reopening: %d, %q, %v", seq, head, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real.db")
	open(t, real)
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database. "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, text, dir, filepath.Join(dir, "absent", "vault.db")} {
		if d, err := store.Open(t.Context(), path); err == nil {
			d.Close()
			t.Errorf("opened %s", path)
		}
	}
	if b, err := os.ReadFile(text); err != nil || !bytes.HasPrefix(b, []byte("no database")) {
		t.Errorf("refused file was changed: %v", err)
	}
}

// TestPragmas looks at the settings from inside, on the writing connection.
func TestPragmas(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "vault.db"))
	for _, tt := range []struct{ name, write, read string }{
		{"journal_mode", "wal", "wal"},
		{"synchronous", "2", "2"},
		{"secure_delete", "1", "1"},
		{"foreign_keys", "1", "1"},
		{"query_only", "0", "1"},
		{"busy_timeout", "5000", "5000"},
	} {
		w, r := store.Pragma(t.Context(), d, tt.name)
		if w != tt.write || r != tt.read {
			t.Errorf("%s is %s in writing and %s in reading, want %s and %s", tt.name, w, r, tt.write, tt.read)
		}
	}
	tables, err := store.Tables(t.Context(), d)
	if err != nil || len(tables) < 8 {
		t.Fatalf("tables %v, %v", tables, err)
	}
	for name, def := range tables {
		if !strings.HasSuffix(def, "STRICT") {
			t.Errorf("table %s is not STRICT", name)
		}
	}
}

// TestNewer: V10.
func TestNewer(t *testing.T) {
	path, _ := created(t)
	sqlite(t, path, func(db *sql.DB) {
		run(t, db, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (20990101000000, 1)`)
		run(t, db, `PRAGMA wal_checkpoint(TRUNCATE)`)
	})
	sum := func() [32]byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(b)
	}
	before := sum()
	for range 2 {
		if _, err := store.Open(t.Context(), path); !errors.Is(err, store.ErrNewer) {
			t.Fatalf("newer schema: %v", err)
		}
	}
	if sum() != before {
		t.Error("a refused file was changed")
	}
	if i, err := os.Stat(path + "-wal"); err == nil && i.Size() > 0 {
		t.Errorf("a refused file got a WAL of %d bytes", i.Size())
	}
	sqlite(t, path, func(db *sql.DB) { run(t, db, `DELETE FROM goose_db_version WHERE version_id = 20990101000000`) })
	v, err := vault.Open(t.Context(), open(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Unlock(t.Context(), vault.Passphrase([]byte(passphrase))); err != nil {
		t.Fatal(err)
	}
	readable(t, v)
}

// TestTriggerRefused: a trigger that would keep events from the log.
func TestTriggerRefused(t *testing.T) {
	for _, def := range []string{
		`CREATE TRIGGER quiet AFTER INSERT ON outbox BEGIN DELETE FROM outbox; END`,
		`CREATE VIEW other AS SELECT * FROM runs`,
	} {
		path, _ := created(t)
		sqlite(t, path, func(db *sql.DB) { run(t, db, def) })
		if _, err := store.Open(t.Context(), path); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", def, err)
		}
	}
}

// TestCommitAtomic makes one statement after the other fail inside the
// transaction and checks that nothing of it stays.
func TestCommitAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vault.db")
	d := open(t, path)
	old := []vault.Row{{ID: "a", Table: "x", Version: 1, Data: []byte("a1")}, {ID: "b", Table: "x", Version: 1, Data: []byte("b1")}}
	if err := d.Commit(t.Context(), 0, old, nil, nil); err != nil {
		t.Fatal(err)
	}
	put := []vault.Row{{ID: "a", Table: "x", Version: 2, Data: []byte("a2")}, {ID: "c", Table: "x", Version: 2, Data: []byte("c2")}}
	also := store.Batch{ID: [16]byte{1}, Body: []byte("event")}.Bytes()
	unchanged := func(why string) {
		t.Helper()
		rows, base, err := d.Load(t.Context())
		if err != nil || base != 1 || !reflect.DeepEqual(rows, old) {
			t.Errorf("%s: counter %d, rows %v, %v", why, base, rows, err)
		}
		if p, err := d.Pending(t.Context()); err != nil || len(p) != 0 {
			t.Errorf("%s: outbox %v, %v", why, p, err)
		}
	}
	for _, at := range []string{"UPDATE ON vault_counter", "DELETE ON vault_rows", "UPDATE ON vault_rows", "INSERT ON vault_rows", "INSERT ON outbox"} {
		for _, when := range []string{"BEFORE", "AFTER"} {
			sqlite(t, path, func(db *sql.DB) {
				run(t, db, `CREATE TRIGGER fault `+when+` `+at+` BEGIN SELECT RAISE(ABORT, 'fault'); END`)
			})
			if err := d.Commit(t.Context(), 1, put, []string{"b"}, also); err == nil || !strings.Contains(err.Error(), "fault") {
				t.Errorf("%s %s: %v", when, at, err)
			}
			sqlite(t, path, func(db *sql.DB) { run(t, db, `DROP TRIGGER fault`) })
			unchanged(when + " " + at)
		}
	}
	for _, base := range []uint64{0, 2, 1 << 63} {
		if err := d.Commit(t.Context(), base, put, []string{"b"}, also); err == nil {
			t.Errorf("base %d was taken", base)
		} else if base < 1<<63 && !errors.Is(err, vault.ErrConflict) {
			t.Errorf("base %d: %v", base, err)
		}
	}
	if err := d.Commit(t.Context(), 1, put, []string{"absent"}, also); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("drop of an absent row: %v", err)
	}
	if err := d.Commit(t.Context(), 1, []vault.Row{{ID: "a", Table: "other", Data: []byte{}}}, nil, nil); !errors.Is(err, vault.ErrConflict) {
		t.Errorf("row moved to another table: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Commit(ctx, 1, put, []string{"b"}, also); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	func() {
		defer func() { recover() }()
		d.Change(t.Context(), func(tx *store.Tx) error {
			tx.Outbox(store.Batch{ID: [16]byte{9}})
			panic("in the middle")
		})
	}()
	unchanged("refusals")
	if err := d.Commit(t.Context(), 1, put, []string{"b"}, also); err != nil {
		t.Fatal(err)
	}
	rows, base, err := d.Load(t.Context())
	if err != nil || base != 2 || !reflect.DeepEqual(rows, put) {
		t.Errorf("counter %d, rows %v, %v", base, rows, err)
	}
}

// TestBound: what Commit takes Load can read; what somebody else put there it
// refuses.
func TestBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vault.db")
	d := open(t, path)
	sqlite(t, path, func(db *sql.DB) {
		run(t, db, `INSERT INTO vault_rows VALUES ('00', 'slot', 1, zeroblob(67108864 - 6))`)
	})
	if _, _, err := d.Load(t.Context()); err != nil {
		t.Fatalf("64 MiB of rows: %v", err)
	}
	one := []vault.Row{{ID: "1", Table: "x", Data: []byte{}}}
	if err := d.Commit(t.Context(), 0, one, nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("a row above 64 MiB: %v", err)
	}
	sqlite(t, path, func(db *sql.DB) { run(t, db, `INSERT INTO vault_rows VALUES ('1', 'x', 1, x'')`) })
	if _, _, err := d.Load(t.Context()); !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("more than 64 MiB of rows: %v", err)
	}
	if err := d.Commit(t.Context(), 0, nil, []string{"00"}, nil); err != nil {
		t.Fatalf("making room: %v", err)
	}
}

func TestBatch(t *testing.T) {
	for _, b := range []store.Batch{
		{ID: [16]byte{1}, Body: []byte{}},
		{ID: [16]byte{255, 15: 3}, Sealed: true, Body: []byte("body")},
	} {
		got, err := store.ParseBatch(b.Bytes())
		if err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("%v came back as %v, %v", b, got, err)
		}
	}
	good := store.Batch{ID: [16]byte{1}}.Bytes()
	for _, bad := range [][]byte{nil, {}, good[:17], append([]byte{2}, good[1:]...), append([]byte{1, 2}, good[2:]...), make([]byte, 19+1<<20)} {
		if _, err := store.ParseBatch(bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

func FuzzParseBatch(f *testing.F) {
	f.Add(store.Batch{ID: [16]byte{1}, Sealed: true, Body: []byte("body")}.Bytes())
	f.Add([]byte{1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := store.ParseBatch(b); err == nil && !bytes.Equal(p.Bytes(), b) {
			t.Errorf("%x printed as %x", b, p.Bytes())
		}
	})
}

func TestOutbox(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "vault.db"))
	add := func(n byte) error {
		return d.Change(t.Context(), func(tx *store.Tx) error {
			return tx.Outbox(store.Batch{ID: [16]byte{n}, Sealed: n%2 == 1, Body: []byte{n}})
		})
	}
	for _, n := range []byte{9, 1, 5} {
		if err := add(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(5); err == nil {
		t.Error("the same batch twice")
	}
	if err := add(0); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("no id: %v", err)
	}
	for range 2 {
		if err := d.Logged(t.Context(), [16]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(3); err != nil {
		t.Fatal(err)
	}
	p, err := d.Pending(t.Context())
	if err != nil || len(p) != 3 || p[0].Body[0] != 9 || p[1].Body[0] != 5 || p[2].Body[0] != 3 || !p[0].Sealed {
		t.Errorf("pending %v, %v", p, err)
	}
}

// TestConcurrent has writers and readers at once: each write is counted once.
func TestConcurrent(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "vault.db"))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 10 {
				err := d.Change(t.Context(), func(tx *store.Tx) error {
					return tx.Outbox(store.Batch{ID: [16]byte{byte(w + 1), byte(i)}})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			last := 0
			for range 50 {
				p, err := d.Pending(t.Context())
				if err != nil || len(p) < last {
					t.Errorf("%d batches after %d, %v", len(p), last, err)
				}
				last = len(p)
			}
		})
	}
	wg.Wait()
	if p, err := d.Pending(t.Context()); err != nil || len(p) != 40 {
		t.Errorf("%d batches, %v", len(p), err)
	}
}

func TestRuns(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "vault.db"))
	at := time.Unix(1700000000, 123456789).UTC()
	later := at.Add(time.Hour)
	change := func(f func(*store.Tx) error) error { return d.Change(t.Context(), f) }
	put := func(r store.Run) error { return change(func(tx *store.Tx) error { return tx.PutRun(r) }) }
	set := func(id, from, to string) error {
		return change(func(tx *store.Tx) error { return tx.SetRun(id, from, to, later) })
	}
	for _, s := range []struct {
		what string
		err  error
		want error
	}{
		{"first seen while locked", put(store.Run{ID: "run_1", State: "pending", Opened: at, Changed: at}), nil},
		{"filled in", put(store.Run{ID: "run_1", State: "pending", Opened: at, Changed: at, Sealed: []byte("s")}), nil},
		{"put again without its sealed part", put(store.Run{ID: "run_1", State: "pending", Opened: at, Changed: at}), nil},
		{"wrong from", set("run_1", "active", "ended"), store.ErrConflict},
		{"revoke", set("run_1", "pending", "revoked"), nil},
		{"revived by put", put(store.Run{ID: "run_1", State: "active", Opened: at, Changed: at}), store.ErrConflict},
		{"revoked twice", set("run_1", "pending", "revoked"), store.ErrConflict},
		{"absent", set("run_9", "pending", "revoked"), store.ErrConflict},
		{"second", put(store.Run{ID: "run_2", State: "pending", Opened: at}), nil},
	} {
		if !errors.Is(s.err, s.want) {
			t.Errorf("%s: %v, want %v", s.what, s.err, s.want)
		}
	}
	want := []store.Run{
		{ID: "run_1", State: "revoked", Opened: at, Changed: later, Sealed: []byte("s")},
		{ID: "run_2", State: "pending", Opened: at},
	}
	if got, err := d.Runs(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("runs %+v, %v", got, err)
	}
	if err := put(store.Run{State: "pending"}); err == nil {
		t.Error("a run without id")
	}
}

func TestEpochsAndGrants(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "vault.db"))
	at := time.Unix(1700000000, 0).UTC()
	later := at.Add(time.Hour)
	change := func(f func(*store.Tx) error) error { return d.Change(t.Context(), f) }
	grant := func(id string) store.Grant {
		return store.Grant{ID: id, Run: "run_1", Epoch: "ep_1", State: "live", Issued: at, Sealed: []byte(id)}
	}
	if err := change(func(tx *store.Tx) error { return tx.PutEpoch(store.Epoch{ID: "ep_0", Run: "run_0", State: "ready"}) }); err == nil {
		t.Error("an epoch of no run")
	}
	err := change(func(tx *store.Tx) error {
		return errors.Join(
			tx.PutRun(store.Run{ID: "run_1", State: "pending", Opened: at, Changed: at}),
			tx.PutEpoch(store.Epoch{ID: "ep_1", Run: "run_1", State: "ready", Opened: at}),
			tx.PutEpoch(store.Epoch{ID: "ep_1", Run: "run_1", State: "ready", Opened: at, Sealed: []byte("e")}),
			tx.PutEpoch(store.Epoch{ID: "ep_2", Run: "run_1", State: "ready", Opened: at}),
			tx.PutGrant(grant("gr_1")), tx.PutGrant(grant("gr_2")), tx.PutGrant(grant("gr_3")))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := change(func(tx *store.Tx) error { return tx.PutGrant(grant("gr_1")) }); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a grant given twice: %v", err)
	}
	if err := change(func(tx *store.Tx) error { return tx.EndGrant("gr_1", "revoked", later) }); err != nil {
		t.Error(err)
	}
	if err := change(func(tx *store.Tx) error { return tx.EndGrant("gr_1", "expired", later) }); !errors.Is(err, store.ErrConflict) {
		t.Errorf("ended twice: %v", err)
	}
	if err := change(func(tx *store.Tx) error { return tx.EndEpoch("ep_1", later) }); err != nil {
		t.Error(err)
	}
	if err := change(func(tx *store.Tx) error { return tx.EndEpoch("ep_1", later) }); !errors.Is(err, store.ErrConflict) {
		t.Errorf("epoch ended twice: %v", err)
	}
	for _, want := range []int64{2, 0} {
		if err := change(func(tx *store.Tx) error {
			n, err := tx.EndAllGrants("void", later)
			if n != want {
				t.Errorf("ended %d grants, want %d", n, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	gs, err := d.Grants(t.Context(), "run_1")
	if err != nil || len(gs) != 3 || gs[0].State != "revoked" || gs[1].State != "void" || !gs[2].Ended.Equal(later) || string(gs[2].Sealed) != "gr_3" {
		t.Errorf("grants %+v, %v", gs, err)
	}
	es, err := d.Epochs(t.Context(), "run_1")
	want := []store.Epoch{
		{ID: "ep_1", Run: "run_1", State: "ended", Opened: at, Ended: later, Sealed: []byte("e")},
		{ID: "ep_2", Run: "run_1", State: "ready", Opened: at},
	}
	if err != nil || !reflect.DeepEqual(es, want) {
		t.Errorf("epochs %+v, %v", es, err)
	}
	if gs, err := d.Grants(t.Context(), "run_2"); err != nil || gs != nil {
		t.Errorf("grants of nobody: %v, %v", gs, err)
	}
}

func TestActions(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "vault.db"))
	at := time.Unix(1700000000, 0).UTC()
	a1 := store.Action{ID: "act_1", Run: "run_1", Epoch: "ep_1", State: "started", Seq: 10, Started: at, Unresolved: true, Digest: []byte("d"), Sealed: []byte("s")}
	a2 := store.Action{ID: "act_2", Run: "run_2", State: "done", Outcome: "confirmed", Seq: 12, Started: at, Finished: at.Add(time.Second)}
	done := a1
	done.State, done.Outcome, done.Seq, done.Unresolved = "done", "failed_remote", 14, false
	stale := a1
	stale.Seq = 11
	redo := func(upto uint64, a ...store.Action) {
		t.Helper()
		if err := d.Redo(t.Context(), upto, a); err != nil {
			t.Fatal(err)
		}
	}
	redo(12, a1, a2)
	if u, err := d.Unresolved(t.Context()); err != nil || !reflect.DeepEqual(u, []store.Action{a1}) {
		t.Errorf("unresolved %+v, %v", u, err)
	}
	redo(15, done)
	redo(13, stale)
	if n, err := d.Applied(t.Context()); err != nil || n != 15 {
		t.Errorf("applied %d, %v", n, err)
	}
	for _, tt := range []struct {
		run   string
		limit int
		want  []store.Action
	}{
		{"", 10, []store.Action{a2, done}},
		{"", 1, []store.Action{a2}},
		{"run_1", 10, []store.Action{done}},
		{"run_3", 10, nil},
		{"", 0, nil},
		{"", -1, nil},
	} {
		if got, err := d.Actions(t.Context(), tt.run, tt.limit); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("actions of %q, %d: %+v, %v", tt.run, tt.limit, got, err)
		}
	}
	if a, ok, err := d.ActionByID(t.Context(), "act_1"); !ok || err != nil || !reflect.DeepEqual(a, done) {
		t.Errorf("act_1: %+v, %v, %v", a, ok, err)
	}
	if _, ok, err := d.ActionByID(t.Context(), "act_9"); ok || err != nil {
		t.Errorf("act_9: %v, %v", ok, err)
	}
	if u, err := d.Unresolved(t.Context()); err != nil || u != nil {
		t.Errorf("unresolved %+v, %v", u, err)
	}
	if err := d.Redo(t.Context(), 20, []store.Action{{ID: "act_3", Seq: 20}, {ID: ""}}); err == nil {
		t.Error("an action without id")
	}
	if n, err := d.Applied(t.Context()); err != nil || n != 15 {
		t.Errorf("applied %d after a refused redo, %v", n, err)
	}
	if _, ok, err := d.ActionByID(t.Context(), "act_3"); ok || err != nil {
		t.Errorf("half of a refused redo is stored: %v, %v", ok, err)
	}
}

func TestAnchor(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "vault.db"))
	if seq, head, sealed, err := d.Anchor(t.Context()); seq != 0 || head != nil || sealed != nil || err != nil {
		t.Errorf("new: %d, %v, %v, %v", seq, head, sealed, err)
	}
	for _, seq := range []uint64{7, 9, 8} {
		if err := d.SetAnchor(t.Context(), seq, []byte{byte(seq)}, []byte{byte(seq), 1}); err != nil {
			t.Fatal(err)
		}
	}
	if seq, head, sealed, err := d.Anchor(t.Context()); seq != 9 || !bytes.Equal(head, []byte{9}) || !bytes.Equal(sealed, []byte{9, 1}) || err != nil {
		t.Errorf("anchor: %d, %v, %v, %v", seq, head, sealed, err)
	}
	if err := d.SetAnchor(t.Context(), 1<<63, nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("2^63: %v", err)
	}
}
