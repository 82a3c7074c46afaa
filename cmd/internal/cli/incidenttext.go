package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sallyport/auditlog/incident"
)

// entry is one line of a record for people: its label, what there is to say, one thing a line, and where it comes from.
type entry struct {
	label  string
	values []string
	from   string
}

// nothing is what an empty line says: that it was looked for.
const nothing = "none recorded"

// entries is a record's lines: the thirteen in their order, then what else there is.
func entries(r incident.Record) []entry {
	from := map[string]string{}
	for _, s := range r.Sources {
		from[s.Line] = source(s)
	}
	out := []entry{
		{"Observed at", []string{moment3(&r.ObservedAt)}, ""},
		{"Client process PID and command", processLines(&r.Client), from["clientProcess"]},
		{"MCP server PID and command", processLines(r.Server), from["serverProcess"]},
		{"Parent PID and process group", kinLines(r), from["parentAndGroup"]},
		{"Session identifier", []string{r.Run}, from["sessionIdentifier"]},
		{"Authorization state", []string{r.State}, from["authorizationState"]},
		{"Last successful action time", []string{moment3(r.LastSuccess)}, from["lastSuccessfulActionAt"]},
		{"Last attempted action time", []string{moment3(r.LastAttempt)}, from["lastAttemptedActionAt"]},
		{"Action target and operation", targetLines(r), from["targetAndOperation"]},
		{"Result or remote job identifier", resultLines(r.Result), from["resultOrJobId"]},
		{"Revocation time and operator", revocationLines(r.Revocation), from["revocationTimeAndOperator"]},
		{"Termination signal and exit result", endLines(r), from["terminationSignalAndResult"]},
		{"Follow-up required", r.FollowUp, ""},
	}
	return append(out, contextEntries(r)...)
}

// contextEntries are the lines beside the thirteen.
func contextEntries(r incident.Record) []entry {
	if r.Live != nil && r.Live.Alive {
		r.Observed = nil // how it is now says more
	}
	out := []entry{
		{"Client unavailable at", []string{moment3(r.Times.ClientUnavailable)}, ""},
		{"Last action of the run started at", []string{moment3(r.Times.LastActionStarted)}, ""},
		{"Authority revoked at", []string{moment3(r.Times.AuthorityRevoked)}, ""},
		{"Execution epoch", []string{r.Epoch}, ""},
		{"Launchers between client and server", each(r.Launchers, func(p incident.Process) string { return strings.Join(processLines(&p), ", ") }), ""},
		{"Authorised by", each(r.AuthorisedBy, authorityLine), ""},
		{"Account", []string{r.Account}, "vault"},
		{"Calls", callLines(r), ""},
		{"Refused attempts", each(r.Denied, denialLine), ""},
		{"Unresolved", each(r.Unresolved, openLine), ""},
		{"Process when last seen", seenLines(r.Observed), seenFrom(r.Observed)},
		{"Process now", liveLines(r.Live), "live, secondary"},
		{"Containment", containedLines(r.Contained), ""},
		{"Rotate", r.Rotate, "live, secondary"},
		{"Rows and log differ", r.Differences, ""},
		{"Could not be shown", r.Unknown, ""},
	}
	for i := range out {
		if out[i].from != "" && (len(out[i].values) == 0 || out[i].values[0] == "") {
			out[i].from = ""
		}
	}
	return out
}

// source is where a line comes from: "rows 12, 40".
func source(s incident.Source) string {
	if len(s.Seq) == 0 {
		return ""
	}
	seq := make([]string, len(s.Seq))
	for i, n := range s.Seq {
		seq[i] = strconv.FormatUint(n, 10)
	}
	return s.From + ", record " + strings.Join(seq, ", ")
}

// moment3 is a time to the millisecond, in UTC: the three times of an incident may lie close together.
func moment3(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}

func each[T any](all []T, line func(T) string) []string {
	out := make([]string, len(all))
	for i, x := range all {
		out[i] = line(x)
	}
	return out
}

func processLines(p *incident.Process) []string {
	if p == nil || p.ProcessID == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("%d  %s", p.ProcessID, p.Command)}
	if p.ExeDigest != "" {
		what := fmt.Sprintf("program %s, identity %s", strings.TrimSpace(p.Exe+" "+p.ExeDigest), p.Identity)
		if len(p.Weak) > 0 {
			what += " (" + strings.Join(p.Weak, "; ") + ")"
		}
		out = append(out, what)
	}
	return out
}

func kinLines(r incident.Record) (out []string) {
	if k := r.Kin; k != nil {
		out = append(out, fmt.Sprintf("parent %d, group %d, session %d when it was first seen", k.Parent, k.Group, k.Session))
	}
	if l := r.Live; l != nil && l.Alive {
		out = append(out, fmt.Sprintf("parent %d, group %d, session %d now (live)", l.Parent, l.Group, l.Session))
	}
	return out
}

func targetLines(r incident.Record) []string {
	t := r.Target
	if t == nil {
		return nil
	}
	out := []string{fmt.Sprintf("%s  %s", t.Target, t.Operation), fmt.Sprintf("%s, action %s, credential %s", t.Tool, t.Action, cmp.Or(t.Credential, "none"))}
	if r.Account != "" {
		out[1] += ", account " + r.Account
	}
	return out
}

