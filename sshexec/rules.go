package sshexec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxRules is the number of argv rules one host may have.
const MaxRules = 256

// RuleSpec is the stored form of a host's rules.
type RuleSpec struct {
	AllowArgv     [][]string `json:"allowArgv,omitempty"`
	AllowShell    bool       `json:"allowShell,omitempty"`
	Shell         string     `json:"shell,omitempty"`         // "posix", "exact"; empty counts as exact
	AllowUpload   []string   `json:"allowUpload,omitempty"`   // folders: files in them and below
	AllowDownload []string   `json:"allowDownload,omitempty"` // the same
	AllowGit      []string   `json:"allowGit,omitempty"`      // repositories, as a client writes their path
	GitRules      []string   `json:"gitRules,omitempty"`      // "no-push REF", "create-only REF", "no-delete REF"
}

// Rules says which commands a host takes. The zero value takes none.
type Rules struct {
	argv             []pattern
	shell            bool
	posix            bool
	upload, download []string
	git              []string
	refs             []refRule
}

// Match is the rule that let one command through. The zero value covers nothing.
type Match struct {
	rule  string
	ask   bool
	posix bool
	line  string
	git   *Rules // of a git request: its pushes are held to them
}

// ParseRules reads a RuleSpec as JSON. Unknown and duplicate members and null
// are refused. Every error is a *RequestError invalid_request.
func ParseRules(b []byte) (Rules, error) {
	if err := refuseNull(b); err != nil {
		return Rules{}, err
	}
	var s RuleSpec
	if err := json.Unmarshal(b, &s, json.RejectUnknownMembers(true)); err != nil {
		return Rules{}, invalid("rules: %v", err)
	}
	r := Rules{shell: s.AllowShell, posix: s.Shell == "posix"}
	if s.Shell != "posix" && s.Shell != "exact" && s.Shell != "" {
		return Rules{}, invalid(`rules: shell is neither "posix" nor "exact"`)
	}
	if len(s.AllowArgv) > MaxRules {
		return Rules{}, invalid("rules: over %d", MaxRules)
	}
	for _, words := range s.AllowArgv {
		p, err := parsePattern(words, r.posix)
		if err != nil {
			return Rules{}, err
		}
		r.argv = append(r.argv, p)
	}
	if len(s.AllowUpload)+len(s.AllowDownload)+len(s.AllowGit)+len(s.GitRules) > MaxRules {
		return Rules{}, invalid("rules: over %d", MaxRules)
	}
	for _, d := range slices.Concat(s.AllowUpload, s.AllowDownload) {
		if err := checkRemotePath(d); err != nil {
			return Rules{}, err
		}
	}
	r.upload, r.download = s.AllowUpload, s.AllowDownload
	return r, r.addGit(s)
}

// refuseNull is needed because the decoder takes null for every type.
func refuseNull(b []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid("rules: not JSON")
		}
		if t.Kind() == 'n' {
			return invalid("rules: null")
		}
	}
}

// Strings prints each rule: a JSON array of elements, the word shell, or "upload DIR", "download DIR", "git REPO" and
// what a git rule says.
func (r Rules) Strings() []string {
	s := []string{}
	for _, p := range r.argv {
		s = append(s, p.String())
	}
	if r.shell {
		s = append(s, "shell")
	}
	for word, l := range map[string][]string{"upload ": r.upload, "download ": r.download, "git ": r.git} {
		for _, x := range l {
			s = append(s, word+x)
		}
	}
	slices.Sort(s[len(s)-len(r.upload)-len(r.download)-len(r.git):])
	for _, x := range r.refs {
		s = append(s, x.String())
	}
	return s
}

// Match finds the first rule that covers c, else a *RequestError rule_mismatch.
func (r Rules) Match(c Command) (Match, error) {
	if c.line == "" {
		return Match{}, invalid("no command")
	}
	m := Match{posix: r.posix, line: c.line}
	if len(c.argv) == 0 {
		if !r.shell {
			return Match{}, mismatch("this host takes no raw shell string")
		}
		m.rule, m.ask = "shell", true
		return m, nil
	}
	i := slices.IndexFunc(r.argv, func(p pattern) bool { return p.match(c.argv) })
	if i < 0 {
		return Match{}, mismatch("no argv rule of this host covers %q with %d arguments (* stands for one argument that does not begin with -)", c.Class(), len(c.argv)-1)
	}
	m.rule = r.argv[i].String()
	return m, nil
}

func mismatch(format string, a ...any) error {
	return &RequestError{Code: "rule_mismatch", Reason: fmt.Sprintf(format, a...)}
}

// Rule prints the rule that matched.
func (m Match) Rule() string { return m.rule }

// Ask reports whether this rule always wants a human's word: a raw shell string.
func (m Match) Ask() bool { return m.ask }

// covers reports whether m was made for exactly this command, by rules that fit
// the login shell of the target.
func (m Match) covers(c Command, shell string) bool {
	if m.rule == "" || m.line != c.line {
		return false
	}
	return !m.posix || shell == "posix"
}
