package api

import "github.com/go-json-experiment/json/jsontext"

// What a wrapper (`sp mcp --label L -- CMD`) and spd say to each other, on one connection of agent.sock per wrapper. The
// wrapper launches; spd measures, opens the epochs and decides. A wrapper has no more authority than any other peer, and
// everything of it goes with its connection.
//
// Order, for the first child and for each one after it:
//
//  1. server.plan, before exec: spd measures what the command would run, and keeps it for the next server.started.
//  2. The wrapper starts the child and, before it could reap it, says server.started with its pid. spd opens its own handle on
//     the process and makes an epoch of it, in state identity-pending. A child that is not the plan's, or that is older than
//     this connection, is refused: after a restart of spd the child is started anew.
//  3. The child's handshake is answered; the wrapper fetches every page of tools/list itself, and says server.catalog. spd
//     measures again: a difference to the plan is identity_unstable, and nothing is forwarded until a new start.
//  4. Each tools/call of the host is one call with ExecutionEpoch and Params. spd refuses it at once, or answers Forward with
//     the same id: only then the line goes to the child, once. The child's answer goes into server.report; spd records it and
//     answers the call's Action, again with the same id. Only then the host gets the child's own bytes.
//  5. Whenever the host itself has been answered a whole tools/list, the wrapper says server.catalog with Served, so that
//     spd knows what the host was shown: a call under another revision is catalog_stale.
//  6. server.end ends a child in the fixed order (see [ServerEnd]), at the host's EOF or for a reload. Where a wrapper dies
//     without it, spd does the same by itself.
//
// Between its answers spd sends [Push] lines, without an id.

// Methods of the agents' door that only wrappers use. Any of them on a connection without a plan is invalid_request.
const (
	MethodServerPlan    = "server.plan"    // ServerPlan -> ServerPlanned
	MethodServerStarted = "server.started" // ServerStarted -> ServerState
	MethodServerCatalog = "server.catalog" // ServerCatalog -> ServerState
	MethodServerReport  = "server.report"  // ServerReport -> {}; the call's own id gets its Action
	MethodServerEnd     = "server.end"     // ServerEnd -> ServerEnded
)

// ServerPlan says what will be executed. The first one of a connection names the server and opens its run; a later one (a
// reload, a crash) repeats it with the command and environment as they are then.
type ServerPlan struct {
	ServerLabel      string   `json:"serverLabel"`         // 1 to 64 of [A-Za-z0-9._-]
	LaunchCommand    []string `json:"launchCommand"`       // as it is executed, without a shell
	WorkingDirectory string   `json:"workingDirectory"`    // absolute
	Environment      []string `json:"environment"`         // "NAME=value", whole: spd keeps names and keyed hashes only
	Cause            string   `json:"cause,omitempty"`     // why: supervisor (the first one, and the default), crash, reload, operator
	Workers          int      `json:"workers,omitzero"`    // processes that may read its stdin beside its launchers; 0 and 1: one
	Reload           string   `json:"reload,omitempty"`    // none (the default), restart
	ExitWithin       int      `json:"exitWithin,omitzero"` // milliseconds the child is expected to need once its stdin is closed; 0: nothing is expected
	Children         string   `json:"children,omitempty"`  // die (expected to go with it), keep; "": nothing is expected
}

// ServerPlanned is the execution record of what will run, as spd measured it.
type ServerPlanned struct {
	AgentRun string         `json:"agentRun"`
	Record   jsontext.Value `json:"record"` // launch.Record: digests, trees, runtime, names and keyed hashes of the environment
}

// ServerStarted names the child. Errors: invalid_request without a plan before it; peer_unidentified where it is no living,
// executed child of this very process, started after its connection, that belongs to nothing else.
type ServerStarted struct {
	ProcessID int `json:"processId"`
}

