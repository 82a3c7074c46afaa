package event

// Supervised servers: which code could act, and what its tools claimed to be.

// Artifact is one file and its digest: "sha256:" and hex, or "unpinned".
type Artifact struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
}

// Execution is an execution record: what was measured of the code that can act. Paths are relative to WorkingDirectory
// where they lie below it. Command, paths and names are text that others chose, escaped and bounded by whoever records them.
type Execution struct {
	LaunchCommand    []string   `json:"launchCommand"`
	WorkingDirectory string     `json:"workingDirectory"`
	Exe              string     `json:"exe,omitempty"`
	ExeDigest        string     `json:"exeDigest,omitempty"`
	Entry            string     `json:"entry,omitempty"`
	EntryDigest      string     `json:"entryDigest,omitempty"`
	Lockfile         string     `json:"lockfile,omitempty"`
	LockfileDigest   string     `json:"lockfileDigest,omitempty"`
	TreeDigest       string     `json:"treeDigest,omitempty"`
	Runtime          string     `json:"runtime,omitempty"`
	Image            string     `json:"image,omitempty"`
	ImageDigest      string     `json:"imageDigest,omitempty"`
	Launchers        []Artifact `json:"launchers,omitempty"`
	Files            []Artifact `json:"files,omitempty"`
	Environment      []string   `json:"environment,omitempty"` // names
	Unpinned         []string   `json:"unpinned,omitempty"`    // what could not be measured, and why
}

// ServerStarted: a wrapper started a child, measured before it was executed. Cause: supervisor, crash, reload, operator.
// ExitWithin (milliseconds) and Children (die, keep) are what is expected of it at its end.
type ServerStarted struct {
	Run         string    `json:"run"`
	Epoch       string    `json:"epoch"`
	ServerLabel string    `json:"serverLabel"`
	ProcessID   int       `json:"processId"`
	Cause       string    `json:"cause"`
	Execution   Execution `json:"execution"`
	Workers     int       `json:"workers,omitzero"`
	Reload      string    `json:"reload,omitempty"`
	ExitWithin  int       `json:"exitWithin,omitzero"`
	Children    string    `json:"children,omitempty"`
}

// ServerMeasured: the running process was measured again once its handshake was answered. ProcessID is the one that speaks.
// Differs names what was not as planned: while it names anything, nothing is forwarded.
type ServerMeasured struct {
	Run         string    `json:"run"`
	Epoch       string    `json:"epoch"`
	ServerLabel string    `json:"serverLabel"`
	ProcessID   int       `json:"processId"`
	Differs     []string  `json:"differs,omitempty"`
	Execution   Execution `json:"execution,omitzero"` // where a launcher chose what ran, so that the plan could not know it
}

// ServerReplaced: another process speaks for the server. Its grants went with the old epoch. Cause: supervisor, foreign (a
// process that the wrapper did not start took the pipe over), crash, reload, operator.
type ServerReplaced struct {
	Run          string `json:"run"`
	ServerLabel  string `json:"serverLabel"`
	OldEpoch     string `json:"oldEpoch"`
	NewEpoch     string `json:"newEpoch"`
	OldProcessID int    `json:"oldProcessId"`
	NewProcessID int    `json:"newProcessId"`
	Cause        string `json:"cause"`
}

// ArtifactChanged: files differ from what the running process was started from. The process is the same.
type ArtifactChanged struct {
	Run         string   `json:"run"`
	Epoch       string   `json:"epoch"`
	ServerLabel string   `json:"serverLabel"`
	ProcessID   int      `json:"processId"`
	Changed     []string `json:"changed"`
}

// CatalogChanged: the server's tools are another revision. Old is empty for the first one of its label in the run. Contract
// names tools whose contract is new or differs, Diff the changes, both bounded.
type CatalogChanged struct {
	Run         string   `json:"run"`
	Epoch       string   `json:"epoch"`
	ServerLabel string   `json:"serverLabel"`
	Catalog     string   `json:"catalog"`
	Old         string   `json:"old,omitempty"`
	Tools       int      `json:"tools"`
	Contract    []string `json:"contract,omitempty"`
	Diff        []string `json:"diff,omitempty"`
}

// CatalogServed: the host was answered this revision.
type CatalogServed struct {
	Run         string `json:"run"`
	Epoch       string `json:"epoch"`
	ServerLabel string `json:"serverLabel"`
	Catalog     string `json:"catalog"`
}

// ServerSignalled is recorded before the signal is sent to a process of a server that was to end. Forced: SIGKILL.
type ServerSignalled struct {
	Run         string `json:"run"`
	Epoch       string `json:"epoch"`
	ServerLabel string `json:"serverLabel"`
	ProcessID   int    `json:"processId"`
	Signal      string `json:"signal"`
	Escaped     bool   `json:"escaped,omitzero"` // it had left the child's process group
	Forced      bool   `json:"forced,omitzero"`
}

// ServerStopped ends a child. Reason: eof, signal, reload, operator, crash, wrapper_gone. Exited: by itself, before any signal.
// Left are processes of it that live on.
type ServerStopped struct {
	Run         string `json:"run"`
	Epoch       string `json:"epoch"`
	ServerLabel string `json:"serverLabel"`
	Reason      string `json:"reason"`
	Exited      bool   `json:"exited"`
	Forced      bool   `json:"forced,omitzero"`
	Swept       []int  `json:"swept,omitempty"`
	Left        []int  `json:"left,omitempty"`
}

// CleanupExpectationBroken: what was written down for the server's end did not happen.
type CleanupExpectationBroken struct {
	Run         string `json:"run"`
	Epoch       string `json:"epoch"`
	ServerLabel string `json:"serverLabel"`
	Expected    string `json:"expected"`
	Seen        string `json:"seen"`
}
