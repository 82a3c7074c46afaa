// Package realclients_test runs clients that nobody here wrote against the real sp mcp and the real spd: agents (Claude
// Code, Codex, Gemini CLI) with a scripted model in the model's place, the SDKs' clients, and the conformance suite.
// Everything stays on loopback; the agents run in a network namespace that has nothing else.
package realclients_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/gateway"
	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
	"sallyport/sshexec/sshtest"
)

const (
	passphrase = "correct horse battery staple"
	secret     = "tok-5f2b9c71e04d/4a6b+Zq~71"

	// patience bounds every wait; nothing here is measured.
	patience = 3 * time.Minute
)

// part finds a program that the tests need and Go doesn't bring; install says where it comes from.
func part(t *testing.T, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("SALLYPORT_REAL") == "require":
		t.Fatalf("%s: required and not found (%s)", name, install)
	default:
		t.Skipf("%s: not found (%s)", name, install)
	}
	return path
}

// stage is one home with the real programs, a service and a host.
type stage struct {
	t    *testing.T
	bin  string
	dir  string // SALLYPORT_HOME
	home home.Home
	far  *service
	host *sshtest.Host

	mu    sync.Mutex
	holds map[string]time.Duration // credential: how long its cards wait for a yes; else none
	seen  map[string]time.Time     // card: since when
}

