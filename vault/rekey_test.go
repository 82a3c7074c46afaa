package vault_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"sallyport/vault"
)

// furnished is a vault with every kind of slot and entry, and a box of Seal in
// its database.
func furnished(t testing.TB, m *memory) (v *vault.Vault, recovery, keychain vault.Key) {
	t.Helper()
	v = open(t, m)
	d, err := v.Prepare(key(), vault.CreateOptions{WorkFactor: 10})
	if err != nil {
		t.Fatal(err)
	}
	recovery = vault.Recovery(d.RecoveryIdentity)
	if err := d.Commit(t.Context(), map[string][]byte{"log identity": []byte("seed")}, nil); err != nil {
		t.Fatal(err)
	}
	identity, recipient, err := vault.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	keychain = vault.Recovery(identity)
	_, err1 := v.AddSlot(t.Context(), vault.NewSlot{Kind: vault.KeychainSlot, Recipient: recipient}, key(), nil)
	_, err2 := v.AddCredential(t.Context(), vault.Meta{Name: "a", Kind: "bearer", Confirm: "click", Account: "bob", Rules: []byte("rules")}, []byte("value"), nil)
	_, err3 := v.AddHost(t.Context(), vault.Host{Name: "h", Data: []byte("host")}, nil)
	box, err4 := v.Seal("use", []byte("row"), []byte("boxed"))
	if err := errors.Join(err1, err2, err3, v.SetSetting(t.Context(), "s", []byte("doc"), nil), err4); err != nil {
		t.Fatal(err)
	}
	m.boxes = map[string][]byte{"row": box, "spoilt": []byte("not a box")}
	return v, recovery, keychain
}

// whole checks that a ready vault holds what furnished put there.
func whole(t testing.TB, v *vault.Vault, m *memory) {
	t.Helper()
	s := v.Snapshot()
	if s == nil {
		t.Fatalf("vault is %v", v.State())
	}
	c, _ := s.Credential("a")
	h, _ := s.Host("h")
	doc, _ := s.Setting("s")
	if c.Kind != "bearer" || c.Confirm != "click" || c.Account != "bob" || string(c.Rules) != "rules" || c.Version != 3 ||
		string(h.Data) != "host" || h.Version != 4 || string(doc) != "doc" {
		t.Errorf("credential %+v, host %+v, setting %q", c, h, doc)
	}
	for want, r := range map[string]vault.Ref{"value": {Name: "a", Version: 3}, "seed": {Table: vault.Internal, Name: "log identity"}} {
		if got, err := lent(t, v, r); got != want || err != nil {
			t.Errorf("%+v: %q, %v", r, got, err)
		}
	}
	if got, err := v.Unseal("use", []byte("row"), m.boxes["row"]); string(got) != "boxed" || err != nil {
		t.Errorf("stored box: %q, %v", got, err)
	}
	if string(m.boxes["spoilt"]) != "not a box" {
		t.Errorf("spoilt box: %q", m.boxes["spoilt"])
	}
}

func TestRekey(t *testing.T) {
	m := newMemory()
	v, recovery, keychain := furnished(t, m)
	outside, err := v.Seal("own", []byte("ad"), []byte("in the log"))
	if err != nil {
		t.Fatal(err)
	}
	old, slots, s := m.clone(), v.Slots(), v.Snapshot()
	got, err := v.Rekey(t.Context(), []vault.Key{key()}, vault.CreateOptions{WorkFactor: 10}, []byte("batch"))
	if err != nil || got.Generation != 2 || got.Counter != s.Counter+1 || got.Resealed != 1 || got.Unreadable != 1 || len(got.VaultID) != 32 {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(m.batches) != 1 || v.Snapshot().Generation != 2 || v.Snapshot().Counter != got.Counter {
		t.Errorf("%d batches, %+v", len(m.batches), v.Snapshot())
	}
	for id, r := range m.rows {
		if o, ok := old.rows[id]; ok && bytes.Equal(o.Data, r.Data) {
			t.Errorf("%s row %s is as before", r.Table, id)
		}
	}
	check := func(v *vault.Vault) {
		t.Helper()
		whole(t, v, m)
		if len(v.Forged()) != 0 || len(v.Slots()) != 3 || v.Slots()[0] != slots[0] {
			t.Errorf("forged %v, slots %v, were %v", v.Forged(), v.Slots(), slots)
		}
		if got, err := v.Unseal("own", []byte("ad"), outside); string(got) != "in the log" || err != nil {
			t.Errorf("box kept elsewhere: %q, %v", got, err)
		}
		if _, err := v.Unseal("own", []byte("other"), outside); err == nil {
			t.Error("a box opened under another ad")
		}
	}
	check(v)
	for name, k := range map[string]vault.Key{"passphrase": key(), "recovery": recovery, "keychain": keychain} {
		w := open(t, m)
		if err := w.Unlock(t.Context(), k); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		check(w)
	}
	// The old DEK opens nothing of the new database: neither rows nor boxes.
	o := open(t, old)
	if err := o.Unlock(t.Context(), key()); err != nil {
		t.Fatalf("the copy made before: %v", err)
	}
	if _, err := o.Unseal("use", []byte("row"), m.boxes["row"]); err == nil {
		t.Error("the old DEK opens a new box")
	}
	mixed := m.clone()
	for id, r := range old.rows {
		if r.Table == "slot" {
			mixed.rows[id] = r
		}
	}
	if err := opens(t, mixed, key()); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("old slots beside new rows: %v", err)
	}
	// And again: what two generations ago was sealed is still open.
	if _, err := v.Rekey(t.Context(), []vault.Key{key()}, vault.CreateOptions{WorkFactor: 10}, nil); err != nil {
		t.Fatal(err)
	}
	check(v)
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	check(v)
	if _, err := v.Rotate(t.Context(), "a", []byte("next"), nil); err != nil {
		t.Errorf("a change after: %v", err)
	}
}

