package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"filippo.io/age"
)

// SlotKind says what opens a slot.
type SlotKind string

const (
	PassphraseSlot SlotKind = "passphrase" // typed by a person
	RecoverySlot   SlotKind = "recovery"   // an identity printed on paper
	KeychainSlot   SlotKind = "keychain"   // an identity in the system's keychain: a convenience, never the only slot
)

const (
	maxPassphraseSlots = maxScryptTries
	maxSlots           = 16
)

// ErrLastSlot: without that slot nothing but a keychain, or nothing at all,
// would open the vault.
var ErrLastSlot = errors.New("the last slot that is not in a keychain")

// Slot is what may be told of a slot.
type Slot struct {
	ID        string // 32 hex digits
	Kind      SlotKind
	Created   time.Time // UTC, whole seconds
	Recipient string    // "age1pq1…"; empty for a PassphraseSlot
}

// SlotChange is what a change is about to do. Also makes from it the outbox
// batch for the same transaction; nil: none. It is called once, with no lock
// held but that of one attempt at a time, and may use the vault but for keys.
type (
	SlotChange struct{ Added, Removed []Slot }
	Also       func(SlotChange) (batch []byte, err error)
)

// NewSlot is a slot to be added: of a passphrase, or to a recipient.
type NewSlot struct {
	Kind       SlotKind
	Passphrase Key    // of a PassphraseSlot
	WorkFactor int    // of a PassphraseSlot: as in CreateOptions
	Recipient  string // of the others: what NewIdentity gave
}

// NewIdentity makes a key pair for a recovery or keychain slot. The identity is
// a secret, to be shown or kept before the slot is added.
func NewIdentity() (identity, recipient string, err error) {
	i, err := age.GenerateHybridIdentity()
	if err != nil {
		return "", "", fmt.Errorf("make identity: %w", err)
	}
	return i.String(), i.Recipient().String(), nil
}

// Slots returns the slots by age; nil unless Ready.
func (v *Vault) Slots() []Slot {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.in == nil {
		return nil
	}
	return tell(v.in.slots)
}

func tell(slots []slot) []Slot {
	out := make([]Slot, len(slots))
	for i, s := range slots {
		out[i] = Slot{s.ID, s.Kind, s.Created, s.Recipient}
	}
	return out
}

// AddSlot adds a slot; proof must open one of this vault. ErrWrongKey,
// ErrInvalid (also for too many slots); others as AddCredential.
func (v *Vault) AddSlot(ctx context.Context, n NewSlot, proof Key, also Also) (Slot, error) {
	s, err := v.changeSlots(ctx, proof, &n, also, func(slots []slot, _ Row) ([]slot, error) { return slots, nil })
	if err != nil {
		return Slot{}, fmt.Errorf("add slot: %w", err)
	}
	return s, nil
}

// RemoveSlot removes a slot; proof must open one of this vault, be it that one.
// ErrLastSlot, ErrUnknown, ErrWrongKey; others as AddCredential.
func (v *Vault) RemoveSlot(ctx context.Context, id string, proof Key, also Also) error {
	_, err := v.changeSlots(ctx, proof, nil, also, func(slots []slot, _ Row) ([]slot, error) {
		n := len(slots)
		left := slices.DeleteFunc(slots, func(s slot) bool { return s.ID == id })
		if len(left) == n {
			return nil, ErrUnknown
		}
		return left, nil
	})
	if err != nil {
		return fmt.Errorf("remove slot: %w", err)
	}
	return nil
}

// ChangePassphrase puts a slot of the passphrase next in the place of the one
// that proof opens, in one transaction. If proof opens another kind of slot,
// the only passphrase slot is replaced; ErrInvalid if there are several.
func (v *Vault) ChangePassphrase(ctx context.Context, proof, next Key, o CreateOptions, also Also) (Slot, error) {
	n := NewSlot{Kind: PassphraseSlot, Passphrase: next, WorkFactor: o.WorkFactor}
	s, err := v.changeSlots(ctx, proof, &n, also, func(slots []slot, opened Row) ([]slot, error) {
		old := func(s slot) bool {
			return s.Kind == PassphraseSlot && (s.ID == opened.ID || !isScrypt(opened))
		}
		n := len(slots)
		left := slices.DeleteFunc(slots, old)
		if n-len(left) > 1 {
			return nil, fmt.Errorf("%d passphrase slots, which one: %w", n-len(left), ErrInvalid)
		}
		return left, nil
	})
	if err != nil {
		return Slot{}, fmt.Errorf("change passphrase: %w", err)
	}
	return s, nil
}

