package gateway

import (
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/store"
)

// Batches that somebody with the database wrote: what only an operator's proof tells is not believed from there, and what
// can't be read keeps no gateway from starting. Each is told as forged.
func TestForgedOutbox(t *testing.T) {
	r := newRig(t, "")
	r.init()
	for i, b := range []store.Batch{
		{Body: []byte("[" + string(event.Encode(event.SettingsChanged{Settings: []string{"budgets"}, Operator: "ann"})) + "]")},
		{Body: []byte("[" + string(event.Encode(event.ToolResolved{Action: "act_01", Resolution: "happened", Operator: "ann"})) + "]")},
		{Body: []byte("no batch")},
		{Body: []byte(`[{"type":"of no version"}]`)},
		{Sealed: true, Body: make([]byte, 200)},
		{Body: []byte("[" + string(event.Encode(event.VaultLocked{Operator: "automatic", Reason: "stop"})) + "]")}, // such a loss may wait there
	} {
		b.ID[0] = byte(i + 1)
		if err := r.db.Change(t.Context(), func(tx *store.Tx) error { return tx.Outbox(b) }); err != nil {
			t.Fatal(err)
		}
	}
	got := reopen(t, snapshot(t, r.dir), r.created.ReaderIdentity)
	if n := count(got.evs, "settings_changed") + count(got.evs, "tool_resolved"); n != 0 {
		t.Errorf("%d forged events are in the log", n)
	}
	if n := count(got.evs, "rows_forged"); n != 5 {
		t.Errorf("%d told as forged, want 5", n)
	}
	if n := count(got.evs, "vault_locked"); n == 0 {
		t.Error("the loss is gone")
	}
}

// A new vault's passphrase keeps to what any later one must: scrypt takes NULs at the end for nothing.
func TestInitPassphrase(t *testing.T) {
	r := newRig(t, "")
	for _, p := range []string{"\x00\x00\x00\x00\x00\x00\x00\x00", "abcdefg\x00", "abcdefgh\n", "short"} {
		q := proved(t, "passphrase", p, plain(struct{}{}), "")
		if got := turnedDown(r.opInit, q); got != "invalid_request" && got != "proof_required" {
			t.Errorf("%q: %q", p, got)
		}
	}
	r.init()
}
