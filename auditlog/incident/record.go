// Package incident makes the record that an operator pastes into a ticket: one per suspect process of a run, from what
// is recorded of that run. It is a pure fold over events, as Sessions and Activity are: [Of] makes the same record of the
// same items, whether they come from the gateway's rows or from the log itself, so that the two can be compared
// ([Differences]). What is not recorded, a live look at the processes above all, is laid beside it in [Live], and told as
// secondary.
//
// The suspects are the processes that could act in the run: the instance behind each epoch, and what else of the run was
// seen alive. Commands, paths and names
// are text that the agent chose: whoever shows a record escapes them.
package incident

import (
	"time"
)

// Record is one suspect process. Its first thirteen fields are the thirteen lines of an incident note, in their order;
// null means that nothing is recorded.
type Record struct {
	ObservedAt   time.Time   `json:"observedAt"`
	Client       Process     `json:"clientProcess"`
	Server       *Process    `json:"serverProcess"` // null: no process of the run has asked for anything
	Kin          *Kin        `json:"parentAndGroup"`
	Run          string      `json:"sessionIdentifier"`
	State        string      `json:"authorizationState"` // of the run, and whether this process holds a live grant
	LastSuccess  *time.Time  `json:"lastSuccessfulActionAt"`
	LastAttempt  *time.Time  `json:"lastAttemptedActionAt"` // the last tool_called, whatever became of it
	Target       *Target     `json:"targetAndOperation"`    // of the last attempted action
	Result       *Result     `json:"resultOrJobId"`         // of the last attempted action
	Revocation   *Revocation `json:"revocationTimeAndOperator"`
	End          *End        `json:"terminationSignalAndResult"`
	FollowUp     []string    `json:"followUpRequired"`
	Context      `json:",embed"`
	Surroundings `json:",embed"`
}

// Context is what else the records say of the process.
type Context struct {
	Epoch        string      `json:"executionEpoch"`
	Launchers    []Process   `json:"launchers"` // between client and server, nearest the server first
	Times        Times       `json:"times"`
	AuthorisedBy []Authority `json:"authorisedBy"`
	Calls        []Call      `json:"calls"`      // in their order; of many the first ones are left out, never an open one
	LeftOut      int         `json:"leftOut"`    // calls that are not listed
	Denied       []Denial    `json:"denied"`     // refused attempts: never an attempted action
	Unresolved   []Open      `json:"unresolved"` // what may have taken effect, or goes on far away
	Observed     *Live       `json:"observed"`   // as it was when the gateway last looked and recorded it
	Contained    *Contained  `json:"containment"`
	Sources      []Source    `json:"sources"` // of each of the thirteen lines
}

// Surroundings are laid beside the record by whoever made it.
type Surroundings struct {
	Account     string   `json:"account"` // of the last attempted action's credential, by the vault's label
	Live        *Live    `json:"live"`
	Rotate      []string `json:"rotate"`      // what the process itself could reach
	Differences []string `json:"differences"` // between rows and log, where both were read
	Unknown     []string `json:"unknown"`     // what could not be shown, and why
	Verify      *Verify  `json:"verify"`
}

// Process is one, as it was when it was first seen.
type Process struct {
	ProcessID int       `json:"processId"`
	Command   string    `json:"command"`
	Started   time.Time `json:"started,omitzero"`
	Exe       string    `json:"exe"`
	ExeDigest string    `json:"exeDigest"`
	Identity  string    `json:"identity"` // strong, weak, contained
	Weak      []string  `json:"weak,omitempty"`
}

// Kin is where the server process stood when it was first seen.
type Kin struct {
	Parent  int `json:"parentProcessId"`
	Group   int `json:"processGroup"`
	Session int `json:"processSession"`
}

// Times are the run's three, kept apart; null: it did not happen, or nothing told it.
type Times struct {
	ClientUnavailable *time.Time `json:"clientUnavailableAt"`
	LastActionStarted *time.Time `json:"lastActionStartedAt"`
	AuthorityRevoked  *time.Time `json:"authorityRevokedAt"`
}

// Authority is one approval of the process and the grant it gave.
type Authority struct {
	Approval string    `json:"approval"`
	Grant    string    `json:"grant"`
	Operator string    `json:"operator"`
	Tools    []string  `json:"toolScope"`
	Scope    []string  `json:"credentialScope"`
	At       time.Time `json:"issuedAt"`
	Until    string    `json:"expiresWhen"`
	Ended    string    `json:"ended"` // why it is no more; empty: it lives
	Seq      uint64    `json:"seq"`
}

