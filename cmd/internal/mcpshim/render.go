package mcpshim

import (
	"encoding/base64"
	encjson "encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/gateway/api"
)

// answer is what a tools/call answers: text for the model, the gateway's document for programs. Several hosts show the
// model the text alone, so everything the model must know is in it; what the gateway says stands before what a remote
// side wrote. The zero answer is an error.
type answer struct {
	text string
	doc  any
	good bool
}

func (a answer) result() *mcp.CallToolResult {
	r := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.text}}, IsError: !a.good}
	doc, err := json.Marshal(a.doc)
	if err != nil { // a result that is no JSON; the text is what there is
		r.IsError = true
		return r
	}
	r.StructuredContent = encjson.RawMessage(doc)
	return r
}

// refusal tells an error with all it holds.
func refusal(e *api.Error) answer {
	var b strings.Builder
	writeError(&b, e)
	return answer{text: b.String(), doc: e}
}

func writeError(b *strings.Builder, e *api.Error) {
	fmt.Fprintf(b, "%s: %s\n", e.Code, e.Reason)
	for _, f := range [][2]string{{"retry", e.Retry}, {"next", e.Next}, {"action", e.Action}, {"approvedEpoch", e.ApprovedEpoch}, {"currentEpoch", e.CurrentEpoch}} {
		if f[1] != "" {
			fmt.Fprintf(b, "%s: %s\n", f[0], f[1])
		}
	}
}

// textLimit is how much of a result the text holds, in bytes. Hosts keep less of longer ones, each in its own way.
const textLimit = 20 << 10

// textCursor begins a cursor into the text of a result that has ended. The gateway's own are numbers.
const textCursor = "text:"

// told tells an action from its beginning.
func told(a api.Action) answer { return toldFrom(a, 0) }

// toldFrom tells an action, its result from byte from of its text on. Only a known good end, or one still to come, is no
// error.
func toldFrom(a api.Action, from int) answer {
	var b strings.Builder
	good := false
	switch {
	case a.State == api.Running && a.Outcome == "accepted":
		good = true
		fmt.Fprintf(&b, "accepted: the job of action %s runs on %s\n", a.ID, a.Target)
		fmt.Fprintf(&b, "retry: ask action_status for %s, or end it with action_cancel; do not start it again\n", a.ID)
	case a.State == api.Pending, a.State == api.Running:
		good = true
		fmt.Fprintf(&b, "pending: action %s is not done yet (%s)\n", a.ID, map[string]string{
			api.Pending: "it waits for the operator's approval or for its turn", api.Running: "it is running"}[a.State])
		fmt.Fprintf(&b, "retry: ask action_status for %s; do not send the call again\n", a.ID)
	case a.State == api.Done && api.Succeeded(a.Outcome):
		good = true
		fmt.Fprintf(&b, "%s: %s on %s, action %s\n", a.Outcome, a.Tool, a.Target, a.ID)
		if a.Error != nil { // done, and something else went wrong: its recording, for one
			writeError(&b, a.Error)
		}
	default:
		writeError(&b, failure(a))
		fmt.Fprintf(&b, "outcome: %s\n", orUnknown(a.Outcome))
	}
	if a.JobID != "" {
		fmt.Fprintf(&b, "job: %s\n", a.JobID)
	}
	if len(a.Flags) > 0 {
		fmt.Fprintf(&b, "flags: %s\n", strings.Join(a.Flags, ", "))
	}
	if o := a.Output; o != nil {
		fmt.Fprintf(&b, "cursor: %s\n\n%s%s", o.Cursor, o.Body, o.Stdout)
		if o.Stderr != "" {
			fmt.Fprintf(&b, "\nstderr:\n%s", o.Stderr)
		}
	}
	var result strings.Builder
	switch j := a.Job; {
	case j != nil:
		fmt.Fprintf(&b, "%s of the job, by action %s: %s\n", j.Asked, j.Action, orUnknown(j.Outcome))
		if j.Error != nil {
			writeError(&b, j.Error)
		}
		if len(j.Result) > 0 {
			writeResult(&result, api.Action{Tool: a.Tool, Result: j.Result})
		}
	case len(a.Result) > 0:
		writeResult(&result, a)
	}
	writePage(&b, a.ID, result.String(), from)
	return answer{text: b.String(), doc: a, good: good}
}

