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
	"strings"
	"sync"
	"testing"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"

	"go.uber.org/goleak"
)

// TestMain serves also as the argv dumper on the far side of sshd.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "gitssh" {
		os.Exit(gitSSH(os.Args[1:]))
	}
	if filepath.Base(os.Args[0]) == "argdump" {
		for _, a := range os.Args[1:] {
			_, _ = fmt.Fprintf(os.Stdout, "%s\x00", a)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// missing skips, or fails where every real part must be there.
func missing(t testing.TB, what, why string) {
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

// Every account that startSSHD makes has this password (its hash by openssl passwd -6).
const (
	accountPassword = "correct horse battery"
	accountHash     = "$6$sallyport$xdiJwsVNOI8wHSklwmoX63Q/jET8L6.Uc1niE/hUj6HssJ7nQVPlO3PQ8jWgeFyO0Dal.qbMI7hFp1rzdfUIz."
)

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
func startSSHD(t testing.TB, accounts map[string]string, config string) *sshd {
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
	port, err := sshtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", port)
	fmt.Fprintf(&conf, `%s
Port %s
ListenAddress 127.0.0.1
AuthorizedKeysFile %s
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PidFile none
MaxStartups 100
LogLevel VERBOSE
Subsystem sftp internal-sftp
`, config, port, put("authorized_keys", pub+"\n", 0o644))
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
			shadow += name + ":" + accountHash + ":19000:0:99999:7:::\n"
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
	s.bed = &bed{pool: sshexec.NewPool(sshexec.PoolOptions{Grace: patient(sshexec.Grace{})}), auth: sshexec.Auth{Kind: sshexec.AuthKey, Secret: key, Version: 1, Run: "run_1"}, rules: rules}
	s.target = sshexec.Target{
		Name: "real", Address: addr, User: me.Username, HostKeys: []string{s.public["ed25519"]},
		AllowNetwork: []string{"127.0.0.0/8"}, Shell: "posix",
	}
	t.Cleanup(s.pool.Close)
	return s
}

// with is s asked through a pool of its own.
func (s *sshd) with(t *testing.T, g sshexec.Grace) *sshd {
	own, x := *s.bed, *s
	own.pool = sshexec.NewPool(sshexec.PoolOptions{Grace: patient(g)})
	t.Cleanup(own.pool.Close)
	x.bed = &own
	return &x
}

func (s *sshd) shell(ctx context.Context, t *testing.T, line string) outcome {
	t.Helper()
	return s.run(ctx, t, sshexec.Input{Shell: line})
}
