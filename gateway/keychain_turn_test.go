package gateway

import (
	"context"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// swift does something just before an item is deleted.
type swift struct {
	*ring
	at func()
}

func (k *swift) Delete(ctx context.Context, account string) error {
	k.at()
	return k.ring.Delete(ctx, account)
}

// A keychain slot that comes may not put its item there before that of the one that goes is deleted: it would be the new one.
func TestKeychainTurn(t *testing.T) {
	k := &swift{ring: &ring{items: map[string][]byte{}}}
	r := newRig(t, "")
	r.cfg.Keyring = k
	r.init()
	add := func(ctx context.Context) (any, error) {
		q := proved(t, "passphrase", testPassphrase, slotArgs("keychain"), "")
		q.ctx = ctx
		return r.opSlotAdd(q)
	}
	out, err := add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	k.at = func() {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // it waits for its turn, which does not come
		defer cancel()
		_, err := add(ctx)
		if asked = true; err == nil {
			t.Error("a slot was added between a slot's removal and its item's")
		}
	}
	if _, err := r.opSlotRemove(proved(t, "passphrase", testPassphrase, plain(api.IDArgs{ID: out.(api.AddedSlot).Slot.ID}), "")); err != nil || !asked {
		t.Fatal(err, asked)
	}
	if _, err := add(t.Context()); err != nil || !r.opens("keychain", "") {
		t.Errorf("the slot that came opens nothing: %v", err)
	}
}
