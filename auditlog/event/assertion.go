package event

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Assertion is what an authenticator answered, byte for byte (WebAuthn level 2, section 5.2.2).
type Assertion struct {
	CredentialID      []byte `json:"credentialId,omitempty"`
	AuthenticatorData []byte `json:"authenticatorData,omitempty"`
	ClientDataJSON    []byte `json:"clientDataJSON,omitempty"`
	Signature         []byte `json:"signature,omitempty"`
}

// Flags of authenticator data (WebAuthn level 2, section 6.1).
const (
	userPresent  = 1 << 0
	userVerified = 1 << 2
)

// leastRSA is the shortest RSA key that counts, in bits.
const leastRSA = 2048

// Verify holds an assertion to one request: path below the operators' door, and the RFC 8785 bytes of its args. It is the
// whole of what a reviewer needs, with the standard library alone (WebAuthn level 2, section 7.2): a user-verified answer
// by the key of spki (DER; ES256 on P-256, EdDSA on Ed25519, or RS256), for rpID, given on a page of this machine.
// Whether the key is enrolled, and the answer new, is not told here. nil: it holds.
func (s Assertion) Verify(spki []byte, rpID, path string, args []byte) error {
	var client struct {
		Type        string `json:"type"`
		Challenge   string `json:"challenge"`
		Origin      string `json:"origin"`
		CrossOrigin bool   `json:"crossOrigin"`
	}
	if err := json.Unmarshal(s.ClientDataJSON, &client); err != nil {
		return errors.New("its client data cannot be read")
	}
	h := sha256.New()
	h.Write([]byte(path + "\n"))
	h.Write(args)
	rp := sha256.Sum256([]byte(rpID))
	switch {
	case client.Type != "webauthn.get":
		return errors.New("it is no assertion")
	case len(args) == 0 || client.Challenge != base64.RawURLEncoding.EncodeToString(h.Sum(nil)):
		return errors.New("it is for another request")
	case !pageOf(client.Origin, rpID) || client.CrossOrigin:
		return errors.New("it was given on another page")
	case len(s.AuthenticatorData) < 37:
		return errors.New("its authenticator data is too short")
	case !bytes.Equal(s.AuthenticatorData[:32], rp[:]):
		return errors.New("it is for another relying party")
	case s.AuthenticatorData[32]&userPresent == 0 || s.AuthenticatorData[32]&userVerified == 0:
		return errors.New("the user was not verified")
	}
	of := sha256.Sum256(s.ClientDataJSON)
	return signedBy(spki, slices.Concat(s.AuthenticatorData, of[:]), s.Signature)
}

// pageOf tells the origin of a page on this machine: http, the relying party's name, a port.
func pageOf(origin, rpID string) bool {
	port, ok := strings.CutPrefix(origin, "http://"+rpID+":")
	n, err := strconv.ParseUint(port, 10, 16)
	return ok && err == nil && n > 0 && strconv.FormatUint(n, 10) == port
}

// signedBy verifies a signature by the key's own algorithm: nothing that came with the signature chooses one.
func signedBy(spki, message, signature []byte) error {
	key, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		return errors.New("its key cannot be read")
	}
	sum, ok := sha256.Sum256(message), false
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return errors.New("its kind of key is not known")
		}
		ok = ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		ok = ed25519.Verify(key, message, signature)
	case *rsa.PublicKey:
		if key.N.BitLen() < leastRSA {
			return errors.New("its key is too short")
		}
		ok = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	default:
		return errors.New("its kind of key is not known")
	}
	if !ok {
		return errors.New("it does not verify")
	}
	return nil
}
