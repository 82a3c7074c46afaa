package event

// Activity: single calls, in order.

// AuthorizationDenied is one refused attempt. Count is over 1 when several like it were folded into one record.
type AuthorizationDenied struct {
	Call
	Method        string `json:"method"` // of the agents' door
	Reason        string `json:"reason"` // a code of the table
	Detail        string `json:"detail,omitempty"`
	ApprovedEpoch string `json:"approvedEpoch,omitempty"`
	CurrentEpoch  string `json:"currentEpoch,omitempty"`
	Count         int    `json:"count,omitzero"`
}

// Call is what every Activity event says of its call: which run asked, which process submitted it, what it is.
type Call struct {
	Action     string `json:"action,omitempty"`
	Run        string `json:"run,omitempty"`
	Epoch      string `json:"epoch,omitempty"`
	Peer       Peer   `json:"peer,omitzero"`
	Tool       string `json:"tool,omitempty"`
	Credential string `json:"credential,omitempty"`
	Target     string `json:"target,omitempty"`
	Operation  string `json:"operation,omitempty"` // method and path, or the command's class
}

// ToolCalled is the intent, durable before the first byte leaves.
type ToolCalled struct {
	Call
	Digest         string `json:"digest"`
	Preview        string `json:"preview,omitempty"` // bounded, escaped; no body, no header value
	Decision       string `json:"decision"`
	Grant          string `json:"grant"`
	Approval       string `json:"approval,omitempty"`
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
	BytesOut       int64  `json:"bytesOut,omitzero"`
	ArtifactDrift  bool   `json:"artifactDrift,omitzero"` // the caller's program was exchanged on disk since it started

	// Of a supervised server: its label; of a call of its tool the revisions that its host was shown and that was current, the
	// tool's contract, and the host's request id; of its own call the calls that were in flight.
	ServerLabel  string   `json:"serverLabel,omitempty"`
	CatalogShown string   `json:"catalogShown,omitempty"`
	Catalog      string   `json:"catalog,omitempty"`
	Contract     string   `json:"contract,omitempty"`
	RequestID    string   `json:"requestId,omitempty"`
	During       []string `json:"during,omitempty"`
}

// OperatorCalled is the intent of a call that the operator made, not an agent: by a stored credential's own rule, without a
// grant. Purpose: status or cancel (of the job that action Of started), or test (the credential's probe).
type OperatorCalled struct {
	Call
	Digest   string `json:"digest"`
	Operator string `json:"operator"`
	Purpose  string `json:"purpose"`
	Of       string `json:"of,omitempty"`
}

// ToolFinished is the result. Reason is a code where the outcome is not a plain success.
type ToolFinished struct {
	Action    string   `json:"action"`
	Run       string   `json:"run"`
	Epoch     string   `json:"epoch"`
	Outcome   string   `json:"outcome"`
	Reason    string   `json:"reason,omitempty"`
	Status    int      `json:"status,omitzero"`     // HTTP
	Exit      *int     `json:"exitStatus,omitzero"` // SSH
	Signal    string   `json:"signal,omitempty"`
	Flags     []string `json:"flags,omitempty"`
	Reflected int      `json:"reflectedCount,omitzero"`
	Sent      int64    `json:"sent,omitzero"`
	Received  int64    `json:"received,omitzero"`
	JobID     string   `json:"jobId,omitempty"`
	OldEpoch  string   `json:"oldEpoch,omitempty"` // where the call was lost in a transition of its server
	NewEpoch  string   `json:"newEpoch,omitempty"`
}

// ToolCancelRequested: somebody called the action back. What came of that is its result, not this. By is the agent, or how
// the operator was known.
type ToolCancelRequested struct {
	Action string `json:"action"`
	Run    string `json:"run"`
	Epoch  string `json:"epoch"`
	By     string `json:"by"`
}

// JobChanged: what became known of a remote job after its action's result. Outcome is the action's from here on: accepted,
// confirmed, failed_remote, cancel_requested, cancelled or cancel_unconfirmed. Asked is the action that asked, if one did.
type JobChanged struct {
	Action  string `json:"action"`
	Run     string `json:"run"`
	Epoch   string `json:"epoch"`
	JobID   string `json:"jobId"`
	Outcome string `json:"outcome"`
	Exit    *int   `json:"exitStatus,omitzero"`
	Signal  string `json:"signal,omitempty"`
	Asked   string `json:"asked,omitempty"`
}

// ToolUnresolved closes an intent that a crash left without a result: it may have taken effect.
type ToolUnresolved struct {
	Action  string `json:"action"`
	Outcome string `json:"outcome"`
	Cause   string `json:"cause"` // restart
}

// ToolResolved: the operator said what became of a call whose outcome was unknown. Resolution: happened, did-not-happen,
// or replay (it may be sent again, knowing that it may happen twice).
type ToolResolved struct {
	Action     string `json:"action"`
	Resolution string `json:"resolution"`
	Operator   string `json:"operator"`
}

// LateResult: the result was recorded and its caller was gone.
type LateResult struct {
	Action string `json:"action"`
	Run    string `json:"run"`
	Epoch  string `json:"epoch"`
}