// ServerCatalog hands a whole tools/list over: the result member of each page's answer, in order. ExecutionEpoch is the one
// the pages came from; a page of an epoch that is over is authorization_stale. Served: the host itself was given these very
// pages just now. Errors: identity_unstable (the second measurement differs; reason names what), invalid_request.
type ServerCatalog struct {
	ExecutionEpoch string           `json:"executionEpoch"`
	Pages          []jsontext.Value `json:"pages"`
	Served         bool             `json:"served,omitzero"`
}

// Server is a supervised server as the operator sees it. Its texts are escaped. ArtifactChanged are paths relative to
// WorkingDirectory; ProcessID is the worker that speaks.
type Server struct {
	ServerLabel     string         `json:"serverLabel"`
	AgentRun        string         `json:"agentRun"`
	ExecutionEpoch  string         `json:"executionEpoch"`
	State           string         `json:"state"` // one of the Server words
	Catalog         string         `json:"catalog"`
	ProcessID       int            `json:"processId"`
	ArtifactChanged []string       `json:"artifactChanged"`
	Lines           []string       `json:"lines,omitempty"` // "build changed: …", "running process unchanged: pid=… epoch=…"
	OldEpoch        string         `json:"oldEpoch,omitempty"`
	Cause           string         `json:"cause,omitempty"`
	Shown           string         `json:"shown,omitempty"`
	Tools           []string       `json:"tools,omitempty"`
	ToolScope       []string       `json:"toolScope,omitempty"` // tools that a live grant of this epoch names
	Diff            []string       `json:"diff,omitempty"`      // of the catalog, from the revision before
	Workers         int            `json:"workers,omitzero"`
	Reload          string         `json:"reload,omitempty"`
	Unstable        []string       `json:"unstable,omitempty"` // what is not as planned
	Unpinned        []string       `json:"unpinned,omitempty"` // what could not be measured
	Record          jsontext.Value `json:"record,omitzero"`    // the execution record
}

// DigestArgs name a command to be measured. Environment is what it would be started with: spd keeps nothing of it.
type DigestArgs struct {
	LaunchCommand    []string `json:"launchCommand"`
	WorkingDirectory string   `json:"workingDirectory"`
	Environment      []string `json:"environment"`
}

// Digest is what would be measured of a command at its start. Sums are its files as `shasum -a 256` prints them.
type Digest struct {
	Sums       string         `json:"sums"`
	TreeDigest string         `json:"treeDigest,omitempty"` // of everything that its runtime resolves
	Unpinned   []string       `json:"unpinned"`             // what can't be measured, and why
	Record     jsontext.Value `json:"record"`
}

// Default is a field that a call leaves out, and the value that its server declares for it: a claim.
type Default struct {
	Field string `json:"field"`
	Value string `json:"value"` // JSON
}

// RelayLeftOut stands for a reply that is not kept here: it went to the host alone.
type RelayLeftOut struct {
	Length int64  `json:"length"` // bytes
	Digest string `json:"digest,omitempty"`
}

// States of a supervised server. Those of an epoch, and why a live one answers nothing now.
const (
	ServerIdentityPending = "identity-pending" // another process speaks, or its catalog is unknown: nothing is forwarded
	ServerCatalogReady    = "catalog-ready"    // its tools are known, nobody approved one of them for this epoch
	ServerReady           = "ready"            // it holds a grant
	ServerSuspended       = "suspended"        // its files changed, and the operator wants a restart for that
	ServerUnstable        = "unstable"         // what runs is not what was planned: it needs a new start
	ServerDown            = "down"             // no child lives
)

// CauseForeign is the cause of an epoch that the wrapper did not start: a process took the pipe over.
const CauseForeign = "foreign"

