package vault

import (
	"fmt"
	"slices"
)

// Edit is a change in the making: valid only inside the function that Apply
// was given. All that one Edit writes has one version.
type Edit struct {
	in   *interior
	put  []Row
	drop []string
	gone []held
	half error // a change that was half made: nothing may be stored any more
}

// AddCredential is Vault.AddCredential's.
func (e *Edit) AddCredential(m Meta, value []byte) (Meta, error) {
	if err := e.write(Credentials, m.entry(), value); err != nil {
		return Meta{}, fmt.Errorf("add credential: %w", err)
	}
	return e.in.credentials[m.Name], nil
}

// Rotate is Vault.Rotate's.
func (e *Edit) Rotate(name string, value []byte) (Meta, error) {
	m, ok := e.in.credentials[name]
	if !ok {
		return Meta{}, fmt.Errorf("rotate credential: %w", ErrUnknown)
	}
	if err := e.replace(Credentials, m.entry(), value); err != nil {
		return Meta{}, fmt.Errorf("rotate credential: %w", err)
	}
	if err := e.dropDerived(name); err != nil {
		return Meta{}, fmt.Errorf("rotate credential: %w", err)
	}
	return e.in.credentials[name], nil
}

// Rebind is Vault.Rebind's.
func (e *Edit) Rebind(m Meta) (Meta, error) {
	had, ok := e.in.credentials[m.Name]
	switch {
	case !ok:
		return Meta{}, fmt.Errorf("rebind credential: %w", ErrUnknown)
	case m.Version != 0 && m.Version != had.Version:
		return Meta{}, fmt.Errorf("rebind credential: %w", ErrStale)
	case m.Kind != "" && m.Kind != had.Kind:
		return Meta{}, fmt.Errorf("rebind credential as another kind: %w", ErrInvalid)
	}
	m.Kind = had.Kind
	h := e.in.entries[Credentials][m.Name]
	mem := newPages(len(h.Data))
	defer mem.wipe()
	value, err := e.in.keys.value(h.Row, mem.b)
	if err == nil {
		err = e.replace(Credentials, m.entry(), value)
	}
	if err != nil {
		return Meta{}, fmt.Errorf("rebind credential: %w", err)
	}
	return e.in.credentials[m.Name], nil
}

// AddHost is Vault.AddHost's.
func (e *Edit) AddHost(h Host) (Host, error) {
	if err := e.write(Hosts, h.entry(), nil); err != nil {
		return Host{}, fmt.Errorf("add host: %w", err)
	}
	return e.in.hosts[h.Name], nil
}

// SetHost stores a target in the place of the one that has its name. ErrUnknown.
func (e *Edit) SetHost(h Host) (Host, error) {
	if err := e.replace(Hosts, h.entry(), nil); err != nil {
		return Host{}, fmt.Errorf("set host: %w", err)
	}
	return e.in.hosts[h.Name], nil
}

// SetSetting is Vault.SetSetting's.
func (e *Edit) SetSetting(name string, data []byte) error {
	s := entry{Name: name, Data: data}
	write := func() error { return e.write(Settings, s, nil) }
	if _, had := e.in.entries[Settings][name]; had {
		write = func() error { return e.replace(Settings, s, nil) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("set setting: %w", err)
	}
	return nil
}

// Drop is Vault.Drop's.
func (e *Edit) Drop(t Table, name string) error {
	err := e.remove(t, name)
	if err == nil && t == Credentials {
		err = e.dropDerived(name)
	}
	if err != nil {
		return fmt.Errorf("drop %s: %w", t, err)
	}
	return nil
}

func (m Meta) entry() entry {
	return entry{Name: m.Name, Kind: m.Kind, Confirm: m.Confirm, Account: m.Account, Rules: m.Rules}
}

func (h Host) entry() entry { return entry{Name: h.Name, Data: h.Data} }

func (e *Edit) write(t Table, x entry, value []byte) error {
	r, err := e.in.put(t, x, value)
	if err != nil {
		return err
	}
	e.put = append(e.put, r)
	return nil
}

func (e *Edit) replace(t Table, x entry, value []byte) error {
	if err := e.remove(t, x.Name); err != nil {
		return err
	}
	if err := e.write(t, x, value); err != nil {
		e.half = err
		return err
	}
	return nil
}

// remove takes a row out of the store, or out of what was to be put there.
func (e *Edit) remove(t Table, name string) error {
	h, err := e.in.drop(t, name)
	if err != nil {
		return err
	}
	e.gone = append(e.gone, h)
	n := len(e.put)
	e.put = slices.DeleteFunc(e.put, func(r Row) bool { return r.ID == h.ID })
	if len(e.put) == n {
		e.drop = append(e.drop, h.ID)
	}
	return nil
}
