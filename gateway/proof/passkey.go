package proof

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"sallyport/gateway/api"
)

// Passkey is an enrolled public key, as the vault keeps it.
type Passkey struct {
	ID           string    `json:"id"` // pk_ + ULID
	Name         string    `json:"name"`
	CredentialID []byte    `json:"credentialId"`
	COSE         []byte    `json:"cose"` // the public key (RFC 9052)
	SPKI         []byte    `json:"spki"` // the same (RFC 5280, DER)
	Algorithm    string    `json:"algorithm"`
	Counter      uint32    `json:"counter"` // signatures so far, as its authenticator counts; 0: it does not
	Synced       bool      `json:"synced"`  // backup eligible
	Transports   []string  `json:"transports,omitempty"`
	AddedAt      time.Time `json:"addedAt"`
	AddedBy      string    `json:"addedBy"`
}

type algorithm struct {
	name string
	id   webauthncose.COSEAlgorithmIdentifier
}

// algorithms are those that a passkey may sign by (IANA COSE), in the order they are asked for.
var algorithms = []algorithm{{"ES256", webauthncose.AlgES256}, {"EdDSA", webauthncose.AlgEdDSA}, {"RS256", webauthncose.AlgRS256}}

// Party is the console as a relying party: who asks for signatures, and where.
type Party struct {
	Origin string // http://localhost:PORT: the one page whose answers count
	User   []byte // the operator's handle, 32 random bytes; one for all passkeys of a vault
}

// web is the library, told to be strict. There is one user.
func (p Party) web() (*webauthn.WebAuthn, error) {
	return webauthn.New(&webauthn.Config{RPID: api.RPID, RPDisplayName: "Sallyport", RPOrigins: []string{p.Origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			UserVerification: protocol.VerificationRequired, ResidentKey: protocol.ResidentKeyRequirementPreferred},
		// A browser's extensions answer unasked; nothing here relies on what they say.
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore})
}

// user is the operator, as the library wants one.
type user struct {
	id   []byte
	name string
	have []webauthn.Credential
}

func (u user) WebAuthnID() []byte                         { return u.id }
func (u user) WebAuthnName() string                       { return u.name }
func (u user) WebAuthnDisplayName() string                { return u.name }
func (u user) WebAuthnCredentials() []webauthn.Credential { return u.have }

// known is a passkey as the library judges it.
func (k Passkey) known() webauthn.Credential {
	return webauthn.Credential{ID: k.CredentialID, PublicKey: k.COSE,
		Flags:         webauthn.CredentialFlags{UserPresent: true, UserVerified: true, BackupEligible: k.Synced},
		Authenticator: webauthn.Authenticator{SignCount: k.Counter}}
}

// Ceremony is an enrolment under way.
type Ceremony struct {
	party   Party
	user    user
	session webauthn.SessionData
}

// Begin starts an enrolment and returns the options for the browser. An authenticator that holds one of have refuses.
func (p Party) Begin(name string, have []Passkey) ([]byte, *Ceremony, error) {
	w, err := p.web()
	if err != nil {
		return nil, nil, fmt.Errorf("begin enrolment: %w", err)
	}
	c := &Ceremony{party: p, user: user{id: p.User, name: name}}
	var not []protocol.CredentialDescriptor
	for _, k := range have {
		not = append(not, protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: k.CredentialID})
	}
	var params []protocol.CredentialParameter
	for _, a := range algorithms {
		params = append(params, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: a.id})
	}
	options, session, err := w.BeginRegistration(c.user, webauthn.WithExclusions(not), webauthn.WithCredentialParameters(params))
	if err != nil {
		return nil, nil, fmt.Errorf("begin enrolment: %w", err)
	}
	c.session = *session
	b, err := json.Marshal(options.Response)
	if err != nil {
		return nil, nil, fmt.Errorf("begin enrolment: %w", err)
	}
	return b, c, nil
}

// Finish judges what the authenticator answered and returns the key it made, without id, name and times. Errors are
// *api.Error: proof_wrong.
func (c *Ceremony) Finish(r api.Registration) (Passkey, error) {
	var raw protocol.CredentialCreationResponse
	answer := &raw.AttestationResponse
	err := decode(field{r.CredentialID, &raw.RawID}, field{r.ClientDataJSON, &answer.ClientDataJSON}, field{r.AttestationObject, &answer.AttestationObject})
	if err != nil {
		return Passkey{}, err
	}
	raw.ID, raw.Type = r.CredentialID, string(protocol.PublicKeyCredentialType)
	answer.Transports = r.Transports
	w, err := c.party.web()
	if err != nil {
		return Passkey{}, fmt.Errorf("enrol passkey: %w", err)
	}
	parsed, err := raw.Parse()
	if err != nil {
		return Passkey{}, doesNotHold(err)
	}
	made, err := w.CreateCredential(c.user, c.session, parsed)
	if err != nil {
		return Passkey{}, doesNotHold(err)
	}
	k := Passkey{CredentialID: made.ID, COSE: made.PublicKey, Counter: made.Authenticator.SignCount, Synced: made.Flags.BackupEligible}
	for _, t := range made.Transport {
		k.Transports = append(k.Transports, string(t))
	}
	if k.SPKI, k.Algorithm, err = publicKey(made.PublicKey); err != nil {
		return Passkey{}, err
	}
	return k, nil
}

// leastRSA is the shortest RSA key that is enrolled, in bits.
const leastRSA = 2048

