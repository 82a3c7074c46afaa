package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/sshexec/sshtest"
	"sallyport/vault"
)

// applyText is a file with all that there is to say; the host is where h listens.
func applyText(address, hostKey string) string {
	return fmt.Sprintf(`
[settings]
on_artifact_change = "suspend"

[credentials.github]
preset = "github"
account = "ann"

[credentials.api]
kind = "header"
header = "X-Api-Key"
confirm = "click"
allow = ["GET https://api.example.com/**"]
allow_header = ["X-Trace"]

[credentials.login]
kind = "ssh-key"

[hosts.web]
address = %q
user = "deploy"
credential = "login"
host_key = %q
allow_network = ["127.0.0.0/8"]
allow_argv = [["uname", "-a"]]
`, address, hostKey)
}

// One file, one proof: new credentials with their values, a host whose shell is proved with a key that comes in the same
// file, and a setting. Applied twice it changes nothing; what another file leaves out stays.
func TestApplyAll(t *testing.T) {
	r, h := sshRig(t)
	file := applyText(h.Addr(), h.HostKeys()[0])
	const token, key = "ghp_0123456789abcdef", "key-0123456789abcdef"
	var login string
	if err := r.vault.With(t.Context(), vault.Ref{Name: "deploy-key"}, func(s vault.Secret) error { login = string(s.Bytes()); return nil }); err != nil {
		t.Fatal(err)
	}
	before := r.vault.Snapshot().Counter
	changes, bad := r.apply(file, true)
	if bad != "" || len(changes) < 10 || r.vault.Snapshot().Counter != before {
		t.Fatalf("planned: %v %s", changes, bad)
	}
	// The plan's order: settings, then by name.
	out, err := r.applied(file, false, key, token, login)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(out.Changes, changes) || r.vault.Snapshot().Counter != before+1 {
		t.Errorf("applied %v\nplanned %v\ncounter %d after %d", out.Changes, changes, r.vault.Snapshot().Counter, before)
	}
	hosts := op[[]api.Host](r, r.opTargetList, struct{}{})
	if len(hosts) != 1 || hosts[0].Shell != "posix" || hosts[0].Credential != "login" {
		t.Errorf("hosts %+v", hosts)
	}
	c := op[api.CredentialShown](r, r.opCredentialShow, api.NameArgs{Name: "github"})
	if c.Account != "ann" || c.Kind != "bearer" || !slices.Contains(c.Rules, "GET https://api.github.com/user") && len(c.Rules) == 0 {
		t.Errorf("github: %+v", c)
	}
	if again, bad := r.apply(file, false); bad != "" || len(again) != 0 {
		t.Errorf("the same again: %v %s", again, bad)
	}
	if r.vault.Snapshot().Counter != before+1 {
		t.Error("applying the same again changed the vault")
	}
	// Something else: one rule, one host's commands. Grants by them end, the rest stays.
	a := r.agent()
	ch := a.send("call", api.ActionRequest{Tool: api.ToolSSH, Args: encode(api.SSHArgs{Target: "web", Argv: []string{"uname", "-a"}})})
	card := r.card()
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: card.ID, CardDigest: card.CardDigest, Scope: "run"})
	<-ch
	wider := strings.Replace(file, `[["uname", "-a"]]`, `[["uname", "-a"], ["uptime"]]`, 1)
	wider = strings.Replace(wider, `confirm = "click"`, `confirm = "never"`, 1)
	out, err = r.applied(wider, false)
	if err != nil || len(out.Changes) != 2 || len(out.Grants) != 1 {
		t.Fatalf("wider: %+v %v", out, err)
	}
	if out.Changes[0] != (api.Change{Setting: "credentials.api.confirm", Old: `"click"`, New: `"never"`}) ||
		out.Changes[1] != (api.Change{Setting: "hosts.web.allow_argv", Old: `[["uname","-a"]]`, New: `[["uname","-a"],["uptime"]]`}) {
		t.Errorf("changes: %+v", out.Changes)
	}
	if part, bad := r.apply("[credentials.api]\nkind = \"header\"\nheader = \"X-Api-Key\"\nallow = [\"GET https://api.example.com/v2/*\"]\n", false); bad != "" || len(part) != 2 {
		t.Errorf("a part: %v %s", part, bad)
	}
	if n := len(op[[]api.Credential](r, r.opCredentialList, struct{}{})); n != 4 {
		t.Errorf("%d credentials: what a file leaves out must stay", n)
	}
	r.stop()
	got := map[string]int{}
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		switch e := e.(type) {
		case event.CredentialAdded, event.TargetAdded, event.CredentialRebound, event.SettingsChanged, event.GrantRevoked:
			got[event.Type(e)]++
		case event.TargetChanged:
			got["target_changed"]++
			if strings.Join(e.Changed, " ") != "allow_argv" || e.Shell != "posix" {
				t.Errorf("recorded: %+v", e)
			}
		}
	}
	if fmt.Sprint(got) != "map[credential_added:4 credential_rebound:2 grant_revoked:1 settings_changed:1 target_added:1 target_changed:1]" {
		t.Errorf("recorded: %v", got)
	}
}

