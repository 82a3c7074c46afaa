package cli

import (
	"fmt"
	"strings"

	"sallyport/auditlog/incident"
)

// incidentText prints records for people, every value escaped.
func (a *app) incidentText(records []incident.Record) error {
	var b strings.Builder
	for i, r := range records {
		if len(records) > 1 {
			fmt.Fprintf(&b, "--- process %d of %d ---\n", i+1, len(records))
		}
		for n, e := range entries(r) {
			if n == thirteen {
				b.WriteString("\n")
			}
			write(&b, e, n >= thirteen)
		}
		b.WriteString("\n")
	}
	if len(records) > 0 && records[0].Verify != nil { // it is the same for all
		v := *records[0].Verify
		fmt.Fprintf(&b, "%s (after the entries above were taken), exit %d:\n", v.Command, v.Exit)
		for line := range strings.Lines(v.Output) {
			fmt.Fprintf(&b, "  %s\n", escape(strings.TrimSuffix(line, "\n")))
		}
		fmt.Fprintf(&b, "checkpoint, for sp audit verify --against:%s\n", oneIf(v.Checkpoint == "", " "+escape(v.Why)))
		for line := range strings.Lines(v.Checkpoint) {
			fmt.Fprintf(&b, "  %s\n", escape(strings.TrimSuffix(line, "\n")))
		}
	}
	_, err := fmt.Fprintln(a.out, strings.TrimRight(b.String(), "\n "))
	return err
}

// thirteen is how many lines an incident note has.
const thirteen = 13

// write prints one entry: the first value behind its label, the others below. Beside the thirteen lines an empty one is
// left out, and a list begins below its label.
func write(b *strings.Builder, e entry, optional bool) {
	values := said(e)
	if len(values) == 0 {
		if optional {
			return
		}
		values = []string{nothing}
	}
	const indent = "    "
	from := ""
	if e.from != "" {
		from = "  [" + e.from + "]"
	}
	if optional && len(values) > 1 {
		fmt.Fprintf(b, "%s:%s\n%s%s\n", e.label, from, indent, escape(values[0]))
	} else {
		fmt.Fprintf(b, "%s: %s%s\n", e.label, escape(values[0]), from)
	}
	for _, v := range values[1:] {
		fmt.Fprintf(b, "%s%s\n", indent, escape(v))
	}
}

// said is an entry's values without empty ones.
func said(e entry) (out []string) {
	for _, v := range e.values {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}

func oneIf(is bool, s string) string {
	if is {
		return s
	}
	return ""
}

// incidentMarkdown prints records for a ticket. Every value stands in a code span or block, so that nothing of an agent's
// can become markup.
func (a *app) incidentMarkdown(records []incident.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Incident record\n")
	for _, r := range records {
		who := r.Client.ProcessID
		if r.Server != nil {
			who = r.Server.ProcessID
		}
		fmt.Fprintf(&b, "\n## Process %d of %s\n\n", who, codeSpan(r.Run))
		for n, e := range entries(r) {
			values := said(e)
			switch {
			case len(values) == 0 && n >= thirteen:
				continue
			case len(values) == 0:
				fmt.Fprintf(&b, "- **%s:** %s\n", e.label, nothing)
				continue
			}
			from := ""
			if e.from != "" {
				from = " (" + e.from + ")"
			}
			fmt.Fprintf(&b, "- **%s:** %s%s\n", e.label, codeSpan(values[0]), from)
			for _, v := range values[1:] {
				fmt.Fprintf(&b, "  - %s\n", codeSpan(v))
			}
		}
	}
	if len(records) > 0 && records[0].Verify != nil {
		v := *records[0].Verify
		fmt.Fprintf(&b, "\n## The log behind it\n\n`%s`, after the entries above were taken, exit %d:\n\n", v.Command, v.Exit)
		codeBlock(&b, v.Output)
		if v.Checkpoint == "" {
			fmt.Fprintf(&b, "\n%s\n", codeSpan(v.Why))
		} else {
			b.WriteString("\nCheckpoint, for `sp audit verify --against`:\n\n")
			codeBlock(&b, v.Checkpoint)
		}
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

// codeSpan is a code span (CommonMark 6.1): its fence is longer than any run of backticks in it.
func codeSpan(s string) string {
	s = escape(s)
	fence := strings.Repeat("`", ticks(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// codeBlock is a fenced code block (CommonMark 4.5).
func codeBlock(b *strings.Builder, s string) {
	fence := strings.Repeat("`", max(3, ticks(s)+1))
	fmt.Fprintln(b, fence)
	for line := range strings.Lines(s) {
		fmt.Fprintln(b, escape(strings.TrimSuffix(line, "\n")))
	}
	fmt.Fprintln(b, fence)
}

// ticks is the longest run of backticks in s.
func ticks(s string) (n int) {
	run := 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		n = max(n, run)
	}
	return n
}
