package demo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sallyport/cmd/internal/cli"
	"sallyport/gateway/api"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
)

// TestMain lets the test's own file be what spd's is: the shim, and the agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "sp":
			os.Exit(cli.Main(context.Background(), os.Args[2:]))
		case AgentCommand:
			if err := Agent(context.Background(), os.Stdin, os.Stdout, os.Stderr, os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// options are those of a test: its own file is the launcher that spd's would be.
func options(t *testing.T, out io.Writer) Options {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	own := "sha256:" + hex.EncodeToString(sum[:])
	return Options{Out: out, Version: "test", Ours: func(d string) bool { return d == own }, Listen: doors}
}

func doors(h home.Home) (*net.UnixListener, net.Listener, error) {
	agents, err := peer.Listen(h.AgentSocket())
	if err != nil {
		return nil, nil, err
	}
	op, addr, err := peer.ListenAbstract()
	if errors.Is(err, peer.ErrUnsupported) {
		addr = h.OperatorSocket()
		op, err = peer.Listen(addr)
	}
	if err != nil {
		return nil, nil, errors.Join(err, agents.Close())
	}
	return agents, op, h.PublishOperator(addr)
}

// temp gives the demo a folder of its own, and says at the end whether it left something there.
func temp(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "t") // t.TempDir's is long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
		os.RemoveAll(dir)
	})
}

// told is one whole story that held.
func told(t *testing.T) (*demo, string) {
	t.Helper()
	temp(t)
	var out bytes.Buffer
	d := newDemo(options(t, &out))
	if status := d.run(context.Background()); status != 0 {
		t.Fatalf("exit %d:\n%s", status, out.String())
	}
	return d, out.String()
}

func TestStory(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d, out := told(t)
	for _, c := range checks() {
		if !strings.Contains(out, "✓ "+c.claim+"\n") {
			t.Errorf("%s: not told", c.name)
		}
	}
	if strings.Contains(out, "✗") || strings.Contains(out, "\x1b") {
		t.Errorf("a cross, or colour without a terminal:\n%s", out)
	}
	for _, s := range d.secrets {
		if found := s.in([]byte(out)); len(found) > 0 {
			t.Errorf("%s on the screen: %s", s.name, found)
		}
	}
	if _, err := os.Stat(d.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder: %v", err)
	}
}