// All of a file or nothing of it: whatever is wrong with one part, the vault is as it was.
func TestApplyAllOrNothing(t *testing.T) {
	r, h := sshRig(t)
	file := applyText(h.Addr(), h.HostKeys()[0])
	const token, key = "ghp_0123456789abcdef", "key-0123456789abcdef"
	var login string
	if err := r.vault.With(t.Context(), vault.Ref{Name: "deploy-key"}, func(s vault.Secret) error { login = string(s.Bytes()); return nil }); err != nil {
		t.Fatal(err)
	}
	counter := r.vault.Snapshot().Counter
	_, other, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) string { return strings.Replace(file, old, new, 1) }
	for name, tt := range map[string]struct {
		file   string
		values []string
		code   string
		says   string
	}{
		"a value missing":       {file, []string{key, token}, "invalid_request", "credentials.login"},
		"no value":              {file, nil, "invalid_request", "its value was not given"},
		"a bad value":           {file, []string{key, "short", login}, "invalid_request", "credentials.github: value"},
		"no key":                {file, []string{key, token, "ssh-ed25519 AAAA"}, "invalid_request", "public key"},
		"the host's key":        {edit(h.HostKeys()[0], other), []string{key, token, login}, "host_key_changed", "hosts.web"},
		"the host's user":       {edit(`"deploy"`, `"root"`), []string{key, token, login}, "dial_failed", "hosts.web"},
		"an unknown credential": {edit(`credential = "login"`, `credential = "nobody"`), []string{key, token, login}, "not_found", "hosts.web"},
		"an HTTP credential":    {edit(`credential = "login"`, `credential = "api"`), []string{key, token, login}, "invalid_request", "hosts.web"},
		"a bad rule":            {edit("GET https://api.example.com/**", "GET api.example.com"), nil, "invalid_request", "credentials.api: allow[0]"},
		"an unknown key":        {edit("allow_header", "allow_headers"), nil, "invalid_request", `credentials.api: unknown key "allow_headers"`},
		"a JSON name":           {edit("allow_header", "allowHeader"), nil, "invalid_request", `unknown key "allowHeader"`},
		"a wrong type":          {edit(`["X-Trace"]`, `"X-Trace"`), nil, "invalid_request", "credentials.api: allow_header"},
		"a value in it":         {edit(`header = "X-Api-Key"`, `value = "`+token+`"`), nil, "invalid_request", "never holds a value"},
		"enrol":                 {edit("host_key = ", "enrol = true\nhost_key = "), nil, "invalid_request", "ssh-keyscan"},
		"an unknown table":      {file + "\n[grants.x]\na = 1\n", nil, "invalid_request", "unknown key"},
		"an unknown setting":    {edit("on_artifact_change", "on_artifact_changed"), nil, "invalid_request", "unknown key"},
		"a bad setting":         {edit(`"suspend"`, `"perhaps"`), nil, "invalid_request", "on_artifact_change"},
		"a bad name":            {edit("[credentials.api]", `[credentials."A P I"]`), nil, "invalid_request", "name: 1 to 64"},
		"an unknown jump host":  {edit(`user = "deploy"`, "user = \"deploy\"\njump = \"bastion\""), nil, "not_found", "jump: there is no host bastion yet"},
		"a key's principal":     {edit("[credentials.login]", "[credentials.login]\nprincipal = \"root\""), nil, "invalid_request", "principal: for ssh-ca only"},
		"an unknown preset":     {edit(`preset = "github"`, `preset = "nowhere"`), nil, "invalid_request", "credentials.github: preset"},
		"another kind":          {edit("[credentials.login]", "[credentials.deploy-key]\nkind = \"bearer\"\nallow = [\"GET https://a.example/*\"]\n[credentials.login]"), nil, "invalid_request", "it is ssh-key in the vault"},
		"a secret's line":       {edit(`account = "ann"`, "token = "+token), nil, "invalid_request", "line"},
	} {
		_, err := r.applied(tt.file, false, tt.values...)
		if err == nil {
			t.Errorf("%s: applied", name)
			continue
		}
		e := refusalOf(err)
		if e.Code != tt.code || !strings.Contains(e.Reason, tt.says) {
			t.Errorf("%s: %v, want %s with %q", name, err, tt.code, tt.says)
		}
		for _, secret := range []string{token, key} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error holds a value: %v", name, err)
			}
		}
		if s := r.vault.Snapshot(); s.Counter != counter || len(s.Credentials()) != 1 || len(s.Hosts()) != 0 {
			t.Fatalf("%s: the vault was changed", name)
		}
	}
	if s, err := readSettings(r.vault.Snapshot()); err != nil || s.OnArtifact != "" || r.suspends.Load() {
		t.Errorf("settings: %+v %v", s, err)
	}
	r.stop()
	if n := count(events(t, r.dir, r.created.ReaderIdentity), "credential_added"); n != 1 {
		t.Errorf("%d credentials recorded", n)
	}
}