// Target is what an action was for.
type Target struct {
	Action     string `json:"action"`
	Tool       string `json:"tool"`
	Target     string `json:"target"`
	Operation  string `json:"operation"` // method and path, or the command
	Credential string `json:"credential"`
}

// Result is what is known of an action's end.
type Result struct {
	Outcome string `json:"outcome"` // of the outcome table; running: none is recorded
	Reason  string `json:"reason,omitempty"`
	Status  int    `json:"status,omitzero"`
	Exit    *int   `json:"exitStatus,omitempty"`
	JobID   string `json:"jobId,omitempty"`
	Said    string `json:"resolution,omitempty"` // the operator's word for an unknown outcome
}

// Revocation is the widest one that the process's authority met.
type Revocation struct {
	At       time.Time `json:"at"`
	Operator string    `json:"operator"`
	Of       string    `json:"of"` // the run's, the epoch's or the grant's id
	Left     []string  `json:"left"`
}

// End is how the process ended, as far as that is recorded.
type End struct {
	Signal string    `json:"signal"` // what was sent; empty: nobody's signal is recorded
	Result string    `json:"result"`
	At     time.Time `json:"at"`
}

// Call is one action of the process.
type Call struct {
	Target   `json:",embed"`
	Result   `json:",embed"`
	Class    string    `json:"class"` // before, uncertain, after
	At       time.Time `json:"startedAt"`
	Finished time.Time `json:"finishedAt,omitzero"`
	Grant    string    `json:"grant"`
	Approval string    `json:"approval"`
	Key      string    `json:"idempotencyKey,omitempty"`
	Seq      uint64    `json:"seq"`
	EndSeq   uint64    `json:"resultSeq,omitzero"`
}

// Classes of a call, by when it was under way.
const (
	Before    = "before"    // over before the client was lost, or authority ended
	Uncertain = "uncertain" // under way when that happened, or begun after and before the revocation
	After     = "after"     // begun after the revocation, which must not be
)

// Denial is a refused attempt, or Count of them.
type Denial struct {
	At        time.Time `json:"at"`
	Reason    string    `json:"reason"`
	Tool      string    `json:"tool,omitempty"`
	Target    string    `json:"target,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Count     int       `json:"count"`
	After     bool      `json:"afterRevocation"` // it proves that the revocation holds
	Seq       uint64    `json:"seq"`
}

// Open is an action that somebody has to look up.
type Open struct {
	Action  string `json:"action"`
	Why     string `json:"why"`
	JobID   string `json:"jobId,omitempty"`
	LookUp  string `json:"lookUp"`  // the command that shows what is known
	Resolve string `json:"resolve"` // the one that says what came of it
	Seq     uint64 `json:"seq"`
}

// Source says where a line comes from: rows, log, live (secondary), or derived from the others; and the log's sequence of
// each record that tells it.
type Source struct {
	Line string   `json:"line"`
	From string   `json:"from"`
	Seq  []uint64 `json:"seq"`
}

// Live is a process as it was at one moment: secondary evidence.
type Live struct {
	At       time.Time `json:"at"`
	Alive    bool      `json:"alive"`
	Kin      `json:",embed"`
	State    `json:",embed"`
	Reaches  []string `json:"reaches"` // open channels, and authority found
	Children []string `json:"children"`
	Siblings []string `json:"processGroupOthers"`
	Gaps     []string `json:"gaps"`
	Seq      uint64   `json:"seq,omitzero"` // of its record, if it has one
}

// State is a process in the words of ps(1).
type State struct {
	Exists  string `json:"exists,omitempty"` // why it does
	Stat    string `json:"stat,omitempty"`
	Elapsed string `json:"elapsed,omitempty"`
	User    string `json:"user,omitempty"`
	Command string `json:"command,omitempty"`
}

// Contained is how far the run's containment came: the denial that is proved, and the verdict.
type Contained struct {
	Verdict string    `json:"verdict"` // contained, not_contained; empty: it has no end
	At      time.Time `json:"at"`
	Method  string    `json:"denialProvedBy"` // observed, probe; empty: nothing proves it
	Denial  uint64    `json:"denialSeq,omitzero"`
	Missing []string  `json:"missing"`
	Seq     uint64    `json:"seq"`
}

// Verify is what `sp audit verify` said after the entries were taken.
type Verify struct {
	Command    string `json:"command"`
	Output     string `json:"output"` // verbatim
	Exit       int    `json:"exit"`
	Checkpoint string `json:"checkpoint"` // signed note; empty: none could be had
	Why        string `json:"why,omitempty"`
}
