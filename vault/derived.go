package vault

import (
	"errors"
	"fmt"
)

// Derived is where what was minted with a credential is kept (a refreshed token): a secret beside the credential, lent
// only, gone with it and with its value. Lend it as Ref{Table: Internal, Name: Derived(name)}.
func Derived(credential string) string { return "derived " + credential }

// SetDerived stores a credential's derived value in the place of the one it had. It changes nothing else: not the
// credential's own value, rules or version. version is the credential's (else ErrStale); ErrUnknown.
func (e *Edit) SetDerived(credential string, version uint64, value []byte) error {
	m, ok := e.in.credentials[credential]
	switch {
	case !ok:
		return fmt.Errorf("set derived value: %w", ErrUnknown)
	case m.Version != version:
		return fmt.Errorf("set derived value: %w", ErrStale)
	}
	x := entry{Name: Derived(credential)}
	write := func() error { return e.write(Internal, x, value) }
	if _, had := e.in.entries[Internal][x.Name]; had {
		write = func() error { return e.replace(Internal, x, value) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("set derived value: %w", err)
	}
	return nil
}

// dropDerived forgets what was minted with a credential whose value goes.
func (e *Edit) dropDerived(credential string) error {
	if err := e.remove(Internal, Derived(credential)); err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	return nil
}
