package event

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// approval is a yes that can still be named by a grant or a call.
type approval struct {
	run, epoch      string
	seq             uint64
	scope           string // use, run
	card            card
	args            args
	granted, called uint64 // the records that used it
}

// card is what a check needs of the card's JSON.
type card struct {
	ID         string `json:"id"`
	Run        string `json:"agentRun"`
	Epoch      string `json:"executionEpoch"`
	Tool       string `json:"tool"`
	Credential string `json:"credential"`
	Digest     string `json:"digest"`
}

// args is the operator's request as it was signed.
type args struct {
	ID         string    `json:"id"`
	CardDigest string    `json:"cardDigest"`
	Scope      string    `json:"scope"`
	Uses       int       `json:"uses"`
	Until      time.Time `json:"until"`
}

func (c *checker) approvalGranted(e ApprovalGranted) {
	if c.repeated(approvalTwice, "approval", e.Approval) {
		return
	}
	a := &approval{run: e.Run, epoch: e.Epoch, seq: c.at.Seq, scope: e.Scope}
	sum := sha256.Sum256(e.Card)
	if e.CardDigest != "sha256:"+hex.EncodeToString(sum[:]) {
		c.breach(approvalCardDigest, seqs(c.at.Seq), "the card of approval %s is not the one whose digest it names", e.Approval)
	}
	if err := json.Unmarshal(e.Card, &a.card); err != nil || a.card.ID != e.Approval || a.card.Run != e.Run || a.card.Epoch != e.Epoch {
		c.breach(approvalCardNames, seqs(c.at.Seq), "the card of approval %s is not of this approval, run and epoch", e.Approval)
	}
	if len(e.Args) > 0 && !a.request(e) {
		c.breach(approvalArgs, seqs(c.at.Seq), "the request of approval %s is not canonical, or speaks of something else", e.Approval)
	}
	c.proved(e)
	c.sat(e)
	c.keep(e.Approval, a)
}

// keep holds an approval as long as its epoch.
func (c *checker) keep(id string, a *approval) {
	switch x := c.epochs[a.epoch]; {
	case x != nil:
		x.approvals = append(x.approvals, id)
	case !c.open:
		c.loose = append(c.loose, id)
	default:
		return // for nobody; a grant by it is told
	}
	c.approvals[id] = a
}

func (c *checker) dropLoose() {
	for _, id := range c.loose {
		delete(c.approvals, id)
	}
	c.loose = nil
}

// request reads what was signed and holds it to what is recorded beside it.
func (a *approval) request(e ApprovalGranted) bool {
	canonical := jsontext.Value(bytes.Clone(e.Args))
	if canonical.Canonicalize() != nil || !bytes.Equal(canonical, e.Args) || json.Unmarshal(e.Args, &a.args) != nil {
		return false
	}
	return a.args.ID == e.Approval && a.args.CardDigest == e.CardDigest && a.args.Scope == e.Scope && a.args.Uses >= 0
}

// narrower tells in which way the approval gives less than g; "" if g is within it.
func (a *approval) narrower(g *grant) string {
	other := func(want string) func(string) bool { return func(s string) bool { return s != want } }
	switch {
	case slices.ContainsFunc(g.tools, other(a.card.Tool)):
		return "its card has another tool"
	case slices.ContainsFunc(g.credentials, other(a.card.Credential)):
		return "its card has another credential"
	case a.scope == "use" && (!g.counted || g.uses != 1):
		return "it is for one use"
	case a.scope != "use" && a.scope != "run":
		return "it has no scope"
	case a.args.Uses > 0 && a.args.Until.IsZero() && (!g.counted || g.uses != a.args.Uses):
		return "it is for a number of uses"
	case !a.args.Until.IsZero() && (g.ends.IsZero() || g.ends.After(timeOver(a.args.Until))):
		return "its time is over before"
	}
	return ""
}

// grantPath is the operators' verb that an approval's proof is for.
const grantPath = "approval/grant"

// proved counts an approval as signed or unsigned, and tells a signature that does not hold.
func (c *checker) proved(e ApprovalGranted) {
	s := e.Assertion
	if len(s.CredentialID)+len(s.AuthenticatorData)+len(s.ClientDataJSON)+len(s.Signature) == 0 {
		if e.Proof == "passkey" {
			c.breach(approvalSignature, seqs(c.at.Seq), "approval %s was proved by a passkey, and its assertion is not here", e.Approval)
			return
		}
		c.out.Unsigned++
		return
	}
	k, ok := c.keys[string(s.CredentialID)]
	if !ok {
		c.breach(approvalPasskey, seqs(c.at.Seq), "approval %s is signed by a passkey that is not enrolled: %s", e.Approval, hex.EncodeToString(s.CredentialID))
		return
	}
	if why := k.verify(s, e.Args); why != "" {
		c.breach(approvalSignature, seqs(c.at.Seq, k.seq), "the signature of approval %s does not hold: "+why, e.Approval)
		return
	}
	c.out.Signed++
}

// passkey is an enrolled public key.
type passkey struct {
	seq  uint64
	rpID string
	key  crypto.PublicKey // nil: no key that is understood here
}

// passkeyAdded enrols an ES256 (P-256) or EdDSA (Ed25519) key.
func (c *checker) passkeyAdded(e PasskeyAdded) {
	if old, ok := c.keys[string(e.CredentialID)]; ok {
		if c.open {
			c.breach(passkeyTwice, seqs(c.at.Seq, old.seq), "passkey %s takes the credential id of another", e.Passkey)
		}
		return
	}
	k := passkey{seq: c.at.Seq, rpID: e.RPID}
	if pub, err := x509.ParsePKIXPublicKey(e.SPKI); err == nil {
		switch pub := pub.(type) {
		case *ecdsa.PublicKey:
			if pub.Curve == elliptic.P256() {
				k.key = pub
			}
		case ed25519.PublicKey:
			k.key = pub
		}
	}
	c.keys[string(e.CredentialID)] = k
}

// Flags of authenticator data (WebAuthn level 2, section 6.1).
const (
	userPresent  = 1 << 0
	userVerified = 1 << 2
)

// verify checks an assertion over the request (WebAuthn level 2, section 7.2) and tells what is wrong with it.
func (k passkey) verify(s Assertion, args []byte) (wrong string) {
	var client struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal(s.ClientDataJSON, &client); err != nil {
		return "its client data cannot be read"
	}
	h := sha256.New()
	h.Write([]byte(grantPath + "\n"))
	h.Write(args)
	rp := sha256.Sum256([]byte(k.rpID))
	switch {
	case client.Type != "webauthn.get":
		return "it is no assertion"
	case len(args) == 0 || client.Challenge != base64.RawURLEncoding.EncodeToString(h.Sum(nil)):
		return "it is for another request"
	case len(s.AuthenticatorData) < 37:
		return "its authenticator data is too short"
	case !bytes.Equal(s.AuthenticatorData[:32], rp[:]):
		return "it is for another relying party"
	case s.AuthenticatorData[32]&userPresent == 0 || s.AuthenticatorData[32]&userVerified == 0:
		return "the user was not verified"
	}
	of := sha256.Sum256(s.ClientDataJSON)
	signed := slices.Concat(s.AuthenticatorData, of[:])
	switch key := k.key.(type) {
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(signed)
		if ecdsa.VerifyASN1(key, sum[:], s.Signature) {
			return ""
		}
	case ed25519.PublicKey:
		if ed25519.Verify(key, signed, s.Signature) {
			return ""
		}
	default:
		return "the key's kind is not known"
	}
	return "it does not verify"
}
