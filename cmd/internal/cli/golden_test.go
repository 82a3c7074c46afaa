package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	run1, ep1 = "run_01JV0000000000000000000001", "ep_01JV0000000000000000000001"
	ap1, ap2  = "ap_01JV0000000000000000000001", "ap_01JV0000000000000000000002"
	act1      = "act_01JV0000000000000000000001"
	act2      = "act_01JV0000000000000000000002"
)

// hostile is text as an agent might choose it, had nobody escaped it before.
const hostile = "claude\x1b[2J\r\nApproved \u202egpj.exe\u200b"

func sample() answers {
	agent := api.Agent{ProcessID: 4711, Command: "claude --resume", ExeDigest: "sha256:" + strings.Repeat("ab", 32), Identity: "strong"}
	bad := agent
	bad.Command, bad.Identity = hostile, "weak"
	started := time.Date(2031, 4, 5, 6, 0, 0, 0, time.UTC)
	done := api.Action{ID: act1, AgentRun: run1, ExecutionEpoch: ep1, Tool: api.ToolHTTP, Target: "github", Credential: "github",
		State: api.Done, Outcome: "confirmed", StartedAt: started, FinishedAt: started.Add(time.Second), Flags: []string{"reflected"},
		Result: jsontext.Value(`{"status":200,"body":"ok"}`)}
	refused := api.Action{ID: act2, AgentRun: run1, ExecutionEpoch: ep1, Tool: api.ToolSSH, Target: "web", Credential: "key",
		State: api.Done, Outcome: "not_sent", Error: api.Fail("dial_failed", ""), StartedAt: started}
	r := api.Run{ID: run1, State: "active", Agent: agent, OpenedAt: started, Calls: 2,
		Epochs: []api.Epoch{{ID: ep1, ServerLabel: "sp mcp", State: "ready", ProcessID: 4712}}}
	revoked := r
	revoked.State, revoked.RevokedAt = "revoked", started.Add(time.Minute)
	card := api.Approval{ID: ap1, AgentRun: run1, ExecutionEpoch: ep1, Tool: api.ToolHTTP, Credential: "github", Target: "github",
		Summary: "GET https://api.github.com/repos/o/r", Effect: "read", Digest: "sha256:1111", Account: "ann@example.org", Confirm: "never",
		ExpiresAt: now.Add(93 * time.Second), Agent: agent, Gaps: []string{"whether the host keeps the answer"},
		Origin: api.Origin{Program: api.ProgramKnown, RunOpenedAt: now.Add(-3 * time.Minute), Others: 1,
			Launchers: []api.Agent{{ProcessID: 4713, Command: "sp mcp", ExeDigest: agent.ExeDigest, Identity: "strong"}, agent}},
		Offers: []api.Offer{{Scope: "use", Gives: "this call, once"}, {Scope: "run", Gives: "every http_request with github, until the run ends"}},
		Past:   api.Past{ApprovedAt: now.Add(-2 * time.Hour), Diff: []string{"- GET https://api.github.com/repos/o/q", "+ GET https://api.github.com/repos/o/r"}},
		Reason: "to look at the repository"}
	card = named(card)
	other := card
	other.ID, other.Agent, other.Summary = ap2, bad, "POST https://a.example/x\nbody: 9 bytes\n  | "+strings.ReplaceAll(hostile, "\n", "")
	other.Origin = api.Origin{Program: api.ProgramNew, RunOpenedAt: now, Weak: []string{"traced by another process"}, Drift: true}
	other.Offers, other.Past, other.Reason = append(other.Offers, api.Offer{Scope: "run", Gives: "every http_request with github, until the run ends", Accept: "that it counts as identified"}), api.Past{Denied: []string{hostile}}, hostile
	other = named(other)
	witnesses := []api.Witness{
		{URL: "https://witness.example", Name: "witness.example", Size: 17, At: started},
		{URL: "https://other.example/w", Name: "other.example/w1", Error: hostile},
	}
	imported := api.ImportPlan{Digest: "sha256:1",
		Taken: []api.Taken{{From: "GITHUB_TOKEN", Line: 2, Preset: "github", Credential: api.Credential{Name: "github", Kind: "bearer", Rules: []string{"GET https://api.github.com/**"}}},
			{From: "KEY", Line: 3, Credential: api.Credential{Name: "login", Kind: "ssh-key", Rules: []string{"ssh-ed25519 AAAA"}}}},
		Refused: []api.Refused{{From: "PORT" + hostile, Line: 4, Reason: "nothing says what it may be used for"}, {Line: 5, Reason: "no KEY=value line"}}}
	changes := []api.Change{
		{Setting: "audit_mirror", Old: `""`, New: `"/mnt/b/audit"`}, {Setting: "recipients", Old: `[]`, New: `["age1pq1` + hostile + `"]`},
		{Setting: "credentials.github.kind", New: `"bearer"`}, {Setting: "credentials.github.allow", New: `["GET https://a.example/**"]`},
		{Setting: "credentials.a.b.confirm", Old: `"never"`, New: `"click"`}, {Setting: "credentials.a.b.scrub", New: `"off"`},
		{Setting: "hosts.web.address", New: `"web:22"`}, {Setting: "hosts.db.allow_argv", Old: `[["df"]]`},
	}
	return answers{
		api.PathStatus: api.Status{Vault: "ready", Version: "v1", PID: 99, Runs: map[string]int{"pending": 1, "active": 2},
			PendingApprovals: 1, Audit: api.AuditHead{Records: 12, Head: "AAAA"}},
		api.PathUnlock: api.Status{Vault: "ready"},
		api.PathLock:   api.Status{Vault: "locked"},
		api.PathCredentialAdd: api.Credential{Name: "github", Kind: "bearer", Confirm: "never", Scrub: "on", Version: 1,
			Rules: []string{"GET https://api.github.com/repos/**"}},
		api.PathCredentialList: []api.Credential{
			{Name: "github", Kind: "bearer", Account: "ann@example.org", Confirm: "never", Scrub: "on", Version: 3, Rules: []string{"GET,POST https://api.github.com/repos/**", "GET https://api.github.com/user"}},
			{Name: "deploy", Kind: "ssh-key", Confirm: "click", Scrub: "on", Version: 1},
		},
		api.PathCredentialShow: api.CredentialShown{
			Credential: api.Credential{Name: "github", Kind: "header", Account: "ann@example.org" + hostile, Confirm: "never", Scrub: "on", Version: 3, Rules: []string{"GET https://api.github.com/user"}},
			Settings: api.HTTPRules{Allow: []string{"GET https://api.github.com/user"}, AllowHeader: []string{"X-A"}, AllowHTTP: true, CA: "-----BEGIN\nx\n",
				Carried: api.Carried{Header: "X-Key"}}, Hosts: []string{"web"}, Grants: []string{"gr_1"}},
		api.PathCredentialRotate: api.Altered{Credential: api.Credential{Name: "github", Kind: "bearer", Version: 4}, Ended: api.Ended{Grants: []string{"gr_1"}, Left: []api.Action{done}}},
		api.PathCredentialRebind: api.Altered{Credential: api.Credential{Name: "github", Kind: "bearer", Version: 4},
			Changes: []api.Change{{Setting: "account", New: `"bob` + hostile + `"`}, {Setting: "allow_http", Old: "true"}}, Ended: api.Ended{Grants: []string{"gr_1"}}},
		api.PathInspect: imported, api.PathImport: imported,
		api.PathCredentialRemove: api.Ended{Grants: []string{"gr_1"}},
		api.PathTargetShow: api.HostShown{Host: api.Host{Name: "web", Address: "web.example.org:22", User: "deploy", Credential: "deploy",
			HostKeys: []string{"SHA256:abc ssh-ed25519"}, Shell: "posix", Rules: []string{`["systemctl","status","*"]`}}, Confirm: "click", AllowNetwork: []string{"10.0.0.0/8"}},
		api.PathTargetAdd: api.Host{Name: "web", Address: "web.example.org:22", User: "deploy", Credential: "deploy",
			HostKeys: []string{"SHA256:abc ssh-ed25519"}, Shell: "posix"},
		api.PathTargetList: []api.Host{{Name: "web", Address: "web.example.org:22", User: "deploy", Credential: "deploy",
			HostKeys: []string{"SHA256:abc ssh-ed25519"}, Shell: "posix", Rules: []string{`["systemctl","status","*"]`}}},
		api.PathTargetRemove: api.Ended{},
		api.PathApprovalList: []api.Approval{card, other},
		api.PathApprovalTable: api.Table{Cards: []api.Approval{card, other}, Unproved: 7, More: []api.Chain{
			{Key: "session-70", Text: "sp (pid 88) < claude (pid 71) < zsh (pid 70)", Waiting: 482, Refused: 3},
			{Key: "session-90", Text: hostile, Muted: true, Refused: 12}}},
		api.PathApprovalMute:   api.Chain{Key: "session-70", Text: "sp (pid 88) < claude (pid 71) < zsh (pid 70)", Waiting: 482, Muted: true},
		api.PathApprovalUnmute: api.Chain{Key: "session-70", Text: "sp (pid 88) < claude (pid 71) < zsh (pid 70)", Refused: 12},
		api.PathApprovalGrant: api.Grant{ID: "gr_1", AgentRun: run1, ExecutionEpoch: ep1, ToolScope: []string{api.ToolHTTP},
			CredentialScope: []string{"github"}, ExpiresWhen: "agent-run-ends"},
		api.PathApprovalDeny: struct{}{},
		api.PathRunList:      []api.Run{r},
		api.PathRunShow:      r,
		api.PathRunRevoke:    api.Revoked{Run: revoked, Left: []api.Action{refused}},
		api.PathRunContain:   contained(revoked, done, refused, false),
		api.PathRunTerminate: contained(revoked, done, refused, true),
		api.PathGrantList: []api.Grant{{ID: "gr_1", AgentRun: run1, ExecutionEpoch: ep1, ToolScope: []string{api.ToolHTTP},
			CredentialScope: []string{"github"}, ExpiresWhen: "3 uses", IssuedAt: started}},
		api.PathGrantRevoke: api.Revoked{Run: r, Left: []api.Action{refused}},
		api.PathEpochRevoke: api.Revoked{Run: r},
		api.PathServerList:  []api.Server{supervised(run1, ep1)},
		api.PathServerShow:  supervised(run1, ep1),
		api.PathServerDigest: api.Digest{Sums: "9e4c  dist/server.js\n344b  package-lock.json\n", TreeDigest: "sha256:77aa", Unpinned: []string{"image x is named by a tag"},
			Record: jsontext.Value("{}")},
		api.PathRelease:       api.Status{Vault: "ready"},
		api.PathActionList:    []api.Action{done, refused},
		api.PathActionShow:    refused,
		api.PathActionResolve: refused,
		api.PathPlan:          api.Plan{Changes: changes, Values: []api.Wanted{{Name: "github", Kind: "bearer"}}, Logins: []string{"web"}, Ends: []string{"gr_1"}, Digest: "sha256:1"},
		api.PathApply:         api.Applied{Changes: changes, Ended: api.Ended{Grants: []string{"gr_1"}}},
		api.PathWitnessAdd:    witnesses,
		api.PathWitnessList:   witnesses,
		api.PathWitnessRemove: []api.Witness{},
		api.PathCheckpoint:    api.Checkpoint{Note: "sallyport/log\n12\nAAAA\n\n— sallyport/log BBBB\n"},
	}
}

