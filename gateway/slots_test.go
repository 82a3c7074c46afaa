package gateway

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/vault"
	"sallyport/vault/keychain"
)

// ring is a keychain in memory, or the fault that it answers with.
type ring struct {
	mu    sync.Mutex
	items map[string][]byte
	fault error
}

func (k *ring) Get(_ context.Context, account string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fault != nil {
		return nil, k.fault
	}
	if b, ok := k.items[account]; ok {
		return slices.Clone(b), nil
	}
	return nil, keychain.ErrNotFound
}

func (k *ring) Set(_ context.Context, account string, secret []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fault != nil {
		return k.fault
	}
	k.items[account] = slices.Clone(secret)
	return nil
}

func (k *ring) Delete(_ context.Context, account string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.items, account)
	return k.fault
}

func (k *ring) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = err
}

// proved is a request whose proof is value; secret, if any, is what it carries.
func proved(t testing.TB, kind, value string, args func(length int, digest []byte) any, secret string) opRequest {
	salt := []byte("0123456789abcdef")
	sum := sha256.Sum256(append(salt[:16:16], secret...))
	return opRequest{ctx: t.Context(), who: kind, salt: salt, value: []byte(secret), args: encode(args(len(secret), sum[:])),
		proof: &api.Proof{Kind: kind, Value: value}}
}

func plain(args any) func(int, []byte) any { return func(int, []byte) any { return args } }

func slotArgs(kind string) func(int, []byte) any {
	return func(n int, sum []byte) any { return api.SlotArgs{Kind: kind, ValueLength: n, ValueDigest: sum} }
}

func passphraseArgs(n int, sum []byte) any {
	return api.PassphraseArgs{ValueLength: n, ValueDigest: sum}
}

// turnedDown is the code that h refuses q with; "" if it doesn't.
func turnedDown(h opHandler, q opRequest) string {
	if _, err := h(q); err != nil {
		return refusalOf(err).Code
	}
	return ""
}

// opens tells whether a slot opens the vault, by locking and unlocking it.
func (r *rig) opens(kind, value string) bool {
	r.t.Helper()
	if err := r.lock(r.t.Context(), word{operator: "unproved"}, "operator"); err != nil {
		r.t.Fatal(err)
	}
	code := turnedDown(r.opUnlock, opRequest{ctx: r.t.Context(), who: kind, proof: &api.Proof{Kind: kind, Value: value}})
	if code != "" && code != "proof_wrong" && code != "keychain_unavailable" {
		r.t.Errorf("unlock: %s", code)
	}
	return code == ""
}

// slotKinds lists them in their order.
func slotKinds(slots []api.Slot) (out []string) {
	for _, s := range slots {
		out = append(out, s.Kind)
	}
	return out
}

