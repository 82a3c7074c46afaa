package gateway

import (
	"context"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/store"
	"sallyport/vault"
)

// What opens the vault: its slots. Each change is proved by a key that opens one of them, recorded, and made by one
// operator at a time (proof's one turn), so that what a change said it would do is what it did.

func (g *Gateway) opSlotList(r opRequest) (any, error) {
	if err := g.ready(); err != nil {
		return nil, err
	}
	out := []api.Slot{}
	for _, s := range g.vault.Slots() {
		out = append(out, shownSlot(s))
	}
	return out, nil
}

func shownSlot(s vault.Slot) api.Slot {
	return api.Slot{ID: s.ID, Kind: string(s.Kind), CreatedAt: s.Created}
}

func (g *Gateway) opSlotAdd(r opRequest) (any, error) {
	var a api.SlotArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	n := vault.NewSlot{Kind: vault.SlotKind(a.Kind), WorkFactor: g.cfg.WorkFactor}
	var identity string
	var err error
	switch n.Kind {
	case vault.PassphraseSlot:
		value, err := r.newPassphrase(a.ValueLength, a.ValueDigest)
		if err != nil {
			return nil, err
		}
		n.Passphrase = vault.Passphrase(value)
		defer n.Passphrase.Wipe()
	case vault.RecoverySlot, vault.KeychainSlot:
		if len(r.value) > 0 {
			return nil, api.Fail("invalid_request", "a "+a.Kind+" slot takes no value: its key is made here")
		}
		if identity, n.Recipient, err = vault.NewIdentity(); err != nil {
			return nil, err
		}
	default:
		return nil, api.Fail("invalid_request", "kind: passphrase, recovery or keychain")
	}
	added, err := g.addSlot(r, n, identity)
	if err != nil {
		return nil, err
	}
	out := api.AddedSlot{Slot: shownSlot(added)}
	if n.Kind == vault.RecoverySlot {
		out.RecoveryIdentity = identity
	}
	return out, nil
}

// addSlot adds one. A keychain's identity is in the keychain before the slot is in the vault: a slot that nothing opens
// would look like a way in.
func (g *Gateway) addSlot(r opRequest, n vault.NewSlot, identity string) (added vault.Slot, err error) {
	err = g.withSlotKey(r, func(proof vault.Key) error {
		if n.Kind == vault.KeychainSlot {
			if err := g.keepKeychain(r.ctx, proof, identity); err != nil {
				return err
			}
		}
		err := g.changeSlots(r.ctx, r.who, func(ctx context.Context, also vault.Also) (err error) {
			added, err = g.vault.AddSlot(ctx, n, proof, also)
			return err
		})
		if err != nil && added.ID == "" && n.Kind == vault.KeychainSlot {
			g.forgetKeychain(r.ctx)
		}
		return err
	})
	return added, err
}

func (g *Gateway) opSlotRemove(r opRequest) (any, error) {
	var a api.IDArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	var kind vault.SlotKind
	for _, s := range g.vault.Slots() {
		if s.ID == a.ID {
			kind = s.Kind
		}
	}
	err := g.withSlotKey(r, func(proof vault.Key) error {
		err := g.changeSlots(r.ctx, r.who, func(ctx context.Context, also vault.Also) error {
			return g.vault.RemoveSlot(ctx, a.ID, proof, also)
		})
		if err == nil && kind == vault.KeychainSlot { // in the same turn: the item may be the next slot's right after it
			g.forgetKeychain(r.ctx)
		}
		return err
	})
	return struct{}{}, err
}

