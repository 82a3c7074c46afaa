package gateway

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/sshexec/sshtest"
)

// sshRig is a gateway with one SSH credential and a host to use it on.
func sshRig(t *testing.T) (*rig, *sshtest.Host) {
	t.Helper()
	key, public, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	h, err := sshtest.Start(t.Context(), sshtest.Options{User: "deploy", AuthorizedKey: public})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	r := newRig(t, "")
	r.init()
	if rules := r.addKey("deploy-key", key).Rules; len(rules) != 1 || !strings.HasPrefix(rules[0], "ssh-ed25519 ") {
		t.Fatalf("an ssh-key shows its public half: %v", rules)
	}
	return r, h
}

// addKey stores an SSH key.
func (r *rig) addKey(name string, key []byte) api.Credential {
	r.t.Helper()
	salt := make([]byte, 16)
	sum := sha256.Sum256(append(salt[:16:16], key...))
	out, err := r.opCredentialAdd(opRequest{ctx: r.t.Context(), who: "passphrase", salt: salt, value: key,
		args: encode(api.CredentialArgs{Name: name, Kind: "ssh-key", ValueLength: len(key), ValueDigest: sum[:]})})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.(api.Credential)
}

func (r *rig) addHost(h *sshtest.Host, argv ...[]string) (api.Host, error) {
	out, err := r.opTargetAdd(opRequest{ctx: r.t.Context(), who: "passphrase", args: encode(api.HostArgs{Name: "web", Address: h.Addr(), User: "deploy",
		Credential: "deploy-key", HostKey: strings.Join(h.HostKeys(), "\n"), AllowNetwork: []string{"127.0.0.0/8"}, AllowArgv: argv})})
	if err != nil {
		return api.Host{}, err
	}
	return out.(api.Host), nil
}

func TestSSH(t *testing.T) {
	r, h := sshRig(t)
	host, err := r.addHost(h, []string{"uname", "-a"}, []string{"echo", "*"}, []string{"false"})
	if err != nil {
		t.Fatal(err)
	}
	if host.Shell != "posix" || len(host.HostKeys) != 1 || !strings.HasPrefix(host.HostKeys[0], "SHA256:") {
		t.Fatalf("host: %+v", host)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	run := func(argv ...string) api.Response {
		return a.ask("call", api.ActionRequest{Tool: api.ToolSSH, Args: encode(api.SSHArgs{Target: "web", Argv: argv, Stdin: "three"})})
	}
	res := run("echo", "$(id) ;reboot 'x'")
	var got api.SSHResult
	if code(res) != "confirmed" || json.Unmarshal(res.Action.Result, &got) != nil || got.Stdout != "$(id) ;reboot 'x'\n" {
		t.Fatalf("echo: %s %+v", code(res), got)
	}
	res = run("false")
	if code(res) != "confirmed" || json.Unmarshal(res.Action.Result, &got) != nil || got.ExitStatus != 1 {
		t.Fatalf("false: %s %+v", code(res), got)
	}
	for _, argv := range [][]string{{"echo", "-n"}, {"echo", "a", "b"}, {"rm", "-rf", "/"}, {"sh", "-c", "id"}} {
		if got := code(run(argv...)); got != "rule_mismatch" {
			t.Errorf("%v: %s", argv, got)
		}
	}
	n := len(h.Commands())
	if err := h.ChangeKeys(); err != nil {
		t.Fatal(err)
	}
	h.DropConns()
	if got := code(run("uname", "-a")); got != "host_key_changed" {
		t.Errorf("host key changed: %s", got)
	}
	if len(h.Commands()) != n {
		t.Errorf("a host with another key was given a command: %v", h.Commands()[n:])
	}
	id := r.book.all()[0].id
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: id})
	if got := code(run("uname", "-a")); got != "run_revoked" {
		t.Errorf("after revoke: %s", got)
	}
	// The credential can't go while the host needs it; the host can.
	_, err = r.opCredentialRemove(opRequest{ctx: ctx, args: encode(api.NameArgs{Name: "deploy-key"})})
	if refusalOf(err).Code != "in_use" {
		t.Errorf("remove a credential in use: %v", err)
	}
	op[api.Ended](r, r.opTargetRemove, api.NameArgs{Name: "web"})
	op[api.Ended](r, r.opCredentialRemove, api.NameArgs{Name: "deploy-key"})
	r.stop()
	calls := 0
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if c, ok := e.(event.ToolCalled); ok {
			if calls++; c.BytesOut != int64(len("three")) {
				t.Errorf("%s: %d bytes out", c.Preview, c.BytesOut)
			}
		}
	}
	if calls != 3 {
		t.Errorf("%d calls in the log, want 3", calls)
	}
}

// A host is stored only once its key was compared and its shell proved.
func TestSSHAddRefuses(t *testing.T) {
	r, h := sshRig(t)
	base := api.HostArgs{Name: "web", Address: h.Addr(), User: "deploy", Credential: "deploy-key", HostKey: h.HostKeys()[0], AllowNetwork: []string{"127.0.0.0/8"}}
	_, other, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*api.HostArgs)
		want   string
	}{
		"another host key":    {func(a *api.HostArgs) { a.HostKey = other }, "host_key_changed"},
		"no host key":         {func(a *api.HostArgs) { a.HostKey = "" }, "invalid_request"},
		"unknown credential":  {func(a *api.HostArgs) { a.Credential = "nobody" }, "not_found"},
		"private, not agreed": {func(a *api.HostArgs) { a.AllowNetwork = nil }, "address_refused"},
		"unknown user":        {func(a *api.HostArgs) { a.User = "root" }, "dial_failed"},
		"bad name":            {func(a *api.HostArgs) { a.Name = "Web One" }, "invalid_request"},
		"empty rule":          {func(a *api.HostArgs) { a.AllowArgv = [][]string{{}} }, "invalid_request"},
	} {
		args := base
		c.change(&args)
		_, err := r.opTargetAdd(opRequest{ctx: t.Context(), who: "passphrase", args: encode(args)})
		if err == nil || refusalOf(err).Code != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if l := op[[]api.Host](r, r.opTargetList, struct{}{}); len(l) != 0 {
		t.Fatalf("stored all the same: %+v", l)
	}
	if slices.ContainsFunc(h.Commands(), func(s string) bool { return strings.Contains(s, "rm") }) {
		t.Fatal("unexpected command")
	}
}
