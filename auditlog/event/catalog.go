package event

import "time"

// Event is one of this package's structs: a closed set, one line each in the table of table.go.
type Event interface{ event() }

// Peer is a process as the kernel described it when it connected. Beside an operator it is who took something away: where
// no proof was given that is all there is to know, and it has no path where the event may have to wait in the clear.
type Peer struct {
	ProcessID int       `json:"processId"`
	Started   time.Time `json:"started,omitzero"`
	Exe       string    `json:"exe,omitempty"`
	ExeDigest string    `json:"exeDigest,omitempty"`
	Identity  string    `json:"identity,omitempty"` // strong, weak, contained

	// What is kept of a run's own processes, where they are first told.
	Command string   `json:"command,omitempty"` // its words, which it chose: escaped, at most 512 bytes
	Parent  int      `json:"parentProcessId,omitzero"`
	Group   int      `json:"processGroup,omitzero"`
	Session int      `json:"processSession,omitzero"`
	Weak    []string `json:"weak,omitempty"` // why the identity is no more than weak
}

// Sessions: who ran, under which authority.

// GatewayStarted voids every grant. AbsentCalls are the calls refused vault_absent before the log existed.
type GatewayStarted struct {
	Version     string `json:"version"`
	ProcessID   int    `json:"processId"`
	AbsentCalls int    `json:"absentCalls,omitzero"`
	Recovered   int    `json:"recovered,omitzero"` // intents found without a result
}

// GatewayStopped ends a gateway's life on purpose: by an operator's word, or by a signal, which has none.
type GatewayStopped struct {
	Reason   string `json:"reason"`
	Operator string `json:"operator,omitempty"`
	Peer     Peer   `json:"peer,omitzero"`
}

// VaultCreated is the second event of a new log, after the GatewayStarted that made it.
type VaultCreated struct {
	VaultID string `json:"vaultId"`
}

// VaultUnlocked follows an operator's proof.
type VaultUnlocked struct {
	Operator string `json:"operator"`
}

// VaultLocked voids every grant.
type VaultLocked struct {
	Operator string `json:"operator"`
	Reason   string `json:"reason"`
	Peer     Peer   `json:"peer,omitzero"`
}

// VaultQuarantined: the vault does not match its own records.
type VaultQuarantined struct {
	Reason string `json:"reason"`
}

// VaultReleased: the operator took the vault out of quarantine. AcceptedLog: also the log as it is, which ends at record
// LogEnd while the vault had seen one up to LogSeen.
type VaultReleased struct {
	Reason      string `json:"reason"`
	Operator    string `json:"operator"`
	AcceptedLog bool   `json:"acceptedLog,omitzero"`
	LogEnd      uint64 `json:"logEnd,omitzero"`
	LogSeen     uint64 `json:"logSeen,omitzero"`
}

// RowsForged: the database holds rows that nobody with the vault's key wrote. They were ignored.
type RowsForged struct {
	Rows []string `json:"rows"` // their ids, at most 64
}

// SlotAdded: another key opens the vault from here on. Kind is passphrase, recovery or keychain.
type SlotAdded struct {
	Slot     string `json:"slot"`
	Kind     string `json:"kind"`
	Operator string `json:"operator"`
}

// SlotRemoved: that key opens the vault no more. A changed passphrase is one slot added and one removed.
type SlotRemoved struct {
	Slot     string `json:"slot"`
	Kind     string `json:"kind"`
	Operator string `json:"operator"`
}

// VaultRekeyed: everything is sealed under a new key, of this generation. Every grant ended; the vault stayed open.
type VaultRekeyed struct {
	Generation uint64 `json:"generation"`
	Counter    uint64 `json:"counter"` // of the vault's changes
	Operator   string `json:"operator"`
}

// BackupMade stands before the backup's first byte leaves. Digest ("sha256:" and hex) is of the whole file.
type BackupMade struct {
	Generation uint64 `json:"generation"`
	Counter    uint64 `json:"counter"`
	Length     int64  `json:"length"` // bytes
	Digest     string `json:"digest"`
	Operator   string `json:"operator"`
}

// VaultRestored: the backup of that digest took the vault's place. The vault is locked and every grant is void. NewLog:
// this log began with it, so what was before is in another one.
type VaultRestored struct {
	VaultID    string `json:"vaultId"`
	Generation uint64 `json:"generation"`
	Counter    uint64 `json:"counter"`
	Length     int64  `json:"length"`
	Digest     string `json:"digest"`
	Operator   string `json:"operator"`
	NewLog     bool   `json:"newLog,omitzero"`
}

// SettingsChanged names the sealed settings that were changed, not what they say.
type SettingsChanged struct {
	Settings []string `json:"settings"`
	Operator string   `json:"operator"`
}

