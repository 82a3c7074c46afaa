package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	keys, _, err := openSlot(rows, k, func(k *keys, s Row) bool { return belongs(rows, k, s) })
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
	_, err := v.opened(ctx, k)
	return err
}

// opened is the slot that k opens. Of a ready vault it asks what was checked at
// unlock, never the file again.
func (v *Vault) opened(ctx context.Context, k Key) (Row, error) {
	v.mu.RLock()
	var slots []Row
	if v.in != nil {
		slots = v.in.slotRows()
	}
	v.mu.RUnlock()
	accept := func(got *keys, _ Row) bool {
		v.mu.RLock()
		defer v.mu.RUnlock()
		return v.in != nil && v.in.keys.equal(got)
	}
	if slots == nil {
		if v.State() == Absent {
			return Row{}, ErrAbsent
		}
		rows, _, err := v.store.Load(ctx)
		if err != nil {
			return Row{}, err
		}
		slots = rows
		accept = func(got *keys, s Row) bool { return belongs(rows, got, s) }
	}
	keys, r, err := openSlot(slots, k, accept)
	keys.wipe()
	return r, err
}

// audit checks all rows against the manifest and returns the vault they make,
// with the ids of rows to ignore. An error is the reason for quarantine.
func audit(rows []Row, base uint64, k *keys) (*interior, []string, error) {
	in := newInterior(k)
	stored, manifests := manifest{}, 0
	found := manifest{counter: base, generation: k.generation}
	slots, err := in.openVerifier(rows)
	if err != nil {
		return nil, nil, err
	}
	var forged []string
	for _, r := range rows {
		if r.Table == tableManifest {
			if m, err := k.manifest(r); err == nil && m.counter == r.Version {
				stored, in.manifestID = m, r.ID
				manifests++
				continue
			}
		}
		genuine, err := in.admit(r, slots)
		if err != nil {
			return nil, nil, err
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
	at := func(s slot) int { return slices.IndexFunc(slots, func(l listed) bool { return l.ID == s.ID }) }
	slices.SortFunc(in.slots, func(a, b slot) int { return cmp.Compare(at(a), at(b)) })
	return in, forged, nil
}

// openVerifier finds the verifier row and returns the genuine slots.
func (in *interior) openVerifier(rows []Row) ([]listed, error) {
	for _, r := range rows {
		if r.Table != tableVerifier {
			continue
		}
		if l, err := in.keys.roster(r); err == nil {
			in.verifier = r
			return l, nil
		}
	}
	return nil, errors.New("verifier row is missing or altered")
}

// admit enters a stored row. False: nobody with the DEK wrote it.
func (in *interior) admit(r Row, slots []listed) (bool, error) {
	switch r.Table {
	case tableVerifier:
		_, err := in.keys.unsealRow(r, nil)
		return err == nil, nil
	case tableSlot:
		for _, l := range slots {
			if l.is(r) {
				in.slots = append(in.slots, slot{l, r})
				return true, nil
			}
		}
		return false, nil
	case tablePast:
		if in.past.ID != "" || in.keys.openPast(r) != nil {
			return false, nil
		}
		in.past = r
		return true, nil
	default:
		return in.load(r)
	}
}
