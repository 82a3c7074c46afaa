package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Unlock opens a slot with k, checks every stored row and makes the vault
// ready. ErrWrongKey; ErrQuarantined if the rows contradict the manifest (the
// vault then stays quarantined); ErrAbsent; ErrLocked if Lock was called
// meanwhile. On a ready vault it is Check. One attempt at a time: others wait
// until ctx ends.
func (v *Vault) Unlock(ctx context.Context, k Key) error {
	if err := v.begin(ctx); err != nil {
		return fmt.Errorf("unlock vault: %w", err)
	}
	defer v.end()
	var err error
	if v.State() == Ready {
		err = v.check(ctx, k)
	} else {
		err = v.unlock(ctx, k)
	}
	if err != nil {
		return fmt.Errorf("unlock vault: %w", err)
	}
	return nil
}

// Check says whether k opens a slot of this vault, and changes nothing.
// ErrWrongKey, ErrAbsent. It shares Unlock's one attempt at a time.
func (v *Vault) Check(ctx context.Context, k Key) error {
	if err := v.begin(ctx); err != nil {
		return fmt.Errorf("check key: %w", err)
	}
	defer v.end()
	if err := v.check(ctx, k); err != nil {
		return fmt.Errorf("check key: %w", err)
	}
	return nil
}

func (v *Vault) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case v.flight <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *Vault) end() { <-v.flight }

func (v *Vault) unlock(ctx context.Context, k Key) error {
	v.write.Lock() // no change may land between Load and publish
	defer v.write.Unlock()
	closes := v.closed()
	if v.State() != Locked {
		return v.refusal()
	}
	rows, base, err := v.store.Load(ctx)
	if err != nil {
		return err
	}
	keys, err := openSlot(rows, k, func(k *keys) bool { return belongs(rows, k) })
	if err != nil {
		return err
	}
	in, forged, err := audit(rows, base, keys)
	if err != nil {
		keys.wipe()
		v.Quarantine(err.Error())
		return fmt.Errorf("%w: %w", ErrQuarantined, err)
	}
	return v.publish(in, closes, forged)
}

func (v *Vault) check(ctx context.Context, k Key) error {
	v.mu.RLock()
	var slots []Row
	if v.in != nil {
		slots = v.in.slots
	}
	v.mu.RUnlock()
	if slots != nil { // ready: what was checked at unlock, never the file again
		keys, err := openSlot(slots, k, func(got *keys) bool {
			v.mu.RLock()
			defer v.mu.RUnlock()
			return v.in != nil && v.in.keys.equal(got)
		})
		keys.wipe()
		return err
	}
	if v.State() == Absent {
		return ErrAbsent
	}
	rows, _, err := v.store.Load(ctx)
	if err != nil {
		return err
	}
	keys, err := openSlot(rows, k, func(k *keys) bool { return belongs(rows, k) })
	keys.wipe()
	return err
}

// belongs says whether k is these rows' DEK. Either row is enough: if the other
// was spoilt, that is a matter for audit, not a wrong key.
func belongs(rows []Row, k *keys) bool {
	for _, r := range rows {
		if r.Table != tableVerifier && r.Table != tableManifest {
			continue
		}
		if _, err := k.unsealRow(r); err == nil {
			return true
		}
	}
	return false
}

// audit checks all rows against the manifest and returns the vault they make,
// with the ids of rows to ignore. An error is the reason for quarantine.
func audit(rows []Row, base uint64, k *keys) (*interior, []string, error) {
	in := newInterior(k)
	slots, err := verifier(rows, k)
	if err != nil {
		return nil, nil, err
	}
	stored, manifests := manifest{}, 0
	found := manifest{counter: base, generation: k.generation}
	var forged []string
	for _, r := range rows {
		genuine := false
		switch r.Table {
		case tableManifest:
			if m, err := k.manifest(r); err == nil && m.counter == r.Version {
				stored, in.manifestID = m, r.ID
				manifests++
				continue
			}
		case tableVerifier:
			_, err := k.unsealRow(r)
			genuine = err == nil
		case tableSlot:
			d, listed := slots[r.ID]
			if genuine = listed && d == sha256.Sum256(r.Data); genuine {
				in.slots = append(in.slots, r)
			}
		default:
			if genuine, err = in.load(r); err != nil {
				return nil, nil, err
			}
		}
		if !genuine {
			forged = append(forged, r.ID)
			continue
		}
		found.add(k, r)
	}
	switch {
	case manifests != 1:
		return nil, nil, errors.New("manifest row is missing or altered")
	case stored.counter != base:
		return nil, nil, fmt.Errorf("manifest counts %d changes, store counts %d", stored.counter, base)
	case stored != found:
		return nil, nil, fmt.Errorf("manifest covers %d rows, store holds %d genuine ones that do not match it", stored.rows, found.rows)
	}
	in.manifest = stored
	return in, forged, nil
}

// verifier returns the genuine slots.
func verifier(rows []Row, k *keys) (map[string][32]byte, error) {
	for _, r := range rows {
		if r.Table != tableVerifier {
			continue
		}
		if b, err := k.unsealRow(r); err == nil {
			return parseVerifier(k, b)
		}
	}
	return nil, errors.New("verifier row is missing or altered")
}

func (k *keys) manifest(r Row) (manifest, error) {
	b, err := k.unsealRow(r)
	if err != nil {
		return manifest{}, err
	}
	return parseManifest(b)
}