// publicKey is a COSE key as everything else writes one, and the name of its algorithm.
func publicKey(cose []byte) ([]byte, string, error) {
	parsed, err := webauthncose.ParsePublicKey(cose)
	if err != nil {
		return nil, "", doesNotHold(err)
	}
	var key crypto.PublicKey
	var alg webauthncose.COSEAlgorithmIdentifier
	switch k := parsed.(type) {
	case webauthncose.EC2PublicKeyData:
		alg = webauthncose.COSEAlgorithmIdentifier(k.Algorithm)
		key, err = k.ToECDSA()
	case webauthncose.OKPPublicKeyData:
		key, alg = ed25519.PublicKey(k.XCoord), webauthncose.COSEAlgorithmIdentifier(k.Algorithm)
	case webauthncose.RSAPublicKeyData:
		alg = webauthncose.COSEAlgorithmIdentifier(k.Algorithm)
		n := new(big.Int).SetBytes(k.Modulus)
		e, bad := webauthncose.ParseRSAPublicKeyDataExponent(&k)
		if key, err = (&rsa.PublicKey{N: n, E: e}), bad; err == nil && n.BitLen() < leastRSA {
			err = errors.New("the key is too short")
		}
	}
	i := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.id == alg })
	if err != nil || i < 0 {
		return nil, "", api.Fail("proof_wrong", "the passkey's kind of key is not taken here")
	}
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, "", fmt.Errorf("write public key: %w", err)
	}
	return spki, algorithms[i].name, nil
}

// Signed is an assertion that holds: what was answered, byte for byte, and by which passkey, with its counter since.
type Signed struct {
	By                                                         Passkey
	CredentialID, AuthenticatorData, ClientDataJSON, Signature []byte
}

// ErrCloned is wrapped by Check's error where a counter did not go forward: two authenticators hold one key.
var ErrCloned = errors.New("the passkey's counter went back")

// Check judges a proof of kind passkey for one challenge (api.Challenge of the request) by one of have. Errors are
// *api.Error: proof_wrong; besides, ErrCloned. Whether the answer is new is not told here but where it signed before.
func (p Party) Check(have []Passkey, challenge [32]byte, value string) (Signed, error) {
	var a api.Assertion
	if err := json.Unmarshal([]byte(value), &a, json.RejectUnknownMembers(true)); err != nil {
		return Signed{}, api.Fail("proof_wrong", "the proof is no passkey's answer")
	}
	var raw protocol.CredentialAssertionResponse
	r := &raw.AssertionResponse
	err := decode(field{a.CredentialID, &raw.RawID}, field{a.AuthenticatorData, &r.AuthenticatorData}, field{a.ClientDataJSON, &r.ClientDataJSON}, field{a.Signature, &r.Signature})
	if err == nil && a.UserHandle != "" {
		err = decode(field{a.UserHandle, &r.UserHandle})
	}
	if err != nil {
		return Signed{}, err
	}
	id := raw.RawID
	raw.ID, raw.Type = a.CredentialID, string(protocol.PublicKeyCredentialType)
	i := slices.IndexFunc(have, func(k Passkey) bool { return slices.Equal(k.CredentialID, id) })
	if i < 0 {
		return Signed{}, api.Fail("proof_wrong", "this passkey is not enrolled here")
	}
	parsed, err := raw.Parse()
	if err != nil {
		return Signed{}, doesNotHold(err)
	}
	w, err := p.web()
	if err != nil {
		return Signed{}, fmt.Errorf("check passkey: %w", err)
	}
	session := webauthn.SessionData{Challenge: base64.RawURLEncoding.EncodeToString(challenge[:]), RelyingPartyID: api.RPID,
		UserID: p.User, AllowedCredentialIDs: [][]byte{id}, UserVerification: protocol.VerificationRequired}
	got, err := w.ValidateLogin(user{id: p.User, have: []webauthn.Credential{have[i].known()}}, session, parsed)
	switch flags := parsed.Response.AuthenticatorData.Flags; {
	case err != nil && !(flags.HasUserPresent() && flags.HasUserVerified()):
		return Signed{}, api.Fail("proof_wrong", "the passkey did not verify who was there: it needs a PIN, a finger or a face")
	case err != nil:
		return Signed{}, doesNotHold(err)
	}
	s := Signed{By: have[i], CredentialID: id, AuthenticatorData: r.AuthenticatorData, ClientDataJSON: r.ClientDataJSON, Signature: r.Signature}
	if got.Authenticator.CloneWarning {
		return s, errors.Join(api.Fail("proof_wrong", "the passkey's counter went back: another copy of it may be in use; remove it, and enrol a new one"), ErrCloned)
	}
	s.By.Counter = got.Authenticator.SignCount
	return s, nil
}

// field is a text and where its bytes go.
type field struct {
	text string
	to   *protocol.URLEncodedBase64
}

var strictBase64 = base64.RawURLEncoding.Strict()

// decode takes only the one way to write each.
func decode(all ...field) error {
	for _, f := range all {
		b, err := strictBase64.DecodeString(f.text)
		if err != nil || len(b) == 0 || strictBase64.EncodeToString(b) != f.text { // a line break is skipped in silence
			return api.Fail("proof_wrong", "a passkey's answer is base64url, without padding")
		}
		*f.to = b
	}
	return nil
}

// doesNotHold says why in the library's words, which quote nothing.
func doesNotHold(err error) error {
	why := "the passkey's answer does not hold"
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.Details != "" {
		why += ": " + e.Details
	}
	return api.Fail("proof_wrong", why)
}
