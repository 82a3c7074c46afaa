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
