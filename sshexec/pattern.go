package sshexec

import (
	"path"
	"strings"

	"github.com/go-json-experiment/json"
)

// element is one place of an argv rule.
type element struct {
	any     bool // `*`
	literal string
}

// pattern is one argv rule: as many elements as the argv it covers.
type pattern []element

// runner reports whether the program starts another one named by a later argument.
func runner(base string) bool {
	switch base {
	case "sudo", "doas", "su", "runuser", "env", "xargs", "nice", "nohup", "timeout", "setsid", "stdbuf", "time",
		"command", "exec", "busybox", "toybox", "chroot", "unshare", "nsenter", "flock", "watch", "strace", "ltrace",
		"gdb", "script", "ssh", "parallel", "chpst", "setpriv", "ionice", "chrt", "taskset", "numactl", "systemd-run",
		"docker", "podman", "kubectl", "lxc", "runc", "machinectl", "find":
		return true
	}
	return false
}

// interpreter reports whether the program runs code that an argument or its input holds.
func interpreter(base string) bool {
	switch base {
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "rbash", "pwsh", "ruby", "node",
		"nodejs", "deno", "bun", "php", "lua", "tclsh", "expect", "awk", "gawk", "mawk", "nawk", "sed", "ed", "ex",
		"vi", "vim", "nvim", "emacs", "nano", "less", "more", "man", "make", "rsync", "git", "tar", "socat", "nc",
		"ncat", "eval", "source":
		return true
	}
	return strings.HasPrefix(base, "python") || strings.HasPrefix(base, "perl")
}

// escapes reports whether a wildcard behind a runner must not match s.
func escapes(s string) bool {
	return runner(path.Base(s)) || interpreter(path.Base(s))
}

func parsePattern(in []string, posix bool) (pattern, error) {
	if len(in) == 0 {
		return nil, invalid("rule: empty")
	}
	p := make(pattern, 0, len(in))
	lit := make([]string, 0, len(in))
	for _, w := range in {
		e, err := parseElement(w)
		if err != nil {
			return nil, err
		}
		if e.any && !posix {
			return nil, invalid("rule: the login shell is exact, a wildcard cannot be quoted for it")
		}
		if !posix && !sameInEveryShell(e.literal) {
			return nil, invalid("rule: the login shell is exact, %q cannot be quoted for it", e.literal)
		}
		p, lit = append(p, e), append(lit, e.literal)
	}
	if p[0].any {
		return nil, invalid("rule: the first element names the command and is no wildcard")
	}
	if err := checkArgv(lit); err != nil {
		return nil, err
	}
	return p, nil
}

func parseElement(w string) (element, error) {
	if w == "*" {
		return element{any: true}, nil
	}
	var b strings.Builder
	for i := 0; i < len(w); i++ {
		switch {
		case w[i] == '\\' && i+1 < len(w) && w[i+1] == '*':
			b.WriteByte('*')
			i++
		case w[i] == '*':
			return element{}, invalid(`rule: a star inside %q is no wildcard, write \*`, w)
		default:
			b.WriteByte(w[i])
		}
	}
	return element{literal: b.String()}, nil
}

// String is the element as a rule has it: parseElement(e.String()) is e.
func (e element) String() string {
	if e.any {
		return "*"
	}
	return strings.ReplaceAll(e.literal, "*", `\*`)
}

func (p pattern) String() string {
	s := make([]string, len(p))
	for i, e := range p {
		s[i] = e.String()
	}
	b, err := json.Marshal(s)
	if err != nil {
		return "" // cannot happen: every element is UTF-8
	}
	return string(b)
}

// match is element-wise. A wildcard takes one non-empty element that is no option.
func (p pattern) match(argv []string) bool {
	if len(p) != len(argv) {
		return false
	}
	behindRunner := false
	for i, e := range p {
		a := argv[i]
		if !e.any {
			if a != e.literal {
				return false
			}
			behindRunner = behindRunner || runner(path.Base(a))
			continue
		}
		if a == "" || a[0] == '-' || behindRunner && escapes(a) {
			return false
		}
	}
	return true
}
