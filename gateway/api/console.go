package api

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Paths of the operators' door that the web console reads from. Each comment names args -> answer.
const (
	PathConsoleOpen  = "console/open"  // {} -> ConsoleOpened
	PathActivityList = "activity/list" // ActivityArgs -> ActivityPage
	PathActivityRate = "activity/rate" // RateArgs -> Rate
	PathRunTimeline  = "run/timeline"  // TimelineArgs -> Timeline
	PathAuditVerify  = "audit/verify"  // {} -> Verified: the gateway's own look at its log
	PathAuditRead    = "audit/read"    // AuditReadArgs + a reader's identity -> AuditPage
	PathSettingsShow = "settings/show" // {} -> []Change, without Old
)

// ConsoleOpened is where one new tab of the web console begins. The token in its fragment works once, for ten minutes.
type ConsoleOpened struct {
	URL string `json:"url"`
}

// PageLimit is how many rows one answer holds at most.
const PageLimit = 200

// ActivityArgs ask for calls and denials, newest first, from the rows that are kept. Outcome narrows calls; Search is looked
// for in what a row says, in any case. Before is the Next of the page before.
type ActivityArgs struct {
	AgentRun string `json:"agentRun,omitempty"`
	Class    string `json:"class,omitempty"` // call, denied; empty: both
	Outcome  string `json:"outcome,omitempty"`
	Search   string `json:"search,omitempty"`
	Before   string `json:"before,omitempty"`
	Limit    int    `json:"limit,omitzero"` // up to PageLimit, and that where it is 0
}

// ActivityPage is a part of the answer. Next goes on from there; it is empty at the end. A search looks through so many
// rows and answers with what it found, which may be nothing yet. Hidden counts rows that can't be read: they were changed.
type ActivityPage struct {
	Rows   []ActivityRow `json:"rows"`
	Next   string        `json:"next,omitempty"`
	Hidden int           `json:"hidden,omitzero"`
}

// ActivityRow is one call with what came of it, or one denial. Seq is its record in the log.
type ActivityRow struct {
	Seq            uint64    `json:"seq"`
	Time           time.Time `json:"time"`
	Class          string    `json:"class"` // call, denied
	AgentRun       string    `json:"agentRun,omitempty"`
	ExecutionEpoch string    `json:"executionEpoch,omitempty"`
	Action         string    `json:"action,omitempty"`
	Tool           string    `json:"tool,omitempty"`
	Credential     string    `json:"credential,omitempty"`
	Target         string    `json:"target,omitempty"`
	Operation      string    `json:"operation,omitempty"`
	Outcome        string    `json:"outcome"` // of a call: running, or how it ended; of a denial its code
	Answered
}

// Answered is what a row says of its end.
type Answered struct {
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	Detail     string    `json:"detail,omitempty"`
	Count      int       `json:"count,omitzero"` // denials that one record stands for, where it is more than one
}

// RateArgs ask how many calls and denials there were in each of Steps steps of Seconds, up to now.
type RateArgs struct {
	AgentRun string `json:"agentRun,omitempty"`
	Seconds  int64  `json:"seconds"`
	Steps    int    `json:"steps"`
}

// Rate is those numbers, oldest first.
type Rate struct {
	From    time.Time `json:"from"`
	Seconds int64     `json:"seconds"`
	Calls   []int     `json:"calls"`
	Denied  []int     `json:"denied"`
}

// TimelineArgs ask for a run's events, newest first.
type TimelineArgs struct {
	ID     string `json:"id"`
	Before string `json:"before,omitempty"`
	Limit  int    `json:"limit,omitzero"`
}

// Timeline is a page of a run's events.
type Timeline struct {
	Lines  []TimelineLine `json:"lines"`
	Next   string         `json:"next,omitempty"`
	Hidden int            `json:"hidden,omitzero"`
}

// TimelineLine is one event. Log is sessions or activity, What says for people what happened, Event is all of it.
type TimelineLine struct {
	Seq   uint64         `json:"seq"`
	Time  time.Time      `json:"time"`
	Log   string         `json:"log"`
	Type  string         `json:"type"`
	What  string         `json:"what"`
	Event jsontext.Value `json:"event"`
}

// Verified is what the gateway found in its own log. It vouches for itself: a reviewer uses `sp audit verify` and a pin.
type Verified struct {
	Verdict     string `json:"verdict"` // intact, broken, torn, live
	Kind        string `json:"kind,omitempty"`
	Segment     string `json:"segment,omitempty"`
	Seq         uint64 `json:"seq,omitzero"`
	Detail      string `json:"detail,omitempty"`
	Records     uint64 `json:"records"`
	Commits     uint64 `json:"commits"`
	Fingerprint string `json:"fingerprint"`
	Anchor      uint64 `json:"anchor"` // the last record the vault has seen
	OpenIntents int    `json:"openIntents"`
}

// AuditReadArgs ask for a part of the log itself, newest first. The reader's identity follows the envelope's line: the
// gateway reads with it and forgets it.
type AuditReadArgs struct {
	AgentRun string `json:"agentRun,omitempty"`
	Search   string `json:"search,omitempty"`
	Before   uint64 `json:"before,omitzero"` // records before this one
	Limit    int    `json:"limit,omitzero"`
}

// AuditPage is that part.
type AuditPage struct {
	Lines []TimelineLine `json:"lines"`
	More  bool           `json:"more"` // there are earlier ones
}
