// Package api holds what crosses a socket: wire structs, error codes, routes. It has no behaviour beyond reading and
// writing them, so server and clients cannot disagree.
//
// Agents' door (agent.sock): one JSON object a line in each direction, UTF-8, at most [FrameLimit] bytes, answers in any
// order by id. Operators' door: POST [OperatorPrefix] + noun/verb; the body's first line is an [Envelope], a value or
// file follows it as bare bytes.
package api

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of the two doors.
const (
	FrameLimit   = 16 << 20 // bytes of one line on agent.sock, newline included
	DepthLimit   = 64       // nesting of any JSON document
	ValueLimit   = 1 << 20  // bytes of a credential's value
	ProofLimit   = 4096     // bytes of a passphrase or an identity
	WaitLimit    = 45       // seconds a call waits for its answer before it is told as pending
	ApprovalLife = 120      // seconds a card waits for the operator
)

// Request is one line from an agent. ID is echoed; it is a string of at most 128 bytes.
type Request struct {
	ID     string         `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params,omitzero"`
}

// Response is one line to an agent: exactly one of Action, Result, Error, Forward and Push is set. Forward is the one answer
// that another one follows with the same id; a Push has none. Both are for wrappers alone (server.go).
type Response struct {
	ID      string         `json:"id"`
	Action  *Action        `json:"action,omitempty"`
	Result  jsontext.Value `json:"result,omitzero"` // omitempty would drop an empty list
	Error   *Error         `json:"error,omitempty"`
	Forward *Forward       `json:"forward,omitempty"`
	Push    *Push          `json:"push,omitempty"`
}

// Methods of the agents' door. No operator verb is among them: one is an unknown method there.
const (
	MethodCall    = "call"    // ActionRequest -> Action
	MethodStatus  = "status"  // StatusRequest -> Action
	MethodCancel  = "cancel"  // CancelRequest -> Action
	MethodBlob    = "blob"    // BlobRequest -> Blob
	MethodFile    = "file"    // FileRequest -> FilePart
	MethodTargets = "targets" // {} -> []Target
	MethodSession = "session" // {} -> Session
	MethodGit     = "git"     // GitArgs -> Action, running once the host serves it
	MethodStream  = "stream"  // StreamRequest -> StreamPart
)

// Tools a call may name.
const (
	ToolHTTP     = "http_request" // args HTTPArgs, result HTTPResult
	ToolSSH      = "ssh_exec"     // args SSHArgs, result SSHResult
	ToolJob      = "job_start"    // args SSHArgs; accepted at first, SSHResult when it has ended
	ToolUpload   = "ssh_upload"   // args TransferArgs, result TransferResult
	ToolDownload = "ssh_download" // args TransferArgs, result TransferResult
	ToolGit      = "git"          // by MethodGit alone

	ToolAccess = "request_access" // args AccessArgs, result Access; nothing is sent anywhere
)

// ActionRequest are the params of a call. WaitSeconds (0..WaitLimit) is how long to wait before answering "pending"; zero means WaitLimit.
// A wrapper's call of its child's tool has ExecutionEpoch and Params in place of Tool and Args, and is answered when it has ended:
// no wait makes it pending.
type ActionRequest struct {
	Tool           string         `json:"tool,omitempty"`
	Args           jsontext.Value `json:"args,omitzero"`
	ExecutionEpoch string         `json:"executionEpoch,omitempty"` // the child's, of server.started
	Params         jsontext.Value `json:"params,omitzero"`          // of the host's tools/call, byte for byte
	RequestID      string         `json:"requestId,omitempty"`      // the host's id as it wrote it, at most 128 bytes; for the log
	IdempotencyKey string         `json:"idempotencyKey,omitempty"`
	Reason         string         `json:"reason,omitempty"` // why the agent wants it: its own words, shown on the card as such
	WaitSeconds    int            `json:"waitSeconds,omitzero"`
}

// StatusRequest asks for an action of the caller's own run.
type StatusRequest struct {
	Action      string `json:"action"`
	WaitSeconds int    `json:"waitSeconds,omitzero"`
	Cursor      string `json:"cursor,omitempty"` // "0", then the last Output's: show what a running action put out since
}

// Output is what a running action has put out after a cursor, scrubbed. It may lag behind by what could be the beginning of
// a secret, and goes no further than what a result holds. Once the action is done its result has everything.
type Output struct {
	Cursor       string `json:"cursor"`
	Body         string `json:"body,omitempty"` // http_request
	BodyEncoding string `json:"bodyEncoding,omitempty"`
	Stdout       string `json:"stdout,omitempty"` // commands
	Stderr       string `json:"stderr,omitempty"`
}