// supervised is a server whose build changed under its running process.
func supervised(run, epoch string) api.Server {
	return api.Server{ServerLabel: "inventory-local", AgentRun: run, ExecutionEpoch: epoch, State: api.ServerReady, Catalog: "sha256:0c12", Shown: "sha256:0c11",
		ProcessID: 48192, ArtifactChanged: []string{"dist/server.js"}, Cause: "supervisor", Tools: []string{"inventory_adjust", hostile}, ToolScope: []string{"inventory_adjust"},
		Lines: []string{"build changed: dist/server.js", "running process unchanged: pid=48192 epoch=" + epoch}, Unpinned: []string{hostile},
		Record: jsontext.Value(`{"entryDigest":"sha256:9e4c"}`)}
}

// contained is a containment before, or after its signals.
func contained(r api.Run, last, remote api.Action, ended bool) api.Contained {
	shim := api.Survivor{ProcessRef: api.ProcessRef{ProcessID: 4712, Key: "boot:7"}, Role: "shim", Command: "sp mcp", PPID: 1, PGID: 4711, Stat: "Sl", State: "running",
		Strangers: []int{99}, Authority: []string{"environment GITHUB_TOKEN"}}
	other := api.Survivor{ProcessRef: api.ProcessRef{ProcessID: 4713, Key: "boot:8"}, Role: "descendant", Command: hostile, PPID: 4712, PGID: 4711, Stat: "D", State: "running"}
	r.ClientUnavailableAt, r.LastActionStartedAt = r.OpenedAt.Add(time.Second), r.OpenedAt
	c := api.Contained{Run: r, Verdict: api.VerdictContained, Denial: api.Denial{Method: "probe", Reason: "run_revoked"}, Last: &last,
		Uncertain: []api.Action{last}, Left: []api.Action{}, Remote: []api.Action{remote}, Processes: []api.Survivor{shim, other},
		Rotate: []string{"what the environment variable GITHUB_TOKEN holds"},
		Steps:  []jsontext.Value{jsontext.Value(`{"seq":1,"type":"containment_started"}`), jsontext.Value(`{"seq":2,"type":"process_observed"}`), jsontext.Value(`{"seq":3,"type":"process_observed"}`)}}
	if ended {
		c.Processes[0].State, c.Processes[1].State, c.Processes[1].Detail = "exited", "blocked_in_io", "it waits in the kernel"
		c.Steps = []jsontext.Value{jsontext.Value(`{"seq":9,"type":"process_signalled"}`)}
		c.Verdict, c.Missing = api.VerdictNotContained, []string{"pid 5 can't be looked at"}
	}
	return c
}

