package event

import (
	"bytes"
	"crypto/sha256"
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

	Access []string `json:"access"` // the tools it gives, where it asked for access
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
	other := func(want ...string) func(string) bool {
		return func(s string) bool { return !slices.Contains(want, s) }
	}
	tools := a.card.Access
	if len(tools) == 0 {
		tools = []string{a.card.Tool}
	}
	switch {
	case slices.ContainsFunc(g.tools, other(tools...)):
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
	if err := s.Verify(k.spki, k.rpID, grantPath, e.Args); err != nil {
		c.breach(approvalSignature, seqs(c.at.Seq, k.seq), "the signature of approval %s does not hold: "+err.Error(), e.Approval)
		return
	}
	c.out.Signed++
}

// passkey is an enrolled public key.
type passkey struct {
	seq  uint64
	rpID string
	spki []byte
}

// passkeyAdded enrols a key. While nothing is open the log is told again of those that the vault holds: the same ones, unless the
// vault is another one now, or records are missing. The key that was told first stays.
func (c *checker) passkeyAdded(e PasskeyAdded) {
	if old, ok := c.keys[string(e.CredentialID)]; ok {
		same := old.rpID == e.RPID && bytes.Equal(old.spki, e.SPKI)
		if c.open || !same && !c.restored && !c.partial {
			c.breach(passkeyTwice, seqs(c.at.Seq, old.seq), "passkey %s takes the credential id of another", e.Passkey)
		}
		return
	}
	c.keys[string(e.CredentialID)] = passkey{seq: c.at.Seq, rpID: e.RPID, spki: e.SPKI}
}
