package api

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// RPID is the relying party every passkey is for (WebAuthn level 2, section 4): the name the console is served under.
// A page of another port has it too, so answers are held to the console's exact origin.
const RPID = "localhost"

// Paths of the operators' door about passkeys. Each comment names args -> answer.
const (
	PathPasskeyAdd     = "passkey/add"     // PasskeyArgs -> Enrolment; its page takes the two steps that follow
	PathPasskeyOpen    = "passkey/open"    // TicketArgs -> Creation; once for each ticket
	PathPasskeyEnrol   = "passkey/enrol"   // EnrolArgs -> Passkey
	PathPasskeyList    = "passkey/list"    // {} -> []Passkey
	PathPasskeyRemove  = "passkey/remove"  // IDArgs -> Passkey
	PathProofChallenge = "proof/challenge" // {} -> Fresh
)

// PasskeyArgs name a new passkey, for people; without a name it gets one.
type PasskeyArgs struct {
	Name string `json:"name"`
}

// Enrolment is where a passkey is made. URL works once, until ExpiresAt.
type Enrolment struct {
	Name      string    `json:"name"`
	URL       string    `json:"url"`
	Ticket    string    `json:"ticket"` // 32 bytes, base64url: the URL's fragment
	ExpiresAt time.Time `json:"expiresAt"`
}

// TicketArgs carry an enrolment's ticket, which is its only key.
type TicketArgs struct {
	Ticket string `json:"ticket"`
}

// Creation is what the browser makes a passkey from: PublicKeyCredentialCreationOptionsJSON (WebAuthn level 3, section
// 5.1.8).
type Creation struct {
	Name    string         `json:"name"`
	Options jsontext.Value `json:"options"`
}

// EnrolArgs end an enrolment.
type EnrolArgs struct {
	Ticket       string       `json:"ticket"`
	Registration Registration `json:"registration"`
}

// Registration is what an authenticator answered to a Creation; bytes are base64url without padding.
type Registration struct {
	CredentialID      string   `json:"credentialId"`
	ClientDataJSON    string   `json:"clientDataJSON"`
	AttestationObject string   `json:"attestationObject"`
	Transports        []string `json:"transports,omitempty"`
}

// Assertion is what an authenticator answered to a challenge, and as a JSON document the value of a proof of kind
// passkey. Bytes are base64url without padding.
type Assertion struct {
	CredentialID      string `json:"credentialId"`
	AuthenticatorData string `json:"authenticatorData"`
	ClientDataJSON    string `json:"clientDataJSON"`
	Signature         string `json:"signature"`
	UserHandle        string `json:"userHandle,omitempty"`
}

// Passkey is an enrolled one.
type Passkey struct {
	ID           string    `json:"id"` // pk_ + ULID
	Name         string    `json:"name"`
	CredentialID string    `json:"credentialId"` // base64url
	Algorithm    string    `json:"algorithm"`    // ES256, EdDSA, RS256
	Synced       bool      `json:"synced"`       // may be copied to other devices by whoever keeps it
	AddedAt      time.Time `json:"addedAt"`
	AddedBy      string    `json:"addedBy"` // the proof that stood behind it
}

// Fresh is what a page needs to have a request signed. The request's args carry Nonce as their member "nonce", unless
// they answer a card, which is new each time; a nonce proves one request, until ExpiresAt.
type Fresh struct {
	Nonce       string    `json:"nonce"`
	ExpiresAt   time.Time `json:"expiresAt"`
	RPID        string    `json:"rpId"`
	Credentials []string  `json:"credentials"` // ids of those that may sign, base64url
}
