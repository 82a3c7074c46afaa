package authz

// Reason is a code of the ladder, as callers and the log see it.
type Reason string

// ReasonGranted goes with Allow alone. It is no error code.
const ReasonGranted Reason = "granted"

// The codes that refuse, by rung. Decide itself returns those of rungs 1 to 10; the gateway puts those of rungs 0 and 5
// into a Request, and answers with the rest where a card or a key of idempotency says so.
const (
	ReasonInvalidRequest Reason = "invalid_request" // 0
	ReasonFrameTooLarge  Reason = "frame_too_large"
	ReasonUnknownTool    Reason = "unknown_tool"
	ReasonUnknownMethod  Reason = "unknown_method"

	ReasonPeerUnidentified Reason = "peer_unidentified" // 1
	ReasonPeerReplaced     Reason = "peer_replaced"

	ReasonRunRevoked  Reason = "run_revoked" // 2
	ReasonRunOrphaned Reason = "run_orphaned"
	ReasonRunDenied   Reason = "run_denied"
	ReasonRunEnded    Reason = "run_ended"

	ReasonVaultAbsent      Reason = "vault_absent" // 3
	ReasonVaultLocked      Reason = "vault_locked"
	ReasonVaultQuarantined Reason = "vault_quarantined"

	ReasonAuthorizationStale Reason = "authorization_stale" // 4
	ReasonCatalogStale       Reason = "catalog_stale"
	ReasonEpochEnded         Reason = "epoch_ended"

	ReasonTargetUnknown Reason = "target_unknown" // 5
	ReasonActionUnknown Reason = "action_unknown"
	ReasonRuleMismatch  Reason = "rule_mismatch"
	ReasonHeaderRefused Reason = "header_refused"

	ReasonOutcomeUnresolved Reason = "outcome_unresolved" // 6

	ReasonRateLimited Reason = "rate_limited" // 7
	ReasonBusy        Reason = "busy"

	ReasonNotAuthorized   Reason = "not_authorized" // 8 and 9
	ReasonApprovalDenied  Reason = "approval_denied"
	ReasonApprovalTimeout Reason = "approval_timeout"

	ReasonAuditUnavailable Reason = "audit_unavailable" // 10
)

// Reasons lists every refusing code, in the ladder's order.
func Reasons() []Reason {
	return []Reason{
		ReasonInvalidRequest, ReasonFrameTooLarge, ReasonUnknownTool, ReasonUnknownMethod,
		ReasonPeerUnidentified, ReasonPeerReplaced,
		ReasonRunRevoked, ReasonRunOrphaned, ReasonRunDenied, ReasonRunEnded,
		ReasonVaultAbsent, ReasonVaultLocked, ReasonVaultQuarantined,
		ReasonAuthorizationStale, ReasonCatalogStale, ReasonEpochEnded,
		ReasonTargetUnknown, ReasonActionUnknown, ReasonRuleMismatch, ReasonHeaderRefused,
		ReasonOutcomeUnresolved,
		ReasonRateLimited, ReasonBusy,
		ReasonNotAuthorized, ReasonApprovalDenied, ReasonApprovalTimeout,
		ReasonAuditUnavailable,
	}
}
