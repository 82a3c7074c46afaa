package sshexec_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sallyport/sshexec"

	"github.com/go-json-experiment/json"
)

func rules(t testing.TB, shell string, argv ...[]string) (sshexec.Rules, error) {
	t.Helper()
	b, err := json.Marshal(sshexec.RuleSpec{AllowArgv: argv, Shell: shell})
	if err != nil {
		t.Fatal(err)
	}
	return sshexec.ParseRules(b)
}

func code(err error) string {
	var r *sshexec.RequestError
	if !errors.As(err, &r) {
		return ""
	}
	return r.Code
}

func TestMatch(t *testing.T) {
	type list = []string
	for _, x := range []struct {
		rule, argv list
		want       bool
	}{
		{list{"systemctl", "status", "*"}, list{"systemctl", "status", "nginx"}, true},
		{list{"systemctl", "status", "*"}, list{"systemctl", "status", "ssh"}, true},
		{list{"systemctl", "status", "*"}, list{"systemctl", "status"}, false},
		{list{"systemctl", "status", "*"}, list{"systemctl", "status", ""}, false},
		{list{"systemctl", "status", "*"}, list{"systemctl", "status", "a", "b"}, false},
		{list{"systemctl", "status", "*"}, list{"systemctl", "restart", "nginx"}, false},
		{list{"systemctl", "status", "*"}, list{"/usr/bin/systemctl", "status", "nginx"}, false},
		{list{"git", "log", "*"}, list{"git", "log", "--output=/tmp/x"}, false}, // S20
		{list{"git", "log", "*"}, list{"git", "log", "-n"}, false},
		{list{"git", "log", "-n", "*"}, list{"git", "log", "-n", "3"}, true},
		{list{"git", "log", "*"}, list{"git", "-c", "core.pager=x", "log"}, false},
		{list{"echo", `\*`}, list{"echo", "*"}, true},
		{list{"echo", `\*`}, list{"echo", "x"}, false},
		{list{"echo", `a\*b`}, list{"echo", "a*b"}, true},
		{list{"echo", `\\*`}, list{"echo", `\*`}, true},
		{list{"echo", `a\b`}, list{"echo", `a\b`}, true},
		{list{"echo", ""}, list{"echo", ""}, true},
		{list{"echo", "*"}, list{"echo", "a b\nc"}, true},
		{list{"sudo", "*", "x"}, list{"sudo", "ls", "x"}, true},
		{list{"sudo", "*", "x"}, list{"sudo", "bash", "x"}, false},
		{list{"sudo", "*", "x"}, list{"sudo", "/bin/sh", "x"}, false},
		{list{"/usr/bin/env", "*", "*"}, list{"/usr/bin/env", "A=b", "python3.11"}, false},
		{list{"xargs", "*"}, list{"xargs", "sudo"}, false},
		{list{"sudo", "sh", "-c", "*"}, list{"sudo", "sh", "-c", "id"}, true}, // named by the operator
		{list{"which", "*"}, list{"which", "bash"}, true},
	} {
		r, err := rules(t, "posix", x.rule)
		if err != nil {
			t.Errorf("%q: %v", x.rule, err)
			continue
		}
		m, err := r.Match(command(t, sshexec.Input{Argv: x.argv}))
		if (err == nil) != x.want {
			t.Errorf("%q on %q: %v", x.rule, x.argv, err)
		}
		if err != nil && (code(err) != "rule_mismatch" || m.Rule() != "") {
			t.Errorf("%q on %q: %v, rule %q", x.rule, x.argv, err, m.Rule())
		}
		if err == nil && (m.Rule() != r.Strings()[0] || m.Ask()) {
			t.Errorf("%q: rule %q, ask %v", x.rule, m.Rule(), m.Ask())
		}
	}
}

