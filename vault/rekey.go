package vault

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"filippo.io/age"
)

// Moved tells what Rekey or Restore made.
type Moved struct {
	VaultID             string
	Generation, Counter uint64
	Resealed            int // boxes of Seal in the database, now under this generation's key
	Unreadable          int // boxes that no key of this vault opens, kept as they are
}

// Rekey makes a new DEK and everything anew under it, in a new database that
// takes the place of the old one: rows, slots, and the boxes of Seal that the
// database holds. Boxes kept elsewhere stay readable. keys must open every
// passphrase slot, since these can't be sealed anew without it: ErrWrongKey
// names what is missing. Recovery and keychain slots need nothing. o is of the
// new passphrase slots. No box that Seal gave before may be written to the
// database after. ErrLocked: done, and locked meanwhile. If it can't be known
// which database is in place, the vault is locked.
func (v *Vault) Rekey(ctx context.Context, keys []Key, o CreateOptions, also []byte) (Moved, error) {
	if v.State() != Ready {
		return Moved{}, fmt.Errorf("rekey vault: %w", v.refusal())
	}
	if err := v.begin(ctx); err != nil {
		return Moved{}, fmt.Errorf("rekey vault: %w", err)
	}
	defer v.end()
	m, err := v.rekey(ctx, keys, o, also)
	if err != nil {
		return m, fmt.Errorf("rekey vault: %w", err)
	}
	return m, nil
}

func (v *Vault) rekey(ctx context.Context, with []Key, o CreateOptions, also []byte) (m Moved, err error) {
	v.write.Lock()
	defer v.write.Unlock()
	was, closes, err := v.own()
	if err != nil {
		return Moved{}, err
	}
	defer was.keys.wipe()
	dek := make([]byte, 32)
	defer clear(dek)
	_, _ = rand.Read(dek)
	next, err := was.move(was.keys.next(dek, was.keys.generation+1), was.manifest.counter+1)
	if err != nil {
		return Moved{}, err
	}
	keep := false
	defer func() {
		if !keep {
			next.wipe()
		}
	}()
	opened, err := was.openAll(with)
	if err != nil {
		return Moved{}, err
	}
	if next.slots, err = was.slotsFor(next, opened, o); err != nil {
		return Moved{}, err
	}
	m = next.moved()
	err = v.store.Swap(ctx, Swap{
		Edit: func(_ []Row, base uint64) ([]Row, uint64, error) {
			if base != was.manifest.counter {
				return nil, 0, ErrConflict
			}
			rows, err := next.rows()
			return rows, next.manifest.counter, err
		},
		Reseal: m.reseal(next.keys, was.keys),
		Verify: func(rows []Row, base uint64) error { return next.verify(rows, base, with) },
		Also:   func() ([]byte, error) { return also, nil },
	})
	if err != nil {
		if _, base, lost := v.store.Load(ctx); lost != nil || base != was.manifest.counter {
			v.Lock()
		}
		return Moved{}, err
	}
	keep = true
	return m, v.publish(next, closes, nil)
}

// own returns the interior with keys that a Lock does not wipe.
func (v *Vault) own() (*interior, uint64, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.in == nil {
		return nil, 0, v.refusal()
	}
	in := v.in.clone()
	in.keys = in.keys.copy()
	return in, v.closes, nil
}

// openAll finds the slot that each key opens, by slot id. Every passphrase slot
// must be among them.
func (in *interior) openAll(with []Key) (map[string]Key, error) {
	opened, left := map[string]Key{}, in.slotRows()
	for _, k := range with {
		got, r, err := openSlot(left, k, func(got *keys, _ Row) bool { return got.equal(in.keys) })
		if err != nil {
			return nil, err
		}
		got.wipe()
		opened[r.ID] = k
		left = slices.DeleteFunc(left, func(o Row) bool { return o.ID == r.ID })
	}
	for _, s := range in.slots {
		if _, ok := opened[s.ID]; !ok && s.Kind == PassphraseSlot {
			return nil, fmt.Errorf("passphrase slot %s would be lost, its passphrase is needed too: %w", s.ID, ErrWrongKey)
		}
	}
	if len(opened) == 0 {
		return nil, ErrWrongKey
	}
	return opened, nil
}

// slotsFor makes in's slots anew for next.
func (in *interior) slotsFor(next *interior, opened map[string]Key, o CreateOptions) ([]slot, error) {
	var out []slot
	for _, s := range in.slots {
		var r age.Recipient
		var err error
		if s.Kind == PassphraseSlot {
			r, err = scryptRecipient(opened[s.ID], o.WorkFactor)
		} else {
			r, err = age.ParseHybridRecipient(s.Recipient)
		}
		if err != nil {
			return nil, err
		}
		at, err := parseID(s.ID)
		if err != nil {
			return nil, err
		}
		n, err := s.seal(next.keys, at, r)
		if err != nil {
			return nil, err
		}
		n.row.Version = next.manifest.counter
		out = append(out, n)
	}
	return out, nil
}

func (next *interior) moved() Moved {
	return Moved{VaultID: next.keys.vault.String(), Generation: next.keys.generation, Counter: next.manifest.counter}
}

// reseal puts boxes that from opens under to's key, and counts.
func (m *Moved) reseal(to *keys, from ...*keys) func(use string, ad, box []byte) ([]byte, error) {
	return func(use string, ad, box []byte) ([]byte, error) {
		err := errors.New("no keys")
		for _, k := range from {
			var plain []byte
			if plain, err = k.unsealUse(use, ad, box); err == nil {
				defer clear(plain)
				m.Resealed++
				return to.sealUse(use, ad, plain), nil
			}
		}
		m.Unreadable++
		return nil, err
	}
}