// opPassphrase puts a new passphrase in the place of the one that is the proof; of the only one, if the proof is the
// recovery identity.
func (g *Gateway) opPassphrase(r opRequest) (any, error) {
	var a api.PassphraseArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	value, err := r.newPassphrase(a.ValueLength, a.ValueDigest)
	if err != nil {
		return nil, err
	}
	next := vault.Passphrase(value)
	defer next.Wipe()
	var added vault.Slot
	err = g.withSlotKey(r, func(proof vault.Key) error {
		return g.changeSlots(r.ctx, r.who, func(ctx context.Context, also vault.Also) (err error) {
			added, err = g.vault.ChangePassphrase(ctx, proof, next, vault.CreateOptions{WorkFactor: g.cfg.WorkFactor}, also)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return api.AddedSlot{Slot: shownSlot(added)}, nil
}

// withSlotKey runs f with the key that the proof is, under the limits of guessing and one at a time.
func (g *Gateway) withSlotKey(r opRequest, f func(vault.Key) error) error {
	if err := g.ready(); err != nil {
		return err
	}
	key, err := slotKey(r.proof)
	if err != nil {
		return err
	}
	defer key.Wipe()
	err = g.proof.Guard(r.ctx, func() error { return slotFault(wrongIs(f(key))) })
	if err == nil {
		g.attended()
	}
	return err
}

// slotFault names what a change of slots is refused for.
func slotFault(err error) error {
	switch {
	case errors.Is(err, vault.ErrWrongKey), err == nil:
		return err
	case errors.Is(err, vault.ErrLastSlot):
		return api.Fail("last_slot", "")
	case errors.Is(err, vault.ErrUnknown):
		return api.Fail("not_found", "no slot of this id")
	case errors.Is(err, vault.ErrInvalid):
		return api.Fail("invalid_request", "a vault has at most 4 passphrase slots and 16 slots in all; with several passphrases, prove the one that is to go")
	}
	return err
}

// changeSlots does one change of slots with its events. The authority lock is taken only once keys are stretched: a
// revocation does not wait for scrypt. Then the log follows a change of recovery slots.
func (g *Gateway) changeSlots(ctx context.Context, operator string, change func(context.Context, vault.Also) error) error {
	var (
		b    store.Batch
		evs  []event.Event
		held bool
	)
	defer func() {
		if held {
			g.authority.Unlock()
		}
	}()
	err := change(context.WithoutCancel(ctx), func(c vault.SlotChange) (_ []byte, err error) {
		g.authority.Lock()
		held = true
		if err := g.ready(); err != nil {
			return nil, err
		}
		for _, s := range c.Added {
			evs = append(evs, event.SlotAdded{Slot: s.ID, Kind: string(s.Kind), Operator: operator})
		}
		for _, s := range c.Removed {
			evs = append(evs, event.SlotRemoved{Slot: s.ID, Kind: string(s.Kind), Operator: operator})
		}
		b, err = g.batch(false, evs)
		return b.Bytes(), err
	})
	if err != nil {
		return err
	}
	if err := g.tell(ctx, b, evs); err != nil {
		return err
	}
	set, err := readSettings(g.vault.Snapshot())
	if err != nil {
		return err
	}
	return g.followRecipients(ctx, set.Recipients, operator)
}

// newPassphrase is the request's value as a passphrase that is to be set.
func (r opRequest) newPassphrase(length int, digest []byte) ([]byte, error) {
	value, err := r.checked(length, digest)
	if err != nil {
		return nil, err
	}
	return value, fitPassphrase(value)
}

// maxPassphrase is in bytes: nobody types more, and scrypt's first step hashes all of it.
const maxPassphrase = 4096

// fitPassphrase says whether a passphrase may be set. scrypt reads one that ends in NUL as one that doesn't, and no
// terminal gives control characters.
func fitPassphrase(p []byte) error {
	switch {
	case len(p) < minPassphrase:
		return api.Fail("proof_required", fmt.Sprintf("a passphrase has at least %d characters", minPassphrase))
	case len(p) > maxPassphrase || !utf8.Valid(p):
		return api.Fail("invalid_request", fmt.Sprintf("a passphrase is UTF-8, at most %d bytes", maxPassphrase))
	}
	for _, c := range string(p) {
		if unicode.IsControl(c) {
			return api.Fail("invalid_request", "a passphrase holds no control characters")
		}
	}
	return nil
}
