package vault

import "context"

// AddCredential stores a new credential and returns m with its version. value
// is neither kept nor cleared. also (nil: none) is an outbox batch for the same
// transaction. ErrExists, ErrInvalid, ErrLocked; after ErrConflict memory and
// store differ, and no change succeeds until the vault is locked and unlocked.
func (v *Vault) AddCredential(ctx context.Context, m Meta, value, also []byte) (Meta, error) {
	err := v.Apply(ctx, also, func(e *Edit) (err error) {
		m, err = e.AddCredential(m, value)
		return err
	})
	if err != nil {
		return Meta{}, err
	}
	return m, nil
}

// Rotate gives a credential another value, and thereby another version.
// ErrUnknown; other errors as AddCredential.
func (v *Vault) Rotate(ctx context.Context, name string, value, also []byte) (m Meta, err error) {
	err = v.Apply(ctx, also, func(e *Edit) (err error) {
		m, err = e.Rotate(name, value)
		return err
	})
	if err != nil {
		return Meta{}, err
	}
	return m, nil
}

// Rebind gives a credential other rules, confirm mode and account, and thereby
// another version; the value stays. m.Kind is the stored one or empty;
// m.Version is the stored one (else ErrStale) or 0. ErrUnknown; other errors as
// AddCredential.
func (v *Vault) Rebind(ctx context.Context, m Meta, also []byte) (Meta, error) {
	err := v.Apply(ctx, also, func(e *Edit) (err error) {
		m, err = e.Rebind(m)
		return err
	})
	if err != nil {
		return Meta{}, err
	}
	return m, nil
}

// AddHost stores a new target; errors as AddCredential.
func (v *Vault) AddHost(ctx context.Context, h Host, also []byte) (Host, error) {
	err := v.Apply(ctx, also, func(e *Edit) (err error) {
		h, err = e.AddHost(h)
		return err
	})
	if err != nil {
		return Host{}, err
	}
	return h, nil
}

// SetSetting stores a setting's document, in the place of the one it had; errors as AddCredential, but never ErrExists.
func (v *Vault) SetSetting(ctx context.Context, name string, data, also []byte) error {
	return v.Apply(ctx, also, func(e *Edit) error { return e.SetSetting(name, data) })
}

// Drop deletes an entry; the store overwrites its bytes. ErrUnknown; other
// errors as AddCredential.
func (v *Vault) Drop(ctx context.Context, t Table, name string, also []byte) error {
	return v.Apply(ctx, also, func(e *Edit) error { return e.Drop(t, name) })
}

// Apply makes many changes in one transaction, or none if f returns an error.
// f must call nothing of the vault but e's methods, and must not wait for
// anything. Errors as AddCredential, and f's own.
func (v *Vault) Apply(ctx context.Context, also []byte, f func(e *Edit) error) error {
	var e *Edit
	err := v.change(ctx, also, func(next *interior) ([]Row, []string, error) {
		e = &Edit{in: next}
		if err := f(e); err != nil {
			return nil, nil, err
		}
		return e.put, e.drop, e.half
	})
	if err != nil {
		return err
	}
	for _, h := range e.gone {
		h.spare.close()
	}
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
