package vault_test

import (
	"errors"
	"testing"

	"sallyport/vault"
)

// A derived value goes with its credential and with that one's value, and changes nothing of it; new rules leave it.
func TestDerived(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	a := add(t, v, "a", "value a")
	add(t, v, "b", "value b")
	set := func(name string, version uint64, value string) error {
		return v.Apply(t.Context(), []byte("batch"), func(e *vault.Edit) error { return e.SetDerived(name, version, []byte(value)) })
	}
	derived := func(name string) string {
		t.Helper()
		got, err := lent(t, v, vault.Ref{Table: vault.Internal, Name: vault.Derived(name)})
		if err != nil && !errors.Is(err, vault.ErrUnknown) {
			t.Fatal(err)
		}
		return got
	}
	for _, value := range []string{"first", "second"} {
		if err := set("a", a.Version, value); err != nil || derived("a") != value || derived("b") != "" {
			t.Fatalf("%v, %q", err, derived("a"))
		}
	}
	if got, err := lent(t, v, vault.Ref{Name: "a", Version: a.Version}); got != "value a" || err != nil {
		t.Errorf("the value itself: %q, %v", got, err)
	}
	if got, ok := v.Snapshot().Credential("a"); !ok || got.Version != a.Version || len(v.Snapshot().Credentials()) != 2 {
		t.Errorf("%+v", got)
	}
	if err := set("a", a.Version+100, "x"); !errors.Is(err, vault.ErrStale) {
		t.Errorf("another version: %v", err)
	}
	if err := set("c", 1, "x"); !errors.Is(err, vault.ErrUnknown) {
		t.Errorf("no such credential: %v", err)
	}
	now, err := v.Rebind(t.Context(), vault.Meta{Name: "a", Rules: []byte("narrow")}, nil)
	if err != nil || derived("a") != "second" {
		t.Errorf("rebound: %v, %q", err, derived("a"))
	}
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil || len(v.Forged()) != 0 || derived("a") != "second" {
		t.Fatalf("unlocked again: %v, %q", err, derived("a"))
	}
	if _, err := v.Rotate(t.Context(), "a", []byte("new"), nil); err != nil || derived("a") != "" {
		t.Errorf("rotated: %v, %q", err, derived("a"))
	}
	if err := set("a", now.Version, "old"); !errors.Is(err, vault.ErrStale) {
		t.Errorf("a token of the old value: %v", err)
	}
	b, _ := v.Snapshot().Credential("b")
	if err := errors.Join(set("b", b.Version, "third"), v.Drop(t.Context(), vault.Credentials, "b", nil)); err != nil || derived("b") != "" {
		t.Errorf("removed: %v, %q", err, derived("b"))
	}
}
