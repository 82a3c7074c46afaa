package proof

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/fxamacker/cbor/v2"
	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

const testOrigin = "http://localhost:7777"

var b64 = base64.RawURLEncoding

// soft is an authenticator that says whatever it is told to.
type soft struct {
	t    testing.TB
	key  crypto.Signer
	id   []byte
	cose []byte
}

func newSoft(t testing.TB, kind string) *soft {
	t.Helper()
	s := &soft{t: t, id: make([]byte, 32)}
	rand.Read(s.id)
	var err error
	m := map[int]any{}
	switch kind {
	case "ES256", "ES384":
		curve, alg, crv := elliptic.P256(), -7, 1
		if kind == "ES384" {
			curve, alg, crv = elliptic.P384(), -35, 2
		}
		var k *ecdsa.PrivateKey
		k, err = ecdsa.GenerateKey(curve, rand.Reader)
		s.key = k
		size := (curve.Params().BitSize + 7) / 8
		m = map[int]any{1: 2, 3: alg, -1: crv, -2: k.X.FillBytes(make([]byte, size)), -3: k.Y.FillBytes(make([]byte, size))}
	case "EdDSA":
		var pub ed25519.PublicKey
		pub, s.key, err = ed25519.GenerateKey(rand.Reader)
		m = map[int]any{1: 1, 3: -8, -1: 6, -2: []byte(pub)}
	case "RS256":
		var k *rsa.PrivateKey
		k, err = rsa.GenerateKey(rand.Reader, 2048)
		s.key = k
		m = map[int]any{1: 3, 3: -257, -1: k.N.Bytes(), -2: []byte{1, 0, 1}}
	}
	if err != nil {
		t.Fatal(err)
	}
	mode, err := cbor.CTAP2EncOptions().EncMode()
	if err == nil {
		s.cose, err = mode.Marshal(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// said is an answer before it is signed.
type said struct {
	typ, challenge, origin, more string
	rpID                         string
	flags                        byte
	counter                      uint32
	cut                          int // bytes left out of the authenticator data's end
}

const upUV = 1<<0 | 1<<2

func (x said) client() []byte {
	return fmt.Appendf(nil, `{"type":%q,"challenge":%q,"origin":%q,"crossOrigin":false%s}`, x.typ, x.challenge, x.origin, x.more)
}

func (x said) data() []byte {
	rp := sha256.Sum256([]byte(x.rpID))
	return binary.BigEndian.AppendUint32(append(rp[:], x.flags), x.counter)
}

func (s *soft) sign(message []byte) []byte {
	sum, hash := sha256.Sum256(message), crypto.SHA256
	in := sum[:]
	if _, ok := s.key.(ed25519.PrivateKey); ok {
		in, hash = message, 0
	}
	sig, err := s.key.Sign(rand.Reader, in, hash)
	if err != nil {
		s.t.Fatal(err)
	}
	return sig
}

// assert answers a challenge; spoil changes what is said before it is signed.
func (s *soft) assert(challenge [32]byte, spoil func(*said)) api.Assertion {
	x := said{typ: "webauthn.get", challenge: b64.EncodeToString(challenge[:]), origin: testOrigin, rpID: api.RPID, flags: upUV}
	if spoil != nil {
		spoil(&x)
	}
	client, data := x.client(), x.data()
	data = data[:len(data)-x.cut]
	of := sha256.Sum256(client)
	return api.Assertion{CredentialID: b64.EncodeToString(s.id), AuthenticatorData: b64.EncodeToString(data), ClientDataJSON: b64.EncodeToString(client),
		Signature: b64.EncodeToString(s.sign(slices.Concat(data, of[:])))}
}

// register answers options; spoil changes what is said before it is signed.
func (s *soft) register(options []byte, spoil func(*said)) api.Registration {
	s.t.Helper()
	var o struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal(options, &o); err != nil {
		s.t.Fatal(err)
	}
	x := said{typ: "webauthn.create", challenge: o.Challenge, origin: testOrigin, rpID: api.RPID, flags: upUV | 1<<6}
	if spoil != nil {
		spoil(&x)
	}
	data := slices.Concat(x.data(), make([]byte, 16), binary.BigEndian.AppendUint16(nil, uint16(len(s.id))), s.id, s.cose)
	object, err := cbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data[:len(data)-x.cut]})
	if err != nil {
		s.t.Fatal(err)
	}
	return api.Registration{CredentialID: b64.EncodeToString(s.id), ClientDataJSON: b64.EncodeToString(x.client()), AttestationObject: b64.EncodeToString(object),
		Transports: []string{"internal", "hybrid"}}
}

func party() Party {
	return Party{Origin: testOrigin, User: []byte("0123456789abcdef0123456789abcdef")}
}

func (s *soft) enrolled() Passkey {
	s.t.Helper()
	options, c, err := party().Begin("laptop", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	k, err := c.Finish(s.register(options, nil))
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

func value(a api.Assertion) string {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return string(b)
}

var (
	requestA = sha256.Sum256([]byte("approval/grant\n{\"id\":\"ap_a\"}"))
	requestB = sha256.Sum256([]byte("approval/grant\n{\"id\":\"ap_b\"}"))
)

func TestPasskeyKinds(t *testing.T) {
	for _, kind := range []string{"ES256", "EdDSA", "RS256"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSoft(t, kind)
			k := s.enrolled()
			if k.Algorithm != kind || !slices.Equal(k.CredentialID, s.id) || k.Synced || !slices.Equal(k.Transports, []string{"internal", "hybrid"}) {
				t.Fatalf("%+v", k)
			}
			other := newSoft(t, kind).enrolled()
			got, err := party().Check([]Passkey{other, k}, requestA, value(s.assert(requestA, func(x *said) { x.counter = 7 })))
			if err != nil || got.By.Counter != 7 || !slices.Equal(got.By.CredentialID, s.id) {
				t.Fatal(err)
			}
		})
	}
	s := newSoft(t, "ES384")
	options, c, err := party().Begin("laptop", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Finish(s.register(options, nil)); code(err) != "proof_wrong" {
		t.Errorf("a key of a kind that was not asked for: %v", err)
	}
}

// An authenticator that nobody here wrote enrols and signs.
func TestVirtualAuthenticator(t *testing.T) {
	rp := virtualwebauthn.RelyingParty{Name: "Sallyport", ID: api.RPID, Origin: testOrigin}
	for _, kind := range []virtualwebauthn.KeyType{virtualwebauthn.KeyTypeEC2, virtualwebauthn.KeyTypeRSA} {
		options, c, err := party().Begin("laptop", nil)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := virtualwebauthn.ParseAttestationOptions(string(options))
		if err != nil {
			t.Fatal(err)
		}
		auth := virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: []byte(asked.UserID)})
		cred := virtualwebauthn.NewCredential(kind)
		// The library writes coordinates without their leading zeros, which RFC 9053, 7.1.1 forbids: such a key is not taken.
		for kind == virtualwebauthn.KeyTypeEC2 && len(cred.Key.AttestationData()) != 77 {
			cred = virtualwebauthn.NewCredential(kind)
		}
		var made struct {
			ID       string `json:"id"`
			Response struct {
				ClientDataJSON    string `json:"clientDataJSON"`
				AttestationObject string `json:"attestationObject"`
			} `json:"response"`
		}
		if err := json.Unmarshal([]byte(virtualwebauthn.CreateAttestationResponse(rp, auth, cred, *asked)), &made); err != nil {
			t.Fatal(err)
		}
		k, err := c.Finish(api.Registration{CredentialID: made.ID, ClientDataJSON: made.Response.ClientDataJSON, AttestationObject: made.Response.AttestationObject})
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			ID       string        `json:"id"`
			Response api.Assertion `json:"response"`
		}
		answered := virtualwebauthn.CreateAssertionResponse(rp, auth, cred, virtualwebauthn.AssertionOptions{Challenge: requestA[:], RelyingPartyID: api.RPID})
		if err := json.Unmarshal([]byte(answered), &answer); err != nil {
			t.Fatal(err)
		}
		answer.Response.CredentialID = answer.ID
		if _, err := party().Check([]Passkey{k}, requestA, value(answer.Response)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// Whatever is not exactly a verified person's answer to this request on this page proves nothing.
func TestHostileAssertions(t *testing.T) {
	s, other := newSoft(t, "ES256"), newSoft(t, "EdDSA")
	k, o := s.enrolled(), other.enrolled()
	k.Counter = 5
	have := []Passkey{k, o}
	good := func(x *said) { x.counter = 6 }
	with := func(f func(*said)) api.Assertion { return s.assert(requestA, func(x *said) { good(x); f(x) }) }
	after := func(f func(*api.Assertion)) api.Assertion { a := with(func(*said) {}); f(&a); return a }
	spliced := other.assert(requestA, good)
	spliced.CredentialID = b64.EncodeToString(s.id)
	for name, c := range map[string]struct {
		answer api.Assertion
		why    string
	}{
		"of another request":          {s.assert(requestB, good), "challenge"},
		"another origin":              {with(func(x *said) { x.origin = "https://evil.example" }), "origin"},
		"another port":                {with(func(x *said) { x.origin = "http://localhost:7778" }), "origin"},
		"a secure origin":             {with(func(x *said) { x.origin = "https://localhost:7777" }), "origin"},
		"no port":                     {with(func(x *said) { x.origin = "http://localhost" }), "origin"},
		"the address":                 {with(func(x *said) { x.origin = "http://127.0.0.1:7777" }), "origin"},
		"another relying party":       {with(func(x *said) { x.rpID = "evil.example" }), "authenticator response"},
		"not verified":                {with(func(x *said) { x.flags = 1 }), "who was there"},
		"not present":                 {with(func(x *said) { x.flags = 1 << 2 }), "who was there"},
		"nobody":                      {with(func(x *said) { x.flags = 0 }), "who was there"},
		"backup eligible since":       {with(func(x *said) { x.flags |= 1 << 3 }), "Backup"},
		"backed up, not eligible":     {with(func(x *said) { x.flags |= 1 << 4 }), ""},
		"a registration":              {with(func(x *said) { x.typ = "webauthn.create" }), "ceremony"},
		"no type":                     {with(func(x *said) { x.typ = "" }), "ceremony"},
		"data one byte short":         {with(func(x *said) { x.cut = 1 }), ""},
		"no data":                     {with(func(x *said) { x.cut = 36 }), ""},
		"extensions promised":         {with(func(x *said) { x.flags |= 1 << 7 }), ""},
		"a key promised":              {with(func(x *said) { x.flags |= 1 << 6 }), ""},
		"a padded challenge":          {with(func(x *said) { x.challenge += "=" }), "challenge"},
		"no challenge":                {with(func(x *said) { x.challenge = "" }), "challenge"},
		"counter back":                {with(func(x *said) { x.counter = 4 }), "counter"},
		"counter the same":            {with(func(x *said) { x.counter = 5 }), "counter"},
		"counter gone":                {with(func(x *said) { x.counter = 0 }), "counter"},
		"in a frame":                  {with(func(x *said) { x.more = `,"topOrigin":"https://evil.example"` }), ""},
		"the other key's":             {spliced, ""},
		"names the other key":         {after(func(a *api.Assertion) { a.CredentialID = b64.EncodeToString(other.id) }), ""},
		"an unknown key":              {after(func(a *api.Assertion) { a.CredentialID = b64.EncodeToString([]byte("nobody")) }), "not enrolled"},
		"another user's":              {after(func(a *api.Assertion) { a.UserHandle = b64.EncodeToString([]byte("somebody else, of 32 characters.")) }), "User handle"},
		"signature changed":           {after(func(a *api.Assertion) { a.Signature = flipped(a.Signature, -1) }), ""},
		"data changed":                {after(func(a *api.Assertion) { a.AuthenticatorData = flipped(a.AuthenticatorData, -1) }), ""},
		"no signature":                {after(func(a *api.Assertion) { a.Signature = "" }), "base64"},
		"signature empty in base64":   {after(func(a *api.Assertion) { a.Signature = "=" }), "base64"},
		"padded base64":               {after(func(a *api.Assertion) { a.AuthenticatorData += "==" }), "base64"},
		"base64 with a line break":    {after(func(a *api.Assertion) { a.Signature = a.Signature[:8] + "\n" + a.Signature[8:] }), "base64"},
		"base64 with loose last bits": {after(func(a *api.Assertion) { a.CredentialID = loosened(a.CredentialID) }), "base64"},
		"the other base64":            {after(func(a *api.Assertion) { a.AuthenticatorData = "++" + a.AuthenticatorData[2:] }), "base64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := party().Check(have, requestA, value(c.answer))
			if code(err) != "proof_wrong" || !strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v, want proof_wrong (%s)", err, c.why)
			}
			if cloned := strings.HasPrefix(name, "counter"); errors.Is(err, ErrCloned) != cloned {
				t.Errorf("told as a clone: %v", !cloned)
			}
		})
	}
	for _, text := range []string{"", "{}", "null", `"x"`, "[]", value(with(good)) + "{}", strings.Replace(value(with(good)), `{`, `{"type":"public-key",`, 1),
		strings.Replace(value(with(good)), `{`, `{"signature":"AAAA",`, 1)} {
		if _, err := party().Check(have, requestA, text); code(err) != "proof_wrong" {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	if _, err := party().Check(nil, requestA, value(with(good))); code(err) != "proof_wrong" {
		t.Errorf("by a removed key: %v", err)
	}
	// What browsers may add later does not matter, and an honest answer holds.
	if _, err := party().Check(have, requestA, value(with(func(x *said) { x.more = `,"other_keys_can_be_added_here":"do not compare"` }))); err != nil {
		t.Error(err)
	}
	zero := newSoft(t, "EdDSA") // an authenticator that does not count is no clone
	if _, err := party().Check([]Passkey{zero.enrolled()}, requestA, value(zero.assert(requestA, nil))); err != nil {
		t.Error(err)
	}
}

// A signature under one key's algorithm is never read with another's: the enrolled key alone says which.
func TestAlgorithmConfusion(t *testing.T) {
	signers := map[string]*soft{}
	for _, kind := range []string{"ES256", "EdDSA", "RS256"} {
		signers[kind] = newSoft(t, kind)
	}
	for by, s := range signers {
		for as, k := range signers {
			if by == as {
				continue
			}
			a := s.assert(requestA, nil)
			a.CredentialID = b64.EncodeToString(k.id)
			if _, err := party().Check([]Passkey{k.enrolled()}, requestA, value(a)); code(err) != "proof_wrong" {
				t.Errorf("%s taken for %s: %v", by, as, err)
			}
		}
	}
	// A COSE key that names another algorithm than its kind is refused when it is enrolled.
	s := newSoft(t, "ES256")
	var m map[int]any
	if err := cbor.Unmarshal(s.cose, &m); err != nil {
		t.Fatal(err)
	}
	for _, alg := range []int{-8, -257, -36, -65535, 0} {
		m[3] = alg
		s.cose, _ = cbor.Marshal(m)
		options, c, err := party().Begin("laptop", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Finish(s.register(options, nil)); code(err) != "proof_wrong" {
			t.Errorf("alg %d: %v", alg, err)
		}
	}
}

func TestHostileRegistrations(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*said)
		after func(*api.Registration)
	}{
		"another origin":        {spoil: func(x *said) { x.origin = "http://localhost:1" }},
		"another relying party": {spoil: func(x *said) { x.rpID = "evil.example" }},
		"not verified":          {spoil: func(x *said) { x.flags &^= 1 << 2 }},
		"not present":           {spoil: func(x *said) { x.flags &^= 1 }},
		"an assertion":          {spoil: func(x *said) { x.typ = "webauthn.get" }},
		"another challenge":     {spoil: func(x *said) { x.challenge = b64.EncodeToString(requestA[:]) }},
		"key cut":               {spoil: func(x *said) { x.cut = 3 }},
		"no key":                {spoil: func(x *said) { x.flags &^= 1 << 6 }},
		"backed up only":        {spoil: func(x *said) { x.flags |= 1 << 4 }},
		"another id":            {after: func(r *api.Registration) { r.CredentialID = b64.EncodeToString([]byte("another")) }},
		"no id":                 {after: func(r *api.Registration) { r.CredentialID = "" }},
		"no object":             {after: func(r *api.Registration) { r.AttestationObject = "" }},
		"padded":                {after: func(r *api.Registration) { r.ClientDataJSON += "=" }},
		"object of nothing":     {after: func(r *api.Registration) { r.AttestationObject = b64.EncodeToString([]byte{0xa0}) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSoft(t, "ES256")
			options, ceremony, err := party().Begin("laptop", nil)
			if err != nil {
				t.Fatal(err)
			}
			r := s.register(options, c.spoil)
			if c.after != nil {
				c.after(&r)
			}
			k, err := ceremony.Finish(r)
			if name == "another id" && err == nil && !slices.Equal(k.CredentialID, s.id) {
				t.Error("the id is not the one that was attested")
			} else if name != "another id" && code(err) != "proof_wrong" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The options ask for what is checked afterwards.
func TestCreationOptions(t *testing.T) {
	s := newSoft(t, "ES256")
	options, _, err := party().Begin("blue key", []Passkey{s.enrolled()})
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		RP          struct{ ID string } `json:"rp"`
		User        struct{ ID, Name string }
		Params      []struct{ Alg int }               `json:"pubKeyCredParams"`
		Not         []struct{ ID string }             `json:"excludeCredentials"`
		Select      struct{ UserVerification string } `json:"authenticatorSelection"`
		Attestation string
	}
	if err := json.Unmarshal(options, &o, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if o.RP.ID != "localhost" || o.User.Name != "blue key" || o.User.ID != b64.EncodeToString(party().User) || o.Select.UserVerification != "required" ||
		o.Attestation != "none" || len(o.Params) != 3 || len(o.Not) != 1 || o.Not[0].ID != b64.EncodeToString(s.id) {
		t.Errorf("%s", options)
	}
}

func TestNonces(t *testing.T) {
	c := new(clock)
	n := NewNonces(c.now)
	a, life := n.Draw()
	if !n.Take(a) || n.Take(a) || n.Take("") || n.Take("x") {
		t.Error("a nonce is good once")
	}
	b, _ := n.Draw()
	c.advance(life)
	if n.Take(b) {
		t.Error("a nonce is good for a while")
	}
	first, _ := n.Draw()
	for range freshLimit {
		n.Draw()
	}
	last, _ := n.Draw()
	if n.Take(first) || !n.Take(last) || len(n.out) > freshLimit || len(n.turn) > freshLimit {
		t.Errorf("%d outstanding", len(n.out))
	}
	if got, _ := n.Draw(); len(got) != 22 || life < time.Minute {
		t.Error(got, life)
	}
}

func flipped(text string, at int) string {
	b, _ := b64.DecodeString(text)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	return b64.EncodeToString(b)
}

// loosened sets a bit that stands for nothing in the last character.
func loosened(text string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(digits, text[len(text)-1])
	return text[:len(text)-1] + string(digits[last|1])
}
