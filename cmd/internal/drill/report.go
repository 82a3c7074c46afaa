package drill

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/peer"
)

// Verdicts of an Answer. The zero value is bad.
const (
	Bad   = ""
	Good  = "good"
	Plain = "plain" // told, not judged: what was seen, or why the question can't be asked here
)

// Answer is what a drill found to one of its questions.
type Answer struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Verdict  string `json:"verdict"`
}

// Part is one moment or one case of a drill.
type Part struct {
	Name      string    `json:"name"`
	About     string    `json:"about,omitempty"`
	Answers   []Answer  `json:"answers"`
	Processes []Process `json:"processes,omitempty"`
}

// Process is how a process stood at a time that When names.
type Process struct {
	When        string   `json:"when"`
	Role        string   `json:"role"`
	ProcessID   int      `json:"processId"`
	PPID        int      `json:"ppid"`
	PGID        int      `json:"pgid"`
	Stat        string   `json:"stat"`
	Command     string   `json:"command"`
	Descriptors []string `json:"descriptors"`
}

// Report is one drill, whole.
type Report struct {
	Drill     string    `json:"drill"`
	Version   string    `json:"version"`
	System    string    `json:"system"`
	Command   []string  `json:"command"`
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt"`
	Good      bool      `json:"good"`
	Parts     []*Part   `json:"parts"`
}

// NewReport begins a drill's report.
func NewReport(name string, o Options) *Report {
	return &Report{Drill: name, Version: o.Version, System: runtime.GOOS + "/" + runtime.GOARCH, Command: o.Command, StartedAt: time.Now().UTC().Truncate(time.Millisecond)}
}

// Begin adds a part.
func (r *Report) Begin(name, about string) *Part {
	p := &Part{Name: name, About: about}
	r.Parts = append(r.Parts, p)
	return p
}

// Judge answers a question that has a right answer.
func (p *Part) Judge(good bool, question, format string, args ...any) {
	v := Bad
	if good {
		v = Good
	}
	p.Answers = append(p.Answers, Answer{question, fmt.Sprintf(format, args...), v})
}

// Tell answers one that has none.
func (p *Part) Tell(question, format string, args ...any) {
	p.Answers = append(p.Answers, Answer{question, fmt.Sprintf(format, args...), Plain})
}

// Look adds how processes stand now. One that is gone is told as gone.
func (p *Part) Look(when, role string, q *peer.Process) {
	s, err := q.Snapshot()
	if err != nil {
		f := q.Facts()
		p.Processes = append(p.Processes, Process{When: when, Role: role, ProcessID: f.PID, PPID: f.PPID, PGID: f.PGID, Stat: "gone", Command: strings.Join(f.Args, " ")})
		return
	}
	x := Process{When: when, Role: role, ProcessID: s.Process.PID, PPID: s.Process.PPID, PGID: s.Process.PGID, Stat: s.Process.Stat, Command: strings.Join(s.Process.Command, " ")}
	for _, d := range s.Descriptors {
		x.Descriptors = append(x.Descriptors, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", d.FD, d.Mode, d.Class, d.Target)))
	}
	p.Processes = append(p.Processes, x)
}

// good says that no answer of the part is bad, and that there is one.
func (p *Part) good() bool {
	for _, a := range p.Answers {
		if a.Verdict == Bad {
			return false
		}
	}
	return len(p.Answers) > 0
}

// Finish ends the report, prints it, and saves it where o says. The error is for the saving alone.
func (r *Report) Finish(o Options) error {
	r.EndedAt = time.Now().UTC().Truncate(time.Millisecond)
	r.Good = len(r.Parts) > 0
	for _, p := range r.Parts {
		r.Good = r.Good && p.good()
	}
	r.print(o.Out)
	if o.Report == "" {
		return nil
	}
	if err := os.MkdirAll(o.Report, 0o700); err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	doc, err := json.Marshal(r, jsontext.Multiline(true), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	for name, b := range map[string][]byte{"report.json": append(doc, '\n'), "report.md": []byte(r.markdown())} {
		if err := os.WriteFile(filepath.Join(o.Report, name), b, 0o600); err != nil {
			return fmt.Errorf("save report: %w", err)
		}
	}
	return nil
}

func (r *Report) print(w io.Writer) {
	for _, p := range r.Parts {
		fmt.Fprintf(w, "\n%s\n", plainText(p.Name))
		if p.About != "" {
			fmt.Fprintf(w, "  %s\n", plainText(p.About))
		}
		for _, a := range p.Answers {
			fmt.Fprintf(w, "  %s %s\n      %s\n", mark(a.Verdict), plainText(a.Question), plainText(a.Answer))
		}
	}
	end := "every answer is good"
	if !r.Good {
		end = "not every answer is good"
	}
	fmt.Fprintf(w, "\nsp drill %s: %s\n", r.Drill, end)
}

func mark(verdict string) string {
	switch verdict {
	case Good:
		return "[good]"
	case Plain:
		return "[ -- ]"
	}
	return "[BAD ]"
}

func (r *Report) markdown() string {
	var b strings.Builder
	end := "Every answer is good."
	if !r.Good {
		end = "**Not every answer is good.**"
	}
	fmt.Fprintf(&b, "# sp drill %s\n\n%s\n\n%s to %s, version %s, %s", r.Drill, end,
		r.StartedAt.Format(time.RFC3339), r.EndedAt.Format(time.RFC3339), r.Version, r.System)
	if len(r.Command) > 0 {
		fmt.Fprintf(&b, ", server `%s`", cell(strings.Join(r.Command, " ")))
	}
	b.WriteString("\n")
	for _, p := range r.Parts {
		fmt.Fprintf(&b, "\n## %s\n\n", cell(p.Name))
		if p.About != "" {
			fmt.Fprintf(&b, "%s\n\n", cell(p.About))
		}
		b.WriteString("| question | answer | |\n| --- | --- | --- |\n")
		for _, a := range p.Answers {
			v := a.Verdict
			if v == Bad {
				v = "**bad**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(a.Question), cell(a.Answer), v)
		}
		if len(p.Processes) == 0 {
			continue
		}
		b.WriteString("\n| when | role | pid | ppid | pgid | stat | command | descriptors |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
		for _, x := range p.Processes {
			fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %s | %s | %s |\n", cell(x.When), cell(x.Role), x.ProcessID, x.PPID, x.PGID, cell(x.Stat), cell(x.Command), cell(strings.Join(x.Descriptors, "; ")))
		}
	}
	return b.String()
}

// cell keeps text that a program chose inside its cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'").Replace(plainText(s))
}

// plainText keeps it from moving a terminal's cursor.
func plainText(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
