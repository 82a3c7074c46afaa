package demo

import (
	"time"

	"sallyport/auditlog"
	"sallyport/gateway/api"
)

// evidence is what the story gathered, and all that the checks look at. Its zero value holds for no check.
type evidence struct {
	vault   vaultSeen
	run     runSeen
	http    callSeen
	ssh     callSeen
	revoked revokeSeen
	refused callSeen
	log     logSeen
	search  searchSeen
	review  reviewSeen
}

// vaultSeen: the gateway's word, and the key that was pinned beside the key it says it made.
type vaultSeen struct {
	state       string
	fingerprint string
	pinned      string
}

// runSeen is whom the gateway takes for the run's owner, beside the processes that there really are.
type runSeen struct {
	id       string
	owner    int // process ids
	caller   int // the process that speaks to the gateway: the shim
	agent    int
	operator int
}

// callSeen is one call from both ends: what its destination counted, and what the agent was answered.
type callSeen struct {
	made    bool
	card    api.Approval
	before  int // arrivals when the card was shown
	arrived int // arrivals by the call
	carried int // of them: as they should be, with the credential
	isError bool
	code    string // of a refusal
	action  api.Action
	echo    string // the Authorization header that the service sent back, as the agent got it
}

func (c callSeen) confirmed() bool {
	return c.made && !c.isError && c.action.Outcome == "confirmed" && len(c.action.Result) > 0
}

// revokeSeen is the run before and after.
type revokeSeen struct {
	was   string
	state string
	at    time.Time
	left  int // actions that had left when the gate closed
}

// logSeen is what a reader of the log finds. Places are record numbers; 0: not there.
type logSeen struct {
	sessions  int // lines
	activity  int
	revokedAt uint64
	deniedAt  uint64
	denied    string // its reason
	approvals int
	intents   int
	confirmed int
	open      int
}

// searchSeen is what came of looking for the credentials.
type searchSeen struct {
	bytes   int
	empty   []string // places that should hold something and don't
	found   []string
	planted int
	missed  []string
}

// reviewSeen is what the offline verification says, of the true copy and of the changed one.
type reviewSeen struct {
	intact  auditlog.Report
	broken  auditlog.Report
	segment string // where the byte was changed
	offset  int64
	changed int // bytes that differ from the true copy
}
