package authz

// Reason is a code of the ladder, as callers and the log see it.
type Reason string

// ReasonGranted goes with Allow alone. It is no error code.
const ReasonGranted Reason = "granted"

// The codes that refuse, by rung; where a state has the same name, the code has Reason before it. Decide itself returns
// those of rungs 1 to 10; the gateway puts those of rungs 0 and 5 into a Request, and answers with the rest where a card
// or an idempotency key says so.
const (
	InvalidRequest Reason = "invalid_request" // 0
	FrameTooLarge  Reason = "frame_too_large"
	UnknownTool    Reason = "unknown_tool"
	UnknownMethod  Reason = "unknown_method"

	PeerUnidentified Reason = "peer_unidentified" // 1
	PeerReplaced     Reason = "peer_replaced"

	RunRevoked  Reason = "run_revoked" // 2
	RunOrphaned Reason = "run_orphaned"
	RunDenied   Reason = "run_denied"
	RunEnded    Reason = "run_ended"

	ReasonVaultAbsent      Reason = "vault_absent" // 3
	ReasonVaultLocked      Reason = "vault_locked"
	ReasonVaultQuarantined Reason = "vault_quarantined"

	AuthorizationStale Reason = "authorization_stale" // 4
	CatalogStale       Reason = "catalog_stale"
	ReasonEpochEnded   Reason = "epoch_ended"
	ServerSuspended    Reason = "server_suspended"
	ServerDown         Reason = "server_down"
	IdentityUnstable   Reason = "identity_unstable"

	TargetUnknown Reason = "target_unknown" // 5
	ActionUnknown Reason = "action_unknown"
	RuleMismatch  Reason = "rule_mismatch"
	HeaderRefused Reason = "header_refused"

	OutcomeUnresolved Reason = "outcome_unresolved" // 6

	RateLimited Reason = "rate_limited" // 7
	Busy        Reason = "busy"

	NotAuthorized   Reason = "not_authorized" // 8 and 9
	ApprovalDenied  Reason = "approval_denied"
	ApprovalTimeout Reason = "approval_timeout"
	NoCallInFlight  Reason = "no_call_in_flight"

	AuditUnavailable Reason = "audit_unavailable" // 10
)

// Reasons lists every refusing code, in the ladder's order.
func Reasons() []Reason {
	return []Reason{
		InvalidRequest, FrameTooLarge, UnknownTool, UnknownMethod,
		PeerUnidentified, PeerReplaced,
		RunRevoked, RunOrphaned, RunDenied, RunEnded,
		ReasonVaultAbsent, ReasonVaultLocked, ReasonVaultQuarantined,
		AuthorizationStale, CatalogStale, ReasonEpochEnded, ServerSuspended, ServerDown, IdentityUnstable,
		TargetUnknown, ActionUnknown, RuleMismatch, HeaderRefused,
		OutcomeUnresolved,
		RateLimited, Busy,
		NotAuthorized, ApprovalDenied, ApprovalTimeout, NoCallInFlight,
		AuditUnavailable,
	}
}
