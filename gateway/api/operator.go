package api

import (
	"crypto/sha256"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// OperatorPrefix stands before every path of [Routes].
const OperatorPrefix = "/v1/op/"

// Envelope is the first line of every operator request. Salt (16 bytes) is sent when a value follows the line: args then
// hold the value's length and SHA-256(salt | value), so that the proof covers the value without args revealing it.
type Envelope struct {
	Proof *Proof         `json:"proof,omitempty"`
	Args  jsontext.Value `json:"args,omitempty"`
	Salt  []byte         `json:"salt,omitempty"`
	Keys  []Proof        `json:"keys,omitempty"` // vault/rekey: the other passphrases; vault/restore: the backup's own key
}

// Proof shows that a human stands behind a request. Kind "passphrase": Value is the operator's passphrase, checked against
// the vault's slot. Kind "recovery": Value is the recovery identity, for what opens a slot itself (unlock, release, and
// whatever changes the slots). Kind "keychain", without a value: spd asks the session's keychain (unlock alone).
// Kind "passkey": Value is an [Assertion] as a JSON document, whose challenge is [Challenge] of the request; see [Fresh].
// Kind "sitting": Value is the id of a sitting that this very process opened; it answers cards with yes, and nothing else.
type Proof struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// Challenge is what a proof is for: SHA-256(path | 0x0A | RFC 8785 bytes of args).
func Challenge(path string, args jsontext.Value) ([32]byte, error) {
	canonical := jsontext.Value(append([]byte(nil), args...))
	if len(canonical) == 0 {
		canonical = jsontext.Value("{}")
	}
	if err := canonical.Canonicalize(); err != nil {
		return [32]byte{}, err
	}
	h := sha256.New()
	h.Write([]byte(path))
	h.Write([]byte{'\n'})
	h.Write(canonical)
	return [32]byte(h.Sum(nil)), nil
}

// Route is one row of the operators' door.
type Route struct {
	Path  string // below OperatorPrefix
	Proof bool   // needs the operator's proof
	Value bool   // bytes follow the envelope's line
	File  bool   // a file follows it, as it is: args hold its length and SHA-256
}

// Paths of the operators' door. Each comment names args -> answer.
const (
	PathStatus            = "vault/status"       // {} -> Status
	PathInit              = "vault/init"         // {} -> Created; the proof's value becomes the passphrase
	PathUnlock            = "vault/unlock"       // {} -> Status
	PathLock              = "vault/lock"         // {} -> Status
	PathRelease           = "vault/release"      // ReleaseArgs -> Status; leaves quarantine
	PathPlan              = "settings/plan"      // PlanArgs + TOML -> Plan; changes nothing
	PathApply             = "settings/apply"     // ApplyArgs + TOML + values -> Applied
	PathStop              = "gateway/stop"       // {} -> {}
	PathCredentialAdd     = "credential/add"     // CredentialArgs + value -> Credential
	PathCredentialList    = "credential/list"    // {} -> []Credential
	PathCredentialShow    = "credential/show"    // NameArgs -> CredentialShown
	PathCredentialRotate  = "credential/rotate"  // RotateArgs + value -> Altered
	PathCredentialRebind  = "credential/rebind"  // RebindArgs -> Altered
	PathCredentialRemove  = "credential/remove"  // NameArgs -> Ended
	PathCredentialTest    = "credential/test"    // NameArgs -> Tested
	PathCredentialPresets = "credential/presets" // {} -> []Preset
	PathInspect           = "credential/inspect" // ImportArgs + file + bindings -> ImportPlan; stores nothing
	PathImport            = "credential/import"  // ImportArgs + file + bindings -> ImportPlan
	PathTargetAdd         = "target/add"         // HostArgs -> Host
	PathTargetList        = "target/list"        // {} -> []Host
	PathTargetShow        = "target/show"        // NameArgs -> HostShown
	PathTargetRemove      = "target/remove"      // NameArgs -> Ended
	PathApprovalList      = "approval/list"      // {} -> []Approval
	PathApprovalGrant     = "approval/grant"     // ApproveArgs -> Grant
	PathApprovalDeny      = "approval/deny"      // IDArgs -> {}
	PathRunList           = "run/list"           // {} -> []Run
	PathRunShow           = "run/show"           // IDArgs -> Run
	PathRunRevoke         = "run/revoke"         // IDArgs -> Revoked
	PathEpochRevoke       = "epoch/revoke"       // IDArgs -> Revoked
	PathServerList        = "server/list"        // {} -> []Server
	PathServerShow        = "server/show"        // IDArgs -> Server; by label, epoch or run
	PathServerDigest      = "server/digest"      // DigestArgs -> Digest; runs nothing
	PathGrantList         = "grant/list"         // {} -> []Grant
	PathGrantRevoke       = "grant/revoke"       // IDArgs -> Revoked
	PathActionList        = "action/list"        // ListArgs -> []Action
	PathActionShow        = "action/show"        // IDArgs -> Action
	PathActionCancel      = "action/cancel"      // IDArgs -> Action
	PathActionResolve     = "action/resolve"     // ResolveArgs -> Action
	PathWitnessAdd        = "witness/add"        // WitnessArgs -> []Witness
	PathWitnessList       = "witness/list"       // {} -> []Witness
	PathWitnessRemove     = "witness/remove"     // URLArgs -> []Witness
	PathCheckpoint        = "audit/checkpoint"   // {} -> Checkpoint
)

// Routes is the operators' door's table. Deny, revoke and lock need no proof: losing authority is always allowed.
var Routes = []Route{
	{Path: PathStatus}, {Path: PathInit, Proof: true}, {Path: PathUnlock, Proof: true}, {Path: PathLock}, {Path: PathStop},
	{Path: PathPassphrase, Proof: true, Value: true}, {Path: PathRekey, Proof: true},
	{Path: PathBackup, Proof: true}, {Path: PathRestore, Proof: true, File: true}, {Path: PathSlotList},
	{Path: PathSlotAdd, Proof: true, Value: true}, {Path: PathSlotRemove, Proof: true},
	{Path: PathRelease, Proof: true}, {Path: PathPlan, Value: true}, {Path: PathApply, Proof: true, Value: true},
	{Path: PathWitnessAdd, Proof: true}, {Path: PathWitnessList}, {Path: PathWitnessRemove, Proof: true},
	{Path: PathCredentialAdd, Proof: true, Value: true}, {Path: PathCredentialList}, {Path: PathCredentialShow}, {Path: PathCredentialRemove, Proof: true},
	{Path: PathCredentialRotate, Proof: true, Value: true}, {Path: PathCredentialRebind, Proof: true},
	{Path: PathInspect, Value: true}, {Path: PathImport, Proof: true, Value: true},
	{Path: PathCredentialTest}, {Path: PathCredentialPresets},
	{Path: PathTargetAdd, Proof: true}, {Path: PathTargetList}, {Path: PathTargetShow}, {Path: PathTargetRemove, Proof: true},
	{Path: PathApprovalList}, {Path: PathApprovalGrant, Proof: true}, {Path: PathApprovalDeny},
	{Path: PathApprovalTable}, {Path: PathApprovalMute}, {Path: PathApprovalUnmute, Proof: true},
	{Path: PathPasskeyAdd, Proof: true}, {Path: PathPasskeyOpen}, {Path: PathPasskeyEnrol}, {Path: PathPasskeyList}, {Path: PathPasskeyRemove, Proof: true},
	{Path: PathProofChallenge},
	{Path: PathSittingOpen, Proof: true}, {Path: PathSittingClose},
	{Path: PathRunList}, {Path: PathRunShow}, {Path: PathRunRevoke},
	{Path: PathRunContain}, {Path: PathRunTerminate, Proof: true},
	{Path: PathIncident},
	{Path: PathServerList}, {Path: PathServerShow}, {Path: PathServerDigest},
	{Path: PathEpochRevoke}, {Path: PathGrantList}, {Path: PathGrantRevoke},
	{Path: PathActionList}, {Path: PathActionShow}, {Path: PathActionCancel}, {Path: PathActionResolve, Proof: true}, {Path: PathCheckpoint},
	{Path: PathConsoleOpen}, {Path: PathActivityList}, {Path: PathActivityRate}, {Path: PathRunTimeline},
	{Path: PathAuditVerify}, {Path: PathAuditRead, Value: true}, {Path: PathSettingsShow},
}

// Status answers vault/status.
type Status struct {
	Vault            string         `json:"vault"` // absent, locked, ready, quarantined
	Version          string         `json:"version"`
	PID              int            `json:"pid"`
	Console          string         `json:"console,omitempty"` // its URL, without a token
	Runs             map[string]int `json:"runs"`              // by state
	PendingApprovals int            `json:"pendingApprovals"`
	Unresolved       int            `json:"unresolved"`           // writes whose outcome nobody knows yet
	Quarantine       string         `json:"quarantine,omitempty"` // why the vault is quarantined
	Unproved         int            `json:"unproved,omitzero"`    // denials, revocations, locks and mutings without proof in the last minute, from UnprovedAlarm on
	Audit            AuditHead      `json:"audit"`
}

// AuditHead is the last durable commit of the log; Head is base64, as in a checkpoint.
type AuditHead struct {
	Records int64  `json:"records"`
	Head    string `json:"head"`
}

// Created answers vault/init: the only time the two identities are shown.
type Created struct {
	VaultID          string `json:"vaultId"`
	RecoveryIdentity string `json:"recoveryIdentity"`
	ReaderIdentity   string `json:"readerIdentity"`
	AuditPub         string `json:"auditPub"`          // path
	AuditKey         string `json:"auditKey,omitzero"` // what stands there: who may not read the gateway's folder pins this
	Fingerprint      string `json:"fingerprint"`
}

// ReleaseArgs of vault/release: AcceptLogHead says that the log is right as it is, though it ends before what the vault
// has seen, or is gone.
type ReleaseArgs struct {
	AcceptLogHead bool `json:"acceptLogHead,omitzero"`
}

// WitnessArgs name a C2SP tlog-witness: the URL below which add-checkpoint lies, and its verifier key ("name+hash+base64").
type WitnessArgs struct {
	URL string `json:"url"`
	Key string `json:"key"`
}

// URLArgs name a witness by its URL.
type URLArgs struct {
	URL string `json:"url"`
}

// Witness is one that cosigns the log's checkpoints. Size is the tree it last cosigned, Error why the last try failed.
type Witness struct {
	URL   string    `json:"url"`
	Name  string    `json:"name"`
	Size  int64     `json:"size"`
	At    time.Time `json:"at,omitzero"`
	Error string    `json:"error,omitempty"`
}

// ResolveArgs say what became of a call whose outcome is unknown. Resolution: "happened" and "did-not-happen" say what the
// operator found; "replay" lets the same write be sent again, knowing that it may happen twice.
type ResolveArgs struct {
	ID         string `json:"id"`
	Resolution string `json:"resolution"`
}

// NameArgs name a credential or a target.
type NameArgs struct {
	Name string `json:"name"`
}

// IDArgs name a run, an approval or an action.
type IDArgs struct {
	ID string `json:"id"`
}

// ListArgs narrow a listing; an empty AgentRun means all.
type ListArgs struct {
	AgentRun string `json:"agentRun,omitempty"`
}

// CredentialArgs are credential/add's args; the value follows the envelope's line.
type CredentialArgs struct {
	Name             string    `json:"name"`
	Kind             string    `json:"kind"`             // empty: the preset's
	Preset           string    `json:"preset,omitempty"` // fills in what Rules leaves out
	Site             string    `json:"site,omitempty"`   // the preset's host, where it is not the usual one
	Account          string    `json:"account,omitempty"`
	Confirm          string    `json:"confirm,omitempty"`   // never (default), click
	Rules            HTTPRules `json:"rules,omitzero"`      // http kinds only
	Principal        string    `json:"principal,omitempty"` // ssh-ca: whom certificates are for; empty: the host's user
	ValueLength      int       `json:"valueLength"`
	ValueDigest      []byte    `json:"valueDigest"`                // SHA-256(salt | value)
	PassphraseLength int       `json:"passphraseLength,omitempty"` // ssh-key, ssh-ca: the value's last bytes are the key file's passphrase
}

// Preset is what is known of a service; Rules are those of its usual site.
type Preset struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind"`
	Site    string    `json:"site"`
	Confirm string    `json:"confirm"`
	About   string    `json:"about"`
	Value   string    `json:"value"` // what the value is and where one gets it
	Rules   HTTPRules `json:"rules"`
}

