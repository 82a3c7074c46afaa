package event

import "reflect"

// fold is the log an event is read in.
type fold uint8

const (
	sessions fold = iota + 1
	activity
)

// row names one struct. A new event is its struct in one of the catalog files, its line here and its method below.
type row struct {
	name string
	fold fold
	typ  reflect.Type
}

func line[E Event](name string, f fold) row { return row{name, f, reflect.TypeFor[E]()} }

// table is the whole catalogue. Names are never reused, and a field added to a struct later is left out when zero:
// old logs must decode for ever.
var table = []row{
	line[GatewayStarted]("gateway_started", sessions),
	line[GatewayStopped]("gateway_stopped", sessions),
	line[VaultCreated]("vault_created", sessions),
	line[VaultUnlocked]("vault_unlocked", sessions),
	line[VaultLocked]("vault_locked", sessions),
	line[VaultQuarantined]("vault_quarantined", sessions),
	line[VaultReleased]("vault_released", sessions),
	line[RowsForged]("rows_forged", sessions),
	line[SlotAdded]("slot_added", sessions),
	line[SlotRemoved]("slot_removed", sessions),
	line[VaultRekeyed]("vault_rekeyed", sessions),
	line[BackupMade]("backup_made", sessions),
	line[VaultRestored]("vault_restored", sessions),
	line[SettingsChanged]("settings_changed", sessions),
	line[LogRecipientsChanged]("log_recipients_changed", sessions),
	line[RunOpened]("run_opened", sessions),
	line[RunOrphaned]("run_orphaned", sessions),
	line[RunEnded]("run_ended", sessions),
	line[RunDenied]("run_denied", sessions),
	line[RunRevoked]("run_revoked", sessions),
	line[EpochOpened]("epoch_opened", sessions),
	line[EpochEnded]("epoch_ended", sessions),
	line[ApprovalRequested]("approval_requested", sessions),
	line[ApprovalGranted]("approval_granted", sessions),
	line[ApprovalDenied]("approval_denied", sessions),
	line[ApprovalExpired]("approval_expired", sessions),
	line[ApprovalsMuted]("approvals_muted", sessions),
	line[ApprovalsUnmuted]("approvals_unmuted", sessions),
	line[SittingOpened]("sitting_opened", sessions),
	line[SittingClosed]("sitting_closed", sessions),
	line[GrantIssued]("grant_issued", sessions),
	line[GrantRevoked]("grant_revoked", sessions),
	line[CredentialAdded]("credential_added", sessions),
	line[CredentialRotated]("credential_rotated", sessions),
	line[CredentialRebound]("credential_rebound", sessions),
	line[CredentialRemoved]("credential_removed", sessions),
	line[TokenKept]("token_kept", sessions),
	line[CredentialTested]("credential_tested", sessions),
	line[TargetAdded]("target_added", sessions),
	line[TargetChanged]("target_changed", sessions),
	line[TargetRemoved]("target_removed", sessions),
	line[PasskeyAdded]("passkey_added", sessions),
	line[PasskeyRemoved]("passkey_removed", sessions),
	line[OperatorRefused]("operator_refused", sessions),
	line[ProcessReparented]("process_reparented", sessions),
	line[ProcessObserved]("process_observed", sessions),
	line[ClientUnresponsive]("client_unresponsive", sessions),
	line[ClientResponsive]("client_responsive", sessions),
	line[ContainmentStarted]("containment_started", sessions),
	line[ActionsReviewed]("actions_reviewed", sessions),
	line[RemoteWorkListed]("remote_work_listed", sessions),
	line[DenialProved]("denial_proved", sessions),
	line[ProcessSignalled]("process_signalled", sessions),
	line[ProcessChecked]("process_checked", sessions),
	line[ContainmentFinished]("containment_finished", sessions),
	line[IncidentRecorded]("incident_recorded", sessions),
	line[ServerStarted]("server_started", sessions),
	line[ServerMeasured]("server_measured", sessions),
	line[ServerReplaced]("server_replaced", sessions),
	line[ArtifactChanged]("artifact_changed", sessions),
	line[CatalogChanged]("catalog_changed", sessions),
	line[CatalogServed]("catalog_served", sessions),
	line[ServerSignalled]("server_signalled", sessions),
	line[ServerStopped]("server_stopped", sessions),
	line[CleanupExpectationBroken]("cleanup_expectation_broken", sessions),

	line[AuthorizationDenied]("authorization_denied", activity),
	line[ToolCalled]("tool_called", activity),
	line[OperatorCalled]("operator_called", activity),
	line[ToolFinished]("tool_finished", activity),
	line[ToolCancelRequested]("tool_cancel_requested", activity),
	line[JobChanged]("job_changed", activity),
	line[ToolUnresolved]("tool_unresolved", activity),
	line[ToolResolved]("tool_resolved", activity),
	line[LateResult]("late_result", activity),
}

