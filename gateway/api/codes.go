package api

import "fmt"

// Error is a refusal or a failure: precise, and with what to do next. Next is one of the Next words.
type Error struct {
	Code          string `json:"error"`
	Reason        string `json:"reason"`
	Retry         string `json:"retry,omitempty"`
	Next          string `json:"next,omitempty"`
	Action        string `json:"action,omitempty"`
	ApprovedEpoch string `json:"approvedEpoch,omitempty"`
	CurrentEpoch  string `json:"currentEpoch,omitempty"`
	OldEpoch      string `json:"oldEpoch,omitempty"` // of a call that was lost in a transition: whose child it was given to
	NewEpoch      string `json:"newEpoch,omitempty"` // which epoch came after it; empty: none came yet
}

func (e *Error) Error() string {
	if e.Retry == "" {
		return fmt.Sprintf("%s: %s", e.Code, e.Reason)
	}
	return fmt.Sprintf("%s: %s; %s", e.Code, e.Reason, e.Retry)
}

// Words of Error.Next.
const (
	NextRefresh = "refresh_catalog"
	NextRestart = "wait_restart"
	NextAsk     = "ask_operator"
	NextFix     = "fix_request"
	NextLater   = "retry_later"
)

// Code is one row of the table: what a code means on each surface.
type Code struct {
	Name   string
	Status int    // HTTP status on the operators' door
	Exit   int    // exit status of sp
	Next   string // one of the Next words
	Reason string // said when the place that refuses knows nothing more precise
	Retry  string // advice for the caller
}

