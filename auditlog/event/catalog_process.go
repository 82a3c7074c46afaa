package event

import "time"

// What was seen of a run's processes, and what was done to them. Commands, paths and names are text that the processes
// chose; whoever records them escapes and bounds them.

// ProcessObserved is one process of a run as it looked at one moment. Why says what the look was for: client_gone,
// contain, after_term, after_kill, incident, server_term, server_kill. Role: client, shim (an epoch's process), server (a
// supervised server's), launcher, descendant. Launched is
// its command as it was at first contact; Process holds the one it shows now.
type ProcessObserved struct {
	Run         string       `json:"run"`
	Epoch       string       `json:"epoch,omitempty"`
	Why         string       `json:"why"`
	Role        string       `json:"role"`
	Exists      string       `json:"exists"` // why it exists
	Launched    string       `json:"launched,omitempty"`
	Process     Process      `json:"process"`
	Descriptors []Descriptor `json:"descriptors"`
	Children    []Kin        `json:"children"`
	Group       []Kin        `json:"group"` // the others of its process group
	Authority   []Lead       `json:"authority"`
	Gaps        []string     `json:"gaps,omitempty"` // what could not be seen
}

// Process is one in the words of ps(1).
type Process struct {
	At        time.Time `json:"at"`
	ProcessID int       `json:"processId"`
	PPID      int       `json:"ppid"`
	PGID      int       `json:"pgid"`
	SID       int       `json:"sid"`
	Stat      string    `json:"stat"`
	ETime     string    `json:"etime"`
	Started   time.Time `json:"started"`
	User      string    `json:"user"`
	Exe       string    `json:"exe"`
	Command   string    `json:"command"`
	Directory string    `json:"workingDirectory"`
}

// Descriptor is one open descriptor. Peers hold the other end of a pipe or a local socket: none, if nobody who can be
// seen does.
type Descriptor struct {
	FD     int      `json:"fd"`
	Mode   string   `json:"mode"`
	Class  string   `json:"class"`
	Target string   `json:"target"`
	Local  string   `json:"local,omitempty"`
	Remote string   `json:"remote,omitempty"`
	State  string   `json:"state,omitempty"`
	Peers  []string `json:"peers,omitempty"`
}

// Kin is a child or a member of the process group. Stranger: it is not known to belong to the run.
type Kin struct {
	ProcessID int    `json:"processId"`
	PPID      int    `json:"ppid"`
	Stat      string `json:"stat"`
	Command   string `json:"command"`
	Stranger  bool   `json:"stranger,omitzero"`
}

// Lead is a way to act that the process itself can reach. Kind: environment, key_file, ssh_agent, ssh_control,
// credential_helper, connection. Rotate says what to rotate; a connection has nothing.
type Lead struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Rotate string `json:"rotate,omitempty"`
}

// ClientUnresponsive: the client lives and does nothing. Reason: stopped, blocked, unread_output. Authority is untouched.
type ClientUnresponsive struct {
	Run       string    `json:"run"`
	ProcessID int       `json:"processId"`
	Reason    string    `json:"reason"`
	Since     time.Time `json:"since"`
}

// ClientResponsive ends that.
type ClientResponsive struct {
	Run       string    `json:"run"`
	ProcessID int       `json:"processId"`
	Since     time.Time `json:"since"` // when it had fallen silent
}

// ContainmentStarted begins the walk in the safe order. State is the run's as it was found.
type ContainmentStarted struct {
	Run      string `json:"run"`
	Operator string `json:"operator"`
	State    string `json:"state"`
}

// ActionsReviewed keeps three times apart, and classes the run's calls by them: Uncertain ones began or went on after the
// client was unavailable, After ones began after the revocation. Last is the last attempted, whatever came of it.
type ActionsReviewed struct {
	Run                 string    `json:"run"`
	Last                string    `json:"last,omitempty"`
	ClientUnavailableAt time.Time `json:"clientUnavailableAt,omitzero"`
	LastActionStartedAt time.Time `json:"lastActionStartedAt,omitzero"`
	RevokedAt           time.Time `json:"revokedAt,omitzero"`
	Uncertain           []string  `json:"uncertain,omitempty"`
	After               []string  `json:"after,omitempty"`
}

// RemoteWorkListed names what may go on far away: each is cancelled or resolved by an operator's act of its own.
type RemoteWorkListed struct {
	Run        string   `json:"run"`
	Unfinished []Remote `json:"unfinished"`
}

// Remote is one call that is not finished at the other end, as far as is known.
type Remote struct {
	Action  string `json:"action"`
	Outcome string `json:"outcome"`
	Target  string `json:"target"`
	JobID   string `json:"jobId,omitempty"`
}

// DenialProved: the run can do nothing any more. Method observed: a survivor's own refused attempt, which is record Record. Method
// probe: the gateway asked itself, as each epoch of the run; that is no attempted action.
type DenialProved struct {
	Run    string   `json:"run"`
	Method string   `json:"method"`
	Reason string   `json:"reason"` // the code of the refusal
	Record uint64   `json:"record,omitzero"`
	Epochs []string `json:"epochs,omitempty"`
}

// ProcessSignalled is recorded before the signal is sent, to this very process. Forced: SIGKILL, which leaves it no time
// to clean up.
type ProcessSignalled struct {
	Run                    string    `json:"run"`
	ProcessID              int       `json:"processId"`
	Started                time.Time `json:"started"`
	Signal                 string    `json:"signal"`
	Operator               string    `json:"operator"`
	Forced                 bool      `json:"forced,omitzero"`
	CleanupMayBeIncomplete bool      `json:"cleanupMayBeIncomplete,omitzero"`
}

// ProcessChecked is what became of a process after a signal. State: exited, stopping, blocked_in_io, held_by_child.
type ProcessChecked struct {
	Run       string    `json:"run"`
	ProcessID int       `json:"processId"`
	Started   time.Time `json:"started"`
	After     string    `json:"after"` // the signal
	State     string    `json:"state"`
	Detail    string    `json:"detail,omitempty"`
	Children  []int     `json:"children,omitempty"`
}

// ContainmentFinished. Verdict contained: the denial is proved and recorded, every process of the run is gone or listed in
// Left, every remote job finished or listed; else not_contained, and Missing says why.
type ContainmentFinished struct {
	Run      string   `json:"run"`
	Operator string   `json:"operator"`
	Verdict  string   `json:"verdict"`
	Left     []int    `json:"left,omitempty"`
	Rotate   []string `json:"rotate,omitempty"`
	Missing  []string `json:"missing,omitempty"`
}

// ProcessReparented: a launcher (Parent) between client and shim is gone, the client lives; authority is untouched. PPID is
// who adopted the process that it had started: 1 is a hint, no verdict.
type ProcessReparented struct {
	Run       string `json:"run"`
	Epoch     string `json:"epoch"`
	ProcessID int    `json:"processId"`
	Parent    int    `json:"parent,omitzero"`
	PPID      int    `json:"ppid,omitzero"`
}
