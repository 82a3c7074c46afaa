// Package authz decides, from values alone, whether a call may go on. It does no I/O, has no clock and no context: the
// gateway gathers [Facts] under the run's lock and [Decide] answers; before the first byte leaves, it is asked again.
// Zero means no: the zero Facts, the zero Decision and every zero state deny.
//
// # The ladder
//
// The order is fixed and the first hit wins. Every rung denies, but 8 and 9 ask a person, unless too many cards wait.
//
//	 0  the request parses             invalid_request, frame_too_large, unknown_tool, unknown_method
//	 1  the caller is who it was       peer_unidentified, peer_replaced
//	 2  the run is open                run_revoked, run_orphaned, run_denied, run_ended
//	 3  the vault is ready             vault_absent, vault_locked, vault_quarantined
//	 4  epoch and catalog are current  authorization_stale, catalog_stale, epoch_ended, server_suspended, server_down, identity_unstable; not_authorized for a server nobody approved yet
//	 5  one credential's rule matches  target_unknown, action_unknown, rule_mismatch, header_refused
//	 6  no such write is unresolved    outcome_unresolved
//	 7  there is room                  rate_limited, busy
//	 8  a live grant covers it         not_authorized, approval_denied, approval_timeout, no_call_in_flight
//	 9  a yes to this very use         as 8
//	10  the log takes the intent       audit_unavailable
//	11  the gate                       Decide again, on fresh facts
//
// A weak caller's write is covered by a grant alone that was given to it as weak; such a grant also spares it rung 9.
// Rung 9 is walked where the credential's [Confirm] is not never, for a raw shell string, for a weak caller, and where a
// write with the same effect is unresolved. Listings, status and session are a [ControlWalk]: rungs 0 to 3 and 7; what a wrapper says of its child is a [WrapperWalk]: rungs 0 to 2 and 7.
//
// # Runs
//
// What an event (left) makes of a state (top). A dash is an impossible pair: an error, and the state stays.
//
//	                    pending   active    orphaned  denied    revoked   ended
//	granted             active    active    -         active    -         -
//	denied twice        denied    active    -         denied    -         -
//	revoke              revoked   revoked   revoked   revoked   revoked   revoked
//	client gone, busy   orphaned  orphaned  orphaned  orphaned  revoked   ended
//	client gone, idle   ended     ended     orphaned  ended     revoked   ended
//	drained             -         -         ended     -         revoked   ended
//	lock                pending   pending   orphaned  denied    revoked   ended
//	clean end           ended     ended     -         ended     revoked   ended
//
// # Epochs
//
// An agent's own shim begins live. A supervised server begins identity-pending, and so does whatever replaces it.
//
//	                 live   identity-pending  catalog-ready  ended
//	replaced         ended  ended             ended          ended
//	catalog fetched  live   catalog-ready     catalog-ready  -
//	approved         live   -                 live           -
//	gone             ended  ended             ended          ended
package authz