// Codes is the one table of code, HTTP status, exit status and advice.
var Codes = []Code{
	// Rung 0: the request.
	{"invalid_request", 400, 2, NextFix, "the request is malformed", "correct the request and send it again"},
	{"frame_too_large", 413, 2, NextFix, "a line is at most 16 MiB", "send less in one request"},
	{"unknown_tool", 404, 2, NextFix, "no tool of this name exists", "use a tool that list_targets or tools/list names"},
	{"unknown_method", 404, 2, NextFix, "no method of this name exists here", "use call, status, cancel, blob, file, targets or session"},
	// Rung 1: the caller.
	{"peer_unidentified", 403, 1, NextAsk, "the kernel could not say who is calling", "start the client normally and connect again"},
	{"peer_replaced", 403, 1, NextAsk, "the calling process is no longer the program that connected", "connect again and ask for approval"},
	// Rung 2: the run.
	{"run_revoked", 403, 1, NextAsk, "the operator revoked this run", "start a new agent run and ask for approval"},
	{"run_orphaned", 403, 1, NextAsk, "the agent client of this run is gone", "start a new agent run"},
	{"run_denied", 403, 1, NextAsk, "the operator denied this run twice", "ask the operator, or ask once more with request_access: at most once a minute"},
	{"run_ended", 403, 1, NextAsk, "this run has ended", "start a new agent run"},
	// Rung 3: the vault.
	{"vault_absent", 409, 4, NextAsk, "there is no vault yet", "the operator makes one with `sp init`"},
	{"vault_locked", 423, 4, NextAsk, "the vault is locked", "the operator unlocks it with `sp unlock`"},
	{"vault_quarantined", 423, 4, NextAsk, "the vault does not match its own records", "the operator looks at `sp status`, and leaves it with `sp vault release`"},
	// Rung 4: epoch and catalog.
	{"authorization_stale", 403, 1, NextRefresh, "server execution epoch changed", "refresh tool metadata and request authorization"},
	{"catalog_stale", 409, 1, NextRefresh, "the tool catalog changed", "refresh tool metadata and call again"},
	{"epoch_paused", 403, 1, NextAsk, "this epoch was paused", "ask for approval again"},
	{"epoch_ended", 403, 1, NextAsk, "this execution epoch has ended", "connect again and ask for approval"},
	{"server_suspended", 403, 1, NextRestart, "the program of this process was exchanged on disk", "restart it and ask for approval"},
	{"server_down", 503, 1, NextRestart, "no process of this server lives", "wait until it is started again, then refresh tool metadata"},
	{"identity_unstable", 403, 1, NextRestart, "what runs is not what was measured before its start", "start the server again, and leave its files alone meanwhile"},
	// Rung 5: what is asked for.
	{"target_unknown", 404, 1, NextFix, "no target of this name", "choose one from list_targets, or ask the operator for it with request_access"},
	{"action_unknown", 404, 1, NextFix, "no such action of this run", "use the id that the call answered"},
	{"rule_mismatch", 403, 1, NextFix, "no credential's rule allows this request", "choose a request that a rule of list_targets allows"},
	{"header_refused", 403, 1, NextFix, "a header is not the agent's to set", "leave the named header out"},
	// Rung 6.
	{"outcome_unresolved", 409, 1, NextAsk, "an identical write has an unknown outcome", "the operator resolves it before it may be sent again"},
	// Rung 7.
	{"rate_limited", 429, 1, NextLater, "too many requests", "wait and try again"},
	{"busy", 429, 1, NextLater, "too many actions are in flight", "wait for one to end and try again"},
	// Rungs 8 and 9.
	{"not_authorized", 403, 1, NextAsk, "no live grant covers this call", "ask for approval"},
	{"approval_denied", 403, 1, NextAsk, "the operator denied this call", "do something else, or ask the operator"},
	{"approval_timeout", 403, 1, NextLater, "nobody answered the card in time", "ask again when the operator is there"},
	{"no_call_in_flight", 403, 1, NextLater, "a supervised server's own call is admitted only during a granted tools/call of its epoch", "make it while a call of the host is being served"},
	{"idempotency_mismatch", 409, 1, NextFix, "this idempotency key was used for another request", "use a new key for a new request"},
	{"in_progress", 409, 1, NextLater, "the call with this idempotency key is still running", "ask for its status"},
	{"result_lost", 410, 1, NextAsk, "the result is known but its body is no longer kept", "look the operation up at the service"},
	// Rungs 10 and 11.
	{"audit_unavailable", 503, 1, NextAsk, "the audit log cannot be written", "the operator restarts the gateway once the disk is well"},
	// Executors.
	{"address_refused", 403, 1, NextAsk, "the address is not one this credential may reach", "the operator allows the network on the credential or the host (--allow-network CIDR)"},
	{"host_key_changed", 502, 1, NextAsk, "the host's key is not the pinned one", "the operator checks the host before anything else"},
	{"dial_failed", 502, 1, NextLater, "the connection could not be made", "try again when the service answers"},
	{"deadline", 504, 1, NextLater, "the time was over before anything was sent", "try again later"},
	{"not_sent", 502, 1, NextLater, "nothing was sent", "call again"},
	{"sent_unconfirmed", 502, 1, NextAsk, "the request left and no result came; it may have taken effect", "look the operation up at the service before doing it again"},
	{"failed_remote", 502, 1, NextFix, "the remote side failed", "read the result"},
	{"cancelled", 409, 1, NextFix, "the call was cancelled before anything was sent", "send it again if it is wanted after all"},
	{"cancel_unconfirmed", 502, 1, NextAsk, "it is not known whether the work was cancelled", "look the job up at the service"},
	{"gateway_restarted", 503, 1, NextRestart, "the gateway restarted during this call", "ask for the action's status; do not send it again"},
	{"scrub_withheld", 502, 1, NextAsk, "the answer could not be searched for secrets and is withheld", "ask the service for an uncompressed answer"},
	// The operators' door.
	{"operator_refused", 403, 1, NextAsk, "an agent's process may not act as the operator", "run this command from your own terminal"},
	{"proof_required", 401, 1, NextFix, "this command needs the operator's proof", "give the passphrase at the prompt or with --passphrase-fd, or sign with a passkey where the command takes --passkey"},
	{"proof_wrong", 403, 1, NextFix, "the proof is wrong", "try again"},
	{"disk_refused", 507, 1, NextAsk, "the disk refused to write", "free some space, or make it writable, and try again"},
	{"last_slot", 409, 1, NextFix, "that is the last slot that is not in a keychain", "add a passphrase or recovery slot first"},
	{"keychain_unavailable", 503, 1, NextFix, "the keychain does not give what it should", "the passphrase still works: `sp unlock`"},
	{"passphrase_required", 400, 2, NextFix, "the key file is encrypted", "give its passphrase, at the prompt or with --key-passphrase-fd"},
	{"exists", 409, 1, NextFix, "this name is taken", "choose another name, or remove the old one first"},
	{"not_found", 404, 1, NextFix, "there is nothing of this name", "list what there is"},
	{"changed_meanwhile", 409, 1, NextFix, "what this speaks of has changed since it was looked at", "look again, then repeat the command"},
	{"in_use", 409, 1, NextFix, "something else still uses this", "remove what uses it first"},
	{"not_recorded", 500, 1, NextAsk, "done here, not yet recorded", "the operator restarts the gateway once the disk is well"},
	{"internal", 500, 1, NextAsk, "the gateway failed", "see the gateway's log"},
	{"gateway_unreachable", 503, 5, NextAsk, "no gateway answers", "start it with `sp up`"},
}

// Succeeded reports whether an outcome is no failure. Every other one is a code of its own name.
func Succeeded(outcome string) bool {
	return outcome == "confirmed" || outcome == "accepted" || outcome == "redirect_not_followed" || outcome == "cancel_requested"
}

// Lookup returns the row of a code. An unknown code is told as internal, never as success.
func Lookup(name string) Code {
	var internal Code
	for _, c := range Codes {
		if c.Name == name {
			return c
		}
		if c.Name == "internal" {
			internal = c
		}
	}
	return internal
}

// Fail makes the error of a code; an empty reason takes the table's.
func Fail(code, reason string) *Error {
	c := Lookup(code)
	if reason == "" {
		reason = c.Reason
	}
	return &Error{Code: code, Reason: reason, Retry: c.Retry, Next: c.Next}
}
