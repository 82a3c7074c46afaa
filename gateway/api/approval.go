package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tyler-smith/go-bip39/wordlists"
)

// Approval is one card that waits for the operator. Digest is the plan's, CardDigest what an answer must name. What was
// observed stands apart from what the agent says (Reason); every text that others chose is escaped.
type Approval struct {
	ID             string    `json:"id"` // ap_ + ULID
	AgentRun       string    `json:"agentRun"`
	ExecutionEpoch string    `json:"executionEpoch"`
	Tool           string    `json:"tool"`
	Credential     string    `json:"credential"`
	Account        string    `json:"account,omitempty"` // the credential's label
	Confirm        string    `json:"confirm,omitempty"` // never, click, passkey: who is asked inside a grant
	Target         string    `json:"target"`
	Summary        string    `json:"summary"` // the exact action
	Effect         string    `json:"effect"`  // read, write, destructive; access: it asks for a grant and does nothing
	Digest         string    `json:"digest"`
	CardDigest     string    `json:"cardDigest"`
	ExpiresAt      time.Time `json:"expiresAt"`
	Agent          Agent     `json:"agent"`
	Origin         Origin    `json:"origin,omitzero"`
	Gaps           []string  `json:"gaps,omitempty"` // what this channel cannot answer (04)
	Offers         []Offer   `json:"offers,omitempty"`
	Past           Past      `json:"past,omitzero"`
	Reason         string    `json:"reason,omitempty"`   // the agent's words, which prove nothing
	Server         *Server   `json:"server,omitempty"`   // of a supervised server's tool: the code that would act
	Defaults       []Default `json:"defaults,omitempty"` // fields that the call leaves out, and what the server claims of them
	Access         []string  `json:"access,omitempty"`   // of request_access: the tools that a yes gives with the credential
	Missing        string    `json:"missing,omitempty"`  // of request_access: there is no such target, so no yes is possible; how to add it
}

// Origin is what was observed of where a call comes from, besides its run's agent.
type Origin struct {
	Program     string    `json:"program"`        // new, known: whether a card of a program with this digest was approved before
	Weak        []string  `json:"weak,omitempty"` // why the identity is weak
	RunOpenedAt time.Time `json:"runOpenedAt"`
	Drift       bool      `json:"artifactDrift,omitzero"` // the program that asks was exchanged on disk since it started
	Others      int       `json:"others,omitzero"`        // other live epochs of the run: this is another connection of it
	Chain       string    `json:"chain,omitempty"`        // key of its session, to mute
	Launchers   []Agent   `json:"launchers,omitempty"`    // the process that connected, then upward to the leader of its session
}

// Words of Origin.Program.
const (
	ProgramNew   = "new"
	ProgramKnown = "known"
)

// Offer is one answer that a card takes, and all that it gives. An offer for a weak agent's write names Accept too.
type Offer struct {
	Scope  string `json:"scope"` // use, run
	Gives  string `json:"gives"`
	Accept string `json:"accept,omitempty"` // AcceptWeak must be set; what that means
}

// Past is what the operator said before to this program, for the same tool, credential and target.
type Past struct {
	ApprovedAt time.Time `json:"approvedAt,omitzero"`
	Diff       []string  `json:"diff,omitempty"`   // of the action then and now: "- line", "+ line"; none: the same action
	Denied     []string  `json:"denied,omitempty"` // the latest denials, one line each
}

// ApproveArgs answer a card. CardDigest is the card as it was shown; any change of it kills the approval.
// Scope is "use" (this call only) or "run" (this tool with this credential until the run ends); Uses and Until narrow "run".
// AcceptWeak: what is given counts as if the agent's identity were strong. Nothing else lets a weak agent write.
type ApproveArgs struct {
	ID         string    `json:"id"`
	CardDigest string    `json:"cardDigest"`
	Scope      string    `json:"scope"`
	Uses       int       `json:"uses,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	AcceptWeak bool      `json:"acceptWeak,omitzero"`
}

// Paths of the operators' door about what waits, beside those of operator.go. Each comment names args -> answer.
const (
	PathApprovalTable  = "approval/table"  // {} -> Table
	PathApprovalMute   = "approval/mute"   // MuteArgs -> Chain
	PathApprovalUnmute = "approval/unmute" // MuteArgs -> Chain
	PathSittingOpen    = "sitting/open"    // {} -> Sitting
	PathSittingClose   = "sitting/close"   // IDArgs -> {}
)

// Table is everything that waits for the operator: the cards within the budgets, and one line for each chain that waits
// behind them.
type Table struct {
	Cards    []Approval `json:"cards"`
	More     []Chain    `json:"more"`
	Unproved int        `json:"unproved,omitzero"` // as in Status
}

// Chain is a session of processes, named from the one that asks up to the session's leader, and the asks that wait
// without a card. Key names it to mute: while muted, each of its asks is refused approval_denied.
type Chain struct {
	Key     string `json:"key"`
	Text    string `json:"text"`
	Waiting int    `json:"waiting"`
	Muted   bool   `json:"muted,omitzero"`
	Refused int    `json:"refused,omitzero"` // while muted
}

// MuteArgs name a chain.
type MuteArgs struct {
	Key string `json:"key"`
}

// Sitting lets one process answer cards with yes until it ends, by one proof.
type Sitting struct {
	ID     string    `json:"id"` // sit_ + ULID
	EndsAt time.Time `json:"endsAt"`
}

// Of operators.
const (
	SittingLife   = 15 * 60 // seconds, at most
	UnprovedAlarm = 5       // unproved verbs in a minute, from which on status and table tell
)

// Bytes are a card's RFC 8785 form without its own digest.
func (a Approval) Bytes() ([]byte, error) {
	a.CardDigest = ""
	b, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode card: %w", err)
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("encode card: %w", err)
	}
	return v, nil
}

// DigestOf names a card's bytes: "sha256:" and hex.
func DigestOf(card []byte) string {
	sum := sha256.Sum256(card)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// WordList are the 2048 words that digests are said in.
func WordList() []string { return wordlists.English }

// digestWords is how many words stand for a digest: 66 bits of it, which nobody finds a second card for while one waits.
const digestWords = 6

// Words says a digest's first 66 bits as six English words of BIP-39's list: fixed since 2013, no two alike in their
// first four letters, so they can be compared over a phone. Empty if digest is none.
func Words(digest string) string {
	sum, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	if err != nil || len(sum) != sha256.Size {
		return ""
	}
	var out []string
	bits, have := uint32(0), 0
	for _, b := range sum {
		bits, have = bits<<8|uint32(b), have+8
		if have >= 11 {
			have -= 11
			out = append(out, wordlists.English[bits>>have&0x7ff])
		}
		if len(out) == digestWords {
			break
		}
	}
	return strings.Join(out, " ")
}