func resultLines(x *incident.Result) []string {
	if x == nil {
		return nil
	}
	out := []string{outcomeOf(*x)}
	if x.JobID != "" {
		out = append(out, "remote job "+x.JobID)
	}
	return out
}

// outcomeOf is an outcome in one line.
func outcomeOf(x incident.Result) string {
	out := x.Outcome
	if x.Reason != "" && x.Reason != x.Outcome {
		out += " (" + x.Reason + ")"
	}
	if x.Status != 0 {
		out += fmt.Sprintf(", status %d", x.Status)
	}
	if x.Exit != nil {
		out += fmt.Sprintf(", exit status %d", *x.Exit)
	}
	if x.Said != "" {
		out += ", resolved by the operator: " + x.Said
	}
	return out
}

func revocationLines(v *incident.Revocation) []string {
	if v == nil {
		return nil
	}
	out := []string{fmt.Sprintf("%s by %s, of %s", moment3(&v.At), v.Operator, v.Of)}
	if len(v.Left) > 0 {
		out = append(out, "had left already: "+strings.Join(v.Left, ", "))
	}
	return out
}

func endLines(r incident.Record) []string {
	switch e := r.End; {
	case e == nil && r.Live != nil && r.Live.Alive:
		return []string{"it lives"}
	case e == nil && r.Live != nil:
		return []string{"no end is recorded, and it lives no more"}
	case e == nil:
		return nil
	case e.Signal != "":
		return []string{fmt.Sprintf("%s at %s: %s", e.Signal, moment3(&e.At), e.Result)}
	default:
		return []string{fmt.Sprintf("no signal by the gateway; %s, seen at %s", e.Result, moment3(&e.At))}
	}
}

func authorityLine(x incident.Authority) string {
	out := fmt.Sprintf("approval %s by operator (%s) at %s: grant %s for %s with %s until %s", x.Approval, x.Operator, moment3(&x.At), x.Grant,
		strings.Join(x.Tools, ","), cmp.Or(strings.Join(x.Scope, ","), "no credential"), x.Until)
	if x.Ended != "" {
		out += "; ended: " + x.Ended
	}
	return out + fmt.Sprintf(" [record %d]", x.Seq)
}

func callLines(r incident.Record) []string {
	out := each(r.Calls, func(c incident.Call) string {
		seq := strconv.FormatUint(c.Seq, 10)
		if c.EndSeq != 0 {
			seq += ", " + strconv.FormatUint(c.EndSeq, 10)
		}
		what := fmt.Sprintf("%-9s  %s  %s  %s %s: %s", c.Class, moment3(&c.At), c.Target.Action, c.Target.Target, c.Operation, outcomeOf(c.Result))
		if c.Key != "" {
			what += ", idempotency key " + c.Key
		}
		return what + " [record " + seq + "]"
	})
	if r.LeftOut > 0 {
		out = append([]string{fmt.Sprintf("%d of the earlier ones are not listed", r.LeftOut)}, out...)
	}
	return out
}

func denialLine(d incident.Denial) string {
	out := strings.TrimSpace(fmt.Sprintf("%s  %s  %s %s", moment3(&d.At), d.Reason, d.Target, d.Operation))
	if d.Count > 1 {
		out += fmt.Sprintf(" (%d times)", d.Count)
	}
	if d.After {
		out += ", after the revocation"
	}
	return out + fmt.Sprintf(" [record %d]", d.Seq)
}

func openLine(o incident.Open) string {
	out := o.Action + ": " + o.Why + "; look it up: " + o.LookUp
	if o.JobID != "" {
		out += ", remote job " + o.JobID
	}
	if o.Resolve != "" {
		out += "; then: " + o.Resolve
	}
	return out
}

func liveLines(l *incident.Live) []string {
	switch {
	case l == nil:
		return []string{"not looked at"}
	case !l.Alive:
		return []string{"gone: no process of this number and start lives at " + moment3(&l.At)}
	}
	return seenLines(l)
}

func seenLines(l *incident.Live) []string {
	if l == nil {
		return nil
	}
	out := []string{fmt.Sprintf("at %s: parent %d, group %d, stat %s, running for %s, user %s", moment3(&l.At), l.Parent, l.Group, l.Stat, l.Elapsed, l.User)}
	for _, x := range []struct{ head, text string }{{"command ", l.Command}, {"it exists because ", l.Exists}} {
		if x.text != "" {
			out = append(out, x.head+x.text)
		}
	}
	out = append(out, l.Reaches...)
	for _, c := range l.Children {
		out = append(out, "child "+c)
	}
	for _, c := range l.Siblings {
		out = append(out, "same process group: "+c)
	}
	for _, g := range l.Gaps {
		out = append(out, "not seen: "+g)
	}
	return out
}

func seenFrom(l *incident.Live) string {
	if l == nil || l.Seq == 0 {
		return ""
	}
	return fmt.Sprintf("rows, record %d", l.Seq)
}

func containedLines(c *incident.Contained) []string {
	if c == nil {
		return nil
	}
	var out []string
	if c.Method != "" {
		out = append(out, fmt.Sprintf("denial proved: %s [record %d]", c.Method, c.Denial))
	}
	if c.Verdict != "" {
		out = append(out, fmt.Sprintf("%s at %s [record %d]", c.Verdict, moment3(&c.At), c.Seq))
	}
	return append(out, c.Missing...)
}
