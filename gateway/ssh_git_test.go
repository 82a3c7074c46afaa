package gateway

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/sshexec/sshtest"
)

// gitRig is a gateway with a host that serves the repository r by shell.
func gitRig(t *testing.T, shell sshtest.Shell, rules ...string) *rig {
	t.Helper()
	key, public := newKey(t)
	h := startHost(t, sshtest.Options{AuthorizedKey: public, Shell: shell})
	r := newRig(t, "")
	r.init()
	r.mustAdd("key", "ssh-key", key)
	if _, err := r.host("forge", "key", h, func(a *api.HostArgs) { a.AllowGit, a.GitRules = []string{"r"}, rules }); err != nil {
		t.Fatal(err)
	}
	return r
}

func gitAsk(service string) api.GitArgs {
	return api.GitArgs{Target: "forge", Argv: []string{service, "'r'"}}
}

// part reads what the host wrote next.
func (a *agent0) part(id string) (p api.StreamPart, fault string) {
	a.t.Helper()
	res := a.ask(api.MethodStream, api.StreamRequest{Action: id, Read: true})
	if res.Error != nil {
		return p, res.Error.Code
	}
	if err := json.Unmarshal(res.Result, &p); err != nil {
		a.t.Fatal(err)
	}
	return p, ""
}

// endless writes until its channel is closed; it tells when it has begun and when it has ended.
func endless(begun, ended chan<- struct{}) sshtest.Shell {
	return func(ctx context.Context, e sshtest.Exec) sshtest.Exit {
		if !strings.HasPrefix(e.Line, "git-") {
			return sshtest.Builtins(ctx, e)
		}
		begun <- struct{}{}
		for b := make([]byte, 32<<10); ; {
			if _, err := e.Stdout.Write(b); err != nil {
				ended <- struct{}{}
				return sshtest.Exit{None: true}
			}
		}
	}
}

func receive(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("waited in vain: %s", what)
	}
}

// A clone waits for its approval; revoked in the middle, the revocation returns with the host's process gone, and what is
// known is recorded once. Its bytes are its own connection's alone.
func TestGitRevoked(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	r := gitRig(t, endless(begun, ended))
	a := r.agent()
	asked := a.send(api.MethodGit, gitAsk("git-upload-pack"))
	card := r.card()
	if !strings.Contains(card.Summary, "git-upload-pack") {
		t.Errorf("card: %q", card.Summary)
	}
	select {
	case <-begun:
		t.Fatal("the host was asked before the operator was")
	case res := <-asked:
		t.Fatalf("answered before the approval: %+v", res)
	default:
	}
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: card.ID, CardDigest: card.CardDigest, Scope: "run"})
	res := <-asked
	if res.Action == nil || res.Action.State != api.Running {
		t.Fatalf("%+v %+v", res.Action, res.Error)
	}
	id := res.Action.ID
	receive(t, begun, "the host's process")
	if p, fault := a.part(id); fault != "" || len(p.Data) == 0 || p.EOF {
		t.Errorf("first bytes: %d %s", len(p.Data), fault)
	}
	if _, fault := r.agent().part(id); fault != "action_unknown" {
		t.Errorf("another connection reads: %q", fault)
	}
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: res.Action.AgentRun})
	receive(t, ended, "the end of the host's process")
	got := r.waitDone(id)
	if got.Outcome != "sent_unconfirmed" {
		t.Errorf("%+v", got)
	}
	for range 100 { // what was already here may be read, then the end is seen
		if p, fault := a.part(id); fault != "" || p.EOF {
			r.stop()
			if n := count(events(t, r.dir, r.created.ReaderIdentity), "tool_called"); n != 1 {
				t.Errorf("%d results recorded", n)
			}
			return
		}
	}
	t.Error("the stream has no end")
}