// LogRecipientsChanged: from here on the log is sealed to these age recipients.
type LogRecipientsChanged struct {
	Recipients []string `json:"recipients"`
	Operator   string   `json:"operator"`
}

// RunOpened: a new agent client process. Launchers stand between it and the shim, nearest the shim first.
type RunOpened struct {
	Run       string `json:"run"`
	Agent     Peer   `json:"agent"`
	Launchers []Peer `json:"launchers,omitempty"`
}

// RunOrphaned: the client is gone and something of the run is connected or unfinished.
type RunOrphaned struct {
	Run string `json:"run"`
}

// RunEnded: nothing of the run is left.
type RunEnded struct {
	Run string `json:"run"`
}

// RunDenied: the operator denied two cards of the run.
type RunDenied struct {
	Run string `json:"run"`
}

// RunRevoked is final. Left are the actions that had left when the gate closed.
type RunRevoked struct {
	Run      string   `json:"run"`
	Operator string   `json:"operator"`
	Peer     Peer     `json:"peer,omitzero"`
	Left     []string `json:"left,omitempty"`
}

// EpochOpened: one process instance able to act in a run. Launchers stand between it and the run's client, nearest it first.
type EpochOpened struct {
	Run         string `json:"run"`
	Epoch       string `json:"epoch"`
	ServerLabel string `json:"serverLabel,omitempty"`
	Process     Peer   `json:"process"`
	Launchers   []Peer `json:"launchers,omitempty"`
}

// EpochEnded: that process instance is gone or was replaced, or the operator revoked it; its grants are void.
type EpochEnded struct {
	Run      string `json:"run"`
	Epoch    string `json:"epoch"`
	Reason   string `json:"reason"`
	Operator string `json:"operator,omitempty"`
	Peer     Peer   `json:"peer,omitzero"`
}

// ApprovalRequested: a card waits for the operator. Digest is the plan's, CardDigest what an answer must name.
type ApprovalRequested struct {
	Approval   string `json:"approval"`
	Run        string `json:"run"`
	Epoch      string `json:"epoch"`
	Tool       string `json:"tool"`
	Credential string `json:"credential"`
	Target     string `json:"target"`
	Digest     string `json:"digest"`
	CardDigest string `json:"cardDigest"`
}

// ApprovalGranted keeps the card as it was shown, and what was signed. Proof is passphrase, sitting or passkey. Args are the
// RFC 8785 bytes of the operator's request; an assertion is over them.
type ApprovalGranted struct {
	Approval   string    `json:"approval"`
	Run        string    `json:"run"`
	Epoch      string    `json:"epoch"`
	Scope      string    `json:"scope"`
	Card       []byte    `json:"card"`
	CardDigest string    `json:"cardDigest"` // sha256:<hex> of Card
	Proof      string    `json:"proof"`
	Operator   string    `json:"operator"`
	Args       []byte    `json:"args,omitempty"`
	Assertion  Assertion `json:"assertion,omitempty"`
	Sitting    string    `json:"sitting,omitempty"` // the open one that proved it, with proof "sitting"
}

// ApprovalDenied refuses one card.
type ApprovalDenied struct {
	Approval string `json:"approval"`
	Run      string `json:"run"`
	Epoch    string `json:"epoch"`
	Operator string `json:"operator"`
	Peer     Peer   `json:"peer,omitzero"`
}

// ApprovalsMuted: the operator wants to hear nothing more of a session of processes. Waiting asks were refused by it.
type ApprovalsMuted struct {
	Key      string `json:"key"`
	Chain    string `json:"chain"` // escaped
	Waiting  int    `json:"waiting,omitzero"`
	Operator string `json:"operator"`
	Peer     Peer   `json:"peer,omitzero"`
}

// ApprovalsUnmuted: that session may ask again. Refused is how often it asked meanwhile.
type ApprovalsUnmuted struct {
	Key      string `json:"key"`
	Chain    string `json:"chain"`
	Refused  int    `json:"refused,omitzero"`
	Operator string `json:"operator"`
}

// SittingOpened: until its end one process may answer cards with yes, by the one proof that was given.
type SittingOpened struct {
	Sitting string    `json:"sitting"`
	Proof   string    `json:"proof"`
	Ends    time.Time `json:"ends"`
	Peer    Peer      `json:"peer"`
}

// SittingClosed ends it. Reason: operator, time_over, suspend, clock, second_peer, peer_replaced, process_gone, too_many,
// or the code of what closed the gateway.
type SittingClosed struct {
	Sitting string `json:"sitting"`
	Reason  string `json:"reason"`
}

// ApprovalExpired: nobody answered, or what the card was bound to changed. Reason is a code or a word.
type ApprovalExpired struct {
	Approval string `json:"approval"`
	Run      string `json:"run"`
	Epoch    string `json:"epoch"`
	Reason   string `json:"reason"`
}