// ServerState is where a server stands after what was said. Changed is what differs from the revision before, one change a
// line; ContractChanged names tools whose contract differs or that are new: a call of one wants a new approval.
type ServerState struct {
	ServerLabel     string   `json:"serverLabel"`
	AgentRun        string   `json:"agentRun"`
	ExecutionEpoch  string   `json:"executionEpoch"`
	OldEpoch        string   `json:"oldEpoch,omitempty"` // the one before it on this connection
	Cause           string   `json:"cause,omitempty"`    // supervisor, foreign, crash, reload, operator
	State           string   `json:"state"`              // one of the Server words
	ProcessID       int      `json:"processId"`          // of the worker that speaks
	Catalog         string   `json:"catalog,omitempty"`  // the revision it has now: "sha256:…"
	Shown           string   `json:"shown,omitempty"`    // the revision the host was last served
	ContractChanged []string `json:"contractChanged,omitempty"`
	Changed         []string `json:"changed,omitempty"`
	ArtifactChanged []string `json:"artifactChanged,omitempty"` // files that differ from what the process started from
}

// Forward answers a call that may go to the child now: once, as it came. The Action follows on the same id.
type Forward struct {
	Action         string `json:"action"`
	ExecutionEpoch string `json:"executionEpoch"` // whose child; not the current one any more: report not_sent
}

// ServerReport is the end of a forwarded call. Outcome:
//
//	confirmed         the child answered; Reply is its result or error member as it wrote it
//	not_sent          not one byte of the line was written to the child
//	sent_unconfirmed  it was written, at least in part, and no answer came or will come
//
// A reply over 1 MiB is left out; Length is then its size and Digest "sha256:…" of its bytes. One report for an action counts.
type ServerReport struct {
	Action  string         `json:"action"`
	Outcome string         `json:"outcome"`
	Reply   jsontext.Value `json:"reply,omitzero"`
	Failed  bool           `json:"failed,omitzero"` // the reply is an error member, or a result with isError
	Length  int64          `json:"length,omitzero"`
	Digest  string         `json:"digest,omitempty"`
}

// ServerEnd ends the child, once the wrapper has drained what it could and closed the child's stdin. spd does the rest, and
// answers when it is done: it waits for the exit that is expected (ExitWithin, at least 0), takes a snapshot, signals TERM to
// the child's group, waits up to 0.5 s, takes a snapshot, signals KILL, waits up to 0.5 s, and does the same to whoever is left of
// the child's descendants. The wrapper reaps. Calls in flight end sent_unconfirmed.
type ServerEnd struct {
	ExecutionEpoch string `json:"executionEpoch"`
	Reason         string `json:"reason"` // eof, signal, reload, operator, crash (the child is gone already)
}

// ServerEnded says how it went. Left are processes that lived on after the child had ended or was killed.
type ServerEnded struct {
	Exited  bool   `json:"exited"`           // by itself, before any signal
	Forced  bool   `json:"forced,omitzero"`  // by SIGKILL
	Cleanup string `json:"cleanup"`          // kept, broken, unstated: against what was expected
	Broken  string `json:"broken,omitempty"` // what was expected and did not happen
	Left    []int  `json:"left,omitempty"`   // pids that live still
	Swept   []int  `json:"swept,omitempty"`  // pids of descendants that had to be ended one by one
}

// Push is what spd says unasked on a wrapper's connection. Kind:
//
//	epoch    another process speaks behind the pipe, or the epoch is over: Server says which epoch is the current one and why.
//	         With cause foreign (a watcher replaced its worker) the wrapper replays the handshake and fetches the catalog anew.
//	ready    the operator approved a tool of this epoch: the next call of it goes through. Server has the state.
//	stop     the operator revoked the epoch or the run: end the child (server.end, reason operator) and start none.
//	cancel   Action is called back: report at once what is known of it. One second without a word closes the connection.
//	status   Lines, without escapes, are for stderr: "build changed: …", "running process unchanged: pid=… epoch=…".
type Push struct {
	Kind   string       `json:"kind"`
	Server *ServerState `json:"server,omitempty"`
	Action string       `json:"action,omitempty"`
	Reason string       `json:"reason,omitempty"`
	Lines  []string     `json:"lines,omitempty"`
}

// Kinds of a [Push].
const (
	PushEpoch  = "epoch"
	PushReady  = "ready"
	PushStop   = "stop"
	PushCancel = "cancel"
	PushStatus = "status"
)
