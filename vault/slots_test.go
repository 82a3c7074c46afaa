package vault_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/vault"
)

func pass(s string) vault.Key { return vault.Passphrase([]byte(s)) }

// opens says whether a locked copy of m is unlocked by k.
func opens(t testing.TB, m *memory, k vault.Key) error {
	t.Helper()
	return open(t, m).Unlock(t.Context(), k)
}

func kinds(v *vault.Vault) (out []vault.SlotKind) {
	for _, s := range v.Slots() {
		out = append(out, s.Kind)
	}
	return out
}

func slotOf(t testing.TB, v *vault.Vault, kind vault.SlotKind) vault.Slot {
	t.Helper()
	for _, s := range v.Slots() {
		if s.Kind == kind {
			return s
		}
	}
	t.Fatalf("no %s slot among %v", kind, v.Slots())
	return vault.Slot{}
}

func TestSlots(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	add(t, v, "a", "value")
	if s := v.Slots(); len(s) != 2 || len(s[0].ID) != 32 || s[0].ID == s[1].ID || s[0].Created.IsZero() {
		t.Fatalf("slots of a new vault: %+v", s)
	}
	identity, recipient, err := vault.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := v.AddSlot(t.Context(), vault.NewSlot{Kind: vault.KeychainSlot, Recipient: recipient}, key(), func(vault.SlotChange) ([]byte, error) { return []byte("batch"), nil })
	if err != nil || chain.Kind != vault.KeychainSlot || len(m.batches) != 1 {
		t.Fatalf("%+v, %v, %d batches", chain, err, len(m.batches))
	}
	second, err := v.AddSlot(t.Context(), vault.NewSlot{Kind: vault.PassphraseSlot, Passphrase: pass("second"), WorkFactor: 4}, vault.Recovery(identity), nil)
	if err != nil {
		t.Fatalf("added with the keychain's proof: %v", err)
	}
	for name, k := range map[string]vault.Key{"first": key(), "second": pass("second"), "keychain": vault.Recovery(identity)} {
		if err := opens(t, m, k); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := v.Check(t.Context(), k); err != nil {
			t.Errorf("check %s: %v", name, err)
		}
	}
	if err := v.RemoveSlot(t.Context(), second.ID, pass("second"), nil); err != nil {
		t.Fatal(err)
	}
	if err := opens(t, m, pass("second")); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("a removed slot: %v", err)
	}
	if err := v.Check(t.Context(), pass("second")); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("check of a removed slot: %v", err)
	}
	w := open(t, m)
	if err := w.Unlock(t.Context(), key()); err != nil || len(w.Slots()) != 3 || len(w.Forged()) != 0 {
		t.Errorf("read again: %v, %v, forged %v", err, w.Slots(), w.Forged())
	}
	v.Lock()
	if v.Slots() != nil {
		t.Error("slots of a locked vault")
	}
}

// TestLastSlot: V13.
func TestLastSlot(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	_, recipient, err := vault.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.AddSlot(t.Context(), vault.NewSlot{Kind: vault.KeychainSlot, Recipient: recipient}, key(), nil); err != nil {
		t.Fatal(err)
	}
	recovery := slotOf(t, v, vault.RecoverySlot).ID
	if err := v.RemoveSlot(t.Context(), recovery, key(), nil); err != nil {
		t.Fatalf("one of two: %v", err)
	}
	last := slotOf(t, v, vault.PassphraseSlot).ID
	counter := v.Snapshot().Counter
	if err := v.RemoveSlot(t.Context(), last, key(), nil); !errors.Is(err, vault.ErrLastSlot) {
		t.Errorf("V13 the last but the keychain's: %v", err)
	}
	if err := v.RemoveSlot(t.Context(), recovery, key(), nil); !errors.Is(err, vault.ErrUnknown) {
		t.Errorf("a slot that is gone: %v", err)
	}
	if v.Snapshot().Counter != counter || len(v.Slots()) != 2 || opens(t, m, key()) != nil {
		t.Errorf("a refusal changed something: %v", v.Slots())
	}
	if err := v.RemoveSlot(t.Context(), slotOf(t, v, vault.KeychainSlot).ID, key(), nil); err != nil {
		t.Errorf("the keychain's: %v", err)
	}
	if err := v.RemoveSlot(t.Context(), last, key(), nil); !errors.Is(err, vault.ErrLastSlot) {
		t.Errorf("the very last: %v", err)
	}
}

