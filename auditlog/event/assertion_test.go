package event

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
)

// signedWith is a sound assertion over args by a key.
func signedWith(t testing.TB, key crypto.Signer, args []byte) Assertion {
	t.Helper()
	challenge := sha256.Sum256(append([]byte("approval/grant\n"), args...))
	rp := sha256.Sum256([]byte("localhost"))
	s := Assertion{CredentialID: []byte("id"), AuthenticatorData: append(rp[:], userPresent|userVerified, 0, 0, 0, 1),
		ClientDataJSON: fmt.Appendf(nil, `{"type":"webauthn.get","challenge":%q,"origin":"http://localhost:7777","crossOrigin":false,"other":[1]}`, base64.RawURLEncoding.EncodeToString(challenge[:]))}
	of := sha256.Sum256(s.ClientDataJSON)
	message := slices.Concat(s.AuthenticatorData, of[:])
	sum, hash := sha256.Sum256(message), crypto.SHA256
	signed := sum[:]
	if _, ok := key.(ed25519.PrivateKey); ok {
		signed, hash = message, 0
	}
	var err error
	if s.Signature, err = key.Sign(rand.Reader, signed, hash); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each kind of key verifies its own signature and no other kind's; a short RSA key and another curve verify nothing.
func TestAssertionKinds(t *testing.T) {
	made := func(key crypto.Signer, err error) crypto.Signer {
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	keys := map[string]crypto.Signer{
		"ES256": made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), "EdDSA": made(ed, err), "RS256": made(rsa.GenerateKey(rand.Reader, 2048)),
		"P-384": made(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)), "RSA-1024": shortRSA(t),
	}
	good := []string{"ES256", "EdDSA", "RS256"}
	args := []byte(`{"id":"ap_1"}`)
	for by, key := range keys {
		s := signedWith(t, key, args)
		for with, other := range keys {
			err := s.Verify(spki(t, other.Public()), "localhost", "approval/grant", args)
			if want := by == with && slices.Contains(good, by); (err == nil) != want {
				t.Errorf("signed by %s, read with %s: %v", by, with, err)
			}
		}
		for i := range s.Signature {
			bad := s
			bad.Signature = bytes.Clone(s.Signature)
			bad.Signature[i] ^= 1
			if bad.Verify(spki(t, key.Public()), "localhost", "approval/grant", args) == nil {
				t.Errorf("%s: byte %d of the signature changed unnoticed", by, i)
			}
		}
		for what, err := range map[string]error{
			"another verb": s.Verify(spki(t, key.Public()), "localhost", "credential/remove", args), "other args": s.Verify(spki(t, key.Public()), "localhost", "approval/grant", []byte(`{"id":"ap_2"}`)),
			"another relying party": s.Verify(spki(t, key.Public()), "example.org", "approval/grant", args),
		} {
			if err == nil {
				t.Errorf("%s: holds for %s", by, what)
			}
		}
	}
}

// shortRSA is a key that no one should rely on; the standard library makes none.
func shortRSA(t *testing.T) crypto.Signer {
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