// CancelRequest calls back an action of the caller's own run: what was not sent is dropped, what was sent is stopped as
// far as it can be, and the answer says what is known. Of one that has ended it changes nothing.
// With Request in Action's place it withdraws a call of this connection by the id of its line, and answers {}: what was not
// sent is dropped, with its card; what was sent goes on and is recorded.
type CancelRequest struct {
	Action  string `json:"action,omitempty"`
	Request string `json:"request,omitempty"`
}

// HTTPArgs are http_request's args: URL, or Target (a credential's name) with Path. Credential only narrows the choice.
type HTTPArgs struct {
	URL        string            `json:"url,omitempty"`
	Target     string            `json:"target,omitempty"`
	Path       string            `json:"path,omitempty"`
	Method     string            `json:"method,omitempty"`
	Query      map[string]string `json:"query,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Body       string            `json:"body,omitempty"`
	BodyRef    string            `json:"bodyRef,omitempty"` // a Blob's, in Body's place
	Credential string            `json:"credential,omitempty"`
}

// BlobRequest sends a chunk of bytes that a later call on this connection names. An empty Ref begins a blob; EOF ends it.
type BlobRequest struct {
	Ref  string `json:"ref,omitempty"`
	Data []byte `json:"data"` // base64
	EOF  bool   `json:"eof,omitzero"`
}

// Blob is what has come of one so far. A blob serves one call, and goes with its connection.
type Blob struct {
	Ref    string `json:"ref"`
	Length int64  `json:"length"`
}

// FileRequest asks for a part of an action's long body. Length is at most 4 MiB, and that where it is 0.
type FileRequest struct {
	Action string `json:"action"`
	Offset int64  `json:"offset,omitzero"`
	Length int    `json:"length,omitzero"`
}

// FilePart is that part; EOF says that it is the last.
type FilePart struct {
	Data []byte `json:"data"` // base64
	EOF  bool   `json:"eof"`
	Size int64  `json:"size"` // of the whole body
}

// HTTPResult is what came back, scrubbed. BodyEncoding is "utf-8" or "base64". A body over 1 MiB is not in Body: BodyFile
// is then this action's id, for [MethodFile].
type HTTPResult struct {
	Status       int               `json:"status"`
	Headers      map[string]string `json:"headers"`
	Body         string            `json:"body"`
	BodyEncoding string            `json:"bodyEncoding"`
	BodyFile     *string           `json:"bodyFile"`
	BodyComplete bool              `json:"bodyComplete"`
}

// SSHArgs are ssh_exec's args. The agent names a stored target, never a host, user, port or option.
// Exactly one of Argv and Shell; Shell is a raw string for the host's login shell and always asks.
type SSHArgs struct {
	Target         string   `json:"target"`
	Argv           []string `json:"argv,omitempty"`
	Shell          string   `json:"shell,omitempty"`
	Stdin          string   `json:"stdin,omitempty"`
	TimeoutSeconds int      `json:"timeoutSeconds,omitzero"`
}

// AccessArgs are request_access's args: a target as list_targets names it, and why, in the agent's own words.
type AccessArgs struct {
	Target string `json:"target"`
	Reason string `json:"reason,omitempty"`
}

// Access is what request_access was given: a grant of this run and epoch; or, where there was no such target, none: Added
// is its name, now that the operator has added it, and Note what to do next.
type Access struct {
	Grant Grant  `json:"grant,omitzero"`
	Added string `json:"added,omitempty"`
	Note  string `json:"note,omitempty"`
}

// TransferArgs are ssh_upload's and ssh_download's. Path is on the host, absolute. An upload's bytes are a Blob's; Mode is
// octal, 0600 where it is empty.
type TransferArgs struct {
	Target  string `json:"target"`
	Path    string `json:"path"`
	BodyRef string `json:"bodyRef,omitempty"`
	Mode    string `json:"mode,omitempty"`
}

// TransferResult is a file that was moved. Digest is "sha256:" and hex. A download's bytes are in Body, or, over 1 MiB, in
// the file of the action BodyFile names.
type TransferResult struct {
	Path         string  `json:"path"`
	Size         int64   `json:"size"`
	Digest       string  `json:"digest"`
	Body         string  `json:"body,omitempty"`
	BodyEncoding string  `json:"bodyEncoding,omitempty"`
	BodyFile     *string `json:"bodyFile,omitempty"`
}

// JobResult answers a request about a job on a host. State is none, running, ended, lost or unknown; Proof says that no
// process of it lives.
type JobResult struct {
	State      string `json:"state"`
	ExitStatus *int   `json:"exitStatus,omitempty"`
	Cancelled  bool   `json:"cancelled,omitzero"`
	Proof      bool   `json:"proof,omitzero"`
	Detail     string `json:"detail,omitempty"`
}

// GitArgs are MethodGit's params: what git gave its ssh command behind the host, and GIT_PROTOCOL's value.
type GitArgs struct {
	Target      string   `json:"target"`
	Argv        []string `json:"argv"`
	Protocol    string   `json:"protocol,omitempty"`
	WaitSeconds int      `json:"waitSeconds,omitzero"` // as ActionRequest's
}

// StreamRequest moves bytes of a git action of this connection: Data and EOF go to the host; Read asks for what came.
type StreamRequest struct {
	Action string `json:"action"`
	Data   []byte `json:"data,omitempty"` // base64
	EOF    bool   `json:"eof,omitzero"`
	Read   bool   `json:"read,omitzero"`
}

// StreamPart answers a Read: what the host wrote, and EOF after the last of it.
type StreamPart struct {
	Data []byte `json:"data,omitempty"` // stdout
	Err  []byte `json:"err,omitempty"`  // stderr
	EOF  bool   `json:"eof,omitzero"`
}

// SSHResult is what came back, scrubbed. Signal is set when the remote process was killed by one.
type SSHResult struct {
	ExitStatus int     `json:"exitStatus"`
	Signal     *string `json:"signal"`
	Stdout     string  `json:"stdout"`
	Stderr     string  `json:"stderr"`
}

// Action is one call as its run and the operator may see it.
type Action struct {
	ID             string         `json:"id"` // act_ + ULID
	AgentRun       string         `json:"agentRun"`
	ExecutionEpoch string         `json:"executionEpoch"`
	Tool           string         `json:"tool"`
	Target         string         `json:"target"`
	Credential     string         `json:"credential"`
	State          string         `json:"state"`             // pending (waits for its card or its turn), running, done
	Outcome        string         `json:"outcome,omitempty"` // the words of [Codes] and of the outcome table; empty until done
	Flags          []string       `json:"flags,omitempty"`   // reflected, output_truncated, scrub_withheld, pipes_held, late
	ReflectedCount int            `json:"reflectedCount,omitzero"`
	Error          *Error         `json:"error,omitempty"`
	Resolution     string         `json:"resolution,omitempty"` // the operator's word on an unknown outcome: happened, did-not-happen, replay
	StartedAt      time.Time      `json:"startedAt,omitzero"`
	FinishedAt     time.Time      `json:"finishedAt,omitzero"`
	JobID          string         `json:"jobId,omitempty"`
	Output         *Output        `json:"output,omitempty"` // of a running action, where a cursor was given
	Job            *JobAnswer     `json:"job,omitempty"`    // where the remote job was asked for just now
	Result         jsontext.Value `json:"result,omitzero"`
}

// JobAnswer is what came of asking for a remote job: the request was an action of its own.
type JobAnswer struct {
	Asked   string         `json:"asked"` // status, cancel
	Action  string         `json:"action"`
	State   string         `json:"state"`
	Outcome string         `json:"outcome,omitempty"`
	Error   *Error         `json:"error,omitempty"`
	Result  jsontext.Value `json:"result,omitzero"`
}

// States of an [Action].
const (
	Pending = "pending"
	Running = "running"
	Done    = "done"
)

// Target is one place a run may ask to act on.
type Target struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // http, ssh
	Origin  string   `json:"origin,omitempty"`
	Host    string   `json:"host,omitempty"`
	Methods []string `json:"methods,omitempty"` // http: the rules as one would type them; ssh: the argv rules
	Confirm string   `json:"confirm"`
}

// Session tells a caller who it is here and what it may do now.
type Session struct {
	AgentRun       string  `json:"agentRun"`
	ExecutionEpoch string  `json:"executionEpoch"`
	State          string  `json:"state"`
	Vault          string  `json:"vault"`
	Grants         []Grant `json:"grants"`
}

// Grant: this run, in this epoch, may use these tools with these credentials until it ends.
type Grant struct {
	ID              string    `json:"id"` // gr_ + ULID
	AgentRun        string    `json:"agentRun"`
	ExecutionEpoch  string    `json:"executionEpoch"`
	ServerLabel     string    `json:"serverLabel"`
	ToolScope       []string  `json:"toolScope"`
	CredentialScope []string  `json:"credentialScope"`
	IssuedAt        time.Time `json:"issuedAt"`
	ExpiresWhen     string    `json:"expiresWhen"` // agent-run-ends, an RFC 3339 time, or "N uses"
	Approval        string    `json:"approval"`
	Operator        string    `json:"operator"`
	AcceptedWeak    bool      `json:"acceptedWeak,omitzero"` // a weak agent may use it like any other
}