func TestRawShellAsks(t *testing.T) {
	raw := command(t, sshexec.Input{Shell: "df -h | tail"})
	r, err := sshexec.ParseRules([]byte(`{"allowArgv":[["df"]],"allowShell":true}`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Match(raw)
	if err != nil || !m.Ask() || m.Rule() != "shell" || !slices.Equal(r.Strings(), []string{`["df"]`, "shell"}) {
		t.Errorf("%v, %q, %q", err, m.Rule(), r.Strings())
	}
	for _, none := range []string{`{}`, `{"allowArgv":[["df -h | tail"],["sh","-c","*"]],"shell":"posix"}`} {
		r, err := sshexec.ParseRules([]byte(none))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Match(raw); code(err) != "rule_mismatch" {
			t.Errorf("%s: %v", none, err)
		}
	}
	if _, err := (sshexec.Rules{}).Match(sshexec.Command{}); err == nil {
		t.Error("zero rules cover the zero command")
	}
}

func TestRefusedRules(t *testing.T) {
	for name, s := range map[string]string{
		"not JSON":            `{`,
		"array":               `[]`,
		"trailing":            `{}{}`,
		"null":                `null`,
		"null list":           `{"allowArgv":null}`,
		"null element":        `{"allowArgv":[["echo",null]]}`,
		"unknown member":      `{"allow":[]}`,
		"duplicate":           `{"allowShell":true,"allowShell":true}`,
		"other case":          `{"AllowShell":true}`,
		"strange shell":       `{"shell":"fish"}`,
		"empty rule":          `{"allowArgv":[[]],"shell":"posix"}`,
		"empty command":       `{"allowArgv":[["","x"]],"shell":"posix"}`,
		"any command":         `{"allowArgv":[["*"]],"shell":"posix"}`,
		"glob":                `{"allowArgv":[["ls","/var/*"]],"shell":"posix"}`,
		"two stars":           `{"allowArgv":[["ls","**"]],"shell":"posix"}`,
		"NUL":                 `{"allowArgv":[["ls","\u0000"]],"shell":"posix"}`,
		"S21 star on exact":   `{"allowArgv":[["ls","*"]],"shell":"exact"}`,
		"star, shell unknown": `{"allowArgv":[["ls","*"]]}`,
		"newline on exact":    `{"allowArgv":[["ls","a\nb"]],"shell":"exact"}`,
		"backslash on exact":  `{"allowArgv":[["ls","a\\b"]],"shell":"exact"}`,
		"bang on exact":       `{"allowArgv":[["ls","!!"]],"shell":"exact"}`,
		"too long":            `{"allowArgv":[["ls","` + strings.Repeat("x", sshexec.MaxArgvBytes) + `"]],"shell":"posix"}`,
		"too many":            `{"allowArgv":[["ls"]` + strings.Repeat(`,["ls"]`, sshexec.MaxRules) + `]}`,
	} {
		if _, err := sshexec.ParseRules([]byte(s)); code(err) != "invalid_request" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := sshexec.ParseRules([]byte(`{"allowArgv":[["ls","\\*","it's üñí"]],"shell":"exact"}`)); err != nil {
		t.Errorf("literal on exact: %v", err)
	} else if _, err := r.Match(command(t, sshexec.Input{Argv: []string{"ls", "*", "it's üñí"}})); err != nil {
		t.Errorf("literal on exact: %v", err)
	}
}

func TestParseCommand(t *testing.T) {
	many := slices.Repeat([]string{"a"}, sshexec.MaxArgv)
	for name, x := range map[string]struct {
		in sshexec.Input
		ok bool
	}{
		"nothing":       {sshexec.Input{}, false},
		"both":          {sshexec.Input{Argv: []string{"a"}, Shell: "a"}, false},
		"no command":    {sshexec.Input{Argv: []string{""}}, false},
		"NUL":           {sshexec.Input{Argv: []string{"a", "b\x00"}}, false},
		"NUL in shell":  {sshexec.Input{Shell: "a\x00"}, false},
		"not UTF-8":     {sshexec.Input{Argv: []string{"a", "\xff"}}, false},
		"many":          {sshexec.Input{Argv: many}, true},
		"too many":      {sshexec.Input{Argv: append(many, "a")}, false},
		"long":          {sshexec.Input{Argv: []string{"a", strings.Repeat("x", sshexec.MaxArgvBytes-1)}}, true},
		"too long":      {sshexec.Input{Argv: []string{"a", strings.Repeat("x", sshexec.MaxArgvBytes)}}, false},
		"quoted long":   {sshexec.Input{Argv: []string{"a", strings.Repeat("'", 40<<10)}}, false},
		"shell":         {sshexec.Input{Shell: strings.Repeat("x", sshexec.MaxArgvBytes)}, true},
		"long shell":    {sshexec.Input{Shell: strings.Repeat("x", sshexec.MaxArgvBytes+1)}, false},
		"stdin":         {sshexec.Input{Shell: "a", Stdin: make([]byte, sshexec.MaxStdin)}, true},
		"long stdin":    {sshexec.Input{Shell: "a", Stdin: make([]byte, sshexec.MaxStdin+1)}, false},
		"timeout":       {sshexec.Input{Shell: "a", TimeoutSeconds: 3600}, true},
		"long timeout":  {sshexec.Input{Shell: "a", TimeoutSeconds: 3601}, false},
		"minus timeout": {sshexec.Input{Shell: "a", TimeoutSeconds: -1}, false},
	} {
		_, err := sshexec.ParseCommand(x.in)
		if x.ok && err != nil || !x.ok && code(err) != "invalid_request" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCanonical(t *testing.T) {
	in := sshexec.Input{Argv: []string{"/usr/bin/systemctl", "status"}, Stdin: []byte("abc")}
	c := command(t, in)
	const want = `{"argv":["/usr/bin/systemctl","status"],"stdinSha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","stdinBytes":3,"timeoutSeconds":120}`
	if got := string(c.Canonical()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c.Class() != "systemctl" || c.Timeout().Seconds() != 120 {
		t.Errorf("class %q, timeout %v", c.Class(), c.Timeout())
	}
	in.Argv[1] = "restart" // the caller's slice is not the command's
	c.Argv()[1] = "stop"
	if got := string(c.Canonical()); got != want || c.Line() != "'/usr/bin/systemctl' 'status'" {
		t.Errorf("changed: %s, line %s", got, c.Line())
	}
	seen := map[string]string{want: ""}
	for name, in := range map[string]sshexec.Input{
		"split":   {Argv: []string{"/usr/bin/systemctl status"}, Stdin: []byte("abc")},
		"stdin":   {Argv: []string{"/usr/bin/systemctl", "status"}, Stdin: []byte("abd")},
		"timeout": {Argv: []string{"/usr/bin/systemctl", "status"}, Stdin: []byte("abc"), TimeoutSeconds: 1},
		"shell":   {Shell: "'/usr/bin/systemctl' 'status'", Stdin: []byte("abc")},
	} {
		s := string(command(t, in).Canonical())
		if twin, ok := seen[s]; ok {
			t.Errorf("%s and %q have one form", name, twin)
		}
		seen[s] = name
	}
	if c := command(t, sshexec.Input{Shell: "x"}); c.Class() != "shell" {
		t.Errorf("class %q", c.Class())
	}
}

// S05 on the shells of this machine: every element arrives byte for byte.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"$(id)", ";reboot", "a\nb", "it's", "-oProxyCommand=x", "üñí", "", `\`, "'\\''", "`id`", "!!", "\x81\x88", "~", "*"} {
		f.Add(s, "x")
		f.Add("'", s)
	}
	var shells []string
	for _, s := range []string{"/bin/sh", "/bin/bash", "/bin/dash", "/bin/zsh"} {
		if exec.Command(s, "-c", ":").Run() == nil {
			shells = append(shells, s)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c, err := sshexec.ParseCommand(sshexec.Input{Argv: []string{"printf", "%s/", a, b, "end"}})
		if err != nil {
			t.Skip() // no command
		}
		for _, sh := range shells {
			cmd := exec.Command(sh, "-c", c.Line())
			cmd.Env = []string{"PATH=/usr/bin:/bin"}
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != a+"/"+b+"/end/" {
				t.Errorf("%s: %q %q gave %q %v", sh, a, b, out, err)
			}
		}
	})
}

// What a rule prints is the rule; a rule without a star covers itself and nothing shorter.
func FuzzRule(f *testing.F) {
	f.Add("git", "*", `\*`)
	f.Add("sudo", `\\*`, `a\*\`)
	f.Add("echo", "", "üñí\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if !utf8.ValidString(a + "\x00" + b + "\x00" + c) {
			t.Skip() // JSON cannot carry it
		}
		r, err := rules(t, "posix", []string{a, b, c})
		if err != nil {
			if code(err) != "invalid_request" {
				t.Fatalf("%v", err)
			}
			return
		}
		var again []string
		if err := json.Unmarshal([]byte(r.Strings()[0]), &again); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(again, []string{a, b, c}) {
			t.Fatalf("%q became %q", []string{a, b, c}, again)
		}
		lit := func(s string) string { return strings.ReplaceAll(s, `\*`, "*") }
		if b == "*" || c == "*" {
			return
		}
		argv := []string{lit(a), lit(b), lit(c)}
		if _, err := r.Match(command(t, sshexec.Input{Argv: argv})); err != nil {
			t.Errorf("%q does not cover %q", again, argv)
		}
		if _, err := r.Match(command(t, sshexec.Input{Argv: argv[:2]})); err == nil {
			t.Errorf("%q covers %q", again, argv[:2])
		}
	})
}