// changeSlots commits the slots that edit keeps, and n if it isn't nil, whose
// description it returns. opened is the slot that proof opened. One attempt at
// a time: sealing to a passphrase takes what opening one does.
func (v *Vault) changeSlots(ctx context.Context, proof Key, n *NewSlot, also Also, edit editSlots) (Slot, error) {
	if v.State() != Ready {
		return Slot{}, v.refusal()
	}
	if err := v.begin(ctx); err != nil {
		return Slot{}, err
	}
	defer v.end()
	opened, err := v.opened(ctx, proof)
	if err != nil {
		return Slot{}, err
	}
	change, err := v.foresee(opened, n, edit)
	if err != nil {
		return Slot{}, err
	}
	var added []slot
	if n != nil {
		s, err := v.seal(*n)
		if err != nil {
			return Slot{}, err
		}
		added = append(added, s)
		change.Added = tell(added)
	}
	var batch []byte
	if also != nil {
		if batch, err = also(change); err != nil {
			return Slot{}, err
		}
	}
	err = v.change(ctx, batch, func(next *interior) ([]Row, []string, error) {
		was := next.slotRows()
		slots, err := edit(next.slots, opened)
		if err != nil {
			return nil, nil, err
		}
		for _, s := range added {
			s.row.Version = next.manifest.counter
			slots = append(slots, s)
		}
		if err := checkSlots(slots); err != nil {
			return nil, nil, err
		}
		verifier, err := next.setSlots(slots)
		if err != nil {
			return nil, nil, err
		}
		put, drop := next.difference(was)
		return append(put, verifier), drop, nil
	})
	if n == nil || err != nil {
		return Slot{}, err
	}
	return change.Added[0], nil
}

// editSlots returns the slots that stay; it may change the slice it is given.
type editSlots func(slots []slot, opened Row) ([]slot, error)

// foresee says what a change will remove, and refuses one that may not be
// before a key is stretched for it. Slots change one attempt at a time, so what
// it saw still holds at the commit.
func (v *Vault) foresee(opened Row, n *NewSlot, edit editSlots) (c SlotChange, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.in == nil {
		return c, v.refusal()
	}
	left, err := edit(slices.Clone(v.in.slots), opened)
	if err != nil {
		return c, err
	}
	for _, s := range v.in.slots {
		if !slices.ContainsFunc(left, func(o slot) bool { return o.ID == s.ID }) {
			c.Removed = append(c.Removed, tell([]slot{s})...)
		}
	}
	if n != nil {
		left = append(left, slot{listed: listed{Kind: n.Kind}})
	}
	return c, checkSlots(left)
}

// seal makes the slot that n asks for. It works on a copy of the key, so that a
// Lock does not wait for scrypt.
func (v *Vault) seal(n NewSlot) (slot, error) {
	r, err := n.recipient()
	if err != nil {
		return slot{}, err
	}
	k, err := v.copyKeys()
	if err != nil {
		return slot{}, err
	}
	defer k.wipe()
	return newSlot(k, n.Kind, r, n.Recipient)
}

// copyKeys returns keys that a Lock does not wipe: the caller does.
func (v *Vault) copyKeys() (*keys, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.in == nil {
		return nil, v.refusal()
	}
	return v.in.keys.copy(), nil
}

func checkSlots(slots []slot) error {
	var passphrases, keychains int
	for _, s := range slots {
		switch s.Kind {
		case PassphraseSlot:
			passphrases++
		case KeychainSlot:
			keychains++
		}
	}
	switch {
	case keychains == len(slots):
		return ErrLastSlot
	case passphrases > maxPassphraseSlots || len(slots) > maxSlots:
		return fmt.Errorf("%d slots, %d of a passphrase: %w", len(slots), passphrases, ErrInvalid)
	}
	return nil
}

// difference counts the slot rows that came and went since was.
func (next *interior) difference(was []Row) (put []Row, drop []string) {
	now := next.slotRows()
	in := func(rows []Row, r Row) bool {
		return slices.ContainsFunc(rows, func(o Row) bool { return o.ID == r.ID })
	}
	for _, r := range now {
		if !in(was, r) {
			put = append(put, r)
			next.manifest.add(next.keys, r)
		}
	}
	for _, r := range was {
		if !in(now, r) {
			drop = append(drop, r.ID)
			next.manifest.remove(next.keys, r)
		}
	}
	return put, drop
}

func (n NewSlot) recipient() (age.Recipient, error) {
	switch n.Kind {
	case PassphraseSlot:
		if n.Recipient != "" {
			return nil, fmt.Errorf("a passphrase slot with a recipient: %w", ErrInvalid)
		}
		return scryptRecipient(n.Passphrase, n.WorkFactor)
	case RecoverySlot, KeychainSlot:
		r, err := age.ParseHybridRecipient(n.Recipient)
		if err != nil || n.Passphrase.isPassphrase() {
			return nil, fmt.Errorf("recipient of a %s slot: %w", n.Kind, ErrInvalid)
		}
		return r, nil
	default:
		return nil, fmt.Errorf("slot kind %q: %w", n.Kind, ErrInvalid)
	}
}

// newSlot makes a slot of k; its row has no version yet.
func newSlot(k *keys, kind SlotKind, r age.Recipient, recipient string) (slot, error) {
	at := newID()
	l := listed{ID: at.String(), Kind: kind, Created: time.Now().UTC().Truncate(time.Second), Recipient: recipient}
	return l.seal(k, at, r)
}

// seal makes l's file, of k.
func (l listed) seal(k *keys, at id, r age.Recipient) (slot, error) {
	row, err := sealSlot(k, at, r)
	if err != nil {
		return slot{}, err
	}
	d := sha256.Sum256(row.Data)
	l.Digest = d[:]
	return slot{l, row}, nil
}
