// Package event is what the audit log means: the typed events, their one canonical form, and the two folds, Sessions and
// Activity. It is pure: no I/O, no clock, no key.
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
// # Catalogue
//
// Sessions says who ran, under which authority; Activity, which calls there were. Ids are a kind, "_" and a ULID.
// A peer is {processId int, started? time, exe? string, exeDigest? string, identity? string}; an assertion is
// {credentialId? bytes, authenticatorData? bytes, clientDataJSON? bytes, signature? bytes}.
//
//	gateway_started         Sessions  version string, processId int, absentCalls? int, recovered? int
//	gateway_stopped         Sessions  reason string
//	vault_created           Sessions  vaultId string
//	vault_unlocked          Sessions  operator string
//	vault_locked            Sessions  operator string, reason string
//	vault_quarantined       Sessions  reason string
//	vault_released          Sessions  reason string, operator string, acceptedLog? bool, logEnd? int, logSeen? int
//	settings_changed        Sessions  settings [string], operator string
//	log_recipients_changed  Sessions  recipients [string], operator string
//	run_opened              Sessions  run string, agent peer, launchers? [peer]
//	run_orphaned            Sessions  run string
//	run_ended               Sessions  run string
//	run_denied              Sessions  run string
//	run_revoked             Sessions  run string, operator string, left? [string]
//	epoch_opened            Sessions  run string, epoch string, serverLabel? string, process peer
//	epoch_ended             Sessions  run string, epoch string, reason string
//	approval_requested      Sessions  approval string, run string, epoch string, tool string, credential string, target string, digest string, cardDigest string
//	approval_granted        Sessions  approval string, run string, epoch string, scope string, card bytes, cardDigest string, proof string, operator string, args? bytes, assertion? assertion
//	approval_denied         Sessions  approval string, run string, epoch string, operator string
//	approval_expired        Sessions  approval string, run string, epoch string, reason string
//	grant_issued            Sessions  grant string, run string, epoch string, toolScope [string], credentialScope [string], issuedAt time, expiresWhen string, approval string, operator string
//	grant_revoked           Sessions  grant string, run string, epoch string, reason string
//	credential_added        Sessions  credential string, kind string, version int, operator string
//	credential_removed      Sessions  credential string, operator string
//	target_added            Sessions  target string, address string, credential string, hostKeys [string], shell string, operator string
//	target_removed          Sessions  target string, operator string
//	passkey_added           Sessions  passkey string, credentialId bytes, spki bytes, rpId string, operator string
//	passkey_removed         Sessions  passkey string, credentialId bytes, operator string
//	operator_refused        Sessions  path string, reason string, peer peer
//	process_reparented      Sessions  run string, epoch string, processId int
//	authorization_denied    Activity  action? string, run? string, epoch? string, peer? peer, tool? string, credential? string, target? string, operation? string, method string, reason string, detail? string, approvedEpoch? string, currentEpoch? string, count? int
//	tool_called             Activity  action? string, run? string, epoch? string, peer? peer, tool? string, credential? string, target? string, operation? string, digest string, preview? string, decision string, grant string, approval? string, idempotencyKey? string, bytesOut? int
//	tool_finished           Activity  action string, run string, epoch string, outcome string, reason? string, status? int, exitStatus? int, signal? string, flags? [string], reflectedCount? int, sent? int, received? int, jobId? string
//	tool_unresolved         Activity  action string, outcome string, cause string
//	late_result             Activity  action string, run string, epoch string
package event
