//go:build darwin && cgo

package keychain

import (
	"errors"
	"fmt"

	"github.com/keybase/go-keychain"
)

// session is nothing on macOS: each call is a call into the Security framework.
type session struct{}

// item is a generic password that never leaves this machine.
func item(service, account string) keychain.Item {
	i := keychain.NewItem()
	i.SetSecClass(keychain.SecClassGenericPassword)
	i.SetService(service)
	i.SetAccount(account)
	return i
}

func (*session) get(service, account string) ([]byte, error) {
	b, err := keychain.GetGenericPassword(service, account, "", "")
	if err != nil {
		return nil, failed(err)
	}
	if len(b) == 0 {
		return nil, ErrNotFound
	}
	return b, nil
}

func (*session) set(service, account string, secret []byte) error {
	add := item(service, account)
	add.SetLabel(service + " " + account)
	add.SetData(secret)
	add.SetSynchronizable(keychain.SynchronizableNo)
	add.SetAccessible(keychain.AccessibleWhenUnlockedThisDeviceOnly)
	err := keychain.AddItem(add)
	if errors.Is(err, keychain.ErrorDuplicateItem) {
		data := keychain.NewItem()
		data.SetData(secret)
		err = keychain.UpdateItem(item(service, account), data)
	}
	return failed(err)
}

func (*session) remove(service, account string) error {
	return failed(keychain.DeleteItem(item(service, account)))
}

// failed names what a caller chooses on.
func failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keychain.ErrorItemNotFound):
		return ErrNotFound
	case errors.Is(err, keychain.ErrorInteractionNotAllowed):
		return ErrLocked
	case errors.Is(err, keychain.ErrorUserCanceled), errors.Is(err, keychain.ErrorAuthFailed):
		return ErrDismissed
	case errors.Is(err, keychain.ErrorNotAvailable), errors.Is(err, keychain.ErrorNoSuchKeychain):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