// Every command's output as it is, on stdout and stderr.
func TestGolden(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	key := w.file("host.pub", "ssh-ed25519 AAAA\n")
	golden, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(w.file(".netrc", "machine a login b password c\n")))
	for name, tt := range map[string]struct {
		stdin string
		args  []string
	}{
		"status":         {"", []string{"status"}},
		"status-json":    {"", []string{"status", "--json"}},
		"unlock":         {"", []string{"unlock", "--passphrase-fd", "3"}},
		"lock":           {"", []string{"lock"}},
		"secret-add":     {"v", []string{"secret", "add", "github", "--kind", "bearer", "--passphrase-fd", "3"}},
		"secret-ls":      {"", []string{"secret", "ls"}},
		"secret-ls-json": {"", []string{"secret", "ls", "--json"}},
		"secret-show":    {"", []string{"secret", "show", "github"}},
		"secret-json":    {"", []string{"secret", "show", "github", "--json"}},
		"secret-rotate":  {"v", []string{"secret", "rotate", "github", "--passphrase-fd", "3"}},
		"secret-rebind":  {"", []string{"secret", "rebind", "github", "--account", "bob", "--allow-http=false", "--passphrase-fd", "3"}},
		"secret-import":  {"A=b\n", []string{"secret", "import", "-", "--passphrase-fd", "3"}},
		"import-file":    {"", []string{"secret", "import", ".netrc", "--passphrase-fd", "3"}},
		"import-dry":     {"A=b\n", []string{"secret", "import", "-", "--dry-run"}},
		"import-json":    {"A=b\n", []string{"secret", "import", "-", "--json", "--passphrase-fd", "3"}},
		"host-show":      {"", []string{"host", "show", "web"}},
		"host-json":      {"", []string{"host", "show", "web", "--json"}},
		"secret-rm":      {"", []string{"secret", "rm", "github", "--passphrase-fd", "3"}},
		"host-add":       {"", []string{"host", "add", "web", "--address", "web.example.org:22", "--user", "deploy", "--credential", "deploy", "--host-key", key, "--passphrase-fd", "3"}},
		"host-enrol":     {"", []string{"host", "add", "web", "--address", "web.example.org:22", "--user", "deploy", "--credential", "deploy", "--enrol", "--passphrase-fd", "3"}},
		"host-ls":        {"", []string{"host", "ls"}},
		"host-ls-json":   {"", []string{"host", "ls", "--json"}},
		"host-rm":        {"", []string{"host", "rm", "web", "--passphrase-fd", "3"}},
		"approvals":      {"", []string{"approvals"}},
		"approvals-json": {"", []string{"approvals", "--json"}},
		"approve":        {"", []string{"approve", ap1, "--passphrase-fd", "3"}},
		"approve-bad":    {"", []string{"approve", ap2, "--scope", "use", "--passphrase-fd", "3"}},
		"deny":           {"", []string{"deny", ap1}},
		"approve-weak":   {"", []string{"approve", ap2, "--accept-weak", "--passphrase-fd", "3"}},
		"mute":           {"", []string{"mute", "session-70"}},
		"unmute":         {"", []string{"unmute", "session-70", "--passphrase-fd", "3"}},
		"run-ls":         {"", []string{"run", "ls"}},
		"run-contain":    {"", []string{"run", "contain", run1}},
		"run-ls-json":    {"", []string{"run", "ls", "--json"}},
		"run-show":       {"", []string{"run", "show", run1}},
		"run-show-json":  {"", []string{"run", "show", run1, "--json"}},
		"run-revoke":     {"", []string{"run", "revoke", run1}},
		"revoke-json":    {"", []string{"run", "revoke", run1, "--json"}},
		"server-ls":      {"", []string{"server", "ls"}},
		"server-ls-json": {"", []string{"server", "ls", "--json"}},
		"server-show":    {"", []string{"server", "show", "inventory-local"}},
		"server-digest":  {"", []string{"server", "digest", "--", "node", "dist/server.js"}},
		"grant-ls":       {"", []string{"grant", "ls"}},
		"grant-ls-json":  {"", []string{"grant", "ls", "--json"}},
		"grant-revoke":   {"", []string{"grant", "revoke", "gr_1"}},
		"epoch-revoke":   {"", []string{"epoch", "revoke", ep1, "--json"}},
		"release":        {"", []string{"vault", "release", "--accept-log-head", "--passphrase-fd", "3"}},
		"action-ls":      {"", []string{"action", "ls"}},
		"action-ls-json": {"", []string{"action", "ls", "--run", run1, "--json"}},
		"action-show":    {"", []string{"action", "show", act2}},
		"action-json":    {"", []string{"action", "show", act2, "--json"}},
		"checkpoint":     {"", []string{"audit", "checkpoint"}},
		"action-resolve": {"", []string{"action", "resolve", act2, "--did-not-happen", "--passphrase-fd", "3"}},
		"apply":          {"[settings]\n", []string{"apply", "-", "github=fd:4", "--passphrase-fd", "3"}},
		"apply-dry":      {"", []string{"apply", key, "--dry-run", "--passphrase-fd", "3"}},
		"apply-json":     {"", []string{"apply", key, "github=fd:4", "other=fd:5", "--json", "--passphrase-fd", "3"}},
		"witness-add":    {"", []string{"audit", "witness", "add", "https://witness.example", "--key", "k", "--passphrase-fd", "3"}},
		"witness-ls":     {"", []string{"audit", "witness", "ls"}},
		"witness-json":   {"", []string{"audit", "witness", "ls", "--json"}},
		"witness-rm":     {"", []string{"audit", "witness", "rm", "https://witness.example", "--passphrase-fd", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.fds = map[int]string{3: "pass\n", 4: "value\n"}
			out, errs := w.want(0, tt.stdin, tt.args...)
			got := fmt.Sprintf("stdout:\n%sstderr:\n%s", out, errs)
			path := filepath.Join(golden, name+".golden")
			if *update {
				if err := os.MkdirAll(golden, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && unsafe(r) }) {
				t.Errorf("what an agent wrote reaches the terminal raw: %q", got)
			}
		})
	}
}

// A listing of nothing is an empty array, never null.
func TestEmptyListings(t *testing.T) {
	w := newWorld(t)
	w.operator(answers{
		api.PathCredentialList: []api.Credential(nil), api.PathTargetList: []api.Host(nil), api.PathApprovalList: []api.Approval(nil), api.PathApprovalTable: api.Table{},
		api.PathRunList: []api.Run(nil), api.PathActionList: []api.Action(nil),
	})
	for _, args := range [][]string{{"secret", "ls"}, {"host", "ls"}, {"approvals"}, {"run", "ls"}, {"action", "ls"}} {
		if out, _ := w.want(0, "", append(args, "--json")...); out != "[]\n" {
			t.Errorf("%v: %q", args, out)
		}
		if out, _ := w.want(0, "", args...); strings.Count(out, "\n") != 1 {
			t.Errorf("%v: %q", args, out)
		}
	}
}

// named gives a card its digest.
func named(c api.Approval) api.Approval {
	b, err := c.Bytes()
	if err != nil {
		panic(err)
	}
	c.CardDigest = api.DigestOf(b)
	return c
}
