package vault_test

import (
	"errors"
	"testing"

	"sallyport/vault"
)

func TestRotate(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	was, err := v.AddCredential(t.Context(), vault.Meta{Name: "a", Kind: "basic", Confirm: "click", Account: "bob", Rules: []byte("rules")}, []byte("old"), nil)
	if err != nil {
		t.Fatal(err)
	}
	add(t, v, "b", "other")
	now, err := v.Rotate(t.Context(), "a", []byte("new"), []byte("batch"))
	if err != nil || now.Version != v.Snapshot().Counter || now.Version <= was.Version || len(m.batches) != 1 {
		t.Fatalf("%+v, %v", now, err)
	}
	if now.Kind != "basic" || now.Confirm != "click" || now.Account != "bob" || string(now.Rules) != "rules" {
		t.Errorf("rotation changed more than the value: %+v", now)
	}
	check := func() {
		t.Helper()
		if got, err := lent(t, v, vault.Ref{Name: "a", Version: now.Version}); got != "new" || err != nil {
			t.Errorf("new: %q, %v", got, err)
		}
		if got, err := lent(t, v, vault.Ref{Name: "a", Version: was.Version}); got != "" || !errors.Is(err, vault.ErrStale) {
			t.Errorf("old: %q, %v", got, err)
		}
		if got, err := lent(t, v, vault.Ref{Name: "b"}); got != "other" || err != nil {
			t.Errorf("neighbour: %q, %v", got, err)
		}
	}
	check()
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil || len(v.Forged()) != 0 {
		t.Fatalf("%v, %v", err, v.Forged())
	}
	check()
	if _, err := v.Rotate(t.Context(), "c", []byte("x"), nil); !errors.Is(err, vault.ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
	for _, bad := range [][]byte{nil, {}, make([]byte, 64<<10+1)} {
		if _, err := v.Rotate(t.Context(), "a", bad, nil); !errors.Is(err, vault.ErrInvalid) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
	check()
}

func TestRebind(t *testing.T) {
	v := ready(t, newMemory())
	was := add(t, v, "a", "value")
	want := vault.Meta{Name: "a", Confirm: "passkey", Account: "eve", Rules: []byte("narrow"), Version: was.Version}
	now, err := v.Rebind(t.Context(), want, nil)
	if err != nil || now.Kind != "bearer" || now.Confirm != "passkey" || now.Account != "eve" || string(now.Rules) != "narrow" || now.Version <= was.Version {
		t.Fatalf("%+v, %v", now, err)
	}
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	if got, err := lent(t, v, vault.Ref{Name: "a", Version: now.Version}); got != "value" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if m, _ := v.Snapshot().Credential("a"); string(m.Rules) != "narrow" {
		t.Errorf("after unlocking again: %+v", m)
	}
	for name, tt := range map[string]struct {
		m    vault.Meta
		want error
	}{
		"stale":   {vault.Meta{Name: "a", Version: was.Version}, vault.ErrStale},
		"kind":    {vault.Meta{Name: "a", Kind: "ssh-key"}, vault.ErrInvalid},
		"unknown": {vault.Meta{Name: "b"}, vault.ErrUnknown},
		"rules":   {vault.Meta{Name: "a", Rules: make([]byte, 256<<10)}, vault.ErrInvalid},
	} {
		if _, err := v.Rebind(t.Context(), tt.m, nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m, _ := v.Snapshot().Credential("a"); m.Version != now.Version {
		t.Errorf("a refusal left %+v", m)
	}
}

// TestApply: all of it or nothing.
func TestApply(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	add(t, v, "old", "1")
	if _, err := v.AddHost(t.Context(), vault.Host{Name: "h", Data: []byte("1")}, nil); err != nil {
		t.Fatal(err)
	}
	counter := v.Snapshot().Counter
	err := v.Apply(t.Context(), []byte("batch"), func(e *vault.Edit) error {
		_, err1 := e.AddCredential(vault.Meta{Name: "new"}, []byte("2"))
		_, err2 := e.Rotate("new", []byte("3"))
		_, err3 := e.SetHost(vault.Host{Name: "h", Data: []byte("2")})
		_, err4 := e.AddCredential(vault.Meta{Name: "gone"}, []byte("4"))
		return errors.Join(err1, err2, err3, err4, e.Drop(vault.Credentials, "gone"), e.Drop(vault.Credentials, "old"),
			e.SetSetting("s", []byte("1")), e.SetSetting("s", []byte("2")))
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		s := v.Snapshot()
		doc, _ := s.Setting("s")
		h, _ := s.Host("h")
		if c := s.Credentials(); len(c) != 1 || c[0].Name != "new" || c[0].Version != counter+1 || s.Counter != counter+1 ||
			string(doc) != "2" || string(h.Data) != "2" || h.Version != counter+1 || len(m.batches) != 1 {
			t.Errorf("%+v, host %+v, setting %q, counter %d", c, h, doc, s.Counter)
		}
		if got, err := lent(t, v, vault.Ref{Name: "new"}); got != "3" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	check()
	no := errors.New("no")
	for name, f := range map[string]func(e *vault.Edit) error{
		"f's error": func(e *vault.Edit) error { return errors.Join(e.Drop(vault.Credentials, "new"), no) },
		"half a change that f overlooked": func(e *vault.Edit) error {
			_, _ = e.SetHost(vault.Host{Name: "h", Data: make([]byte, 256<<10)})
			return nil
		},
		"unknown": func(e *vault.Edit) error {
			_, err := e.SetHost(vault.Host{Name: "i"})
			return err
		},
	} {
		if err := v.Apply(t.Context(), []byte("batch"), f); err == nil || name == "f's error" && !errors.Is(err, no) {
			t.Errorf("%s: %v", name, err)
		}
		check()
	}
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil || len(v.Forged()) != 0 {
		t.Fatalf("%v, %v", err, v.Forged())
	}
	check()
}
