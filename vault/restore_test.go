package vault_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"sallyport/vault"
)

func backup(t testing.TB, v *vault.Vault) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := v.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func restore(t testing.TB, v *vault.Vault, b []byte, k vault.Key, o vault.RestoreOptions) (vault.Moved, error) {
	t.Helper()
	return v.Restore(t.Context(), bytes.NewReader(b), k, o, nil)
}

const roomy = 1 << 20

// TestRestoreElsewhere: V09 without its database: every key of the vault opens
// the backup where there was no vault.
func TestRestoreElsewhere(t *testing.T) {
	m := newMemory()
	v, recovery, keychain := furnished(t, m)
	b := backup(t, v)
	if bytes.Contains(b, []byte("counter")) || bytes.Contains(b, []byte("manifest")) {
		t.Error("the database is readable in the backup")
	}
	was := v.Snapshot().Counter
	for name, k := range map[string]vault.Key{"passphrase": key(), "recovery": recovery, "keychain": keychain} {
		n := newMemory()
		n.boxes = map[string][]byte{"row": m.boxes["row"], "spoilt": m.boxes["spoilt"]}
		w := open(t, n)
		got, err := w.Restore(t.Context(), bytes.NewReader(b), k, vault.RestoreOptions{Limit: roomy}, func(vault.Moved) ([]byte, error) { return []byte("batch"), nil })
		if err != nil || got.Generation != 2 || got.Counter != was+1 || w.State() != vault.Locked || len(n.batches) != 1 {
			t.Fatalf("%s: %+v, %v, %v", name, got, err, w.State())
		}
		for other, k := range map[string]vault.Key{"passphrase": key(), "recovery": recovery, "keychain": keychain} {
			w := open(t, n)
			if err := w.Unlock(t.Context(), k); err != nil {
				t.Fatalf("restored by %s, opened by %s: %v", name, other, err)
			}
			whole(t, w, n)
			if s := w.Snapshot(); s.Generation != 2 || s.Counter != was+1 || len(w.Slots()) != 3 || len(w.Forged()) != 0 {
				t.Errorf("%+v, %v, forged %v", s, w.Slots(), w.Forged())
			}
		}
	}
	if err := v.Check(t.Context(), key()); err != nil || v.State() != vault.Ready {
		t.Errorf("the vault itself: %v, %v", err, v.State())
	}
	v.Lock()
	if _, err := v.Backup(t.Context(), io.Discard); !errors.Is(err, vault.ErrLocked) {
		t.Errorf("backup of a locked vault: %v", err)
	}
}