// A caller that goes away in the middle of a clone leaves nothing running, and its action has an end.
func TestGitCallerGone(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	r := gitRig(t, endless(begun, ended))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	res := a.ask(api.MethodGit, gitAsk("git-upload-pack"))
	if res.Action == nil {
		t.Fatalf("%+v", res.Error)
	}
	receive(t, begun, "the host's process")
	a.conn.Close()
	receive(t, ended, "the end of the host's process")
	if got := r.waitDone(res.Action.ID); got.Outcome != "sent_unconfirmed" {
		t.Errorf("%+v", got)
	}
}

// S17 through the agents' door: a push that a rule refuses is denied with nothing forwarded, as the action's outcome.
func TestGitRefusedPush(t *testing.T) {
	got := make(chan string, 4)
	r := gitRig(t, func(ctx context.Context, e sshtest.Exec) sshtest.Exit {
		if !strings.HasPrefix(e.Line, "git-") {
			return sshtest.Builtins(ctx, e)
		}
		b, _ := io.ReadAll(e.Stdin)
		got <- string(b)
		return sshtest.Exit{}
	}, "no-push refs/heads/main", "no-delete refs/heads/*")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	const zero, one, two = "0000000000000000000000000000000000000000", "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	for name, tt := range map[string]struct {
		update, outcome string
	}{
		"new":    {"0067" + zero + " " + one + " refs/heads/main\n", "denied"}, // the length is read, not trusted
		"moved":  {"0065" + two + " " + one + " refs/heads/main\n", "denied"},
		"delete": {"0065" + two + " " + zero + " refs/heads/side", "denied"},
		"side":   {"0066" + two + " " + one + " refs/heads/side\n", "confirmed"},
	} {
		tt.update = "00" + hex2(len(tt.update)) + tt.update[4:] + "0000PACKdata"
		a := r.agent()
		res := a.ask(api.MethodGit, gitAsk("git-receive-pack"))
		if res.Action == nil {
			t.Fatalf("%s: %+v", name, res.Error)
		}
		a.ask(api.MethodStream, api.StreamRequest{Action: res.Action.ID, Data: []byte(tt.update), EOF: true})
		act := r.waitDone(res.Action.ID)
		if act.Outcome != tt.outcome {
			t.Errorf("%s: %+v", name, act)
		}
		select {
		case b := <-got:
			if want := map[string]string{"denied": "", "confirmed": tt.update}[tt.outcome]; b != want {
				t.Errorf("%s: the host got %q", name, b)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the host saw no end", name)
		}
	}
	for name, argv := range map[string][]string{"another repository": {"git-upload-pack", "'x'"}, "more than a path": {"git-upload-pack", "'r';", "id"}, "lfs": {"git-lfs-authenticate", "'r'", "download"}} {
		res := r.agent().ask(api.MethodGit, api.GitArgs{Target: "forge", Argv: argv})
		if c := code(res); c != "rule_mismatch" && c != "invalid_request" {
			t.Errorf("%s: %s %+v", name, c, res)
		}
	}
}

func hex2(n int) string { const d = "0123456789abcdef"; return string([]byte{d[n>>4], d[n&15]}) }

// Git itself over the agents' door would be `sp git-ssh`; here its two services are, with a real repository.
func TestGitServices(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git: not installed")
	}
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", filepath.Join(dir, "r")).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	r := gitRig(t, sshtest.RealShell("sh", dir))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	for _, service := range []string{"git-upload-pack", "git-receive-pack"} {
		a := r.agent()
		res := a.ask(api.MethodGit, gitAsk(service))
		if res.Action == nil {
			t.Fatalf("%s: %+v", service, res.Error)
		}
		a.ask(api.MethodStream, api.StreamRequest{Action: res.Action.ID, Data: []byte("0000"), EOF: true})
		var said []byte
		for {
			p, fault := a.part(res.Action.ID)
			if fault != "" {
				t.Fatal(fault)
			}
			if said = append(said, p.Data...); p.EOF {
				break
			}
		}
		if got := r.waitDone(res.Action.ID); got.Outcome != "confirmed" || exitOf(t, got) != 0 || len(said) < 4 {
			t.Errorf("%s: %+v %q", service, got, said)
		}
	}
}
