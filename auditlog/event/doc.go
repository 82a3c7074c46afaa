// Package event is what the audit log means: the typed events, their one canonical form, the two folds, Sessions and
// Activity, and the checks of meaning. It is pure: no I/O, no clock, no secret key.
//
// # Form
//
// An event is one JSON object in UTF-8: "type" first, then the fields in the order of the catalogue, no space between
// tokens. Times are RFC 3339 in UTC with as many decimals as they need; bytes are base64 (RFC 4648, padded). A field
// marked ? is left out when it is zero or empty; a list without one is [] when empty. There is one spelling per event:
// [Decode] refuses any other, and also unknown types and fields, duplicates, null and trailing bytes.
//
// A name is never given to another event. A field that is added to an event later is marked ?, so that old logs decode.
// No event has a map, an interface or a free value: a secret has no field to be in.
//
// # Meaning
//
// [Check] reads a log in its order and names each breach of what a gateway promises. The vault is closed until the
// log's first life creates it, or vault_unlocked or vault_released opens it; gateway_started, gateway_stopped,
// vault_locked, vault_quarantined and vault_restored close it. All of those and vault_rekeyed void every grant. A grant is also ended by grant_revoked, epoch_ended,
// run_orphaned, run_ended, run_revoked, by another epoch of the same process, by its time (against the commit's, one
// second of grace, as it is told in whole seconds) and by its uses, each of which an intent takes for good.
//
// A grant can end by itself between a call's decision and its intent. The gate then refuses, and the result's outcome
// is denied: such a call was never executed, and is no breach. Where a crash hid the result it is counted as doubtful.
// Locks and revocations wait for every call before they are recorded, so after them an intent is a breach whatever came
// of it. What is told before vault_unlocked was in the outbox of a gateway that crashed: such a grant is void, and told
// twice it is no breach. After a vault_released that accepted the log as it is, or a vault_restored that began it, a run's opening may be missing.
//
// A sitting is open from sitting_opened to sitting_closed, to its end, or to whatever closes the vault.
//
// An approval's signature is a WebAuthn assertion, ES256 on P-256, EdDSA on Ed25519 or RS256, user present and verified,
// given on a page of http://localhost:PORT, whose challenge is SHA-256("approval/grant" | 0x0A | args), against a passkey
// that the log enrolled before.
//
// The rules:
//
//   - call_while_locked: a call while the vault was locked or no gateway ran
//   - call_after_revocation: a call of a run after its run_revoked
//   - call_after_run_ended: a call of a run after its run_ended
//   - call_of_unknown_run: a call of a run that was never opened
//   - call_without_grant: a call that names no grant issued before it
//   - call_of_other_epoch: a call by a grant of another run or epoch
//   - call_beyond_grant: a call whose tool, credential or plan its grant does not cover
//   - call_past_uses: a call by a grant that is used up
//   - call_past_time: an executed call by a grant whose time was over when the intent was committed
//   - call_after_epoch: an executed call by a grant of an epoch that had ended or been replaced
//   - call_after_grant: an executed call by a grant that had been revoked or voided
//   - call_of_other_contract: a call of a supervised server's tool by a grant for another contract
//   - call_of_stale_catalog: a call of a supervised server's tool whose host was shown another revision than the current one
//   - call_without_approval: a call that names an approval which was not given, was not for this plan, or was used before
//   - intent_twice: two intents of one action
//   - intent_left_open: an intent that a later gateway_started found open and did not tell as unresolved
//   - result_without_intent: a result of an action that was not called
//   - result_twice: two results of one action
//   - result_of_other_call: a result whose run or epoch is not its intent's
//   - grant_twice: two grants of one id
//   - grant_without_end: a grant whose end cannot be read; it counts as void
//   - grant_without_approval: a grant without an approval of the same run and epoch, or by one that gave another grant
//   - grant_beyond_approval: a grant wider than its card or than the scope that was approved
//   - grant_of_ended_epoch: a grant to an epoch that had ended or was never opened
//   - approval_twice: two approvals of one id
//   - approval_card_digest: an approval whose card does not have the digest it names
//   - approval_card_names: an approval whose card is of another approval, run or epoch
//   - approval_args: an approval whose request is not canonical, or names another approval, card or scope
//   - approval_passkey: an approval signed by a passkey that was not enrolled then
//   - approval_signature: an approval whose signature does not verify, or that should have one and has none
//   - approval_sitting: an approval by a sitting that was not open, or whose time was over for a minute
//   - passkey_twice: a passkey enrolled under the credential id of another
//   - opened_twice: a run or epoch opened a second time
//   - denial_before_revocation: a proof of denial for a run that was not revoked
//   - signal_before_denial: a signal to a process of a run whose denial was not proved
//   - forced_before_look: a SIGKILL to a process that was not looked at after SIGTERM
//   - contained_without_denial: a run told as contained whose denial was not proved
//   - more: the breaches over 1000, as a number
//
// What has ended is remembered by the latest 4096 only: a record that speaks of something older is told as of something
// unknown, and an id that comes back after so long is taken for a new one.
//
// # Catalogue
//
// Sessions says who ran, under which authority; Activity, which calls there were. Ids are a kind, "_" and a ULID.
// A peer is {processId int, started? time, exe? string, exeDigest? string, identity? string, command? string,
// parentProcessId? int, processGroup? int, processSession? int, weak? [string]}; an assertion is
// {credentialId? bytes, authenticatorData? bytes, clientDataJSON? bytes, signature? bytes}. A process is {at time,
// processId int, ppid int, pgid int, sid int, stat string, etime string, started time, user string, exe string, command
// string, workingDirectory string}; a descriptor {fd int, mode string, class string, target string, local? string, remote?
// string, state? string, peers? [string]}; a kin {processId int, ppid int, stat string, command string, stranger? bool}; a
// lead {kind string, name string, rotate? string}; a remote {action string, outcome string, target string, jobId? string};
// an artifact {path string, digest string}; an execution {launchCommand [string], workingDirectory string, exe? string,
// exeDigest? string, entry? string, entryDigest? string, lockfile? string, lockfileDigest? string, treeDigest? string,
// runtime? string, image? string, imageDigest? string, launchers? [artifact], files? [artifact], environment? [string],
// unpinned? [string]}.
//
//	gateway_started             Sessions  version string, processId int, absentCalls? int, recovered? int
//	gateway_stopped             Sessions  reason string, operator? string, peer? peer
//	vault_created               Sessions  vaultId string
//	vault_unlocked              Sessions  operator string
//	vault_locked                Sessions  operator string, reason string, peer? peer
//	vault_quarantined           Sessions  reason string
//	vault_released              Sessions  reason string, operator string, acceptedLog? bool, logEnd? int, logSeen? int
//	rows_forged                 Sessions  rows [string]
//	slot_added                  Sessions  slot string, kind string, operator string
//	slot_removed                Sessions  slot string, kind string, operator string
//	vault_rekeyed               Sessions  generation int, counter int, operator string
//	backup_made                 Sessions  generation int, counter int, length int, digest string, operator string
//	vault_restored              Sessions  vaultId string, generation int, counter int, length int, digest string, operator string, newLog? bool
//	settings_changed            Sessions  settings [string], operator string
//	log_recipients_changed      Sessions  recipients [string], operator string
//	run_opened                  Sessions  run string, agent peer, launchers? [peer]
//	run_orphaned                Sessions  run string
//	run_ended                   Sessions  run string
//	run_denied                  Sessions  run string
//	run_revoked                 Sessions  run string, operator string, peer? peer, left? [string]
//	epoch_opened                Sessions  run string, epoch string, serverLabel? string, process peer, launchers? [peer]
//	epoch_ended                 Sessions  run string, epoch string, reason string, operator? string, peer? peer
//	approval_requested          Sessions  approval string, run string, epoch string, tool string, credential string, target string, digest string, cardDigest string
//	approval_granted            Sessions  approval string, run string, epoch string, scope string, card bytes, cardDigest string, proof string, operator string, args? bytes, assertion? assertion, sitting? string
//	approval_denied             Sessions  approval string, run string, epoch string, operator string, peer? peer
//	approval_expired            Sessions  approval string, run string, epoch string, reason string
//	approvals_muted             Sessions  key string, chain string, waiting? int, operator string, peer? peer
//	approvals_unmuted           Sessions  key string, chain string, refused? int, operator string
//	sitting_opened              Sessions  sitting string, proof string, ends time, peer peer
//	sitting_closed              Sessions  sitting string, reason string
//	grant_issued                Sessions  grant string, run string, epoch string, toolScope [string], credentialScope [string], issuedAt time, expiresWhen string, approval string, operator string, serverLabel? string, contract? string
//	grant_revoked               Sessions  grant string, run string, epoch string, reason string, operator? string, peer? peer
//	credential_added            Sessions  credential string, kind string, version int, operator string
//	credential_rotated          Sessions  credential string, version int, operator string
//	credential_rebound          Sessions  credential string, version int, changed [string], operator string
//	credential_removed          Sessions  credential string, operator string
//	token_kept                  Sessions  credential string, field string, action? string, run? string, epoch? string
//	credential_tested           Sessions  credential string, operation string, outcome? string, status? int, operator string
//	target_added                Sessions  target string, address string, credential string, hostKeys [string], shell string, operator string
//	target_changed              Sessions  target string, address string, credential string, hostKeys [string], shell string, changed [string], operator string
//	target_removed              Sessions  target string, operator string
//	passkey_added               Sessions  passkey string, credentialId bytes, spki bytes, rpId string, operator string
//	passkey_removed             Sessions  passkey string, credentialId bytes, operator string
//	operator_refused            Sessions  path string, reason string, peer peer
//	process_reparented          Sessions  run string, epoch string, processId int, parent? int, ppid? int
//	process_observed            Sessions  run string, epoch? string, why string, role string, exists string, launched? string, process process, descriptors [descriptor], children [kin], group [kin], authority [lead], gaps? [string]
//	client_unresponsive         Sessions  run string, processId int, reason string, since time
//	client_responsive           Sessions  run string, processId int, since time
//	containment_started         Sessions  run string, operator string, state string
//	actions_reviewed            Sessions  run string, last? string, clientUnavailableAt? time, lastActionStartedAt? time, revokedAt? time, uncertain? [string], after? [string]
//	remote_work_listed          Sessions  run string, unfinished [remote]
//	denial_proved               Sessions  run string, method string, reason string, record? int, epochs? [string]
//	process_signalled           Sessions  run string, processId int, started time, signal string, operator string, forced? bool, cleanupMayBeIncomplete? bool
//	process_checked             Sessions  run string, processId int, started time, after string, state string, detail? string, children? [int]
//	containment_finished        Sessions  run string, operator string, verdict string, left? [int], rotate? [string], missing? [string]
//	incident_recorded           Sessions  run string, upto int, operator string
//	server_started              Sessions  run string, epoch string, serverLabel string, processId int, cause string, execution execution, workers? int, reload? string, exitWithin? int, children? string
//	server_measured             Sessions  run string, epoch string, serverLabel string, processId int, differs? [string], execution? execution
//	server_replaced             Sessions  run string, serverLabel string, oldEpoch string, newEpoch string, oldProcessId int, newProcessId int, cause string
//	artifact_changed            Sessions  run string, epoch string, serverLabel string, processId int, changed [string]
//	catalog_changed             Sessions  run string, epoch string, serverLabel string, catalog string, old? string, tools int, contract? [string], diff? [string]
//	catalog_served              Sessions  run string, epoch string, serverLabel string, catalog string
//	server_signalled            Sessions  run string, epoch string, serverLabel string, processId int, signal string, escaped? bool, forced? bool
//	server_stopped              Sessions  run string, epoch string, serverLabel string, reason string, exited bool, forced? bool, swept? [int], left? [int]
//	cleanup_expectation_broken  Sessions  run string, epoch string, serverLabel string, expected string, seen string
//	authorization_denied        Activity  action? string, run? string, epoch? string, peer? peer, tool? string, credential? string, target? string, operation? string, method string, reason string, detail? string, approvedEpoch? string, currentEpoch? string, count? int
//	tool_called                 Activity  action? string, run? string, epoch? string, peer? peer, tool? string, credential? string, target? string, operation? string, digest string, preview? string, decision string, grant string, approval? string, idempotencyKey? string, bytesOut? int, artifactDrift? bool, serverLabel? string, catalogShown? string, catalog? string, contract? string, requestId? string, during? [string]
//	operator_called             Activity  action? string, run? string, epoch? string, peer? peer, tool? string, credential? string, target? string, operation? string, digest string, operator string, purpose string, of? string
//	tool_finished               Activity  action string, run string, epoch string, outcome string, reason? string, status? int, exitStatus? int, signal? string, flags? [string], reflectedCount? int, sent? int, received? int, jobId? string, oldEpoch? string, newEpoch? string
//	tool_cancel_requested       Activity  action string, run string, epoch string, by string
//	job_changed                 Activity  action string, run string, epoch string, jobId string, outcome string, exitStatus? int, signal? string, asked? string
//	tool_unresolved             Activity  action string, outcome string, cause string
//	tool_resolved               Activity  action string, resolution string, operator string
//	late_result                 Activity  action string, run string, epoch string
package event