func (GatewayStarted) event()           {}
func (GatewayStopped) event()           {}
func (VaultCreated) event()             {}
func (VaultUnlocked) event()            {}
func (VaultLocked) event()              {}
func (VaultQuarantined) event()         {}
func (VaultReleased) event()            {}
func (RowsForged) event()               {}
func (SlotAdded) event()                {}
func (SlotRemoved) event()              {}
func (VaultRekeyed) event()             {}
func (BackupMade) event()               {}
func (VaultRestored) event()            {}
func (SettingsChanged) event()          {}
func (LogRecipientsChanged) event()     {}
func (RunOpened) event()                {}
func (RunOrphaned) event()              {}
func (RunEnded) event()                 {}
func (RunDenied) event()                {}
func (RunRevoked) event()               {}
func (EpochOpened) event()              {}
func (EpochEnded) event()               {}
func (ApprovalRequested) event()        {}
func (ApprovalGranted) event()          {}
func (ApprovalDenied) event()           {}
func (ApprovalExpired) event()          {}
func (ApprovalsMuted) event()           {}
func (ApprovalsUnmuted) event()         {}
func (SittingOpened) event()            {}
func (SittingClosed) event()            {}
func (GrantIssued) event()              {}
func (GrantRevoked) event()             {}
func (CredentialAdded) event()          {}
func (CredentialRotated) event()        {}
func (CredentialRebound) event()        {}
func (CredentialRemoved) event()        {}
func (TokenKept) event()                {}
func (CredentialTested) event()         {}
func (TargetAdded) event()              {}
func (TargetChanged) event()            {}
func (TargetRemoved) event()            {}
func (PasskeyAdded) event()             {}
func (PasskeyRemoved) event()           {}
func (OperatorRefused) event()          {}
func (ProcessReparented) event()        {}
func (ProcessObserved) event()          {}
func (ClientUnresponsive) event()       {}
func (ClientResponsive) event()         {}
func (ContainmentStarted) event()       {}
func (ActionsReviewed) event()          {}
func (RemoteWorkListed) event()         {}
func (DenialProved) event()             {}
func (ProcessSignalled) event()         {}
func (ProcessChecked) event()           {}
func (ContainmentFinished) event()      {}
func (IncidentRecorded) event()         {}
func (ServerStarted) event()            {}
func (ServerMeasured) event()           {}
func (ServerReplaced) event()           {}
func (ArtifactChanged) event()          {}
func (CatalogChanged) event()           {}
func (CatalogServed) event()            {}
func (ServerSignalled) event()          {}
func (ServerStopped) event()            {}
func (CleanupExpectationBroken) event() {}
func (AuthorizationDenied) event()      {}
func (ToolCalled) event()               {}
func (OperatorCalled) event()           {}
func (JobChanged) event()               {}
func (ToolFinished) event()             {}
func (ToolCancelRequested) event()      {}
func (ToolUnresolved) event()           {}
func (ToolResolved) event()             {}
func (LateResult) event()               {}

// byType and byName index the table; built once, only read.
var byType, byName = index(table)

func index(rows []row) (map[reflect.Type]row, map[string]row) {
	t, n := make(map[reflect.Type]row, len(rows)), make(map[string]row, len(rows))
	for _, r := range rows {
		t[r.typ], n[r.name] = r, r
	}
	return t, n
}