// Slots come and go by the operator's word, each told in the log, and what opens the vault is always known.
func TestSlots(t *testing.T) {
	r := newRig(t, "")
	r.init()
	list := func() []api.Slot { return op[[]api.Slot](r, r.opSlotList, struct{}{}) }
	if got := slotKinds(list()); !slices.Equal(got, []string{"passphrase", "recovery"}) {
		t.Fatal(got)
	}
	add := func(kind, with string) api.AddedSlot {
		t.Helper()
		out, err := r.opSlotAdd(proved(t, "passphrase", testPassphrase, slotArgs(kind), with))
		if err != nil {
			t.Fatal(err)
		}
		return out.(api.AddedSlot)
	}
	second := add("passphrase", "a second passphrase")
	if !r.opens("passphrase", "a second passphrase") || second.RecoveryIdentity != "" {
		t.Error("the second passphrase does not open")
	}
	paper := add("recovery", "")
	if !r.opens("recovery", paper.RecoveryIdentity) || !r.opens("recovery", r.created.RecoveryIdentity) {
		t.Error("a recovery identity does not open")
	}
	var papers []string
	for _, s := range r.vault.Slots() {
		if s.Kind == vault.RecoverySlot {
			papers = append(papers, s.Recipient)
		}
	}
	for name, c := range map[string]struct {
		q    opRequest
		want string
	}{
		"wrong proof":        {proved(t, "passphrase", "wrong", slotArgs("recovery"), ""), "proof_wrong"},
		"a keychain's word":  {proved(t, "keychain", "", slotArgs("recovery"), ""), "proof_required"},
		"short":              {proved(t, "passphrase", testPassphrase, slotArgs("passphrase"), "short"), "proof_required"},
		"ends in NUL":        {proved(t, "passphrase", testPassphrase, slotArgs("passphrase"), "long enough\x00"), "invalid_request"},
		"long":               {proved(t, "passphrase", testPassphrase, slotArgs("passphrase"), strings.Repeat("x", 4097)), "invalid_request"},
		"a key of one's own": {proved(t, "passphrase", testPassphrase, slotArgs("recovery"), "x"), "invalid_request"},
		"no kind":            {proved(t, "passphrase", testPassphrase, slotArgs("fido"), ""), "invalid_request"},
		"another digest":     {proved(t, "passphrase", testPassphrase, plain(api.SlotArgs{Kind: "passphrase", ValueLength: 12}), "twelve bytes"), "invalid_request"},
	} {
		if got := turnedDown(r.opSlotAdd, c.q); got != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
	remove := func(id string) string {
		return turnedDown(r.opSlotRemove, proved(t, "recovery", paper.RecoveryIdentity, plain(api.IDArgs{ID: id}), ""))
	}
	if got := remove("none"); got != "not_found" {
		t.Error(got)
	}
	if got := remove(second.Slot.ID); got != "" {
		t.Error(got)
	}
	if r.opens("passphrase", "a second passphrase") {
		t.Error("a removed slot opens")
	}
	if !r.opens("passphrase", testPassphrase) {
		t.Fatal("the first one does not")
	}
	// The renewed recovery identity reads the log from here on, the old one does not.
	if got := remove(list()[1].ID); got != "" {
		t.Fatal(got)
	}
	if r.opens("recovery", r.created.RecoveryIdentity) || !r.opens("passphrase", testPassphrase) {
		t.Error("the old recovery identity")
	}
	for _, kind := range []string{"passphrase", "recovery"} {
		for _, s := range list() {
			if s.Kind == kind {
				want := map[string]string{"passphrase": "", "recovery": "last_slot"}[kind]
				if got := remove(s.ID); got != want { // V13
					t.Errorf("V13 %s: %q, want %q", kind, got, want)
				}
			}
		}
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if a, b := count(evs, "slot_added"), count(evs, "slot_removed"); a != 2 || b != 3 {
		t.Errorf("%d added, %d removed", a, b)
	}
	if pub := readAuditPub(t, r.dir); slices.Contains(pub.Recipients, papers[0]) || !slices.Contains(pub.Recipients, papers[1]) {
		t.Errorf("the log is sealed to %v, of the papers %v", pub.Recipients, papers)
	}
}

// The passphrase is changed in one step; the recovery identity can set a new one for a lost one.
func TestChangePassphrase(t *testing.T) {
	r := newRig(t, "")
	r.init()
	change := func(kind, proof, next string) string {
		return turnedDown(r.opPassphrase, proved(t, kind, proof, passphraseArgs, next))
	}
	if got := change("passphrase", "wrong", "another passphrase"); got != "proof_wrong" {
		t.Error(got)
	}
	if got := change("passphrase", testPassphrase, "another passphrase"); got != "" {
		t.Fatal(got)
	}
	if r.opens("passphrase", testPassphrase) || !r.opens("passphrase", "another passphrase") {
		t.Error("the passphrase is not the new one")
	}
	if got := change("recovery", r.created.RecoveryIdentity, testPassphrase); got != "" {
		t.Fatal(got)
	}
	if r.opens("passphrase", "another passphrase") || !r.opens("passphrase", testPassphrase) {
		t.Error("the passphrase is not the one that recovery set")
	}
	if err := r.lock(t.Context(), word{operator: "unproved"}, "operator"); err != nil {
		t.Fatal(err)
	}
	if got := change("passphrase", testPassphrase, "another passphrase"); got != "vault_locked" {
		t.Error(got)
	}
}

// A keychain slot: never the only one, asked for by name, and each of the keychain's faults is told; the passphrase works all the same.
func TestKeychainSlot(t *testing.T) {
	k := &ring{items: map[string][]byte{}}
	r := newRig(t, "")
	r.cfg.Keyring = k
	r.init()
	if r.opens("keychain", "") {
		t.Fatal("there is no slot yet")
	}
	r.unlock()
	q := proved(t, "passphrase", testPassphrase, slotArgs("keychain"), "")
	k.fail(keychain.ErrLocked)
	if got := turnedDown(r.opSlotAdd, q); got != "keychain_unavailable" {
		t.Error(got)
	}
	k.fail(nil)
	if got := turnedDown(r.opSlotAdd, proved(t, "passphrase", "wrong", slotArgs("keychain"), "")); got != "proof_wrong" || len(k.items) != 0 {
		t.Errorf("%q, %d items", got, len(k.items))
	}
	out, err := r.opSlotAdd(q)
	if err != nil || out.(api.AddedSlot).RecoveryIdentity != "" {
		t.Fatalf("%v: its identity is for nobody to see", err)
	}
	if got := turnedDown(r.opSlotAdd, q); got != "exists" {
		t.Errorf("a second one: %q", got)
	}
	if !r.opens("keychain", "") {
		t.Error("the keychain does not open the vault")
	}
	for _, fault := range []error{keychain.ErrLocked, keychain.ErrDismissed, keychain.ErrUnavailable, keychain.ErrTimeout} { // V06
		k.fail(fault)
		if r.opens("keychain", "") {
			t.Errorf("opened with %v", fault)
		}
	}
	if !r.opens("passphrase", testPassphrase) {
		t.Error("the passphrase does not work without the keychain")
	}
	k.fail(nil)
	for _, s := range op[[]api.Slot](r, r.opSlotList, struct{}{}) {
		if s.Kind == "keychain" {
			if got := turnedDown(r.opSlotRemove, proved(t, "passphrase", testPassphrase, plain(api.IDArgs{ID: s.ID}), "")); got != "" {
				t.Error(got)
			}
		}
	}
	if r.opens("keychain", "") || len(k.items) != 0 {
		t.Errorf("a removed keychain slot: %d items", len(k.items))
	}
	r.stop()
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if u, ok := e.(event.VaultUnlocked); ok && u.Operator == "keychain" {
			return
		}
	}
	t.Error("the log does not say that the keychain opened the vault")
}

func readAuditPub(t testing.TB, dir string) auditlog.Pub {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := auditlog.ParsePub(b)
	if err != nil {
		t.Fatal(err)
	}
	return pub
}