// TestRestoreOver: over a vault that went on, was rekeyed, got another
// passphrase, or is quarantined.
func TestRestoreOver(t *testing.T) {
	m := newMemory()
	v, recovery, _ := furnished(t, m)
	b := backup(t, v)
	o := vault.RestoreOptions{Limit: roomy}
	if _, err := restore(t, v, b, key(), o); !errors.Is(err, vault.ErrExists) || v.State() != vault.Ready {
		t.Fatalf("over an open vault: %v", err)
	}
	add(t, v, "later", "x")
	if _, err := v.Rekey(t.Context(), []vault.Key{key()}, vault.CreateOptions{WorkFactor: 10}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.ChangePassphrase(t.Context(), key(), pass("later one"), vault.CreateOptions{WorkFactor: 10}, nil); err != nil {
		t.Fatal(err)
	}
	late, err := v.Seal("own", nil, []byte("after the backup"))
	if err != nil {
		t.Fatal(err)
	}
	counter := v.Snapshot().Counter
	seen, err := v.Seal("own", []byte("x"), []byte("seen"))
	if err != nil {
		t.Fatal(err)
	}
	v.Quarantine("for a test")
	for name, tt := range map[string]struct {
		k, proof vault.Key
		want     error
	}{
		"the backup's passphrase alone":  {key(), vault.Key{}, vault.ErrWrongKey},
		"the present passphrase alone":   {pass("later one"), vault.Key{}, vault.ErrWrongKey},
		"wrong for the backup":           {pass("wrong"), pass("later one"), vault.ErrWrongKey},
		"wrong for the one that's there": {key(), pass("wrong"), vault.ErrWrongKey},
	} {
		p := o
		p.Proof = tt.proof
		opens := name == "the backup's passphrase alone" || name == "wrong for the one that's there"
		if _, err := v.CheckBackup(t.Context(), bytes.NewReader(b), tt.k); opens != (err == nil) || !opens && !errors.Is(err, vault.ErrWrongKey) {
			t.Errorf("%s: its header: %v", name, err)
		}
		if _, err := restore(t, v, b, tt.k, p); !errors.Is(err, tt.want) || v.State() != vault.Quarantined || m.counter != counter {
			t.Errorf("%s: %v, %v", name, err, v.State())
		}
	}
	o.Proof, o.Floor = pass("later one"), func(unseal func(use string, ad, box []byte) ([]byte, error)) (uint64, error) {
		if b, err := unseal("own", []byte("x"), seen); string(b) != "seen" || err != nil {
			t.Errorf("its own box: %q, %v", b, err)
		}
		return counter + 100, nil
	}
	got, err := restore(t, v, b, key(), o)
	if err != nil || got.Counter != counter+101 || got.Generation != 3 || v.State() != vault.Locked {
		t.Fatalf("%+v, %v, %v", got, err, v.State())
	}
	if err := v.Unlock(t.Context(), pass("later one")); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("the passphrase that the backup didn't have: %v", err)
	}
	if err := v.Unlock(t.Context(), recovery); err != nil {
		t.Fatal(err)
	}
	whole(t, v, m)
	if _, ok := v.Snapshot().Credential("later"); ok {
		t.Error("what came after the backup is there")
	}
	if got, err := v.Unseal("own", nil, late); string(got) != "after the backup" || err != nil {
		t.Errorf("a box that the log holds since: %q, %v", got, err)
	}
	if a := add(t, v, "next", "y"); a.Version <= counter {
		t.Errorf("version %d could be of before", a.Version)
	}
	// One key for both is enough.
	b = backup(t, v)
	v.Lock()
	if _, err := restore(t, v, b, recovery, vault.RestoreOptions{Limit: roomy}); err != nil {
		t.Errorf("by recovery: %v", err)
	}
	other, _, _ := furnished(t, newMemory())
	foreign := backup(t, other)
	if _, err := restore(t, v, foreign, key(), vault.RestoreOptions{Limit: roomy}); !errors.Is(err, vault.ErrOther) {
		t.Errorf("another vault's backup: %v", err)
	}
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	whole(t, v, m)
}

