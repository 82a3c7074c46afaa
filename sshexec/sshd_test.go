package sshexec_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"

	"go.uber.org/goleak"
)

// TestMain serves also as the argv dumper on the far side of sshd.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "argdump" {
		for _, a := range os.Args[1:] {
			_, _ = fmt.Fprintf(os.Stdout, "%s\x00", a)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// missing skips, or fails where every real part must be there.
func missing(t *testing.T, what, why string) {
	t.Helper()
	if os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatalf("%s: %s", what, why)
	}
	t.Skipf("%s: %s", what, why)
}

// sshd is OpenSSH's server with fresh host keys, on loopback, in the foreground.
type sshd struct {
	*bed
	dir    string
	log    *logBuffer
	public map[string]string // host key type: authorized form
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func hasShell(name string) bool {
	passwd, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(passwd)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) == 7 && f[0] == name {
			return !strings.HasSuffix(f[6], "nologin") && !strings.HasSuffix(f[6], "false")
		}
	}
	return false
}

// accounts are put before the machine's own in a private mount namespace: the
// machine itself is left as it is. Each value is a login shell.
func startSSHD(t *testing.T, accounts map[string]string, config string) *sshd {
	t.Helper()
	bin, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		missing(t, "sshd", "no /usr/sbin/sshd")
	}
	me, err := user.Current()
	if err != nil || !hasShell(me.Username) {
		missing(t, "sshd", "this user has no account to log in to")
	}
	dir, err := os.MkdirTemp("", "sshd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // other accounts log in here
		t.Fatal(err)
	}
	s := &sshd{dir: dir, log: &logBuffer{}, public: map[string]string{}}
	key, pub, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string, mode os.FileMode) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var conf strings.Builder
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} { // S01: the pinned one is not the first
		file, pub, err := sshtest.GenerateKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		s.public[kind] = pub
		fmt.Fprintf(&conf, "HostKey %s\n", put("host_"+kind, string(file), 0o600))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	fmt.Fprintf(&conf, `Port %s
ListenAddress 127.0.0.1
AuthorizedKeysFile %s
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PidFile none
MaxStartups 100
LogLevel VERBOSE
%s
`, port, put("authorized_keys", pub+"\n", 0o644), config)
	cmd := exec.Command(bin, "-D", "-e", "-f", put("sshd_config", conf.String(), 0o644))
	if os.Getuid() == 0 || len(accounts) > 0 {
		if exec.Command("unshare", "-m", "true").Run() != nil {
			missing(t, "mount namespace", "unshare -m is not permitted")
		}
		passwd, err := os.ReadFile("/etc/passwd")
		if err != nil {
			t.Fatal(err)
		}
		shadow := ""
		if b, err := os.ReadFile("/etc/shadow"); err == nil {
			shadow = string(b)
		}
		uid, lines := 61000, ""
		for name, shell := range accounts {
			home := filepath.Join(dir, "home-"+name)
			if err := os.Mkdir(home, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(home, uid, uid); err != nil {
				t.Fatal(err)
			}
			lines += fmt.Sprintf("%s:x:%d:%d::%s:%s\n", name, uid, uid, home, shell)
			shadow += name + ":*:19000:0:99999:7:::\n"
			uid++
		}
		// sshd wants /run/sshd; the namespace has its own /run.
		const enter = `mount --make-rprivate / && mount -t tmpfs none /run && mkdir -m 0755 /run/sshd &&
			mount --bind "$1" /etc/passwd && { [ ! -e /etc/shadow ] || mount --bind "$2" /etc/shadow; } && shift 2 && exec "$@"`
		cmd = exec.Command("unshare", append([]string{"-m", "sh", "-c", enter, "sh",
			put("passwd", lines+string(passwd), 0o644), put("shadow", shadow, 0o600)}, cmd.Args...)...)
	}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd said:\n%s", s.log)
		}
	})
	waitFor(t, "sshd", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	rules, err := sshexec.ParseRules([]byte(`{"allowArgv":[["true"],["cat"]],"allowShell":true,"shell":"posix"}`))
	if err != nil {
		t.Fatal(err)
	}
	s.bed = &bed{pool: sshexec.NewPool(sshexec.PoolOptions{}), auth: sshexec.Auth{Key: key, Version: 1, Run: "run_1"}, rules: rules}
	s.target = sshexec.Target{
		Name: "real", Address: addr, User: me.Username, HostKeys: []string{s.public["ed25519"]},
		AllowNetwork: []string{"127.0.0.0/8"}, Shell: "posix",
	}
	t.Cleanup(s.pool.Close)
	return s
}

func (s *sshd) shell(ctx context.Context, t *testing.T, line string) outcome {
	t.Helper()
	return s.run(ctx, t, sshexec.Input{Shell: line})
}

