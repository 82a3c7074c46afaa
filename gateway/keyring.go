package gateway

import (
	"context"
	"errors"

	"sallyport/gateway/api"
	"sallyport/vault"
	"sallyport/vault/keychain"
)

// Keyring is where a keychain slot's identity lies: vault/keychain, or what a test puts in its place. Its calls end
// within keychain.Limit, with errors of that package.
type Keyring interface {
	Get(ctx context.Context, account string) ([]byte, error)
	Set(ctx context.Context, account string, secret []byte) error
	Delete(ctx context.Context, account string) error
}

// keychainKey is the identity that the session's keychain holds for this home's vault.
func (g *Gateway) keychainKey(ctx context.Context) (vault.Key, error) {
	identity, err := g.cfg.Keyring.Get(ctx, g.cfg.Home.Data())
	if err != nil {
		return vault.Key{}, keychainFault(err)
	}
	defer clear(identity)
	return vault.Recovery(string(identity)), nil
}

// keepKeychain puts the identity of a slot to be added into the keychain. One vault has one such slot: the keychain
// holds one item for it.
func (g *Gateway) keepKeychain(ctx context.Context, proof vault.Key, identity string) error {
	for _, s := range g.vault.Slots() {
		if s.Kind == vault.KeychainSlot {
			e := api.Fail("exists", "there is a keychain slot already")
			e.Retry = "remove it first: `sp vault slot rm " + s.ID + "`"
			return e
		}
	}
	if err := g.vault.Check(ctx, proof); err != nil { // nothing is written for a wrong one
		return err
	}
	if err := g.cfg.Keyring.Set(ctx, g.cfg.Home.Data(), []byte(identity)); err != nil {
		return keychainFault(err)
	}
	return nil
}

// forgetKeychain removes an item that opens nothing any more. One that stays is harmless.
func (g *Gateway) forgetKeychain(ctx context.Context) {
	err := g.cfg.Keyring.Delete(context.WithoutCancel(ctx), g.cfg.Home.Data())
	if !errors.Is(err, keychain.ErrNotFound) {
		g.complain("remove the keychain's item", err)
	}
}

// keychainFault says what is wrong with the keychain, and that a passphrase still works.
func keychainFault(err error) error {
	for _, known := range []error{keychain.ErrUnsupported, keychain.ErrUnavailable, keychain.ErrLocked, keychain.ErrDismissed, keychain.ErrNotFound, keychain.ErrTimeout} {
		if errors.Is(err, known) {
			return api.Fail("keychain_unavailable", known.Error())
		}
	}
	return api.Fail("keychain_unavailable", "the keychain failed")
}
