package cli

import (
	"fmt"
	"strings"
	"time"

	"sallyport/gateway/api"
)

// cardLine is one line of a card as people see it. The text may be others' words: it is escaped where it is printed.
type cardLine struct {
	label string // "": goes on below the line before
	text  string
	alarm bool // worth a second look
}

// checkCard refuses a card that is not the one its digest names: what is signed must be what is shown.
func checkCard(c api.Approval) error {
	b, err := c.Bytes()
	if err != nil || api.DigestOf(b) != c.CardDigest {
		return api.Fail("internal", "the card "+c.ID+" is not the one that its digest names; sp and the gateway may be of different versions")
	}
	return nil
}

// observed are the card's facts, from what the kernel said to what is asked for. Nothing in them is the agent's word but
// the action itself.
func (a *app) observed(c api.Approval) []cardLine {
	weak := c.Agent.Identity != "strong" || len(c.Origin.Weak) > 0
	out := []cardLine{{label: "agent", text: fmt.Sprintf("%s (pid %d, %s, %s)", c.Agent.Command, c.Agent.ProcessID, c.Agent.Identity, short(c.Agent.ExeDigest)), alarm: weak}}
	switch c.Origin.Program {
	case api.ProgramNew:
		out = append(out, cardLine{text: "new: no card of this program was approved before", alarm: true})
	case api.ProgramKnown:
		out = append(out, cardLine{text: "known: a card of this program was approved before"})
	}
	for _, w := range c.Origin.Weak {
		out = append(out, cardLine{label: "weak", text: w, alarm: true})
	}
	if c.Origin.Drift {
		out = append(out, cardLine{label: "changed", text: "the program that asks was exchanged on disk since it started", alarm: true})
	}
	for i, l := range c.Origin.Launchers {
		label := ""
		if i == 0 {
			label = "asked by"
		}
		out = append(out, cardLine{label: label, text: fmt.Sprintf("%s (pid %d, %s)", l.Command, l.ProcessID, short(l.ExeDigest))})
	}
	run := c.AgentRun
	if !c.Origin.RunOpenedAt.IsZero() {
		run += ", " + age(a.now().Sub(c.Origin.RunOpenedAt))
	}
	out = append(out, cardLine{label: "run", text: run}, cardLine{label: "epoch", text: c.ExecutionEpoch})
	if c.Origin.Others > 0 {
		out = append(out, cardLine{text: fmt.Sprintf("another connection of this run; %d more live, with what they were given", c.Origin.Others), alarm: true})
	}
	credential := c.Credential
	if c.Account != "" {
		credential += " (" + c.Account + ")"
	}
	out = append(out, cardLine{label: "tool", text: c.Tool}, cardLine{label: "credential", text: credential},
		cardLine{label: "target", text: c.Target}, cardLine{label: "effect", text: c.Effect, alarm: c.Effect != "read"},
		cardLine{label: "plan", text: c.Digest})
	label := "action"
	for l := range strings.SplitSeq(c.Summary, "\n") { // what the agent wrote has no line of its own in it
		out = append(out, cardLine{label: label, text: l})
		label = ""
	}
	if c.Missing != "" {
		out = append(out, cardLine{label: "answer", text: c.Missing})
	}
	out = append(out, serverLines(c)...)
	for _, g := range c.Gaps {
		out = append(out, cardLine{label: "mind", text: g})
	}
	return append(out, before(c.Past, a.now())...)
}

// before tells what was said to this program earlier.
func before(p api.Past, now time.Time) (out []cardLine) {
	if !p.ApprovedAt.IsZero() {
		last := "the same action"
		if len(p.Diff) > 0 {
			last = "another action, which differs in"
		}
		out = append(out, cardLine{label: "last yes", text: age(now.Sub(p.ApprovedAt)) + ", to " + last})
		for _, d := range p.Diff {
			out = append(out, cardLine{text: d})
		}
	}
	for _, d := range p.Denied {
		out = append(out, cardLine{label: "denied", text: d, alarm: true})
	}
	return out
}

// claimed is what the agent says of itself.
func claimed(c api.Approval) []cardLine {
	if c.Reason == "" {
		return nil
	}
	return []cardLine{{label: "it says", text: `"` + c.Reason + `" (its own words, which nothing checks)`}}
}

// gives is what a yes allows, as the card says it, and how args narrow it. ok is false where the card takes no such answer.
func gives(c api.Approval, args api.ApproveArgs) (text string, ok bool) {
	for _, o := range c.Offers {
		if o.Scope != args.Scope || (o.Accept != "") != args.AcceptWeak {
			continue
		}
		s := o.Gives
		switch {
		case args.Uses == 1:
			s += "; once"
		case args.Uses > 1:
			s += fmt.Sprintf("; at most %d times", args.Uses)
		}
		if !args.Until.IsZero() {
			s += "; until " + stamp(args.Until) + " at the latest"
		}
		if o.Accept != "" {
			s += "; you accept " + o.Accept
		}
		return s, true
	}
	return "", false
}

// showCard prints the card, and last what a yes gives.
func (a *app) showCard(c api.Approval, yes string) {
	a.say("card %s, expires %s", escape(c.ID), a.left(c.ExpiresAt))
	var pairs []string
	for _, l := range append(a.observed(c), claimed(c)...) {
		pairs = append(pairs, l.label, l.text)
	}
	pairs = append(pairs, "words", api.Words(c.CardDigest), "yes gives", yes)
	facts(a.err, "  ", pairs...)
}

// age is how long ago something was.
func age(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// left is how long until t.
func (a *app) left(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := t.Sub(a.now()).Round(time.Second)
	if d <= 0 {
		return "now"
	}
	return "in " + d.String()
}
