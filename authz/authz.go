package authz

import "time"

// Verdict is what a decision comes to.
type Verdict uint8

const (
	Deny  Verdict = iota // refused; also what nobody decided
	Ask                  // a person may allow it: show a card
	Allow                // go on
)

func (v Verdict) String() string { return word(int(v), "deny", "ask", "allow") }

// Instant is one moment on two clocks: the wall's, and CLOCK_BOOTTIME's, which goes on through suspend and cannot be set.
type Instant struct {
	Wall time.Time
	Boot time.Duration
}

// Past reports whether end is over at i. Whichever clock says "over" first wins; the end's own moment is over. A half of
// end that is zero sets no end, so the zero end never comes. A clock that i does not know counts as over.
func (i Instant) Past(end Instant) bool {
	if !end.Wall.IsZero() && (i.Wall.IsZero() || !i.Wall.Before(end.Wall)) {
		return true
	}
	return end.Boot != 0 && (i.Boot <= 0 || i.Boot >= end.Boot)
}

// VaultState says whether credentials can be lent at all.
type VaultState uint8

const (
	VaultAbsent      VaultState = iota // there is none
	VaultLocked                        // closed
	VaultReady                         // the only state in which anything is allowed
	VaultQuarantined                   // it does not match its own records
)

func (v VaultState) String() string {
	return word(int(v), "absent", "locked", "ready", "quarantined")
}

// Walk says which rungs a request walks.
type Walk uint8

const (
	FullWalk    Walk = iota // call: every rung; also any value not listed here
	ControlWalk             // targets, session, status: rungs 0 to 3 and 7
	WrapperWalk             // what a wrapper says of its child: rungs 0 to 2 and 7, for it needs no vault
)

// Facts is everything Decide looks at, gathered at one moment under the run's lock.
type Facts struct {
	Walk     Walk
	Vault    VaultState
	Run      RunState
	Caller   Caller
	Approved string // the epoch of the same server label that holds or held a grant; "" for an unsupervised caller
	Catalog  Catalog
	Request  Request
	Grants   []Grant
	Approval Approval // reserved for this request; zero: none
	Load     Load
	Now      Instant
}

// Identity is how firmly the kernel could say who calls.
type Identity uint8

const (
	IdentityUnknown Identity = iota // refused at rung 1
	Strong                          // every check of the process instance was possible and held
	Weak                            // one was not possible: each use is asked for
	Contained                       // in another pid namespace, otherwise like strong
)

func (i Identity) String() string {
	return word(int(i), "unknown", "strong", "weak", "contained")
}

// Caller is the process that asks, as the kernel described it. Run and Epoch are ids the gateway gave it.
type Caller struct {
	Identified bool // credentials, process and digest were all to be had
	Same       bool // still the process instance that was seen at accept
	Identity   Identity
	Run        string
	Epoch      string
	State      EpochState
	Suspended  bool // its program was exchanged on disk, and the operator wants a restart for that

	// Of a supervised server alone.
	Meant    string // the epoch that a wrapper's call names; "": the caller's own
	Down     bool   // no process of it lives
	Unstable bool   // what runs is not what was planned
	Idle     bool   // the server itself calls, while no tools/call of its epoch is in flight
}

// Catalog is what a supervised server's tools claim to be, as fingerprints. An unsupervised caller has the zero value.
type Catalog struct {
	Shown    string // revision the client last fetched
	Current  string // revision the server has now
	Contract string // of the called tool: name, schemas
}

// Effect is what a request may do at the far end.
type Effect uint8

const (
	EffectUnknown Effect = iota // counts as destructive
	Read
	Write
	Destructive
	EffectAccess // nothing at the far end: it asks for a grant
)

func (e Effect) String() string {
	return word(int(e), "unknown", "read", "write", "destructive", "access")
}

// Confirm is a credential's mode: who must say yes to each use.
type Confirm uint8

const (
	ConfirmAlways  Confirm = iota // nobody set it: any operator's proof on each use
	ConfirmNever                  // quiet inside a grant
	ConfirmClick                  // any operator's proof on each use
	ConfirmPasskey                // a user-verified passkey on each use
)

func (c Confirm) String() string { return word(int(c), "always", "never", "click", "passkey") }

// Request is one planned call. Digest is the plan's; two requests with one digest would do the same thing.
type Request struct {
	Fault            Reason // rung 0: why it does not parse; "" when it does
	Unbound          Reason // rung 5: why it matches no rule; "" only if Bound
	Bound            bool   // exactly one credential's rule matched
	Tool             string
	Credential       string // name; a tool that needs none has "", and its grant says "" too
	Target           string
	Digest           string
	Effect           Effect
	Confirm          Confirm
	AlwaysAsk        bool   // a raw shell string
	Version          uint64 // the credential's, from 1
	Unresolved       bool   // a write of this digest has an unknown outcome, by whomever
	UnresolvedEffect bool   // a write with the same credential, method and path has an unknown outcome
	AuditDown        bool   // the log takes no intent

	Access  []string // tools it asks to be given with the credential, and does nothing; nil: it is a call like any other
	Reopens bool     // it was asked for while the run was denied, which may still ask
}

// GrantState is whether a grant still gives anything.
type GrantState uint8

const (
	GrantVoid GrantState = iota // revoked, spent, locked away, or of a gateway that restarted
	GrantLive
)

func (g GrantState) String() string { return word(int(g), "void", "live") }

// Grant: this run, in this epoch, may use these tools with these credentials.
type Grant struct {
	ID          string
	Run         string
	Epoch       string
	Tools       []string
	Credentials []string
	Digest      string // "": any request in scope; else this plan alone
	Contract    string // catalog contract it was given for; "" unsupervised
	Ends        Instant
	Uses        int // left; meaningful if Counted
	Counted     bool
	State       GrantState
	Version     uint64 // of the credential that was approved; another one is not covered
	Weak        bool   // a weak caller may use it like a strong one: the operator accepted that on its card
}

// Approval is one human yes to one card, reserved for one call.
type Approval struct {
	ID       string
	Run      string
	Epoch    string
	Digest   string
	Version  uint64
	Ends     Instant
	Reserved bool
	Passkey  bool // proved by a user-verified passkey
}

// Load is how much is going on, this call not counted. A limit of zero lets nothing through.
type Load struct {
	InFlight    int // actions of the run
	RunLimit    int
	Total       int // actions of all runs
	TotalLimit  int
	Asks        int // cards shown and queued for the epoch
	AskLimit    int
	RateLimited bool // the caller used up its refusals or its rate
}

// Decision is the answer. Reason is a code of the ladder, ReasonGranted with Allow, NotAuthorized with Ask.
// Grant and Approval are the ids that allowed it. Both epochs are set with AuthorizationStale alone.
type Decision struct {
	Verdict       Verdict
	Reason        Reason
	Grant         string
	Approval      string
	ApprovedEpoch string
	CurrentEpoch  string
}

// word names a small number; one without a name is invalid.
func word(i int, words ...string) string {
	if i < len(words) {
		return words[i]
	}
	return "invalid"
}
