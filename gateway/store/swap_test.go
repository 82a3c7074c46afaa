package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/gateway/store"
	"sallyport/vault"
)

var quick = vault.CreateOptions{WorkFactor: 10}

func key() vault.Key { return vault.Passphrase([]byte(passphrase)) }

// unlocked opens the vault in d.
func unlocked(t testing.TB, d *store.DB, k vault.Key) *vault.Vault {
	t.Helper()
	v, err := vault.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Unlock(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return v
}

// peopled writes a run, an epoch, a grant, two actions, two batches and an
// anchor, sealed by v as the store asks for.
func peopled(t testing.TB, d *store.DB, v *vault.Vault) {
	t.Helper()
	box := func(use, ad, plain string) []byte {
		b, err := v.Seal(use, []byte(ad), []byte(plain))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	at := time.Unix(1000, 0)
	id := [16]byte{7}
	err := d.Change(t.Context(), func(tx *store.Tx) error {
		return errors.Join(
			tx.PutRun(store.Run{ID: "run_1", State: "active", Opened: at, Changed: at, Sealed: box(store.UseRun, "run_1", "the run")}),
			tx.PutEpoch(store.Epoch{ID: "ep_1", Run: "run_1", State: "live", Opened: at, Sealed: box(store.UseEpoch, "ep_1", "the epoch")}),
			tx.PutGrant(store.Grant{ID: "gr_1", Run: "run_1", Epoch: "ep_1", State: "live", Issued: at, Sealed: box(store.UseGrant, "gr_1", "the grant")}),
			tx.Outbox(store.Batch{ID: id, Sealed: true, Body: box(store.UseBatch, string(id[:]), "sealed batch")}),
			tx.Outbox(store.Batch{ID: [16]byte{8}, Body: []byte("clear batch")}))
	})
	err = errors.Join(err,
		d.Redo(t.Context(), 9, []store.Action{
			{ID: "act_1", Run: "run_1", Seq: 8, Sealed: box(store.UseAction, "act_1", "the action")},
			{ID: "act_2", Run: "run_1", Seq: 9, Unresolved: true, Sealed: []byte("spoilt")}}),
		d.SetAnchor(t.Context(), 9, []byte("head"), box(store.UseAnchor, "", "the anchor")))
	if err != nil {
		t.Fatal(err)
	}
}

// boxesOf opens every box that peopled sealed.
func boxesOf(t testing.TB, d *store.DB, v *vault.Vault) string {
	t.Helper()
	var out []string
	open := func(use, ad string, box []byte) {
		plain, err := v.Unseal(use, []byte(ad), box)
		if err != nil {
			plain = []byte(err.Error())
		}
		out = append(out, string(plain))
	}
	runs, err1 := d.Runs(t.Context())
	epochs, err2 := d.Epochs(t.Context(), "run_1")
	grants, err3 := d.Grants(t.Context(), "run_1")
	acts, err4 := d.Actions(t.Context(), "", 10)
	batches, err5 := d.Pending(t.Context())
	_, _, anchor, err6 := d.Anchor(t.Context())
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		open(store.UseRun, r.ID, r.Sealed)
	}
	for _, e := range epochs {
		open(store.UseEpoch, e.ID, e.Sealed)
	}
	for _, g := range grants {
		open(store.UseGrant, g.ID, g.Sealed)
	}
	for _, a := range acts {
		if a.ID == "act_1" {
			open(store.UseAction, a.ID, a.Sealed)
		} else {
			out = append(out, string(a.Sealed))
		}
	}
	for _, b := range batches {
		if b.Sealed {
			open(store.UseBatch, string(b.ID[:]), b.Body)
		} else {
			out = append(out, string(b.Body))
		}
	}
	open(store.UseAnchor, "", anchor)
	return strings.Join(out, ", ")
}

const boxesWanted = "the run, the epoch, the grant, spoilt, the action, sealed batch, clear batch, the anchor"

// alone fails if anything but the database lies in its folder.
func alone(t *testing.T, path string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return f == path || f == path+"-wal" || f == path+"-shm" })
	if len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("mode of the database: %v, %v", i.Mode(), err)
	}
}

func TestRekeyDatabase(t *testing.T) {
	path, recovery := created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	peopled(t, d, v)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var oldRows []row
	sqlite(t, path, func(db *sql.DB) { oldRows = rowsOf(t, db, "credential") })
	also := store.Batch{ID: [16]byte{9}, Body: []byte("rekeyed")}
	m, err := v.Rekey(t.Context(), []vault.Key{key()}, quick, also.Bytes())
	if err != nil || m.Generation != 2 || m.Resealed != 6 || m.Unreadable != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	alone(t, path)
	want := strings.Replace(boxesWanted, "clear batch", "clear batch, rekeyed", 1)
	check := func(d *store.DB, v *vault.Vault) {
		t.Helper()
		readable(t, v)
		if got := boxesOf(t, d, v); got != want {
			t.Errorf("boxes: %s", got)
		}
		g, err := d.Grants(t.Context(), "run_1")
		if err != nil || g[0].State != "live" || !g[0].Ended.IsZero() {
			t.Errorf("a rekey ended a grant: %+v, %v", g, err)
		}
		if seq, err := d.Applied(t.Context()); seq != 9 || err != nil {
			t.Errorf("applied %d, %v", seq, err)
		}
	}
	check(d, v)
	if _, err := v.Rotate(t.Context(), "alpha", []byte("value of alpha"), nil); err != nil {
		t.Errorf("a change after: %v", err)
	}
	v.Lock()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, path)
	for name, k := range map[string]vault.Key{"passphrase": key(), "recovery": vault.Recovery(recovery)} {
		v := unlocked(t, d, k)
		check(d, v)
		if len(v.Forged()) != 0 {
			t.Errorf("%s: forged %v", name, v.Forged())
		}
	}
	// Neither the old rows' bytes nor what the old file's key opens are in the new file.
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range oldRows {
		if len(r.data) < 80 || bytes.Contains(now, r.data[len(r.data)-40:]) {
			t.Errorf("row %s of the old key is in the new file", r.id)
		}
	}
	before := filepath.Join(t.TempDir(), "old.db")
	if err := os.WriteFile(before, old, 0o600); err != nil {
		t.Fatal(err)
	}
	w := unlocked(t, open(t, before), key())
	if got := boxesOf(t, d, w); strings.Contains(got, "the ") || strings.Contains(got, "sealed batch") {
		t.Errorf("the old key opens boxes of the new file: %s", got)
	}
}