// GrantIssued is authority as it was given.
type GrantIssued struct {
	Grant           string    `json:"grant"`
	Run             string    `json:"run"`
	Epoch           string    `json:"epoch"`
	ToolScope       []string  `json:"toolScope"`
	CredentialScope []string  `json:"credentialScope"`
	IssuedAt        time.Time `json:"issuedAt"`
	ExpiresWhen     string    `json:"expiresWhen"`
	Approval        string    `json:"approval"`
	Operator        string    `json:"operator"`
	ServerLabel     string    `json:"serverLabel,omitempty"` // of a supervised server's epoch
	Contract        string    `json:"contract,omitempty"`    // of the tool that it is for, where that is the server's own
}

// GrantRevoked ends one grant early. Reason is a code or "operator".
type GrantRevoked struct {
	Grant    string `json:"grant"`
	Run      string `json:"run"`
	Epoch    string `json:"epoch"`
	Reason   string `json:"reason"`
	Operator string `json:"operator,omitempty"`
	Peer     Peer   `json:"peer,omitzero"`
}

// CredentialAdded and its like name a credential, never its value.
type CredentialAdded struct {
	Credential string `json:"credential"`
	Kind       string `json:"kind"`
	Version    uint64 `json:"version"`
	Operator   string `json:"operator"`
}

// CredentialRotated gives a credential another value, and so another version: what was granted for the old one has ended.
type CredentialRotated struct {
	Credential string `json:"credential"`
	Version    uint64 `json:"version"`
	Operator   string `json:"operator"`
}

// CredentialRebound gives a credential other rules, confirm mode or account, and so another version; its value stays.
// Changed names the fields.
type CredentialRebound struct {
	Credential string   `json:"credential"`
	Version    uint64   `json:"version"`
	Changed    []string `json:"changed"`
	Operator   string   `json:"operator"`
}

// CredentialRemoved ends a credential.
type CredentialRemoved struct {
	Credential string `json:"credential"`
	Operator   string `json:"operator"`
}

// TokenKept: a call minted a token with a credential, and the vault keeps it. Field is "token" (refreshed, or made from a
// key) or "capture" and the JSON pointer it stood at; never the token.
type TokenKept struct {
	Credential string `json:"credential"`
	Field      string `json:"field"`
	Action     string `json:"action,omitempty"`
	Run        string `json:"run,omitempty"`
	Epoch      string `json:"epoch,omitempty"`
}

// CredentialTested: the operator had a credential's probe sent. Outcome is empty in the record made before it is sent.
type CredentialTested struct {
	Credential string `json:"credential"`
	Operation  string `json:"operation"`
	Outcome    string `json:"outcome,omitempty"`
	Status     int    `json:"status,omitzero"`
	Operator   string `json:"operator"`
}

// TargetAdded names an SSH host and the fingerprints pinned for it.
type TargetAdded struct {
	Target     string   `json:"target"`
	Address    string   `json:"address"`
	Credential string   `json:"credential"`
	HostKeys   []string `json:"hostKeys"`
	Shell      string   `json:"shell"`
	Operator   string   `json:"operator"`
}

// TargetChanged is a target as it is from here on. Changed names the fields.
type TargetChanged struct {
	Target     string   `json:"target"`
	Address    string   `json:"address"`
	Credential string   `json:"credential"`
	HostKeys   []string `json:"hostKeys"`
	Shell      string   `json:"shell"`
	Changed    []string `json:"changed"`
	Operator   string   `json:"operator"`
}

// TargetRemoved ends a target.
type TargetRemoved struct {
	Target   string `json:"target"`
	Operator string `json:"operator"`
}

// PasskeyAdded enrols a passkey: SPKI is its public key (RFC 5280, DER), RPID the relying party that it signs for.
type PasskeyAdded struct {
	Passkey      string `json:"passkey"`
	CredentialID []byte `json:"credentialId"`
	SPKI         []byte `json:"spki"`
	RPID         string `json:"rpId"`
	Operator     string `json:"operator"`
}

// PasskeyRemoved ends a passkey: what it signs later counts for nothing.
type PasskeyRemoved struct {
	Passkey      string `json:"passkey"`
	CredentialID []byte `json:"credentialId"`
	Operator     string `json:"operator"`
}

// OperatorRefused: an operator verb came from a process that may not be the operator.
type OperatorRefused struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Peer   Peer   `json:"peer"`
}

// IncidentRecorded: the operator took an incident record of the run, of what the log held up to record Upto.
type IncidentRecorded struct {
	Run      string `json:"run"`
	Upto     uint64 `json:"upto"`
	Operator string `json:"operator"`
}