// Tested answers credential/test. Works: an answer came, and its status was from 200 to 299.
type Tested struct {
	Credential string `json:"credential"`
	Operation  string `json:"operation"`
	Works      bool   `json:"works"`
	Outcome    string `json:"outcome"`
	Status     int    `json:"status,omitzero"`
	Detail     string `json:"detail,omitempty"`
}

// Credential is what may be shown of one: never its value.
type Credential struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Account string   `json:"account"`
	Confirm string   `json:"confirm"`
	Scrub   string   `json:"scrub"`
	Version uint64   `json:"version"`
	Rules   []string `json:"rules"`
}

// HostArgs are target/add's args: HostKey (a .pub file or known_hosts lines) or Enrol (ask the host).
type HostArgs struct {
	Name         string     `json:"name"`
	Address      string     `json:"address"` // host:port
	User         string     `json:"user"`
	Credential   string     `json:"credential"`
	HostKey      string     `json:"hostKey,omitempty"`
	Enrol        bool       `json:"enrol,omitzero"`
	AllowNetwork []string   `json:"allowNetwork,omitempty"`
	AllowArgv    [][]string `json:"allowArgv,omitempty"`
	AllowShell   bool       `json:"allowShell,omitzero"`
	Confirm      string     `json:"confirm,omitempty"`
	HostExtras
}

