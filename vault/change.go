package vault

import (
	"context"
	"fmt"
)

// AddCredential stores a new credential and returns m with its version. value
// is neither kept nor cleared. also (nil: none) is an outbox batch for the same
// transaction. ErrExists, ErrInvalid, ErrLocked; after ErrConflict memory and
// store differ, and no change succeeds until the vault is locked and unlocked.
func (v *Vault) AddCredential(ctx context.Context, m Meta, value, also []byte) (Meta, error) {
	e := entry{Name: m.Name, Kind: m.Kind, Confirm: m.Confirm, Account: m.Account, Rules: m.Rules}
	err := v.change(ctx, also, func(next *interior) ([]Row, []string, error) {
		r, err := next.put(Credentials, e, value)
		m = next.credentials[e.Name]
		return []Row{r}, nil, err
	})
	if err != nil {
		return Meta{}, fmt.Errorf("add credential: %w", err)
	}
	return m, nil
}

// AddHost stores a new target; errors as AddCredential.
func (v *Vault) AddHost(ctx context.Context, h Host, also []byte) (Host, error) {
	e := entry{Name: h.Name, Data: h.Data}
	err := v.change(ctx, also, func(next *interior) ([]Row, []string, error) {
		r, err := next.put(Hosts, e, nil)
		h = next.hosts[e.Name]
		return []Row{r}, nil, err
	})
	if err != nil {
		return Host{}, fmt.Errorf("add host: %w", err)
	}
	return h, nil
}

// SetSetting stores a setting's document, in the place of the one it had; errors as AddCredential, but never ErrExists.
func (v *Vault) SetSetting(ctx context.Context, name string, data, also []byte) error {
	var gone held
	err := v.change(ctx, also, func(next *interior) (put []Row, drop []string, err error) {
		if _, had := next.entries[Settings][name]; had {
			if gone, err = next.drop(Settings, name); err != nil {
				return nil, nil, err
			}
			drop = []string{gone.ID}
		}
		r, err := next.put(Settings, entry{Name: name, Data: data}, nil)
		return []Row{r}, drop, err
	})
	if err != nil {
		return fmt.Errorf("set setting: %w", err)
	}
	if gone.spare != nil {
		gone.spare.close()
	}
	return nil
}

// Drop deletes an entry; the store overwrites its bytes. ErrUnknown; other
// errors as AddCredential.
func (v *Vault) Drop(ctx context.Context, t Table, name string, also []byte) error {
	var gone held
	err := v.change(ctx, also, func(next *interior) (_ []Row, _ []string, err error) {
		gone, err = next.drop(t, name)
		return nil, []string{gone.ID}, err
	})
	if err != nil {
		return fmt.Errorf("drop %s: %w", t, err)
	}
	gone.spare.close()
	return nil
}

// change commits what edit does to a copy of the interior, then shows it.
func (v *Vault) change(ctx context.Context, also []byte, edit func(*interior) ([]Row, []string, error)) error {
	if v.State() != Ready { // before waiting behind an unlock
		return v.refusal()
	}
	v.write.Lock()
	defer v.write.Unlock()
	was, next, put, drop, err := v.draw(edit)
	if err != nil {
		return err
	}
	if err := v.store.Commit(ctx, was.manifest.counter, put, drop, also); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.in == was { // else locked meanwhile: stored all the same, seen at the next unlock
		v.in = next
		v.seen.Store(&view{state: Ready, snapshot: next.snapshot(), forged: v.seen.Load().forged})
	}
	return nil
}

// draw prepares a change. It holds mu, so the keys are not wiped under it, and
// lets go before the store is asked: a Lock never waits for a disk.
func (v *Vault) draw(edit func(*interior) ([]Row, []string, error)) (was, next *interior, put []Row, drop []string, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.in == nil {
		return nil, nil, nil, nil, v.refusal()
	}
	was, next = v.in, v.in.clone()
	next.manifest.counter++
	put, drop, err = edit(next)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	return was, next, append(put, next.sealManifest()), drop, nil
}
