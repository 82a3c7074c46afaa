package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"

	"filippo.io/age"
)

// CreateOptions has no defaults: the cost of a guess is the caller's choice.
type CreateOptions struct {
	WorkFactor int // log2 of scrypt's N, 1 to 20; 0 is an error
}

// Draft is a vault that exists in memory only. Commit stores it; Discard
// forgets it. RecoveryIdentity is a secret, to be shown once and kept by no
// program.
type Draft struct {
	VaultID           string
	RecoveryIdentity  string // "AGE-SECRET-KEY-PQ-1…"
	RecoveryRecipient string // "age1pq1…"

	v     *Vault
	keys  *keys // nil once committed or discarded
	slots []slot
}

// Prepare makes the keys of a new vault with a passphrase slot for k and a
// recovery slot. Nothing is stored. ErrExists unless the vault is absent.
func (v *Vault) Prepare(k Key, o CreateOptions) (*Draft, error) {
	scrypt, err := scryptRecipient(k, o.WorkFactor)
	if err != nil {
		return nil, fmt.Errorf("prepare vault: %w", err)
	}
	v.flight <- struct{}{}
	defer v.end()
	if v.State() != Absent {
		return nil, fmt.Errorf("prepare vault: %w", ErrExists)
	}
	recovery, err := age.GenerateHybridIdentity()
	if err != nil {
		return nil, fmt.Errorf("prepare vault: %w", err)
	}

	dek := make([]byte, 32)
	defer clear(dek)
	_, _ = rand.Read(dek)
	d := &Draft{v: v, keys: newKeys(dek, newID(), 1)}
	d.VaultID = d.keys.vault.String()
	d.RecoveryIdentity = recovery.String()
	d.RecoveryRecipient = recovery.Recipient().String()
	if err = d.slot(PassphraseSlot, scrypt, ""); err == nil {
		err = d.slot(RecoverySlot, recovery.Recipient(), d.RecoveryRecipient)
	}
	if err != nil {
		d.Discard()
		return nil, fmt.Errorf("prepare vault: %w", err)
	}
	return d, nil
}

func (d *Draft) slot(kind SlotKind, r age.Recipient, recipient string) error {
	s, err := newSlot(d.keys, kind, r, recipient)
	s.row.Version = 1
	d.slots = append(d.slots, s)
	return err
}

// Seal is Vault.Seal with the keys of the draft, for what its first
// transaction carries.
func (d *Draft) Seal(use string, ad, plain []byte) ([]byte, error) {
	if d.keys == nil {
		return nil, fmt.Errorf("seal %s: %w", use, ErrLocked)
	}
	return d.keys.sealUse(use, ad, plain), nil
}

// String is the vault id alone, and so are all other printed forms.
func (d *Draft) String() string               { return "draft of vault " + d.VaultID }
func (d *Draft) GoString() string             { return d.String() }
func (d *Draft) Format(s fmt.State, _ rune)   { _, _ = io.WriteString(s, d.String()) }
func (d *Draft) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
func (d *Draft) LogValue() slog.Value         { return slog.StringValue(d.String()) }

// Discard wipes the draft's keys. It does nothing after a Commit that stored it.
func (d *Draft) Discard() {
	d.keys.wipe()
	d.keys = nil
	d.RecoveryIdentity = ""
}

// Commit stores the vault in one transaction: slots, verifier, the internal
// secrets by name, and also. The vault is then ready. After an error nothing is
// known to be stored and the draft may be committed again. ErrExists and
// ErrConflict: another vault is there. ErrLocked: stored, and locked meanwhile.
func (d *Draft) Commit(ctx context.Context, internal map[string][]byte, also []byte) error {
	if d.keys == nil {
		return fmt.Errorf("create vault: %w", ErrExists)
	}
	d.v.write.Lock()
	defer d.v.write.Unlock()
	if s := d.v.State(); s != Absent {
		return fmt.Errorf("create vault, which is %s: %w", s, ErrExists)
	}
	closes := d.v.closed()
	in, put, err := d.rows(internal)
	if err != nil {
		return fmt.Errorf("create vault: %w", err)
	}
	if err := d.v.store.Commit(ctx, 0, put, nil, also); err != nil {
		return fmt.Errorf("create vault: %w", err)
	}
	d.keys = nil // the vault's now
	if err := d.v.publish(in, closes, nil); err != nil {
		return fmt.Errorf("create vault: %w", err)
	}
	return nil
}

// rows makes the first interior and everything the first transaction holds.
func (d *Draft) rows(internal map[string][]byte) (*interior, []Row, error) {
	in := newInterior(d.keys)
	in.manifest = manifest{counter: 1, generation: d.keys.generation}
	in.manifestID = newID().String()
	in.slots = d.slots
	verifier, err := in.sealRoster(newID().String())
	if err != nil {
		return nil, nil, err
	}
	in.verifier = verifier
	put := append(in.slotRows(), verifier)
	for _, r := range put {
		in.manifest.add(d.keys, r)
	}
	for _, name := range slices.Sorted(maps.Keys(internal)) {
		r, err := in.put(Internal, entry{Name: name}, bytes.Clone(internal[name]))
		if err != nil {
			return nil, nil, fmt.Errorf("internal secret: %w", err)
		}
		put = append(put, r)
	}
	return in, append(put, in.sealManifest()), nil
}