// What is carried out is what was shown: a plan of another file, or of a vault that has changed since, is refused.
func TestApplyStale(t *testing.T) {
	r := newRig(t, "")
	r.init()
	file := "[credentials.a]\nkind = \"bearer\"\nallow = [\"GET https://a.example/*\"]\n"
	plan := func(file string) api.Plan {
		out, err := r.opPlan(valueOf(t.Context(), file, func(n int, digest []byte) any { return api.PlanArgs{ValueLength: n, ValueDigest: digest} }))
		if err != nil {
			t.Fatal(err)
		}
		return out.(api.Plan)
	}
	apply := func(file, digest, value string, given ...api.GivenValue) string {
		_, err := r.opApply(valueOf(t.Context(), file+value, func(n int, sum []byte) any {
			return api.ApplyArgs{Plan: digest, FileLength: len(file), Values: given, ValueLength: n, ValueDigest: sum}
		}))
		if err == nil {
			return ""
		}
		return refusalOf(err).Code
	}
	const value = "tok-0123456789"
	given := api.GivenValue{Name: "a", Length: len(value)}
	p := plan(file)
	for name, tt := range map[string]struct {
		file, digest, value string
		given               []api.GivenValue
		want                string
	}{
		"no digest":         {file, "", value, []api.GivenValue{given}, "changed_meanwhile"},
		"another file":      {strings.Replace(file, "GET", "POST", 1), p.Digest, value, []api.GivenValue{given}, "changed_meanwhile"},
		"lengths":           {file, p.Digest, value, []api.GivenValue{{Name: "a", Length: len(value) - 1}}, "invalid_request"},
		"too long":          {file, p.Digest, value, []api.GivenValue{{Name: "a", Length: len(value) + 1}}, "invalid_request"},
		"below zero":        {file, p.Digest, value, []api.GivenValue{{Name: "a", Length: -1}, given}, "invalid_request"},
		"twice":             {file, p.Digest, value + value, []api.GivenValue{given, given}, "invalid_request"},
		"another's":         {file, p.Digest, value, []api.GivenValue{{Name: "b", Length: len(value)}}, "invalid_request"},
		"one too many":      {file, p.Digest, value + value, []api.GivenValue{given, {Name: "b", Length: len(value)}}, "invalid_request"},
		"passphrase beyond": {file, p.Digest, value, []api.GivenValue{{Name: "a", Length: len(value), PassphraseLength: len(value) + 1}}, "invalid_request"},
	} {
		if got := apply(tt.file, tt.digest, tt.value, tt.given...); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	r.addBearer("a", "GET https://a.example/*")
	if got := apply(file, p.Digest, value, given); got != "changed_meanwhile" {
		t.Errorf("after the vault changed: %q", got)
	}
	op[api.Status](r, r.opLock, struct{}{})
	if got := apply(file, p.Digest, value, given); got != "vault_locked" {
		t.Errorf("locked: %q", got)
	}
}

// A CA keeps its public half when its principal changes, by apply and by rebind.
func TestApplyPrincipal(t *testing.T) {
	r := newRig(t, "")
	r.init()
	key, public, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	file := "[credentials.ca]\nkind = \"ssh-ca\"\nprincipal = \"deploy\"\n"
	if _, err := r.applied(file, false, string(key)); err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		c := op[api.CredentialShown](r, r.opCredentialShow, api.NameArgs{Name: "ca"})
		return c.Principal + " " + strings.Join(c.Rules, ", ")
	}
	if got := shown(); got != "deploy "+public+", principal deploy" {
		t.Errorf("applied: %s", got)
	}
	if c, bad := r.apply(strings.Replace(file, "deploy", "ops", 1), false); bad != "" || len(c) != 1 || c[0] != (api.Change{Setting: "credentials.ca.principal", Old: `"deploy"`, New: `"ops"`}) {
		t.Errorf("applied again: %v %s", c, bad)
	}
	if _, err := r.rebind("ca", func(a *api.RebindArgs) { a.Principal = ""; a.Account = "x" }); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != " "+public {
		t.Errorf("rebound: %s", got)
	}
}
