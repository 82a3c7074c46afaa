package sshexec_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/sshexec"
)

// gitConfig is what the test binary, as git's ssh command, connects with.
type gitConfig struct {
	Target sshexec.Target
	Secret []byte
	Rules  sshexec.RuleSpec
}

// gitSSH is GIT_SSH_COMMAND: HOST 'SERVICE PATH'. It says how the request ended on stderr.
func gitSSH(args []string) int {
	b, err := os.ReadFile(os.Getenv("SALLYPORT_TEST_GIT"))
	if err != nil {
		return 3
	}
	var c gitConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return 3
	}
	spec, _ := json.Marshal(c.Rules)
	rules, err := sshexec.ParseRules(spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	g, err := sshexec.ParseGit(args[len(args)-1], os.Getenv("GIT_PROTOCOL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		return 1
	}
	m, err := rules.MatchGit(g)
	if err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool := sshexec.NewPool(sshexec.PoolOptions{})
	defer pool.Close()
	conn, err := pool.Dial(ctx, c.Target, sshexec.Auth{Kind: sshexec.AuthKey, Secret: c.Secret, Version: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, "dial:", err)
		return 3
	}
	defer pool.Put(conn)
	r := conn.Git(ctx, g, m, os.Stdin, os.Stdout, os.Stderr)
	if r.Outcome != sshexec.Confirmed || r.ExitStatus != 0 {
		fmt.Fprintf(os.Stderr, "ended: %s %d %s\n", r.Outcome, r.ExitStatus, r.Detail)
		return 1
	}
	return 0
}

// gitBed runs git against real repositories behind a real sshd.
type gitBed struct {
	t    *testing.T
	dir  string
	env  []string
	repo string
}

func newGitBed(t *testing.T, gitRules ...string) *gitBed {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		missing(t, "git", "not installed")
	}
	s := startSSHD(t, nil, "AcceptEnv GIT_PROTOCOL")
	dir := t.TempDir()
	b := &gitBed{t: t, dir: dir, repo: filepath.Join(s.dir, "repo.git")}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(dir, "gitssh")); err != nil {
		t.Fatal(err)
	}
	conf, err := json.Marshal(gitConfig{s.target, s.auth.Secret, sshexec.RuleSpec{Shell: "posix", AllowGit: []string{b.repo}, GitRules: gitRules}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "conf"), conf, 0o600); err != nil {
		t.Fatal(err)
	}
	b.env = append(os.Environ(), "GIT_SSH_COMMAND="+filepath.Join(dir, "gitssh"), "GIT_SSH_VARIANT=simple", "SALLYPORT_TEST_GIT="+filepath.Join(dir, "conf"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	b.must("", "init", "-q", "--bare", "-b", "main", b.repo)
	b.must("", "-C", b.repo, "config", "receive.advertisePushOptions", "true")
	b.must("", "clone", "-q", b.repo, filepath.Join(dir, "seed"))
	b.commit("seed")
	b.must("seed", "push", "-q", "origin", "main")
	return b
}

func (b *gitBed) git(in string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = filepath.Join(b.dir, in), b.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (b *gitBed) must(in string, args ...string) string {
	b.t.Helper()
	out, err := b.git(in, args...)
	if err != nil {
		b.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

func (b *gitBed) commit(in string) {
	b.t.Helper()
	f := filepath.Join(b.dir, in, fmt.Sprint("f", time.Now().UnixNano()))
	if err := os.WriteFile(f, []byte(strings.Repeat("x", 100_000)), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.must(in, "checkout", "-q", "-B", "main")
	b.must(in, "add", ".")
	b.must(in, "commit", "-q", "-m", "c")
}

// Clone, fetch and push of a real repository, in the protocol's versions.
func TestGit(t *testing.T) {
	b := newGitBed(t)
	for _, version := range []string{"0", "1", "2"} {
		work, other := "work"+version, "other"+version
		b.must("", "-c", "protocol.version="+version, "clone", "-q", "host:"+b.repo, work)
		b.must("", "-c", "protocol.version="+version, "clone", "-q", "host:"+b.repo, other)
		b.commit(work)
		b.must(work, "-c", "protocol.version="+version, "push", "-q", "origin", "main")
		b.must(other, "-c", "protocol.version="+version, "fetch", "-q")
		head := b.must(work, "rev-parse", "HEAD")
		if got := b.must(other, "rev-parse", "origin/main"); got != head {
			t.Errorf("version %s: fetched %s, pushed %s", version, got, head)
		}
		if out := b.must(work, "push", "origin", "main"); !strings.Contains(out, "up-to-date") {
			t.Errorf("nothing to push: %s", out)
		}
	}
}

// S17: refs that a rule keeps, and what is no repository of ours.
func TestGitRefused(t *testing.T) {
	b := newGitBed(t, "no-push refs/heads/main", "no-delete refs/heads/*", "create-only refs/tags/*")
	b.must("", "clone", "-q", "host:"+b.repo, "work")
	before := b.must("work", "ls-remote", "origin")
	b.commit("work")
	root := strings.TrimSpace(b.must("work", "commit-tree", "HEAD^{tree}", "-m", "no ancestor"))
	for name, args := range map[string][]string{
		"main":        {"push", "origin", "main"},
		"forced":      {"push", "-f", "origin", root + ":main"},
		"another one": {"push", "origin", "main:side", "main"},
		"other case":  {"push", "origin", "main:refs/heads/MAIN"},
		"delete":      {"push", "origin", ":main"},
		"at once":     {"push", "--atomic", "origin", "main:side", "main:main"},
		"options":     {"push", "-o", "merge_request.create", "origin", "main:side"},
		"mirror":      {"push", "--mirror", "origin"},
		"a runner":    {"push", "--receive-pack=sh -c id;git-receive-pack", "origin", "main:side"},
	} {
		out, err := b.git("work", args...)
		if name == "a runner" {
			if err == nil || !strings.Contains(out, "invalid_request") {
				t.Errorf("%s: %v %s", name, err, out)
			}
			continue
		}
		if err == nil || !strings.Contains(out, "ended: denied") || !strings.Contains(out, "nothing of it was forwarded") {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
	if after := b.must("work", "ls-remote", "origin"); after != before {
		t.Errorf("the repository changed:\n%s\n%s", before, after)
	}
	b.must("work", "push", "-q", "origin", "main:side")
	if out, err := b.git("work", "push", "origin", ":side"); err == nil || !strings.Contains(out, "no-delete refs/heads/*") {
		t.Errorf("delete: %v %s", err, out)
	}
	b.must("work", "push", "-q", "origin", "main:refs/tags/v1")
	b.commit("work")
	if out, err := b.git("work", "push", "-f", "origin", "main:refs/tags/v1"); err == nil || !strings.Contains(out, "create-only") {
		t.Errorf("moved tag: %v %s", err, out)
	}
	if out, err := b.git("", "clone", "-q", "host:/elsewhere.git", "x"); err == nil || !strings.Contains(out, "rule_mismatch") {
		t.Errorf("another repository: %v %s", err, out)
	}
}

func TestParseGit(t *testing.T) {
	for _, ok := range []string{"git-upload-pack 'org/repo'", "git-receive-pack '/srv/it'\\''s'", `git-upload-pack 'a'\!'b'`} {
		if _, err := sshexec.ParseGit(ok, "version=2"); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, bad := range []string{"", "git-upload-pack", "git-upload-pack org/repo", "git-upload-pack 'x'; id", "git-upload-pack 'x' 'y'", "git-upload-pack '-x'",
		"git-lfs-authenticate 'org/repo' download", "git-upload-pack ''", "git-upload-pack 'a\nb'", "sh -c 'x'", "git-shell 'x'", "git-upload-pack  'x'", "git-upload-pack 'x'\\;'id'"} {
		if g, err := sshexec.ParseGit(bad, ""); err == nil {
			t.Errorf("%q was read as %s", bad, g.Canonical())
		}
	}
	if _, err := sshexec.ParseGit("git-upload-pack 'x'", "version=2\nX=1"); err == nil {
		t.Error("a protocol with a newline was taken")
	}
	for _, bad := range []string{`{"gitRules":["no-push refs/heads/main"]}`, `{"allowGit":["a"],"gitRules":["no-push main"]}`, `{"allowGit":["a"],"gitRules":["only refs/x"]}`,
		`{"allowGit":["a"],"gitRules":["no-push refs/heads/ma*"]}`, `{"allowGit":["-x"]}`, `{"allowGit":["a\\b"],"shell":"exact"}`, `{"allowUpload":["a"]}`, `{"allowDownload":["/a/../b"]}`} {
		if _, err := sshexec.ParseRules([]byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// Whatever a client sends as a push's list, either every update in it was judged or nothing is forwarded.
func FuzzUpdates(f *testing.F) {
	zero, one := strings.Repeat("0", 40), strings.Repeat("1", 40)
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	f.Add([]byte(line(zero+" "+one+" refs/heads/x\x00report-status") + "0000PACK"))
	f.Add([]byte(line("shallow "+one+"\n") + line(one+" "+zero+" refs/heads/main\n") + "0000"))
	f.Add([]byte(line("push-cert\x00push-cert=x") + "0000"))
	f.Add([]byte("0004"))
	f.Fuzz(func(t *testing.T, b []byte) {
		head, refused, err := sshexec.Updates([]string{"no-push refs/heads/main"}, b)
		if err != nil || refused {
			if head != nil {
				t.Fatal("bytes of a refused push")
			}
			return
		}
		if len(head) > 0 && !strings.HasPrefix(string(b), string(head)) {
			t.Fatalf("head %q is not what was sent", head)
		}
		if strings.Contains(string(head), " refs/heads/main\x00") || strings.Contains(string(head), " refs/heads/main\n") && !strings.Contains(string(head), "shallow") {
			// An update of main can only stand there as a part of something longer, which no ref name is.
			for l := range strings.SplitSeq(string(head), "\n") {
				if strings.HasSuffix(l, one+" refs/heads/main") || strings.HasSuffix(l, zero+" refs/heads/main") {
					t.Fatalf("an update of main passed: %q", head)
				}
			}
		}
	})
}
