package vault_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"sallyport/vault"
)

func TestCreate(t *testing.T) {
	m := newMemory()
	v := open(t, m)
	if v.State() != vault.Absent || v.State().String() != "absent" || v.Snapshot() != nil {
		t.Fatalf("new store: %v", v.State())
	}
	for _, tt := range []struct {
		key    vault.Key
		factor int
	}{{key(), 0}, {key(), -1}, {key(), 21}, {vault.Key{}, 10}, {vault.Passphrase(nil), 10}, {vault.Recovery("x"), 10}} {
		if _, err := v.Prepare(tt.key, vault.CreateOptions{WorkFactor: tt.factor}); !errors.Is(err, vault.ErrInvalid) {
			t.Errorf("factor %d: %v", tt.factor, err)
		}
	}
	d, err := v.Prepare(key(), vault.CreateOptions{WorkFactor: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.rows) != 0 || v.State() != vault.Absent {
		t.Fatal("prepare stored something")
	}
	if len(d.VaultID) != 32 || !strings.HasPrefix(d.RecoveryIdentity, "AGE-SECRET-KEY-PQ-1") || !strings.HasPrefix(d.RecoveryRecipient, "age1pq1") {
		t.Errorf("draft %q, %q", d.VaultID, d.RecoveryRecipient)
	}
	box, err := d.Seal("own", []byte("ad"), []byte("before the first transaction"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(t.Context(), map[string][]byte{"": []byte("x")}, nil); !errors.Is(err, vault.ErrInvalid) {
		t.Errorf("internal secret without name: %v", err)
	}
	m.fail(true, false)
	if err := d.Commit(t.Context(), nil, []byte("batch")); !errors.Is(err, errDisk) || v.State() != vault.Absent {
		t.Fatalf("failed commit: %v, %v", err, v.State())
	}
	m.fail(false, false)
	if err := d.Commit(t.Context(), map[string][]byte{"log identity": []byte("seed")}, []byte("batch")); err != nil {
		t.Fatal(err)
	}
	if v.State() != vault.Ready || len(m.batches) != 1 || v.Snapshot().Counter != 1 || v.Snapshot().Generation != 1 {
		t.Fatalf("after commit: %v, %d batches, %+v", v.State(), len(m.batches), v.Snapshot())
	}
	d.Discard()
	if err := d.Commit(t.Context(), nil, nil); !errors.Is(err, vault.ErrExists) {
		t.Errorf("second commit: %v", err)
	}
	if _, err := d.Seal("own", nil, nil); !errors.Is(err, vault.ErrLocked) {
		t.Errorf("seal with a spent draft: %v", err)
	}
	if got, err := v.Unseal("own", []byte("ad"), box); err != nil || string(got) != "before the first transaction" {
		t.Errorf("the draft's box: %q, %v", got, err)
	}
	if _, err := v.Prepare(key(), vault.CreateOptions{WorkFactor: 10}); !errors.Is(err, vault.ErrExists) {
		t.Errorf("a second vault: %v", err)
	}
	if got, err := lent(t, v, vault.Ref{Table: vault.Internal, Name: "log identity"}); got != "seed" || err != nil {
		t.Errorf("internal secret: %q, %v", got, err)
	}
	if len(v.Snapshot().Credentials())+len(v.Snapshot().Hosts()) != 0 {
		t.Error("internal secrets are listed")
	}
	if w := open(t, m); w.State() != vault.Locked {
		t.Errorf("reopened: %v", w.State())
	}
}

// TestTwoDrafts: the second of two drafts of one absent vault is refused, in
// the same process and from another one.
func TestTwoDrafts(t *testing.T) {
	m := newMemory()
	v, w := open(t, m), open(t, m)
	var ds [3]*vault.Draft
	for i, on := range []*vault.Vault{v, v, w} {
		var err error
		if ds[i], err = on.Prepare(key(), vault.CreateOptions{WorkFactor: 10}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []error{nil, vault.ErrExists, vault.ErrConflict} {
		if err := ds[i].Commit(t.Context(), nil, nil); !errors.Is(err, want) {
			t.Errorf("draft %d: %v, want %v", i, err, want)
		}
	}
	if w.State() != vault.Absent {
		t.Errorf("refused vault is %v", w.State())
	}
}

func TestRefusals(t *testing.T) {
	absent := open(t, newMemory())
	locked := ready(t, newMemory())
	locked.Lock()
	quarantined := ready(t, newMemory())
	quarantined.Quarantine("counter below the log's")
	quarantined.Lock()
	for _, tt := range []struct {
		v     *vault.Vault
		state vault.State
		word  string
		want  error
	}{
		{absent, vault.Absent, "absent", vault.ErrAbsent},
		{locked, vault.Locked, "locked", vault.ErrLocked},
		{quarantined, vault.Quarantined, "quarantined", vault.ErrQuarantined},
	} {
		if tt.v.State() != tt.state || tt.v.State().String() != tt.word || tt.v.Snapshot() != nil {
			t.Errorf("%s: state %v", tt.word, tt.v.State())
		}
		_, add := tt.v.AddCredential(t.Context(), vault.Meta{Name: "a"}, []byte("v"), nil)
		_, host := tt.v.AddHost(t.Context(), vault.Host{Name: "a"}, nil)
		_, seal := tt.v.Seal("own", nil, nil)
		_, unseal := tt.v.Unseal("own", nil, make([]byte, 64))
		errs := map[string]error{"add": add, "host": host, "seal": seal, "unseal": unseal,
			"drop": tt.v.Drop(t.Context(), vault.Credentials, "a", nil),
			"with": tt.v.With(t.Context(), vault.Ref{Name: "a"}, func(vault.Secret) error {
				t.Errorf("%s: lent", tt.word)
				return nil
			})}
		if tt.state != vault.Locked {
			errs["unlock"] = tt.v.Unlock(t.Context(), key())
		}
		for name, err := range errs {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s while %s: %v", name, tt.word, err)
			}
		}
	}
	if err := absent.Check(t.Context(), key()); !errors.Is(err, vault.ErrAbsent) {
		t.Errorf("check of nothing: %v", err)
	}
	if err := quarantined.Check(t.Context(), key()); err != nil || quarantined.State() != vault.Quarantined {
		t.Errorf("a proof while quarantined: %v, %v", err, quarantined.State())
	}
	if quarantined.Reason() != "counter below the log's" || locked.Reason() != "" {
		t.Errorf("reasons %q, %q", quarantined.Reason(), locked.Reason())
	}
}

func TestEntries(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	rules := []byte("rules")
	b, err := v.AddCredential(t.Context(), vault.Meta{Name: "b", Kind: "basic", Confirm: "each", Account: "bob", Rules: rules, Version: 99}, []byte("vb"), []byte("batch"))
	if err != nil {
		t.Fatal(err)
	}
	before := v.Snapshot()
	a := add(t, v, "a", "va")
	copy(rules, "evil!")
	if a.Version != 3 || b.Version != 2 || v.Snapshot().Counter != 3 || before.Counter != 2 || len(m.batches) != 1 {
		t.Errorf("versions %d, %d, counters %d, %d", a.Version, b.Version, v.Snapshot().Counter, before.Counter)
	}
	for _, name := range []string{"y", "x", "b"} {
		if _, err := v.AddHost(t.Context(), vault.Host{Name: name, Data: []byte("host " + name)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(v *vault.Vault) {
		t.Helper()
		s := v.Snapshot()
		if c := s.Credentials(); len(c) != 2 || c[0].Name != "a" || c[1].Name != "b" {
			t.Errorf("credentials %+v", c)
		}
		if h := s.Hosts(); len(h) != 3 || h[0].Name != "b" || h[2].Name != "y" || string(h[2].Data) != "host y" || h[2].Version != 4 {
			t.Errorf("hosts %+v", h)
		}
		got, ok := s.Credential("b")
		if !ok || got.Kind != "basic" || got.Confirm != "each" || got.Account != "bob" || string(got.Rules) != "rules" || got.Version != 2 {
			t.Errorf("credential %+v", got)
		}
		for _, tt := range []struct {
			r    vault.Ref
			want string
			err  error
		}{
			{vault.Ref{Name: "a"}, "va", nil},
			{vault.Ref{Table: vault.Credentials, Name: "b", Version: 2}, "vb", nil},
			{vault.Ref{Name: "b", Version: 1}, "", vault.ErrStale},
			{vault.Ref{Name: "b", Version: 3}, "", vault.ErrStale},
			{vault.Ref{Name: "c"}, "", vault.ErrUnknown},
			{vault.Ref{Table: vault.Hosts, Name: "x"}, "", vault.ErrUnknown},
			{vault.Ref{Table: "slot", Name: "x"}, "", vault.ErrUnknown},
			{vault.Ref{Name: "log identity"}, "", vault.ErrUnknown},
			{vault.Ref{Table: vault.Internal, Name: "log identity"}, "seed", nil},
		} {
			if got, err := lent(t, v, tt.r); got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%+v: %q, %v", tt.r, got, err)
			}
		}
	}
	check(v)
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	check(v)
	if len(before.Credentials()) != 1 || len(before.Hosts()) != 0 {
		t.Error("an old snapshot changed")
	}
	if _, err := v.AddHost(t.Context(), vault.Host{Name: "x"}, nil); !errors.Is(err, vault.ErrExists) {
		t.Errorf("host twice: %v", err)
	}
	for _, tt := range []struct {
		t    vault.Table
		name string
		want error
	}{{vault.Credentials, "x", vault.ErrUnknown}, {"slot", "x", vault.ErrUnknown}, {vault.Hosts, "b", nil}, {vault.Hosts, "b", vault.ErrUnknown}} {
		if err := v.Drop(t.Context(), tt.t, tt.name, nil); !errors.Is(err, tt.want) {
			t.Errorf("drop %s %s: %v", tt.t, tt.name, err)
		}
	}
	if again := add(t, v, "c", "1"); again.Version != v.Snapshot().Counter {
		t.Errorf("version %d at counter %d", again.Version, v.Snapshot().Counter)
	}
}

func TestLimits(t *testing.T) {
	v := ready(t, newMemory())
	ok := vault.Meta{Name: "n"}
	for _, tt := range []struct {
		name  string
		m     vault.Meta
		value []byte
	}{
		{"no name", vault.Meta{}, []byte("v")},
		{"long name", vault.Meta{Name: strings.Repeat("n", 129)}, []byte("v")},
		{"control character", vault.Meta{Name: "a\x1b[2J"}, []byte("v")},
		{"name not UTF-8", vault.Meta{Name: "a\xff"}, []byte("v")},
		{"kind not UTF-8", vault.Meta{Name: "a", Kind: "\xff"}, []byte("v")},
		{"no value", ok, nil},
		{"long value", ok, make([]byte, 64<<10+1)},
		{"long rules", vault.Meta{Name: "a", Rules: make([]byte, 256<<10)}, []byte("v")},
	} {
		if _, err := v.AddCredential(t.Context(), tt.m, tt.value, nil); !errors.Is(err, vault.ErrInvalid) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if v.Snapshot().Counter != 1 {
		t.Error("a refused change was counted")
	}
	big := bytes.Repeat([]byte{0, 1, 0xff}, 64<<10/3)
	if _, err := v.AddCredential(t.Context(), vault.Meta{Name: strings.Repeat("ñ", 64)}, big, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := lent(t, v, vault.Ref{Name: strings.Repeat("ñ", 64)}); got != string(big) || err != nil {
		t.Errorf("%d bytes came back as %d, %v", len(big), len(got), err)
	}
}

// TestFailedChange: a change that failed is invisible; one that failed though it
// was written stops all others until the vault is read again.
func TestFailedChange(t *testing.T) {
	m := newMemory()
	v := ready(t, m)
	m.fail(true, false)
	if _, err := v.AddHost(t.Context(), vault.Host{Name: "h"}, nil); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	if err := v.Check(t.Context(), key()); err != nil {
		t.Errorf("check of a ready vault asked the store: %v", err)
	}
	m.fail(false, false)
	if _, ok := v.Snapshot().Host("h"); ok {
		t.Error("a failed change is visible")
	}
	add(t, v, "a", "v")
	m.fail(false, true)
	if _, err := v.AddHost(t.Context(), vault.Host{Name: "h"}, nil); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	m.fail(false, false)
	if _, err := v.AddHost(t.Context(), vault.Host{Name: "i"}, nil); !errors.Is(err, vault.ErrConflict) {
		t.Fatalf("change after a lost answer: %v", err)
	}
	if got, err := lent(t, v, vault.Ref{Name: "a"}); got != "v" || err != nil {
		t.Errorf("lending after a lost answer: %q, %v", got, err)
	}
	v.Lock()
	if err := v.Unlock(t.Context(), key()); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.Snapshot().Host("h"); !ok {
		t.Error("the written change is not there after reading again")
	}
	if _, err := v.AddHost(t.Context(), vault.Host{Name: "i"}, nil); err != nil {
		t.Error(err)
	}
}

func TestSeal(t *testing.T) {
	v, w := ready(t, newMemory()), ready(t, newMemory())
	box, err := v.Seal("own", []byte("ad"), []byte("plain"))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := v.Seal("own", []byte("ad"), []byte("plain"))
	if bytes.Equal(box, again) || bytes.Contains(box, []byte("plain")) {
		t.Error("sealing is not random")
	}
	if got, err := v.Unseal("own", []byte("ad"), box); err != nil || string(got) != "plain" {
		t.Errorf("%q, %v", got, err)
	}
	bad := func(what string, v *vault.Vault, use, ad string, box []byte) {
		t.Helper()
		if got, err := v.Unseal(use, []byte(ad), box); err == nil || got != nil {
			t.Errorf("%s: opened as %q", what, got)
		}
	}
	bad("other use", v, "ow", "nad", box)
	bad("other ad", v, "own", "a", box)
	bad("other vault", w, "own", "ad", box)
	for i := range box {
		flipped := bytes.Clone(box)
		flipped[i] ^= 1
		bad("flipped byte", v, "own", "ad", flipped)
		bad("cut", v, "own", "ad", box[:i])
	}
	v.Lock()
	if err := v.Unlock(context.Background(), key()); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Unseal("own", []byte("ad"), box); err != nil || string(got) != "plain" {
		t.Errorf("after unlocking again: %q, %v", got, err)
	}
}
