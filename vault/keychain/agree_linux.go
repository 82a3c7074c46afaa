package keychain

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"

	"github.com/keybase/dbus"
	"github.com/keybase/go-keychain/secretservice"
)

// oakley is the prime of the Second Oakley Group, whose generator is 2 (RFC 2409, section 6.2).
var oakley, _ = new(big.Int).SetString("FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"+
	"EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"+
	"49286651ECE65381FFFFFFFFFFFFFFFF", 16)

const oakleyBytes = 128

// whole says whether a number fills its bytes. One that begins with a zero byte
// is written in two ways: the Secret Service's specification does not say
// which, and the services differ.
func whole(n *big.Int) bool { return n.BitLen() > 8*(oakleyBytes-1) }

// open is the library's OpenSession for dh-ietf1024-sha256-aes128-cbc-pkcs7
// (Secret Service API 0.2, section 7.3), except that it agrees on other numbers
// until all are whole. In one of 256 sessions the library and gnome-keyring have
// another key each: what is stored then is refused, or spoilt without a word.
func open(s *secretservice.SecretService) (*secretservice.Session, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	for range 16 { // each fails by chance with 1 of 256
		private, public, err := keyPair()
		if err != nil {
			return nil, err
		}
		var answer dbus.Variant
		o := &secretservice.Session{Mode: secretservice.AuthenticationDHAES, Public: public, Private: private}
		err = s.ServiceObj().CallWithContext(ctx, "org.freedesktop.Secret.Service.OpenSession", secretservice.NilFlags,
			o.Mode, dbus.MakeVariant(public.Bytes())).Store(&answer, &o.Path)
		if err != nil {
			return nil, fmt.Errorf("open a session: %w", err)
		}
		theirs, _ := answer.Value().([]byte)
		o.AESKey, err = agree(new(big.Int).SetBytes(theirs), private)
		if err != nil {
			s.CloseSession(o)
			return nil, err
		}
		if o.AESKey != nil {
			return o, nil
		}
		s.CloseSession(o)
	}
	return nil, errors.New("no session's key can be agreed on")
}

func keyPair() (private, public *big.Int, err error) {
	for {
		private, err = rand.Int(rand.Reader, oakley)
		if err != nil {
			return nil, nil, err
		}
		if public = new(big.Int).Exp(big.NewInt(2), private, oakley); whole(public) {
			return private, public, nil
		}
	}
}

// agree returns the session's key, nil where the shared secret isn't whole.
func agree(theirs, private *big.Int) ([]byte, error) {
	if theirs.Cmp(big.NewInt(1)) <= 0 || theirs.Cmp(new(big.Int).Sub(oakley, big.NewInt(1))) >= 0 {
		return nil, errors.New("the service's public key is out of bounds")
	}
	shared := new(big.Int).Exp(theirs, private, oakley)
	if !whole(shared) {
		return nil, nil
	}
	return hkdf.Key(sha256.New, shared.Bytes(), nil, "", 16)
}