func TestSlotRefusals(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	identity, recipient, err := vault.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	good := vault.NewSlot{Kind: vault.PassphraseSlot, Passphrase: pass("next"), WorkFactor: 4}
	for _, tt := range []struct {
		name  string
		n     vault.NewSlot
		proof vault.Key
		want  error
	}{
		{"no proof", good, vault.Key{}, vault.ErrWrongKey},
		{"wrong proof", good, pass("wrong"), vault.ErrWrongKey},
		{"another identity's proof", good, vault.Recovery(identity), vault.ErrWrongKey},
		{"zero", vault.NewSlot{}, key(), vault.ErrInvalid},
		{"kind", vault.NewSlot{Kind: "plugin", Recipient: recipient}, key(), vault.ErrInvalid},
		{"empty passphrase", vault.NewSlot{Kind: vault.PassphraseSlot, WorkFactor: 4}, key(), vault.ErrInvalid},
		{"factor 0", vault.NewSlot{Kind: vault.PassphraseSlot, Passphrase: pass("x")}, key(), vault.ErrInvalid},
		{"factor 21", vault.NewSlot{Kind: vault.PassphraseSlot, Passphrase: pass("x"), WorkFactor: 21}, key(), vault.ErrInvalid},
		{"passphrase and recipient", vault.NewSlot{Kind: vault.PassphraseSlot, Passphrase: pass("x"), WorkFactor: 4, Recipient: recipient}, key(), vault.ErrInvalid},
		{"no recipient", vault.NewSlot{Kind: vault.RecoverySlot}, key(), vault.ErrInvalid},
		{"identity as recipient", vault.NewSlot{Kind: vault.RecoverySlot, Recipient: identity}, key(), vault.ErrInvalid},
		{"classic recipient", vault.NewSlot{Kind: vault.RecoverySlot, Recipient: "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"}, key(), vault.ErrInvalid},
	} {
		_, err := v.AddSlot(t.Context(), tt.n, tt.proof, nil)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil && strings.Contains(err.Error(), identity) {
			t.Errorf("%s: the error quotes the identity", tt.name)
		}
	}
	if v.Snapshot().Counter != 1 {
		t.Error("a refused slot was counted")
	}
	for i := range 3 {
		good.Passphrase = pass(strings.Repeat("p", i+1))
		if _, err := v.AddSlot(t.Context(), good, key(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.AddSlot(t.Context(), good, key(), nil); !errors.Is(err, vault.ErrInvalid) {
		t.Errorf("a fifth passphrase: %v", err)
	}
	for i := range 3 {
		if err := opens(t, m, pass(strings.Repeat("p", i+1))); err != nil {
			t.Errorf("passphrase %d: %v", i, err)
		}
	}
	v.Lock()
	if _, err := v.AddSlot(t.Context(), good, key(), nil); !errors.Is(err, vault.ErrLocked) {
		t.Errorf("while locked: %v", err)
	}
	if err := v.RemoveSlot(t.Context(), "x", key(), nil); !errors.Is(err, vault.ErrLocked) {
		t.Errorf("while locked: %v", err)
	}
}

// TestRemovedSlotPutBack: whoever has an old copy of the file and an old
// passphrase does not open the vault with them, nor prove anything.
func TestRemovedSlotPutBack(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	old := m.rows[slotOf(t, v, vault.PassphraseSlot).ID]
	if _, err := v.ChangePassphrase(t.Context(), key(), pass("new one"), vault.CreateOptions{WorkFactor: 10}, nil); err != nil {
		t.Fatal(err)
	}
	m.rows[old.ID] = old
	w := open(t, m)
	if err := w.Check(t.Context(), key()); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("check: %v", err)
	}
	if err := w.Unlock(t.Context(), key()); !errors.Is(err, vault.ErrWrongKey) || w.State() != vault.Locked {
		t.Errorf("unlock: %v, %v", err, w.State())
	}
	if err := w.Unlock(t.Context(), pass("new one")); err != nil || len(w.Forged()) != 1 || w.Forged()[0] != old.ID {
		t.Errorf("the right one: %v, forged %v", err, w.Forged())
	}
}

func TestChangePassphrase(t *testing.T) {
	m := newMemory()
	v := open(t, m)
	d, err := v.Prepare(key(), vault.CreateOptions{WorkFactor: 10})
	if err != nil {
		t.Fatal(err)
	}
	recovery := vault.Recovery(d.RecoveryIdentity)
	if err := d.Commit(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	o := vault.CreateOptions{WorkFactor: 10}
	was := slotOf(t, v, vault.PassphraseSlot)
	counter := v.Snapshot().Counter
	s, err := v.ChangePassphrase(t.Context(), key(), pass("two"), o, nil)
	if err != nil || s.Kind != vault.PassphraseSlot || s.ID == was.ID || v.Snapshot().Counter != counter+1 {
		t.Fatalf("%+v, %v, counter %d", s, err, v.Snapshot().Counter)
	}
	if len(v.Slots()) != 2 || opens(t, m, key()) == nil || opens(t, m, pass("two")) != nil || opens(t, m, recovery) != nil {
		t.Errorf("after the change: %v", kinds(v))
	}
	if _, err := v.ChangePassphrase(t.Context(), recovery, pass("three"), o, nil); err != nil {
		t.Fatalf("by recovery: %v", err)
	}
	if len(v.Slots()) != 2 || opens(t, m, pass("two")) == nil || opens(t, m, pass("three")) != nil {
		t.Errorf("after the change by recovery: %v", kinds(v))
	}
	if _, err := v.AddSlot(t.Context(), vault.NewSlot{Kind: vault.PassphraseSlot, Passphrase: pass("four"), WorkFactor: 10}, recovery, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.ChangePassphrase(t.Context(), recovery, pass("five"), o, nil); !errors.Is(err, vault.ErrInvalid) {
		t.Errorf("which of two: %v", err)
	}
	if _, err := v.ChangePassphrase(t.Context(), pass("four"), pass("five"), o, nil); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]error{"three": nil, "four": vault.ErrWrongKey, "five": nil} {
		if err := opens(t, m, pass(p)); !errors.Is(err, want) {
			t.Errorf("%s: %v", p, err)
		}
	}
	m.fail(true, false)
	if _, err := v.ChangePassphrase(t.Context(), pass("five"), pass("six"), o, nil); !errors.Is(err, errDisk) {
		t.Errorf("on a dead disk: %v", err)
	}
	m.fail(false, false)
	if v.Check(t.Context(), pass("five")) != nil || opens(t, m, pass("five")) != nil || opens(t, m, pass("six")) == nil {
		t.Error("a failed change took the old passphrase")
	}
}

// TestPlugins: V07. A name that asks for a plugin asks for nothing here.
func TestPlugins(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	if err := os.WriteFile(filepath.Join(dir, "age-plugin-x"), []byte("#!/bin/sh\n: >"+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m := newMemory()
	v := ready(t, m)
	if err := opens(t, m, vault.Recovery("AGE-PLUGIN-X-10Q32NLXM")); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("plugin identity: %v", err)
	}
	n := vault.NewSlot{Kind: vault.RecoverySlot, Recipient: "age1x10q32nlxmdj5sd"}
	if _, err := v.AddSlot(t.Context(), n, key(), nil); !errors.Is(err, vault.ErrInvalid) {
		t.Errorf("plugin recipient: %v", err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("V07 the plugin was run")
	}
}

// TestLockPassesSlot: a Lock does not wait for a slot on its way to the disk;
// the slot is there at the next unlock.
func TestLockPassesSlot(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	entered, released, stop := m.hold()
	result := make(chan error)
	go func() {
		_, err := v.AddSlot(context.Background(), vault.NewSlot{Kind: vault.PassphraseSlot, Passphrase: pass("x"), WorkFactor: 4}, key(), nil)
		result <- err
	}()
	<-entered // the commit: the lock comes beside it
	v.Lock()
	if v.State() != vault.Locked {
		t.Error("lock waited")
	}
	stop()
	released <- struct{}{}
	if err := <-result; err != nil {
		t.Errorf("stored slot: %v", err)
	}
	if err := v.Unlock(t.Context(), pass("x")); err != nil {
		t.Errorf("the slot that was stored behind the lock: %v", err)
	}
}
