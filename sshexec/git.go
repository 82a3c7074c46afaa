package sshexec

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// GitInput is what git asks a remote for: one service on one repository. Protocol is GIT_PROTOCOL's value, or empty.
type GitInput struct {
	Service  string
	Repo     string
	Protocol string
}

// Git is a checked request of git; it never changes.
type Git struct{ in GitInput }

// The services that serve a repository and nothing else. git-lfs-authenticate is none of them: it mints a token.
const (
	uploadPack    = "git-upload-pack"
	receivePack   = "git-receive-pack"
	uploadArchive = "git-upload-archive"
)

// ParseGit reads the command git gives to ssh: SERVICE 'PATH', quoted as git quotes. Anything before or behind is refused.
// Every error is a *RequestError invalid_request.
func ParseGit(command, protocol string) (Git, error) {
	service, rest, _ := strings.Cut(command, " ")
	if !slices.Contains([]string{uploadPack, receivePack, uploadArchive}, service) {
		return Git{}, invalid("only git-upload-pack, git-receive-pack and git-upload-archive are served")
	}
	repo, ok := unquoteGit(rest)
	if !ok || repo == "" || repo[0] == '-' || len(repo) > 1024 || strings.ContainsFunc(repo, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return Git{}, invalid("the repository is not one quoted path")
	}
	if err := checkText("repository", repo); err != nil {
		return Git{}, err
	}
	if len(protocol) > 64 || strings.Trim(protocol, "abcdefghijklmnopqrstuvwxyz0123456789=:.-") != "" {
		return Git{}, invalid("GIT_PROTOCOL holds more than versions")
	}
	return Git{GitInput{service, repo, protocol}}, nil
}

// unquoteGit undoes git's sq_quote_buf: single quotes, with a quote and ! escaped outside of them.
func unquoteGit(s string) (string, bool) {
	var b strings.Builder
	for {
		if s == "" || s[0] != '\'' {
			return "", false
		}
		in, rest, closed := strings.Cut(s[1:], "'")
		if !closed {
			return "", false
		}
		b.WriteString(in)
		switch {
		case rest == "":
			return b.String(), true
		case strings.HasPrefix(rest, `\'`), strings.HasPrefix(rest, `\!`):
			b.WriteByte(rest[1])
			s = rest[2:]
		default:
			return "", false
		}
	}
}

// Repo is the repository's path as git wrote it.
func (g Git) Repo() string { return g.in.Repo }

// Service is git's command; empty for the zero Git.
func (g Git) Service() string { return g.in.Service }

// Writes reports whether the service may change the repository.
func (g Git) Writes() bool { return g.in.Service != uploadPack && g.in.Service != uploadArchive }

// Canonical is the one encoding that a digest is taken over.
func (g Git) Canonical() []byte {
	b, err := json.Marshal(g.in, json.Deterministic(true))
	if err != nil {
		return nil // cannot happen: ParseGit let only valid UTF-8 in
	}
	return b
}

func (g Git) line() string { return g.in.Service + " " + quoteGit(g.in.Repo) }

// refRule narrows pushes to refs that its pattern covers.
type refRule struct {
	word    string // no-push, create-only, no-delete
	pattern string // a full ref name; * stands for one segment
}

func (r refRule) String() string { return r.word + " " + r.pattern }

func (r *Rules) addGit(s RuleSpec) error {
	for _, repo := range s.AllowGit {
		g, err := ParseGit(uploadPack+" "+quoteGit(repo), "")
		if err != nil {
			return invalid("rules: %q is no repository's path", repo)
		}
		if !r.posix && !sameInEveryShell(strings.ReplaceAll(repo, "!", "")) {
			return invalid("rules: the login shell is exact, %q cannot be quoted for it", repo)
		}
		r.git = append(r.git, g.in.Repo)
	}
	for _, text := range s.GitRules {
		word, pattern, _ := strings.Cut(text, " ")
		if word != "no-push" && word != "create-only" && word != "no-delete" {
			return invalid("rules: a git rule is no-push, create-only or no-delete, and a ref")
		}
		if !strings.HasPrefix(pattern, "refs/") || strings.ContainsFunc(pattern, func(c rune) bool { return c <= ' ' || c == 0x7f }) || badSegments(pattern) {
			return invalid("rules: a git rule names a full ref, as in refs/heads/main; * stands for one segment")
		}
		r.refs = append(r.refs, refRule{word, pattern})
	}
	if len(s.GitRules) > 0 && len(s.AllowGit) == 0 {
		return invalid("rules: git rules without a repository")
	}
	return nil
}

func badSegments(ref string) bool {
	for _, x := range strings.Split(ref, "/") {
		if x == "" || x != "*" && strings.Contains(x, "*") {
			return true
		}
	}
	return false
}

func quoteGit(s string) string { return strings.ReplaceAll(quote(s), "!", `'\!'`) }

// covers is without regard to case: on some hosts refs are files of a file system that has none.
func (r refRule) covers(ref string) bool {
	want, have := strings.Split(r.pattern, "/"), strings.Split(ref, "/")
	if len(want) != len(have) {
		return false
	}
	for i, w := range want {
		if w != "*" && !strings.EqualFold(w, have[i]) {
			return false
		}
	}
	return true
}

// forbids tells whether the rules refuse one ref update.
func (r Rules) forbids(u refUpdate) (refRule, bool) {
	for _, x := range r.refs {
		if !x.covers(u.ref) {
			continue
		}
		if x.word == "no-push" || x.word == "create-only" && !u.creates() || x.word == "no-delete" && u.deletes() {
			return x, true
		}
	}
	return refRule{}, false
}

// MatchGit finds the repository's rule, else a *RequestError rule_mismatch. The path is compared as written. Which refs a
// push may touch is held when its commands come.
func (r Rules) MatchGit(g Git) (Match, error) {
	if g.in.Service == "" {
		return Match{}, invalid("no git request")
	}
	if !slices.Contains(r.git, g.in.Repo) {
		return Match{}, mismatch("no git rule of this host covers that repository")
	}
	return Match{rule: "git " + g.in.Repo, line: string(g.Canonical()), git: &r}, nil
}