// newStage makes the programs, a ready vault and an operator who says yes to every card, in time.
func newStage(t *testing.T) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "sp") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &stage{t: t, bin: filepath.Join(dir, "bin"), dir: filepath.Join(dir, "h"), far: newService(t), holds: map[string]time.Duration{}, seen: map[string]time.Time{}}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, cgo := range map[string]string{"sp": "CGO_ENABLED=0", "spd": "CGO_ENABLED=1"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(s.bin, name), "sallyport/cmd/"+name)
		cmd.Env = append(os.Environ(), cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	if s.home, err = home.Find(func(k string) string { return map[string]string{home.EnvHome: s.dir}[k] }); err != nil {
		t.Fatal(err)
	}
	s.init()
	s.start()

	key, public, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	s.host, err = sshtest.Start(t.Context(), sshtest.Options{User: "deploy", AuthorizedKey: public, Shell: s.far.serveSSH})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.host.Close)
	s.sp(key, "secret", "add", "deploy", "--kind", "ssh-key")
	// All clients here are one session of processes, which has two cards at once where nothing else is said.
	wide := filepath.Join(s.dir, "wide.toml")
	if err := os.WriteFile(wide, []byte("[settings]\nbudgets = { epoch = 4, session = 64, installation = 64, queue = 32 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.sp(nil, "apply", wide)
	go s.operate()
	return s
}

// target adds a credential for the service's paths below /NAME/.
func (s *stage) target(name string, hold time.Duration) {
	s.mu.Lock()
	s.holds[name] = hold
	s.mu.Unlock()
	s.sp([]byte(secret), "secret", "add", name, "--kind", "bearer", "--allow", "GET,POST "+s.far.url+"/"+name+"/**", "--allow-network", "127.0.0.0/8")
}

// shell adds the host under a name.
func (s *stage) shell(name string) {
	pub := filepath.Join(s.dir, "host.pub")
	if err := os.WriteFile(pub, []byte(strings.Join(s.host.HostKeys(), "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.sp(nil, "host", "add", name, "--address", s.host.Addr(), "--user", "deploy", "--credential", "deploy", "--host-key", pub,
		"--allow-network", "127.0.0.0/8", "--allow-argv", `["ledger","*","*"]`)
}

func (s *stage) env() []string {
	return []string{"SALLYPORT_HOME=" + s.dir, "HOME=" + s.dir, "PATH=" + s.bin + ":" + os.Getenv("PATH")}
}

// init makes the vault, with a passphrase slot that opens in milliseconds.
func (s *stage) init() {
	g, err := gateway.New(context.Background(), gateway.Config{Home: s.home, Version: "test", WorkFactor: 10})
	if err != nil {
		s.t.Fatal(err)
	}
	agents, err := peer.Listen(s.home.AgentSocket())
	if err != nil {
		s.t.Fatal(err)
	}
	operators, err := peer.Listen(filepath.Join(s.dir, "op"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.home.PublishOperator(operators.Addr().String()); err != nil {
		s.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(context.Background(), agents, operators) }()
	var made api.Created
	err = s.operator(api.PathInit, struct{}{}, &made)
	g.Stop()
	if err := errors.Join(err, <-served); err != nil {
		s.t.Fatal(err)
	}
}

// start runs spd and opens its vault.
func (s *stage) start() {
	spd := exec.Command(filepath.Join(s.bin, "spd"), "serve")
	spd.Env, spd.Stderr = s.env(), s.t.Output()
	if err := spd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { spd.Process.Kill(); spd.Wait() })
	s.until("spd", func() bool {
		var st api.Status
		return s.operator(api.PathUnlock, struct{}{}, &st) == nil && st.PID == spd.Process.Pid
	})
}

// until asks again and again, and fails in the end.
func (s *stage) until(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Errorf("%s: not within %v", what, patience)
			return
		}
	}
}

// operator is one proved command at the operators' door.
func (s *stage) operator(path string, args, out any) error {
	return s.do(path, &api.Proof{Kind: "passphrase", Value: passphrase}, args, out)
}

// look is one that only reads, without a proof: a proof is work, and many look often.
func (s *stage) look(path string, args, out any) error { return s.do(path, nil, args, out) }

func (s *stage) do(path string, proof *api.Proof, args, out any) error {
	c := client.Operator(s.home)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Do(ctx, path, proof, args, nil, out)
}

// sp runs a command of the operator's with a value on stdin.
func (s *stage) sp(stdin []byte, args ...string) {
	s.t.Helper()
	pass, err := os.CreateTemp(s.dir, "pass")
	if err != nil {
		s.t.Fatal(err)
	}
	defer os.Remove(pass.Name())
	defer pass.Close()
	pass.WriteString(passphrase)
	pass.Seek(0, io.SeekStart)
	cmd := exec.Command(filepath.Join(s.bin, "sp"), append(args, "--passphrase-fd", "3")...)
	cmd.Env, cmd.Stdin, cmd.ExtraFiles = s.env(), bytes.NewReader(stdin), []*os.File{pass}
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("sp %v: %v\n%s", args, err, out)
	}
}

// operate says yes to every card once it has waited as long as its credential's cards are to.
func (s *stage) operate() {
	for tick := time.NewTicker(100 * time.Millisecond); s.t.Context().Err() == nil; <-tick.C {
		var cards []api.Approval
		if s.look(api.PathApprovalList, struct{}{}, &cards) != nil {
			continue
		}
		for _, c := range cards {
			s.mu.Lock()
			since, known := s.seen[c.ID]
			if !known {
				since = time.Now()
				s.seen[c.ID] = since
			}
			due := time.Since(since) >= s.holds[c.Credential]
			s.mu.Unlock()
			if due {
				yes := api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "use", AcceptWeak: weak(c)}
				if err := s.operator(api.PathApprovalGrant, yes, nil); err != nil {
					s.t.Logf("%s is not approved: %v", c.ID, err) // its caller may be gone
				}
			}
		}
	}
}

// weak says that a card's agent is weak for one reason alone, which is ours: without root, a network of its own wants a
// user namespace of its own. An operator who knows that says so with the yes.
func weak(c api.Approval) bool { return slices.Equal(c.Origin.Weak, []string{peer.WeakUserNS}) }

// actions are all actions with a credential, newest first.
func (s *stage) actions(credential string) (of []api.Action) {
	s.t.Helper()
	var all []api.Action
	if err := s.look(api.PathActionList, struct{}{}, &all); err != nil {
		s.t.Errorf("list actions: %v", err)
	}
	for _, a := range all {
		if a.Credential == credential {
			of = append(of, a)
		}
	}
	return of
}

// run is one run as the operator sees it.
func (s *stage) run(id string) (r api.Run) {
	s.t.Helper()
	if err := s.look(api.PathRunShow, map[string]string{"id": id}, &r); err != nil {
		s.t.Errorf("show run %s: %v", id, err)
	}
	return r
}

// url is the service's address for one call.
func (s *stage) url(target string, n int, how string) string {
	return fmt.Sprintf("%s/%s/%d/%s", s.far.url, target, n, how)
}