// HostExtras are a host's less common settings: its jump host, what its password prompt looks like (RE2, matched as a
// whole), folders for files, and git.
type HostExtras struct {
	Jump          string   `json:"jump,omitempty"`
	Prompt        string   `json:"prompt,omitempty"`
	AllowUpload   []string `json:"allowUpload,omitempty"`
	AllowDownload []string `json:"allowDownload,omitempty"`
	AllowGit      []string `json:"allowGit,omitempty"`
	GitRules      []string `json:"gitRules,omitempty"`
}

// Host is an SSH target. HostKeys are "SHA256:… ssh-ed25519" lines; Shell is posix or exact.
type Host struct {
	Name       string   `json:"name"`
	Address    string   `json:"address"`
	Jump       string   `json:"jump,omitempty"` // the host through which it is reached
	User       string   `json:"user"`
	Credential string   `json:"credential"`
	HostKeys   []string `json:"hostKeys"`
	Shell      string   `json:"shell"`
	Rules      []string `json:"rules"`
}

// Agent is what the kernel says of a run's process. Command is agent-controlled text, escaped.
type Agent struct {
	ProcessID int    `json:"processId"`
	Command   string `json:"command"`
	ExeDigest string `json:"exeDigest"`
	Identity  string `json:"identity"` // strong, weak, contained
}