func TestRekeyRefusals(t *testing.T) {
	o := vault.CreateOptions{WorkFactor: 10}
	m := newMemory()
	v, recovery, _ := furnished(t, m)
	second, err := v.AddSlot(t.Context(), vault.NewSlot{Kind: vault.PassphraseSlot, Passphrase: pass("second"), WorkFactor: 4}, key(), nil)
	if err != nil {
		t.Fatal(err)
	}
	before := m.clone()
	same := func(what string) {
		t.Helper()
		if m.counter != before.counter || len(m.rows) != len(before.rows) || v.State() != vault.Ready {
			t.Errorf("%s: counter %d, was %d; %v", what, m.counter, before.counter, v.State())
		}
		whole(t, v, m)
		if err := opens(t, m, key()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, tt := range map[string]struct {
		keys []vault.Key
		o    vault.CreateOptions
		want error
	}{
		"no key":           {nil, o, vault.ErrWrongKey},
		"wrong":            {[]vault.Key{pass("wrong")}, o, vault.ErrWrongKey},
		"one of two":       {[]vault.Key{key()}, o, vault.ErrWrongKey},
		"recovery alone":   {[]vault.Key{recovery}, o, vault.ErrWrongKey},
		"the same twice":   {[]vault.Key{key(), key()}, o, vault.ErrWrongKey},
		"all, and a wrong": {[]vault.Key{key(), pass("second"), pass("x")}, o, vault.ErrWrongKey},
		"factor":           {[]vault.Key{key(), pass("second")}, vault.CreateOptions{}, vault.ErrInvalid},
	} {
		_, err := v.Rekey(t.Context(), tt.keys, tt.o, nil)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "one of two" && (err == nil || !strings.Contains(err.Error(), second.ID)) {
			t.Errorf("%s: does not name the slot: %v", name, err)
		}
		same(name)
	}
	all := []vault.Key{key(), pass("second"), recovery}
	m.fail(true, false)
	if _, err := v.Rekey(t.Context(), all, o, nil); !errors.Is(err, errDisk) {
		t.Errorf("dead disk: %v", err)
	}
	m.fail(false, false)
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatalf("after a dead disk: %v", err)
	}
	same("dead disk")
	for name, spoil := range map[string]func([]vault.Row){
		"flipped byte": func(rows []vault.Row) { rows[len(rows)/2].Data[40] ^= 1 },
		"lost row":     func(rows []vault.Row) { rows[0] = rows[1] },
		"moved":        func(rows []vault.Row) { rows[0].Data, rows[1].Data = rows[1].Data, rows[0].Data },
	} {
		m.spoil = spoil
		if _, err := v.Rekey(t.Context(), all, o, nil); err == nil {
			t.Errorf("%s: nobody noticed", name)
		}
		m.spoil = nil
		same(name)
	}
	// Put in place, and yet an error: the vault is locked, and what is there opens.
	m.fail(false, true)
	if _, err := v.Rekey(t.Context(), all, o, nil); !errors.Is(err, errDisk) || v.State() != vault.Locked {
		t.Errorf("a lost answer: %v, %v", err, v.State())
	}
	m.fail(false, false)
	if err := v.Unlock(t.Context(), pass("second")); err != nil || v.Snapshot().Generation != 2 {
		t.Fatalf("after a lost answer: %v", err)
	}
	whole(t, v, m)
	v.Lock()
	if _, err := v.Rekey(t.Context(), all, o, nil); !errors.Is(err, vault.ErrLocked) {
		t.Errorf("while locked: %v", err)
	}
}

// TestRekeyConflict: a database that somebody else changed is not replaced.
func TestRekeyConflict(t *testing.T) {
	m := newMemory()
	v, _, _ := furnished(t, m)
	w := open(t, m)
	if err := w.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	add(t, w, "theirs", "x")
	if _, err := v.Rekey(t.Context(), []vault.Key{key()}, vault.CreateOptions{WorkFactor: 10}, nil); !errors.Is(err, vault.ErrConflict) {
		t.Fatal(err)
	}
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.Snapshot().Credential("theirs"); !ok {
		t.Error("the other's change is lost")
	}
}

// TestLockCrossesRekey: a Lock does not wait for a rekey, and holds.
func TestLockCrossesRekey(t *testing.T) {
	m := newMemory()
	v, _, _ := furnished(t, m)
	entered, released, stop := m.hold()
	result := make(chan error)
	go func() {
		_, err := v.Rekey(context.Background(), []vault.Key{key()}, vault.CreateOptions{WorkFactor: 10}, nil)
		result <- err
	}()
	<-entered
	v.Lock()
	stop()
	released <- struct{}{}
	if err := <-result; !errors.Is(err, vault.ErrLocked) || v.State() != vault.Locked || v.Snapshot() != nil {
		t.Errorf("%v, %v", err, v.State())
	}
	if err := v.Unlock(t.Context(), key()); err != nil || v.Snapshot().Generation != 2 {
		t.Fatalf("%v", err)
	}
	whole(t, v, m)
}