// TestSwapWaits: nobody's change is lost in a swap, and reads go on meanwhile.
func TestSwapWaits(t *testing.T) {
	path, _ := created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	building, read := make(chan struct{}), make(chan struct{})
	result, changed := make(chan error, 1), make(chan error, 1)
	go func() {
		result <- d.Swap(t.Context(), vault.Swap{
			Edit: func(rows []vault.Row, base uint64) ([]vault.Row, uint64, error) {
				close(building)
				<-read
				return rows, base, nil
			},
			Reseal: func(_ string, _, box []byte) ([]byte, error) { return box, nil },
			Verify: func([]vault.Row, uint64) error { return nil },
		})
	}()
	select {
	case <-building:
	case err := <-result:
		t.Fatal(err)
	}
	go func() {
		changed <- d.Change(context.Background(), func(tx *store.Tx) error {
			return tx.PutRun(store.Run{ID: "run_2", State: "revoked", Opened: time.Unix(1, 0), Changed: time.Unix(1, 0)})
		})
	}()
	if _, base, err := d.Load(t.Context()); err != nil || base == 0 {
		t.Errorf("a read while the new database is built: %d, %v", base, err)
	}
	select {
	case err := <-changed:
		t.Errorf("a change went into the old database: %v", err)
	default:
	}
	close(read)
	if err := errors.Join(<-result, <-changed); err != nil {
		t.Fatal(err)
	}
	if runs, err := d.Runs(t.Context()); err != nil || len(runs) != 1 || runs[0].State != "revoked" {
		t.Errorf("the change that waited: %+v, %v", runs, err)
	}
	readable(t, v)
	alone(t, path)
}

// TestSwapRefusals: whatever goes wrong, the database stays and works.
func TestSwapRefusals(t *testing.T) {
	path, _ := created(t)
	d := open(t, path)
	v := unlocked(t, d, key())
	peopled(t, d, v)
	no := errors.New("no")
	good := vault.Swap{
		Edit:   func(rows []vault.Row, base uint64) ([]vault.Row, uint64, error) { return nil, base + 1, nil },
		Reseal: func(_ string, _, box []byte) ([]byte, error) { return box, nil },
		Verify: func([]vault.Row, uint64) error { return nil },
	}
	for name, tt := range map[string]struct {
		change func(*vault.Swap)
		want   error
	}{
		"edit": {func(s *vault.Swap) {
			s.Edit = func([]vault.Row, uint64) ([]vault.Row, uint64, error) { return nil, 0, no }
		}, no},
		"verify":    {func(s *vault.Swap) { s.Verify = func([]vault.Row, uint64) error { return no } }, no},
		"batch":     {func(s *vault.Swap) { s.Also = func() ([]byte, error) { return []byte("no batch"), nil } }, store.ErrInvalid},
		"no stream": {func(s *vault.Swap) { s.From, s.Limit = strings.NewReader(""), 100 }, store.ErrInvalid},
		"text":      {func(s *vault.Swap) { s.From, s.Limit = strings.NewReader(strings.Repeat("no database. ", 500)), 1<<20 }, store.ErrInvalid},
		"too long":  {func(s *vault.Swap) { s.From, s.Limit = strings.NewReader("abc"), 2 }, store.ErrInvalid},
		"broken":    {func(s *vault.Swap) { s.From, s.Limit = io.MultiReader(strings.NewReader("abc"), broken{no}), 100 }, no},
		"context":   {func(s *vault.Swap) { s.From, s.Limit = broken{context.Canceled}, 100 }, context.Canceled},
	} {
		s := good
		tt.change(&s)
		if err := d.Swap(t.Context(), s); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		alone(t, path)
		readable(t, v)
		if got := boxesOf(t, d, v); got != boxesWanted {
			t.Errorf("%s: boxes %s", name, got)
		}
		if err := d.SetAnchor(t.Context(), 1, nil, nil); err != nil {
			t.Errorf("%s: a change after: %v", name, err)
		}
	}
	// Somebody has the database open: its WAL would be taken for the new one's.
	sqlite(t, path, func(db *sql.DB) {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM runs`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if err := d.SetAnchor(t.Context(), 10, []byte("later"), nil); err != nil {
			t.Fatal(err)
		}
		if err := d.Swap(t.Context(), good); err == nil {
			t.Error("replaced a database that another program reads")
		}
	})
	alone(t, path)
	if seq, _, _, err := d.Anchor(t.Context()); seq != 10 || err != nil {
		t.Errorf("anchor %d, %v", seq, err)
	}
	readable(t, v)
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// TestLeftovers: what a killed swap left is gone after the next Open.
func TestLeftovers(t *testing.T) {
	path, _ := created(t)
	for _, suffix := range []string{".next", ".next-wal", ".next-shm", ".copy", ".copy-journal"} {
		if err := os.WriteFile(path+suffix, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, path)
	alone(t, path)
	readable(t, unlocked(t, d, key()))
}
