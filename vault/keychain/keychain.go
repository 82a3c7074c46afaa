// Package keychain keeps small secrets in the keychain of the user's session:
// on macOS the login keychain, on Linux the default collection of the Secret
// Service (org.freedesktop.secrets), elsewhere nowhere.
//
// It is a convenience, not a wall. On Linux every process of the session can
// read every item; on macOS the system asks the user about other programs. A
// vault is never to be openable by it alone.
//
// On Linux nothing here asks the user anything: a locked keyring is an error.
// What does not answer is given up after Limit.
package keychain

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that a caller chooses on. All are returned wrapped.
var (
	ErrUnsupported = errors.New("this system has no keychain that is supported")
	ErrUnavailable = errors.New("no keychain answers in this session") // no bus, no service, no default keyring
	ErrLocked      = errors.New("keychain is locked")
	ErrDismissed   = errors.New("keychain's prompt was dismissed")
	ErrNotFound    = errors.New("keychain has no such item")
	ErrTimeout     = errors.New("keychain did not answer in time")
)

// Limit is how long a call waits, its context allowing.
const Limit = 4 * time.Second

// maxSecret is in bytes: an item is a key, no document.
const maxSecret = 4 << 10

// Keychain has one service's items. It is safe for concurrent use; calls come
// one after the other. On Linux its connection to the bus lasts as long as the
// program: make one.
type Keychain struct {
	service string
	turn    chan struct{} // holds one token
	session session       // under turn
}

// New returns the items of a service, such as the product's name. It asks the
// system nothing yet.
func New(service string) *Keychain {
	return &Keychain{service: service, turn: make(chan struct{}, 1)}
}

// Get returns an item. ErrNotFound.
func (k *Keychain) Get(ctx context.Context, account string) (secret []byte, err error) {
	secret, err = k.call(ctx, func() ([]byte, error) { return k.session.get(k.service, account) })
	if err != nil {
		return nil, fmt.Errorf("read keychain: %w", err)
	}
	return secret, nil
}

// Set stores an item of 1 to 4096 bytes, in the place of the one it had.
func (k *Keychain) Set(ctx context.Context, account string, secret []byte) error {
	if len(secret) == 0 || len(secret) > maxSecret {
		return fmt.Errorf("write keychain: %d bytes, limit %d", len(secret), maxSecret)
	}
	own := append([]byte(nil), secret...) // a call given up on still reads it
	_, err := k.call(ctx, func() ([]byte, error) {
		defer clear(own)
		return nil, k.session.set(k.service, account, own)
	})
	if err != nil {
		return fmt.Errorf("write keychain: %w", err)
	}
	return nil
}

// Delete removes an item. ErrNotFound.
func (k *Keychain) Delete(ctx context.Context, account string) error {
	_, err := k.call(ctx, func() ([]byte, error) { return nil, k.session.remove(k.service, account) })
	if err != nil {
		return fmt.Errorf("delete from keychain: %w", err)
	}
	return nil
}

// call runs f in its turn, and leaves it to itself when the time is over: the
// systems' calls can't be cancelled. The turn is f's until it ends.
func (k *Keychain) call(ctx context.Context, f func() ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Limit, ErrTimeout)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	type answer struct {
		b   []byte
		err error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-k.turn }()
		b, err := f()
		done <- answer{b, err}
	}()
	select {
	case a := <-done:
		return a.b, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
