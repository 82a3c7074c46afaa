package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/sshexec/sshtest"
)

const hostPassword = "pw-8b1f7d2c90aa"

// startHost is a host for the account deploy.
func startHost(t *testing.T, o sshtest.Options) *sshtest.Host {
	t.Helper()
	o.User = "deploy"
	h, err := sshtest.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func newKey(t *testing.T) (file, public string) {
	t.Helper()
	key, public, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	return string(key), public
}

// host stores h under name; change says what is special.
func (r *rig) host(name, credential string, h *sshtest.Host, change func(*api.HostArgs)) (api.Host, error) {
	a := api.HostArgs{Name: name, Address: h.Addr(), User: "deploy", Credential: credential, HostKey: strings.Join(h.HostKeys(), "\n"),
		AllowNetwork: []string{"127.0.0.0/8"}, AllowArgv: [][]string{{"echo", "*"}}}
	if change != nil {
		change(&a)
	}
	out, err := r.opTargetAdd(opRequest{ctx: r.t.Context(), who: "passphrase", args: encode(a)})
	if err != nil {
		return api.Host{}, err
	}
	return out.(api.Host), nil
}

func (r *rig) mustAdd(name, kind, value string, change ...func(*api.CredentialArgs)) api.Credential {
	r.t.Helper()
	a := api.CredentialArgs{Name: name, Kind: kind}
	for _, f := range change {
		f(&a)
	}
	c, err := r.add(a, value)
	if err != nil {
		r.t.Fatalf("add %s: %v", name, err)
	}
	return c
}

func sshCall(target string, argv ...string) api.ActionRequest {
	return api.ActionRequest{Tool: api.ToolSSH, Args: encode(api.SSHArgs{Target: target, Argv: argv})}
}

func sshOf(t *testing.T, res api.Response) (got api.SSHResult) {
	t.Helper()
	if res.Action == nil || json.Unmarshal(res.Action.Result, &got) != nil {
		t.Fatalf("no result: %+v", res)
	}
	return got
}

// S18: a host that is told the password on each login may print it: text beside the answer disturbs nothing, and the
// password is masked. Neither git nor a host's prompt may come with it unasked.
func TestHostPassword(t *testing.T) {
	h := startHost(t, sshtest.Options{Password: hostPassword, Shell: func(ctx context.Context, e sshtest.Exec) sshtest.Exit {
		fmt.Fprintf(e.Stdout, "Welcome! your password is %s\n", hostPassword)
		return sshtest.Builtins(ctx, e)
	}})
	r := newRig(t, "")
	r.init()
	r.mustAdd("pw", "ssh-password", hostPassword)
	if _, err := r.host("git", "pw", h, func(a *api.HostArgs) { a.AllowGit = []string{"repo"} }); err == nil || refusalOf(err).Code != "invalid_request" {
		t.Errorf("git for a password: %v", err)
	}
	if _, err := r.host("web", "pw", h, func(a *api.HostArgs) { a.Prompt = "(" }); err == nil || refusalOf(err).Code != "invalid_request" {
		t.Errorf("a prompt that is no pattern: %v", err)
	}
	got, err := r.host("web", "pw", h, nil)
	if err != nil || got.Shell != "posix" {
		t.Fatalf("%+v %v", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	res := r.agent().ask("call", sshCall("web", "echo", "x"))
	out := sshOf(t, res).Stdout
	if strings.Contains(out, hostPassword) || !strings.HasSuffix(out, "\nx\n") || !slices.Contains(res.Action.Flags, "reflected") {
		t.Errorf("%q %v", out, res.Action.Flags)
	}
	if a := h.Auths(); len(a) == 0 || a[len(a)-1].Fingerprint != "" || !a[len(a)-1].OK {
		t.Errorf("it logged in with %+v", a)
	}
	if res := r.agent().ask("call", api.ActionRequest{Tool: api.ToolJob, Args: encode(api.SSHArgs{Target: "web", Argv: []string{"echo", "x"}})}); code(res) == "accepted" {
		t.Errorf("a host that runs no sh started a job: %+v", res)
	}
}

// A certificate for each call, named by its action, for the principal of the credential; through a jump host with a login
// of its own. S13: another key for the jump host closes what was reached through it.
func TestHostCertificateAndJump(t *testing.T) {
	caKey, caPub := newKey(t)
	jumpKey, jumpPub := newKey(t)
	innerKey, innerPub := newKey(t)
	jump := startHost(t, sshtest.Options{AuthorizedKey: jumpPub, Forward: true})
	inner := startHost(t, sshtest.Options{AuthorizedKey: innerPub, CA: caPub})
	r := newRig(t, "")
	r.init()
	if c := r.mustAdd("ca", "ssh-ca", caKey); !strings.HasPrefix(c.Rules[0], "ssh-ed25519 ") {
		t.Errorf("a CA shows its public half: %+v", c)
	}
	r.mustAdd("foreign", "ssh-ca", caKey, func(a *api.CredentialArgs) { a.Principal = "somebody" })
	r.mustAdd("jump-key", "ssh-key", jumpKey)
	r.mustAdd("inner-key", "ssh-key", innerKey)
	via := func(a *api.HostArgs) { a.Jump = "jump" }
	if _, err := r.host("cert", "ca", inner, via); err == nil {
		t.Error("a host behind one that isn't there was stored")
	}
	if _, err := r.host("jump", "jump-key", jump, nil); err != nil {
		t.Fatal(err)
	}
	for name, credential := range map[string]string{"cert": "ca", "plain": "inner-key"} {
		if got, err := r.host(name, credential, inner, via); err != nil || got.Jump != "jump" {
			t.Fatalf("%s: %+v %v", name, got, err)
		}
	}
	if _, err := r.host("other", "foreign", inner, via); err == nil || refusalOf(err).Code != "dial_failed" {
		t.Errorf("a certificate for another principal: %v", err)
	}
	if shown := op[api.HostShown](r, r.opTargetShow, api.NameArgs{Name: "cert"}); shown.Jump != "jump" || shown.Credential != "ca" {
		t.Errorf("shown: %+v", shown)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	for range 2 { // no connection of one call serves another
		res := a.ask("call", sshCall("cert", "echo", "x"))
		if code(res) != "confirmed" || sshOf(t, res).Stdout != "x\n" {
			t.Fatalf("%s %+v", code(res), res)
		}
		last := inner.Auths()[len(inner.Auths())-1]
		if last.CertID != res.Action.ID || last.Serial != serial(res.Action.ID) || !last.OK {
			t.Errorf("action %s logged in as %+v", res.Action.ID, last)
		}
	}
	for range 2 {
		if res := a.ask("call", sshCall("plain", "echo", "x")); code(res) != "confirmed" {
			t.Fatalf("%s", code(res))
		}
	}
	began := time.Now()
	otherKey, _ := newKey(t)
	if _, err := r.rotate("jump-key", otherKey); err != nil {
		t.Fatal(err)
	}
	for inner.Open() > 0 || jump.Open() > 0 {
		if time.Since(began) > time.Minute { // a second where nothing else runs
			t.Fatalf("%d and %d connections are open after the rotation", inner.Open(), jump.Open())
		}
		time.Sleep(time.Millisecond)
	}
	n := len(inner.Commands())
	if got := code(a.ask("call", sshCall("plain", "echo", "x"))); got != "dial_failed" || len(inner.Commands()) != n {
		t.Errorf("with a key that the jump host doesn't know: %s", got)
	}
}

// A host of an apply file has everything that one of `sp host add` has.
func TestApplyHostInFull(t *testing.T) {
	key, public := newKey(t)
	h := startHost(t, sshtest.Options{AuthorizedKey: public, Forward: true})
	r := newRig(t, "")
	r.init()
	r.mustAdd("key", "ssh-key", key)
	if _, err := r.host("jump", "key", h, nil); err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf(`[hosts.full]
address = %q
user = "deploy"
credential = "key"
host_key = %q
allow_network = ["127.0.0.0/8"]
jump = "jump"
prompt = "PIN: "
allow_upload = ["/up"]
allow_download = ["/down"]
allow_git = ["org/repo"]
git_rules = ["no-push refs/heads/main"]
`, h.Addr(), h.HostKeys()[0])
	if _, bad := r.apply(file, false); bad != "" {
		t.Fatal(bad)
	}
	shown := op[api.HostShown](r, r.opTargetShow, api.NameArgs{Name: "full"})
	all := strings.Join(shown.Rules, "\n")
	for _, want := range []string{"upload", "/up", "/down", "org/repo", "no-push refs/heads/main"} {
		if !strings.Contains(all, want) {
			t.Errorf("the rules don't show %q: %q", want, shown.Rules)
		}
	}
	if shown.Jump != "jump" || shown.Prompt != "PIN: " {
		t.Errorf("%+v", shown)
	}
	if again, bad := r.apply(file, false); bad != "" || len(again) != 0 {
		t.Errorf("again: %v %s", again, bad)
	}
	if changes, bad := r.apply(strings.Replace(file, "no-push", "no-delete", 1), false); bad != "" || len(changes) != 1 {
		t.Errorf("another rule: %v %s", changes, bad)
	}
	for _, bad := range []string{`jump = "nobody"`, `git_rules = ["no-push main"]`, `allow_upload = ["relative"]`, `prompt = "("`} {
		key, _, _ := strings.Cut(bad, " ")
		lines := strings.Split(file, "\n")
		for i, l := range lines {
			if strings.HasPrefix(l, key+" ") {
				lines[i] = bad
			}
		}
		if got, code := r.apply(strings.Join(lines, "\n"), false); code == "" {
			t.Errorf("%s was applied: %v", bad, got)
		}
	}
	if _, err := r.opTargetRemove(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.NameArgs{Name: "jump"})}); refusalOf(err).Code != "in_use" {
		t.Errorf("remove a jump host in use: %v", err)
	}
}