func TestSSHDHostKeys(t *testing.T) {
	s := startSSHD(t, nil, "")
	keys, err := sshexec.Enrol(t.Context(), s.target.Address, s.target.AllowNetwork)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 3 || keys[0] != s.public["ed25519"] || keys[1] != s.public["ecdsa"] || keys[2] != s.public["rsa"] {
		t.Errorf("enrolled %q", keys)
	}
	if strings.Contains(s.log.String(), "publickey") {
		t.Errorf("enrolment tried an authentication")
	}
	for kind, pub := range s.public { // S01
		s.target.HostKeys, s.auth.Run = []string{pub}, kind
		if r := s.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
			t.Errorf("%s: %+v", kind, r)
		}
	}
	accepted := strings.Count(s.log.String(), "publickey")
	s.target.HostKeys, s.auth.Run = []string{edPublic}, "changed" // S02
	if _, err := s.pool.Dial(t.Context(), s.target, s.auth); dialReason(err) != "host_key_changed" {
		t.Errorf("changed key: %v", err)
	}
	if n := strings.Count(s.log.String(), "publickey"); n != accepted {
		t.Errorf("an authentication was tried after a changed host key")
	}
}

func TestSSHDRun(t *testing.T) {
	s := startSSHD(t, nil, "RekeyLimit 256K")
	t.Run("S05 argv", func(t *testing.T) {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		dump := filepath.Join(s.dir, "argdump")
		if err := os.Symlink(exe, dump); err != nil {
			t.Fatal(err)
		}
		args := []string{"$(id)", ";reboot", "a\nb", "it's", "-oProxyCommand=x", "üñí", "", "\\", "`id`", "*", "~", "A=b", "\t", "\x01\x7f", "a b"}
		in := append([]string{dump}, args...)
		pattern := make([]string, len(in))
		for i, a := range in {
			pattern[i] = strings.ReplaceAll(a, "*", `\*`)
		}
		if s.rules, err = rules(t, "posix", pattern); err != nil {
			t.Fatal(err)
		}
		r := s.run(t.Context(), t, sshexec.Input{Argv: in})
		if want := strings.Join(args, "\x00") + "\x00"; r.out != want || r.Outcome != sshexec.Confirmed {
			t.Errorf("got %q, want %q, %+v", r.out, want, r.Result)
		}
		if s.rules, err = sshexec.ParseRules([]byte(`{"allowArgv":[["true"],["cat"]],"allowShell":true,"shell":"posix"}`)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("status and streams", func(t *testing.T) {
		r := s.shell(t.Context(), t, "cat; echo err >&2; exit 42")
		if r.Outcome != sshexec.Confirmed || r.ExitStatus != 42 || r.out != "" || r.err != "err\n" || !r.Complete() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("through several key exchanges", func(t *testing.T) {
		in := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10-1)
		r := s.run(t.Context(), t, sshexec.Input{Argv: []string{"cat"}, Stdin: in})
		if r.Outcome != sshexec.Confirmed || r.out != string(in) {
			t.Errorf("%+v, %d of %d bytes", r.Result, len(r.out), len(in))
		}
		r = s.run(t.Context(), t, sshexec.Input{Shell: "wc -c", Stdin: make([]byte, sshexec.MaxStdin)})
		if strings.TrimSpace(r.out) != strconv.Itoa(sshexec.MaxStdin) {
			t.Errorf("%q %+v", r.out, r.Result)
		}
	})
	t.Run("S06 pipes held", func(t *testing.T) {
		began := time.Now()
		r := s.shell(t.Context(), t, "sleep 1000 & echo $!; exit 3")
		if r.Outcome != sshexec.Confirmed || r.ExitStatus != 3 || !r.PipesHeld || r.Complete() {
			t.Errorf("%+v", r)
		}
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("took %v", d)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(r.out)); err == nil {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	t.Run("S10 exit-signal", func(t *testing.T) {
		r := s.shell(t.Context(), t, "kill -SEGV $$")
		if r.Outcome != sshexec.FailedRemote || r.Signal != "SEGV" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("S08 S09 cut", func(t *testing.T) {
		r := s.shell(t.Context(), t, "kill -9 $PPID; sleep 1")
		if r.Outcome != sshexec.SentUnconfirmed || !r.Sent || r.Complete() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		r := s.shell(ctx, t, "exec sleep 30")
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("took %v", d)
		}
		if os.Getuid() == 0 { // OpenSSH signals nothing of root's
			if r.Outcome != sshexec.SentUnconfirmed || r.Reason != "deadline" || !strings.Contains(r.Detail, "refused the signal") {
				t.Errorf("%+v", r)
			}
		} else if r.Outcome != sshexec.FailedRemote || r.Signal != "TERM" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("more at once than MaxSessions", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				if r := s.shell(t.Context(), t, fmt.Sprintf("echo %d", i)); r.out != strconv.Itoa(i)+"\n" {
					t.Errorf("%d: %+v", i, r)
				}
			})
		}
		wg.Wait()
	})
	t.Run("proof", func(t *testing.T) {
		c := s.dial(t)
		defer s.pool.Put(c)
		if got, err := c.ProveShell(t.Context()); err != nil || got != "posix" {
			t.Errorf("%q %v", got, err)
		}
		// The same place serves again after the proof.
		m, cmd := s.match(t, "true")
		if r, _ := c.Run(t.Context(), cmd, m, nil, nil); r.Outcome != sshexec.Confirmed {
			t.Errorf("%+v", r)
		}
	})
}

func TestSSHDFewSessions(t *testing.T) {
	s := startSSHD(t, nil, "MaxSessions 2")
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if r := s.shell(t.Context(), t, "echo x"); r.out != "x\n" {
				t.Errorf("%+v", r)
			}
		})
	}
	wg.Wait()
}

// A forced command sees the line in its environment and answers as it likes.
func TestSSHDForcedCommand(t *testing.T) {
	s := startSSHD(t, nil, "ForceCommand echo PONG")
	c := s.dial(t)
	defer s.pool.Put(c)
	if got, err := c.ProveShell(t.Context()); err != nil || got != "exact" {
		t.Errorf("%q %v", got, err)
	}
}

// S21, and signals where they are allowed: needs root, for accounts of its own.
func TestSSHDLoginShells(t *testing.T) {
	if os.Getuid() != 0 {
		missing(t, "accounts", "needs root")
	}
	dir := t.TempDir()
	want := map[string]string{"sh": "posix", "bash": "posix", "dash": "posix", "zsh": "posix", "ash": "posix", "fish": "exact", "tcsh": "exact"}
	accounts := map[string]string{}
	for sh := range want {
		path, err := exec.LookPath(sh)
		if sh == "ash" {
			if path, err = exec.LookPath("busybox"); err == nil {
				for d := dir; d != filepath.Dir(d) && d != os.TempDir(); d = filepath.Dir(d) {
					if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // the accounts pass through
						t.Fatal(err)
					}
				}
				err = os.Symlink(path, filepath.Join(dir, "ash"))
				path = filepath.Join(dir, "ash")
			}
		}
		if err == nil {
			accounts["sp-"+sh] = path
		}
	}
	s := startSSHD(t, accounts, "")
	for sh, shell := range want {
		t.Run(sh, func(t *testing.T) {
			if accounts["sp-"+sh] == "" {
				missing(t, sh, "not installed")
			}
			s.target.User, s.auth.Run = "sp-"+sh, sh
			c := s.dial(t)
			got, err := c.ProveShell(t.Context())
			s.pool.Put(c)
			if err != nil || got != shell {
				t.Fatalf("%q %v, want %s", got, err, shell)
			}
			// What a rule may hold on an exact shell arrives unchanged there.
			var plain strings.Builder
			for r := rune(' '); r < 0x7f; r++ {
				if r != '\\' && r != '!' {
					plain.WriteRune(r)
				}
			}
			argv := []string{"printf", "%s/", plain.String(), "", "it's $(id) `id` ;id", "-n", "~", "A=b", "üñí ÁÂÈ 😀"}
			rule := make([]string, len(argv))
			for i, a := range argv {
				rule[i] = strings.ReplaceAll(a, "*", `\*`)
			}
			target, before := s.target, s.rules
			defer func() { s.target, s.rules = target, before }()
			s.target.Shell = got
			if s.rules, err = rules(t, got, rule); err != nil {
				t.Fatal(err)
			}
			r := s.run(t.Context(), t, sshexec.Input{Argv: argv})
			if want := strings.Join(argv[2:], "/") + "/"; r.out != want || r.Outcome != sshexec.Confirmed {
				t.Errorf("got %q, want %q, %+v %s", r.out, want, r.Result, r.err)
			}
		})
	}
	t.Run("S06 cancel kills the group", func(t *testing.T) {
		s.target.User, s.auth.Run = "sp-sh", "cancel"
		ctx, cancel := context.WithCancel(t.Context())
		c := s.dial(t)
		defer s.pool.Put(c)
		cmd := command(t, sshexec.Input{Shell: "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000"})
		m, err := s.rules.Match(cmd)
		if err != nil {
			t.Fatal(err)
		}
		var pid string
		r, _ := c.Run(ctx, cmd, m, writerFunc(func(p []byte) (int, error) {
			pid += string(p)
			cancel()
			return len(p), nil
		}), nil)
		if r.Outcome != sshexec.FailedRemote || r.Signal != "KILL" {
			t.Errorf("%+v", r)
		}
		waitFor(t, "the child's end", func() bool {
			stat, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	})
}