// TestBadBackups: V16. Nothing but a whole backup is taken, and nothing is
// half taken.
func TestBadBackups(t *testing.T) {
	m := newMemory()
	v, _, _ := furnished(t, m)
	good := backup(t, v)
	try := func(name string, r io.Reader, limit int64, want error) {
		t.Helper()
		n := newMemory()
		w := open(t, n)
		_, err := w.Restore(t.Context(), r, key(), vault.RestoreOptions{Limit: limit}, func(vault.Moved) ([]byte, error) { return []byte("batch"), nil })
		if !errors.Is(err, want) || err == nil {
			t.Errorf("%s: %v", name, err)
		}
		if w.State() != vault.Absent || len(n.rows)+len(n.batches) != 0 || n.counter != 0 {
			t.Errorf("%s: something was stored", name)
		}
	}
	flip := func(at int) io.Reader {
		b := bytes.Clone(good)
		b[at] ^= 1
		return bytes.NewReader(b)
	}
	try("empty", bytes.NewReader(nil), roomy, vault.ErrInvalid)
	try("text", bytes.NewReader(bytes.Repeat([]byte("x"), 10_000)), roomy, vault.ErrInvalid)
	try("trailing byte", io.MultiReader(bytes.NewReader(good), bytes.NewReader([]byte{0})), roomy, vault.ErrInvalid)
	try("two of them", bytes.NewReader(append(bytes.Clone(good), good...)), roomy, vault.ErrInvalid)
	try("limit 0", bytes.NewReader(good), 0, vault.ErrInvalid)
	try("over the limit", bytes.NewReader(good), 1000, vault.ErrInvalid)
	try("flipped in the body", flip(len(good)-20), roomy, vault.ErrInvalid)
	for cut := 0; cut < len(good); cut += 97 {
		try("cut", bytes.NewReader(good[:cut]), roomy, vault.ErrInvalid)
	}
	slot := m.rows[slotOf(t, v, vault.PassphraseSlot).ID]
	try("a slot", bytes.NewReader(slot.Data), roomy, vault.ErrInvalid)
	// A header without an end must not fill the memory.
	endless := &counted{r: io.MultiReader(bytes.NewReader([]byte("age-encryption.org/v1\n-> X ")), letters{})}
	try("endless header", endless, roomy, vault.ErrInvalid)
	if endless.n > 1<<20 {
		t.Errorf("an endless header was read for %d bytes", endless.n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := newMemory()
	if _, err := open(t, n).Restore(ctx, bytes.NewReader(good), key(), vault.RestoreOptions{Limit: roomy}, nil); !errors.Is(err, context.Canceled) || len(n.rows) != 0 {
		t.Errorf("cancelled: %v", err)
	}
	w := open(t, n)
	if _, err := restore(t, w, good, key(), vault.RestoreOptions{Limit: roomy}); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// TestBadDatabaseInBackup: the stream is whole, what it holds is not.
func TestBadDatabaseInBackup(t *testing.T) {
	for name, spoil := range map[string]func(m *memory){
		"a row gone": func(m *memory) {
			for id, r := range m.rows {
				if r.Table == "credential" {
					delete(m.rows, id)
				}
			}
		},
		"a counter":    func(m *memory) { m.counter++ },
		"no rows":      func(m *memory) { m.rows = nil },
		"other's rows": func(m *memory) { o := newMemory(); furnished(t, o); m.rows = o.rows },
	} {
		m := newMemory()
		v, _, _ := furnished(t, m)
		spoil(m)
		b := backup(t, v)
		n := newMemory()
		w := open(t, n)
		if _, err := restore(t, w, b, key(), vault.RestoreOptions{Limit: roomy}); !errors.Is(err, vault.ErrInvalid) || w.State() != vault.Absent || len(n.rows) != 0 {
			t.Errorf("%s: %v, %v", name, err, w.State())
		}
	}
	// Rows that nobody with the DEK wrote are left behind.
	m := newMemory()
	v, _, _ := furnished(t, m)
	m.rows["forged"] = vault.Row{ID: "forged", Table: "credential", Version: 1, Data: []byte("x")}
	n := newMemory()
	w := open(t, n)
	if _, err := restore(t, w, backup(t, v), key(), vault.RestoreOptions{Limit: roomy}); err != nil {
		t.Fatal(err)
	}
	if _, there := n.rows["forged"]; there {
		t.Error("a forged row was restored")
	}
}

// TestRestoreFaults: failed, and written all the same.
func TestRestoreFaults(t *testing.T) {
	m := newMemory()
	v, _, _ := furnished(t, m)
	b := backup(t, v)
	n := newMemory()
	w := open(t, n)
	n.fail(false, true)
	if _, err := restore(t, w, b, key(), vault.RestoreOptions{Limit: roomy}); !errors.Is(err, errDisk) || w.State() != vault.Locked {
		t.Errorf("a lost answer: %v, %v", err, w.State())
	}
	n.fail(false, false)
	if err := w.Unlock(t.Context(), key()); err != nil {
		t.Errorf("after a lost answer: %v", err)
	}
	w.Lock()
	n.spoil = func(rows []vault.Row) { rows[len(rows)/2].Data[40] ^= 1 }
	counter := n.counter
	if _, err := restore(t, w, b, key(), vault.RestoreOptions{Limit: roomy}); err == nil || n.counter != counter || w.State() != vault.Locked {
		t.Errorf("a spoilt copy: %v, counter %d", err, n.counter)
	}
	n.spoil = nil
	if err := w.Unlock(t.Context(), key()); err != nil {
		t.Errorf("the one that was there: %v", err)
	}
}

// letters never end.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}