// Run is one live instance of an agent client process.
type Run struct {
	ID                  string    `json:"id"` // run_ + ULID
	State               string    `json:"state"`
	Agent               Agent     `json:"agent"`
	Epochs              []Epoch   `json:"epochs"`
	OpenedAt            time.Time `json:"openedAt"`
	ClientUnavailableAt time.Time `json:"clientUnavailableAt,omitzero"`
	UnresponsiveSince   time.Time `json:"unresponsiveSince,omitzero"` // the client lives and does nothing
	LastActionStartedAt time.Time `json:"lastActionStartedAt,omitzero"`
	RevokedAt           time.Time `json:"revokedAt,omitzero"`
	Calls               int       `json:"calls"`

	CallClasses *CallClasses `json:"callClasses,omitempty"` // run/show alone
	EndedGrants []EndedGrant `json:"endedGrants,omitempty"` // run/show alone
	Reparented  []Reparented `json:"reparented,omitempty"`
}

// CallClasses counts a run's calls: begun and ended while the client was there, begun or gone on after it was lost, begun
// after the authority was revoked (there is none); and the attempts that were refused after the revocation.
type CallClasses struct {
	Before    int `json:"before"`
	Uncertain int `json:"uncertain"`
	After     int `json:"after"`
	Refused   int `json:"refused"`
}

// EndedGrant is a grant that gives nothing any more. Why: restart, a word of the lock or the stop, run_revoked, run_orphaned,
// run_ended, or void (its epoch ended, or the operator revoked it alone).
type EndedGrant struct {
	ID             string    `json:"id"`
	ExecutionEpoch string    `json:"executionEpoch"`
	Why            string    `json:"why"`
	EndedAt        time.Time `json:"endedAt"`
}

// Reparented is a process of the run whose parent ended while the client lived. PPID 1 is a hint, no verdict.
type Reparented struct {
	ProcessID int       `json:"processId"`
	Parent    int       `json:"parent"`
	PPID      int       `json:"ppid"`
	At        time.Time `json:"at"`
}

// Epoch is one instance of code able to act in a run.
type Epoch struct {
	ID          string `json:"id"`          // ep_ + ULID
	ServerLabel string `json:"serverLabel"` // of a supervised server
	State       string `json:"state"`
	ProcessID   int    `json:"processId"`
}

// Revoked answers run/revoke: the run, and the actions that had already left when the gate closed, as they ended.
type Revoked struct {
	Run  Run      `json:"run"`
	Left []Action `json:"left"`
}

// Checkpoint is a signed note that later verifications can be held against.
type Checkpoint struct {
	Note string `json:"note"`
}