// writePage writes at most textLimit bytes of text from byte from on, whole characters, after saying how to go on.
func writePage(b *strings.Builder, action, text string, from int) {
	from = min(from, len(text))
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	end := len(text)
	if end-from > textLimit {
		for end = from + textLimit; !utf8.RuneStart(text[end]); {
			end--
		}
	}
	switch {
	case end < len(text):
		fmt.Fprintf(b, "cursor: %s%d (bytes %d to %d of %d; action_status for %s with this cursor reads on, outputFile saves a body whole)\n", textCursor, end, from, end, len(text), action)
	case from > 0:
		fmt.Fprintf(b, "the rest, bytes %d to %d\n", from, end)
	}
	if end > from {
		b.WriteString("\n")
	}
	b.WriteString(text[from:end])
}

// failure is the action's own error, else the table's row for its outcome.
func failure(a api.Action) *api.Error {
	var e api.Error
	if a.Error != nil {
		e = *a.Error
	} else if row := api.Lookup(a.Outcome); row.Name == a.Outcome {
		e = *api.Fail(a.Outcome, "")
	} else {
		e = api.Error{Code: orUnknown(a.Outcome), Reason: "what came of the call is not known", Retry: "look the operation up before doing it again", Next: api.NextAsk}
	}
	if e.Action == "" {
		e.Action = a.ID
	}
	return &e
}

func orUnknown(outcome string) string {
	if outcome == "" {
		return "unknown"
	}
	return outcome
}

// writeResult writes what the remote side answered; a shape that is not the tool's own is written as it is.
func writeResult(b *strings.Builder, a api.Action) {
	strict := json.RejectUnknownMembers(true)
	var h api.HTTPResult
	if a.Tool == api.ToolHTTP && json.Unmarshal(a.Result, &h, strict) == nil {
		fmt.Fprintf(b, "HTTP %d\n", h.Status)
		for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
			fmt.Fprintf(b, "%s: %s\n", name, h.Headers[name])
		}
		if !h.BodyComplete {
			b.WriteString("(the body is not complete)\n")
		}
		if h.BodyEncoding == "base64" {
			fmt.Fprintf(b, "(the body is binary, %d bytes, in base64)\n", base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(h.Body, "="))))
		}
		if h.BodyFile != nil {
			fmt.Fprintf(b, "(the body is kept as %s)\n", *h.BodyFile)
		}
		fmt.Fprintf(b, "\n%s", h.Body)
		return
	}
	var s api.SSHResult
	if (a.Tool == api.ToolSSH || a.Tool == api.ToolJob) && json.Unmarshal(a.Result, &s, strict) == nil {
		fmt.Fprintf(b, "exit status %d\n", s.ExitStatus)
		if s.Signal != nil {
			fmt.Fprintf(b, "killed by signal %s\n", *s.Signal)
		}
		fmt.Fprintf(b, "\nstdout:\n%s", s.Stdout)
		if s.Stderr != "" {
			fmt.Fprintf(b, "\nstderr:\n%s", s.Stderr)
		}
		return
	}
	b.Write(a.Result)
}

// listed tells the targets, one a line with its rules below.
func listed(list []api.Target) answer {
	var b strings.Builder
	if len(list) == 0 {
		b.WriteString("There are no targets: the operator has added none.\n")
	}
	for _, t := range list {
		fmt.Fprintf(&b, "%s (%s) %s%s, confirm: %s\n", t.Name, t.Kind, t.Origin, t.Host, t.Confirm)
		for _, m := range t.Methods {
			fmt.Fprintf(&b, "  %s\n", m)
		}
	}
	return answer{text: b.String(), good: true, doc: struct {
		Targets []api.Target `json:"targets"`
	}{list}}
}

// introduced tells who the caller is here.
func introduced(me api.Session) answer {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s (%s), epoch %s, vault %s\n", me.AgentRun, me.State, me.ExecutionEpoch, me.Vault)
	if len(me.Grants) == 0 {
		b.WriteString("no grants: the first call asks the operator\n")
	}
	for _, g := range me.Grants {
		fmt.Fprintf(&b, "grant %s: %s with %s until %s\n", g.ID, strings.Join(g.ToolScope, ", "), strings.Join(g.CredentialScope, ", "), g.ExpiresWhen)
	}
	return answer{text: b.String(), good: true, doc: me}
}
