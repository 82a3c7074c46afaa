package gateway

import (
	"fmt"

	"sallyport/gateway/api"
)

// stage is one row of an action's life: a state with an outcome, who brings an action there, what is durable by then, and
// what may come after.
type stage struct {
	state, outcome string // outcome is empty while nothing is known
	by, durable    string
	next           []int // places in life
}

// The rows of life, by name.
const (
	asked = iota
	called
	denied
	notSent
	confirmed
	redirected
	failedRemote
	unconfirmed
	accepted
	watched
	watchedUnknown
	stopping
	watchedInDoubt
	stopped
	stopUnknown
)

const (
	inResult = "the RESULT, synced before the caller is told; its row follows within a second"
	inNote   = "a job_changed note with its own part, synced; its row follows within a second"
)

// life is the whole life of an action: docs/actions.md prints it, and no action of any test may stand anywhere else.
var life = [...]stage{
	asked: {api.Pending, "", "a caller's line: read, identified, bound to one plan", "nothing; a card that waits is an approval_requested",
		[]int{called, denied, confirmed}},
	called: {api.Running, "", "the ladder, or the operator's yes: allowed, its use taken, held by the run's lock", "the INTENT, synced before the first byte leaves",
		[]int{denied, notSent, confirmed, redirected, failedRemote, unconfirmed, accepted, watched, watchedUnknown}},
	denied: {api.Done, "denied", "the ladder, the operator's no, a cancellation, or the caller's end before the intent; the gate or the address check after it",
		"an authorization_denied note; after the intent a RESULT", nil},
	notSent:      {api.Done, "not_sent", "the executor: no byte of the request left", inResult, nil},
	confirmed:    {api.Done, "confirmed", "the executor: a final status line or an exit status came; or a watched job's end; of request_access the operator's yes, or that the target which it asked for exists now", inResult + "; of request_access the approval and the grant, or the card's end and the target's addition", nil},
	redirected:   {api.Done, "redirect_not_followed", "the executor: a 3xx came", inResult, nil},
	failedRemote: {api.Done, "failed_remote", "the executor: an exit signal, or a protocol's answer that is no result", inResult, nil},
	unconfirmed: {api.Done, "sent_unconfirmed", "the executor: it left and no result came, also by revoke, lock, cancellation or deadline; or the next start, for an intent that has none",
		inResult + "; after a crash a tool_unresolved. A write blocks its twin until a tool_resolved", nil},
	accepted: {api.Done, "accepted", "the executor: the answer named a remote job", inResult + ", with the job's id in its own part", []int{stopping, stopUnknown}},
	watched: {api.Running, "accepted", "the executor: a job that the gateway watches was started", inResult + ", with the job's id in its own part",
		[]int{confirmed, failedRemote, unconfirmed, watchedInDoubt, stopped}},
	watchedUnknown: {api.Running, "sent_unconfirmed", "the executor: the start of such a job had no answer; its id is known, so it is looked for", inResult + ", with the job's id in its own part",
		[]int{watched, confirmed, failedRemote, unconfirmed, notSent, watchedInDoubt, stopped}},
	stopping: {api.Done, "cancel_requested", "a cancellation that the remote side took", inNote, []int{stopUnknown}},
	watchedInDoubt: {api.Running, "cancel_unconfirmed", "a cancellation of a watched job whose effect can't be proved yet", inNote,
		[]int{confirmed, failedRemote, unconfirmed, stopped}},
	stopped:     {api.Done, "cancelled", "a watched job's end, proved", inNote, nil},
	stopUnknown: {api.Done, "cancel_unconfirmed", "a cancellation of which no answer came, or whose effect can't be proved", inNote, []int{stopping, stopped}},
}

// placed tells whether an action stands where one may.
func placed(a api.Action) error {
	for _, s := range life {
		if s.state == a.State && s.outcome == a.Outcome {
			return nil
		}
	}
	return fmt.Errorf("action %s is %s with outcome %q, which no action may be", a.ID, a.State, a.Outcome)
}
