package vault_test

import (
	"errors"
	"testing"

	"sallyport/vault"
)

func TestSetting(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	if _, ok := v.Snapshot().Setting("mode"); ok {
		t.Fatal("a setting nobody made")
	}
	for _, want := range []string{"one", "two", ""} {
		if err := v.SetSetting(t.Context(), "mode", []byte(want), nil); err != nil {
			t.Fatal(err)
		}
		if got, ok := v.Snapshot().Setting("mode"); !ok || string(got) != want {
			t.Fatalf("got %q %v, want %q", got, ok, want)
		}
	}
	v.Lock()
	if err := v.SetSetting(t.Context(), "mode", []byte("x"), nil); !errors.Is(err, vault.ErrLocked) {
		t.Fatalf("while locked: %v", err)
	}
}

func TestRelease(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	v.Quarantine("put back")
	if err := v.Unlock(t.Context(), key()); !errors.Is(err, vault.ErrQuarantined) {
		t.Fatalf("unlock in quarantine: %v", err)
	}
	v.Release()
	if got := v.State(); got != vault.Locked {
		t.Fatalf("released: %s", got)
	}
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	v.Release() // nothing to leave
	if got := v.State(); got != vault.Ready {
		t.Fatalf("release of a ready vault: %s", got)
	}
}
