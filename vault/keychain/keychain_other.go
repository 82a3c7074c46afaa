//go:build !linux && !(darwin && cgo)

package keychain

// session is of a system without a keychain that we know to use.
type session struct{}

func (*session) get(service, account string) ([]byte, error)      { return nil, ErrUnsupported }
func (*session) set(service, account string, secret []byte) error { return ErrUnsupported }
func (*session) remove(service, account string) error             { return ErrUnsupported }
