package api

import "github.com/go-json-experiment/json/jsontext"

// Paths of the containment. Each comment names args -> answer.
const (
	PathRunContain   = "run/contain"   // IDArgs -> Contained; signals nothing
	PathRunTerminate = "run/terminate" // TerminateArgs -> Contained; signals
)

// TerminateArgs end processes of a run after its containment: SIGTERM, two seconds, a second look, and only with Kill and
// only then SIGKILL. Every process is named by number and key, as run/contain listed it, so that the proof covers which
// process is meant whatever has its number later.
type TerminateArgs struct {
	ID        string       `json:"id"`
	Processes []ProcessRef `json:"processes"`
	Kill      bool         `json:"kill,omitzero"`
}

// ProcessRef is one process among all since the machine started.
type ProcessRef struct {
	ProcessID int    `json:"processId"`
	Key       string `json:"key"`
}

// Contained answers run/contain and run/terminate. Steps are the walk's events as the log has them, in order: seq, time,
// type and the event's fields.
type Contained struct {
	Run       Run              `json:"run"`
	Verdict   string           `json:"verdict"` // contained, not_contained
	Missing   []string         `json:"missing,omitempty"`
	Denial    Denial           `json:"denial"`
	Last      *Action          `json:"lastAttemptedAction,omitempty"`
	Uncertain []Action         `json:"uncertainActions"`
	Left      []Action         `json:"left"`   // calls that had left when the gate closed
	Remote    []Action         `json:"remote"` // not finished at the other end, as far as is known
	Processes []Survivor       `json:"processes"`
	Rotate    []string         `json:"rotate"`
	Steps     []jsontext.Value `json:"steps"`
}

// Words of Contained.Verdict.
const (
	VerdictContained    = "contained"
	VerdictNotContained = "not_contained"
)

// Denial is the proof that the run can do nothing any more. Method: observed (the run's own refused attempt, which is
// record Record) or probe (the gateway asked itself; that is no attempted action).
type Denial struct {
	Method string `json:"method"`
	Reason string `json:"reason"`
	Record uint64 `json:"record,omitzero"`
}

// Survivor is one process of the run. State: running, or after a signal exited, stopping, blocked_in_io, held_by_child.
// Strangers are members of its process group that are not known to be the run's.
type Survivor struct {
	ProcessRef
	Role      string   `json:"role"`
	Command   string   `json:"command"`
	PPID      int      `json:"ppid"`
	PGID      int      `json:"pgid"`
	Stat      string   `json:"stat"`
	State     string   `json:"state"`
	Detail    string   `json:"detail,omitempty"`
	Forced    bool     `json:"forced,omitzero"` // SIGKILL: its clean-up may be incomplete
	Strangers []int    `json:"strangers,omitempty"`
	Authority []string `json:"authority,omitempty"`
}