// A step that really is not done, or done wrongly, is noticed: exit 1, and the check has its name on the screen.
func TestTruth(t *testing.T) {
	for _, c := range []struct {
		name string
		step string
		do   func(d *demo) func(context.Context) error
		want []string
	}{
		{"credential not sent", "places", func(d *demo) func(context.Context) error {
			return func(ctx context.Context) error {
				err := d.openPlaces(ctx)
				d.stage.service.expect("Bearer of another token")
				return err
			}
		}, []string{"credential-sent"}},
		{"credential shown", "secrets", func(d *demo) func(context.Context) error {
			return func(ctx context.Context) error {
				return d.store(ctx, api.HTTPRules{Allow: []string{"GET " + d.stage.service.origin + "/**"}, AllowNetwork: loopback(), CA: d.stage.service.ca, Scrub: "off"})
			}
		}, []string{"credential-redacted", "credential-never-shown"}},
		{"agent taken for a launcher", "agent", func(d *demo) func(context.Context) error {
			return func(ctx context.Context) (err error) {
				d.agent, err = startChild(ctx, d.exe, d.stage.home.Data(), d.exe, "sp", "mcp")
				return err
			}
		}, []string{`http: approval/\w+: operator_refused`}}, // the run is then of whoever started us both: its next request is refused
		{"revoke skipped", "revoke", func(*demo) func(context.Context) error {
			return func(context.Context) error { return nil }
		}, []string{"run-revoked", "next-call-refused", "nothing-arrived", "denial-recorded"}},
		{"byte not flipped", "tamper", func(d *demo) func(context.Context) error {
			return func(context.Context) error {
				changed := filepath.Join(d.dir, "tampered")
				if err := copyLog(d.review(), changed); err != nil {
					return err
				}
				return d.verifyChanged(changed)
			}
		}, []string{"tampering-found"}},
		{"log changed before the review", "verify", func(d *demo) func(context.Context) error {
			return func(ctx context.Context) error {
				_, _, err := flip(d.review())
				return errors.Join(err, d.verify(ctx))
			}
		}, []string{"log-intact"}},
		{"step fails", "ssh", func(*demo) func(context.Context) error {
			return func(context.Context) error { return errors.New("no such luck") }
		}, []string{"ssh: no such luck"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			temp(t)
			var out bytes.Buffer
			d := newDemo(options(t, &out))
			replaced := false
			for i := range d.steps {
				if d.steps[i].name == c.step {
					d.steps[i].do, replaced = c.do(d), true
				}
			}
			if !replaced {
				t.Fatalf("no step %s", c.step)
			}
			if status := d.run(context.Background()); status != 1 {
				t.Errorf("exit %d", status)
			}
			for _, w := range c.want {
				if !regexp.MustCompile("✗ " + w).MatchString(out.String()) {
					t.Errorf("%s is not named:\n%s", w, out.String())
				}
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	temp(t)
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	d := newDemo(options(t, &out))
	d.steps[4].do = func(ctx context.Context) error { cancel(); return d.callHTTP(ctx) }
	if status := d.run(ctx); status != 1 || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("exit %d:\n%s", status, out.String())
	}
}

// stays runs a story that stays, and returns what it says to type, the end of it, and its exit status.
func stays(t *testing.T) (lines map[string]string, end context.CancelFunc, status <-chan int) {
	t.Helper()
	temp(t)
	r, w := io.Pipe()
	o := options(t, w)
	o.Stay = true
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, o)
		w.Close()
	}()
	lines = map[string]string{}
	in := bufio.NewScanner(r)
	for lines["client"] == "" && in.Scan() {
		l := strings.TrimSpace(in.Text())
		if v, ok := strings.CutPrefix(l, "export SALLYPORT_HOME="); ok {
			lines["home"] = v
		}
		if v, ok := strings.CutPrefix(l, "sp audit activity --identity "); ok {
			lines["identity"] = strings.Trim(v, "'")
		}
		if v, ok := strings.CutPrefix(l, "The operator's passphrase: "); ok {
			lines["passphrase"] = v
		}
		if strings.HasPrefix(l, "An MCP client of yours") {
			lines["client"] = l
		}
	}
	go io.Copy(io.Discard, r)
	if len(lines) != 4 {
		cancel()
		t.Fatalf("exit %d; told only %v", <-done, lines)
	}
	return lines, cancel, done
}

// sp runs this file as sp in a home.
func sp(t *testing.T, dir string, args ...string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{"sp"}, args...)...)
	cmd.Env = append(os.Environ(), home.EnvHome+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("sp %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestStay(t *testing.T) {
	told, end, status := stays(t)
	defer end()
	h, err := home.Find(func(string) string { return told["home"] })
	if err != nil {
		t.Fatal(err)
	}
	op := newOperator(h, told["passphrase"])
	if err := op.do(context.Background(), api.PathUnlock, nil, nil, nil); err != nil {
		t.Errorf("the passphrase told does not open the vault: %v", err)
	}
	// Gateway and service are still up: another agent asks, is approved, and gets its answer.
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := anotherProgram(exe, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	agent, err := startChild(context.Background(), file, told["home"], exe, "sp", "mcp")
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{op: op, agent: agent, out: newScreen(io.Discard)}
	seen, err := d.approved(context.Background(), api.ToolHTTP, api.HTTPArgs{Target: apiName, Method: "GET", Path: "/headers"}, func() (int, int) { return 0, 0 })
	if err != nil || !seen.confirmed() || echoed(seen.action) != "Bearer [redacted]" {
		t.Errorf("another agent: %v, %+v", err, seen)
	}
	if err := agent.close(); err != nil {
		t.Error(err)
	}
	if out := sp(t, told["home"], "audit", "verify"); !strings.Contains(out, "intact") && !strings.Contains(out, "live") {
		t.Errorf("verify: %s", out)
	}
	if out := sp(t, told["home"], "console"); !strings.HasPrefix(out, "http://localhost:") || !strings.Contains(out, "/#") {
		t.Errorf("console: %s", out)
	}
	if out := sp(t, told["home"], "audit", "activity", "--identity", told["identity"]); !strings.Contains(out, "run_revoked") {
		t.Errorf("activity: %s", out)
	}
	end()
	if s := <-status; s != 0 {
		t.Errorf("exit %d", s)
	}
}

// The gateway of a demo that stays is stopped like any other.
func TestStayUntilStopped(t *testing.T) {
	told, end, status := stays(t)
	defer end()
	h, err := home.Find(func(string) string { return told["home"] })
	if err != nil {
		t.Fatal(err)
	}
	if err := newOperator(h, "").do(context.Background(), api.PathStop, nil, nil, nil); err != nil {
		t.Error(err)
	}
	if s := <-status; s != 0 {
		t.Errorf("exit %d", s)
	}
}
