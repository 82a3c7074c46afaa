package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// Each code has the exit status, the cause and the next step of the one table.
func TestCodes(t *testing.T) {
	for _, c := range api.Codes {
		w := newWorld(t)
		w.operator(answers{api.PathLock: api.Fail(c.Name, "")})
		out, errs := w.want(c.Exit, "", "lock")
		if want := "sp: " + c.Name + ": " + c.Reason + "\n  next: " + c.Retry + "\n"; errs != want || out != "" {
			t.Errorf("%s: stdout %q, stderr %q, want %q", c.Name, out, errs, want)
		}
	}
	// An error's own text is somebody else's: it stays on its line.
	w := newWorld(t)
	w.operator(answers{api.PathLock: &api.Error{Code: "brand_new", Reason: "a\x1b[1mb\nc", Retry: "\u202ed", Next: "x", Action: act1}})
	_, errs := w.want(api.Lookup("internal").Exit, "", "lock")
	if want := `sp: brand_new: a\u001b[1mb\nc (` + act1 + ")\n" + `  next: \u202ed` + "\n"; errs != want {
		t.Errorf("stderr %q", errs)
	}
}

// What can't be right is exit 2, told before anybody is asked.
func TestUsage(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	w.fds[3] = "pass"
	for args, says := range map[string]string{
		"":                                  "needs a command",
		"stauts":                            `did you mean status`,
		"secret":                            "needs a command",
		"secret lss":                        `unknown command "lss" for "sp secret"; did you mean ls`,
		"run revok x":                       "did you mean revoke",
		"audit verfy":                       "did you mean verify",
		"status now":                        `unexpected argument "now"`,
		"status --bogus":                    "unknown flag: --bogus",
		"status --wait soon":                "invalid argument",
		"secret add":                        "NAME is missing",
		"secret add x":                      "--kind is missing",
		"secret add x y --kind bearer":      "a value is never one",
		"secret add x --kind bearer":        "the value is empty",
		"secret rm":                         "NAME is missing",
		"secret rm x --passphrase-fd 9":     "descriptor 9 is not open",
		"secret rm x --passphrase-fd x":     "invalid argument",
		"host add x":                        "--address is missing",
		"host add x --address a:1":          "--user is missing",
		"host add x --address a:1 --user u": "--credential is missing",
		"host add x --address a:1 --user u --credential c":                               "exactly one of --host-key and --enrol",
		"host add x --address a:1 --user u --credential c --enrol --host-key f":          "exactly one of --host-key and --enrol",
		"host add x --address a:1 --user u --credential c --host-key /none":              "no such file",
		"host add x --address a:1 --user u --credential c --enrol --allow-argv ls":       "no JSON array",
		"host add x --address a:1 --user u --credential c --enrol --allow-argv []":       "no JSON array",
		`host add x --address a:1 --user u --credential c --enrol --allow-argv ["ls",1]`: "no JSON array",
		"approve":                                    "ID is missing",
		"approve ap_01 --scope all":                  "--scope is use or run",
		"approve ap_01 --scope use --uses 2":         "narrow --scope run",
		"approve ap_01 --scope use --until 2h":       "narrow --scope run",
		"approve ap_01 --uses 0":                     "at least 1",
		"approve ap_01 --until yesterday":            "no time to come",
		"approve ap_01 --until -1h":                  "no time to come",
		"approve ap_01 --until 2001-01-01T00:00:00Z": "no time to come",
		"approve ap_01":                              "could be any of " + ap1 + ", " + ap2,
		"approve ap_01 --passkey --scope use":        "takes no other flag",
		"passkey rm":                                 "ID is missing",
		"passkey add a b":                            `unexpected argument "b"`,
		"deny":                                       "ID is missing",
		"run show":                                   "RUN is missing",
		"call":                                       "TOOL is missing",
		"call http_request":                          "JSON is missing",
		"call - --idempotency-key k":                 "own idempotencyKey",
		"completion":                                 "SHELL is missing",
		"completion csh":                             "unknown shell",
		"audit verify a b":                           `unexpected argument "b"`,
		"audit verify /none":                         "no such file",
		"audit verify --identify x":                  "unknown flag: --identify",
		"action resolve":                             "ID is missing",
		"action resolve x":                           "exactly one of --happened",
		"action resolve x --happened --replay":       "exactly one of --happened",
		"apply":                                      "FILE is missing",
		"apply x hunter2":                            "NAME=fd:N; a value is never an argument",
		"apply x a=fd:3 b=fd:3":                      "twice",
		"apply - a=fd:0":                             "stdin holds the file",
		"apply /none":                                "no such file",
		"apply - --passphrase-fd 0":                  "stdin holds the file",
		"audit witness add":                          "URL is missing",
		"audit witness add x":                        "--key is missing",
		"audit witness rm":                           "URL is missing",
		"audit show":                                 "SEQ is missing",
		"audit show x --identity y":                  "SEQ is a record's number",
		"audit show 0 --identity y":                  "SEQ is a record's number",
		"audit show 1":                               "--identity is missing",
		"audit export":                               "--identity is missing",
		"audit export --format csv":                  "--format is jsonl",
		"audit sessions":                             "--identity is missing",
		"audit activity --identity - --since x":      "neither a time nor a span",
		"vault slot add":                             "KIND is missing",
		"vault slot add fido":                        "KIND is passphrase, recovery or keychain",
		"vault slot rm":                              "ID is missing",
		"unlock --keychain --recovery":               "neither --recovery nor --passphrase-fd",
		"mcp x":                                      `unexpected argument "x"`,
	} {
		before := w.count()
		out, errs, exit := w.sp("", strings.Fields(args)...)
		if exit != 2 || out != "" || !strings.Contains(errs, says) || !strings.Contains(errs, "\n  next: sp") || !strings.Contains(errs, "--help") {
			t.Errorf("sp %s: exit %d, stdout %q, stderr %q, want %q", args, exit, out, errs, says)
		}
		w.mu.Lock()
		for _, q := range w.asked[before:] {
			if q.path != api.PathApprovalList {
				t.Errorf("sp %s: asked %s all the same", args, q.path)
			}
		}
		w.mu.Unlock()
	}
}

func TestProof(t *testing.T) {
	for name, tt := range map[string]struct {
		fd   string // what descriptor 3 holds
		exit int
		sent string
		says string
	}{
		"plain":             {"correct horse", 0, "correct horse", ""},
		"one newline goes":  {"correct horse\n\n", 0, "correct horse\n", ""},
		"spaces stay":       {"  x \r\n", 0, "  x \r", ""},
		"empty":             {"\n", 2 - 1, "", "proof_required"},
		"not UTF-8":         {"a\xff", 2, "", "not UTF-8"},
		"longer than usual": {strings.Repeat("x", passphraseLimit+1), 2, "", "more than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.operator(sample())
			w.fds[3] = tt.fd
			_, errs := w.want(tt.exit, "", "unlock", "--passphrase-fd", "3")
			contains(t, "stderr", errs, tt.says)
			lacks(t, "stderr", errs, "xxx", "horse")
			if tt.sent == "" {
				if w.count() != 0 {
					t.Error("something was sent")
				}
				return
			}
			if q := w.last(api.PathUnlock, nil); q.env.Proof.Kind != "passphrase" || q.env.Proof.Value != tt.sent {
				t.Errorf("proof %+v", *q.env.Proof)
			}
		})
	}
}

// Without a descriptor and without a terminal nothing is guessed.
func TestNoTerminal(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	for _, args := range [][]string{{"unlock"}, {"secret", "rm", "x"}, {"host", "rm", "x"}, {"approve", ap1}, {"secret", "add", "x", "--kind", "bearer"}} {
		_, errs := w.want(1, "value or passphrase\n", args...)
		contains(t, strings.Join(args, " "), errs, "sp: proof_required: there is no terminal", "--passphrase-fd")
	}
	for _, q := range w.asked {
		if q.path != api.PathApprovalList && q.path != api.PathStatus {
			t.Errorf("asked %s without a proof", q.path)
		}
	}
	w = newWorld(t)
	w.operator(answers{api.PathStatus: api.Status{Vault: "absent"}})
	_, errs := w.want(1, "", "init")
	contains(t, "init", errs, "sp: proof_required: there is no terminal")
}

// Nobody is asked for anything where no gateway runs, or its vault is in no state for the command.
func TestReachedFirst(t *testing.T) {
	commands := [][]string{{"init"}, {"unlock"}, {"unlock", "--recovery"}, {"secret", "add", "x", "--kind", "bearer"}, {"secret", "rm", "x"},
		{"host", "add", "x", "--address", "a:1", "--user", "u", "--credential", "c", "--enrol"}, {"approve", ap1}, {"apply", "-"},
		{"action", "resolve", act1, "--happened"}, {"audit", "witness", "rm", "u"}, {"vault", "release"}}
	asking := func(w *world) {
		w.env.tty = func() (*os.File, error) { t.Error("somebody was asked"); return nil, errors.New("no terminal") }
		w.env.inTTY = true
	}
	w := newWorld(t)
	asking(w)
	for _, args := range commands {
		_, errs := w.want(5, "", args...)
		contains(t, strings.Join(args, " "), errs, "gateway_unreachable: no gateway answers", "sp up")
	}
	for vault, exits := range map[string][]int{
		"absent": {-1, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4},
		"locked": {1, -1, -1, 4, 4, 4, 4, 4, 4, 4, -1},
	} {
		w := newWorld(t)
		asking(w)
		a := sample()
		a[api.PathStatus] = api.Status{Vault: vault}
		w.operator(a)
		for i, args := range commands {
			if exits[i] < 0 {
				continue // this is what it is for
			}
			_, errs := w.want(exits[i], "", args...)
			contains(t, vault+": "+strings.Join(args, " "), errs, map[int]string{1: "exists: there is a vault already\n  next: open it with `sp unlock`", 4: "vault_" + vault}[exits[i]])
		}
	}
}

// What names nothing says how to see what there is.
func TestNotFound(t *testing.T) {
	w := newWorld(t)
	nothing := answers{api.PathStatus: api.Status{Vault: "ready"}, api.PathApprovalList: []api.Approval{}, api.PathRunList: []api.Run{}, api.PathGrantList: []api.Grant{}, api.PathActionList: []api.Action{}}
	for _, path := range []string{api.PathCredentialRemove, api.PathTargetRemove, api.PathWitnessRemove, api.PathRunShow} {
		nothing[path] = api.Fail("not_found", "")
	}
	w.operator(nothing)
	for args, list := range map[string]string{
		"secret rm x --passphrase-fd 3": "sp secret ls", "host rm x --passphrase-fd 3": "sp host ls", "audit witness rm x --passphrase-fd 3": "sp audit witness ls",
		"approve x --passphrase-fd 3": "sp approvals", "deny x": "sp approvals", "run show x": "sp run ls", "incident x": "sp run ls", "run revoke x": "sp run ls",
		"run show " + run1: "sp run ls", "grant revoke x": "sp grant ls", "epoch revoke x": "sp run show RUN",
		"action show x": "sp action ls", "action resolve x --replay --passphrase-fd 3": "sp action ls",
	} {
		w.fds[3] = "pass"
		_, errs := w.want(1, "", strings.Fields(args)...)
		contains(t, args, errs, "sp: not_found: ", "  next: `"+list+"` lists what there is\n")
	}
}

// A passphrase that is too short is told here, with what is wrong with it.
func TestShortPassphrase(t *testing.T) {
	w := newWorld(t)
	w.operator(answers{api.PathStatus: api.Status{Vault: "absent"}})
	w.fds[3] = "zwölfe7\n"
	_, errs := w.want(1, "", "init", "--passphrase-fd", "3")
	contains(t, "stderr", errs, "the new passphrase has 7 characters; it needs 8 or more", "next: choose a longer one")
	lacks(t, "stderr", errs, "zwölf")
	if w.count() != 0 {
		t.Error("it was sent")
	}
}

func TestSecretAdd(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	ca := w.file("ca.pem", "-----BEGIN CERTIFICATE-----\n")
	w.fds = map[int]string{3: "pass\n"}
	out, errs := w.want(0, "t0ken\n\n", "secret", "add", "gh", "--kind", "header", "--account", "ann", "--confirm", "click",
		"--allow", "GET,POST https://a.example/x/**", "--allow", "GET https://a.example/{a,b}", "--allow-header", "X-A=1,2", "--allow-network", "10.0.0.0/8",
		"--allow-http", "--username", "u", "--header", "X-Key", "--format", "token %s", "--scrub", "off", "--ca", ca, "--idempotency-header", "Idem",
		"--passphrase-fd", "3")
	lacks(t, "output", out+errs, "t0ken", "pass")
	var args api.CredentialArgs
	q := w.last(api.PathCredentialAdd, &args)
	if string(q.value) != "t0ken\n" {
		t.Errorf("value %q: one newline, no more, is dropped", q.value)
	}
	if sum := sha256.Sum256(append(bytes.Clone(q.env.Salt), q.value...)); !bytes.Equal(args.ValueDigest, sum[:]) || args.ValueLength != len(q.value) {
		t.Error("args do not name the value")
	}
	args.ValueDigest, args.ValueLength = nil, 0
	want := api.CredentialArgs{Name: "gh", Kind: "header", Account: "ann", Confirm: "click", Rules: api.HTTPRules{
		Allow: []string{"GET,POST https://a.example/x/**", "GET https://a.example/{a,b}"}, AllowHeader: []string{"X-A=1,2"},
		AllowNetwork: []string{"10.0.0.0/8"}, AllowHTTP: true, Carried: api.Carried{Username: "u", Header: "X-Key", Format: "token %s"}, Scrub: "off",
		CA: "-----BEGIN CERTIFICATE-----\n", IdempotencyHeader: "Idem"}}
	if !reflect.DeepEqual(args, want) {
		t.Errorf("args %+v\nwant %+v", args, want)
	}
	if q.env.Proof.Value != "pass" {
		t.Error("the proof is another")
	}
}

func TestSecretAddKeyWithPassphrase(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	w.fds = map[int]string{3: "pass\n", 4: "of the key\n"}
	w.want(0, "KEY\nFILE\n", "secret", "add", "k", "--kind", "ssh-key", "--passphrase-fd", "3", "--key-passphrase-fd", "4")
	var args api.CredentialArgs
	q := w.last(api.PathCredentialAdd, &args)
	if string(q.value) != "KEY\nFILEof the key" || args.PassphraseLength != 10 || args.ValueLength != 18 {
		t.Errorf("value %q, lengths %d %d", q.value, args.ValueLength, args.PassphraseLength)
	}
	n := w.count()
	for _, args := range [][]string{
		{"secret", "add", "k", "--kind", "bearer", "--key-passphrase-fd", "4", "--passphrase-fd", "3"}, // no key
		{"secret", "add", "k", "--kind", "ssh-key", "--passphrase-fd", "0"},                            // stdin holds the value
		{"secret", "add", "k", "--kind", "ssh-key", "--passphrase-fd", "3", "--key-passphrase-fd", "0"},
		{"secret", "add", "k", "--kind", "bearer", "--ca", "/none", "--passphrase-fd", "3"},
	} {
		w.want(2, "v", args...)
	}
	w.want(2, strings.Repeat("x", api.ValueLimit+1), "secret", "add", "k", "--kind", "bearer", "--passphrase-fd", "3")
	if w.count() != n {
		t.Error("a command that cannot be right was sent")
	}
	w.want(0, strings.Repeat("x", api.ValueLimit), "secret", "add", "k", "--kind", "bearer", "--passphrase-fd", "3")
}

func TestHostAdd(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	w.fds[3] = "pass"
	key := w.file("known_hosts", "web ssh-ed25519 AAAA\n")
	w.want(0, "", "host", "add", "web", "--address", "web:22", "--user", "u", "--credential", "c", "--host-key", key,
		"--allow-argv", `["systemctl","status","*"]`, "--allow-argv", `["a b","c,d"]`, "--allow-network", "10.0.0.0/8", "--allow-shell", "--confirm", "click", "--passphrase-fd", "3")
	var args api.HostArgs
	w.last(api.PathTargetAdd, &args)
	want := api.HostArgs{Name: "web", Address: "web:22", User: "u", Credential: "c", HostKey: "web ssh-ed25519 AAAA\n",
		AllowNetwork: []string{"10.0.0.0/8"}, AllowArgv: [][]string{{"systemctl", "status", "*"}, {"a b", "c,d"}}, AllowShell: true, Confirm: "click"}
	if !reflect.DeepEqual(args, want) {
		t.Errorf("args %+v\nwant %+v", args, want)
	}
}

// The answer names the card that was shown, by the digest of what was shown.
func TestApprove(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	cards := sample()[api.PathApprovalList].([]api.Approval)
	w.fds[3] = "pass"
	for _, tt := range []struct {
		args []string
		want api.ApproveArgs
	}{
		{[]string{ap2}, api.ApproveArgs{ID: ap2, CardDigest: cards[1].CardDigest, Scope: "run"}},
		{[]string{ap2[3:]}, api.ApproveArgs{ID: ap2, CardDigest: cards[1].CardDigest, Scope: "run"}},
		{[]string{strings.ToLower(ap1), "--scope", "use"}, api.ApproveArgs{ID: ap1, CardDigest: cards[0].CardDigest, Scope: "use"}},
		{[]string{ap1, "--uses", "5", "--until", "90m"}, api.ApproveArgs{ID: ap1, CardDigest: cards[0].CardDigest, Scope: "run", Uses: 5, Until: now.Add(90 * time.Minute)}},
		{[]string{ap1, "--until", "2031-04-05T08:00:00+01:00"}, api.ApproveArgs{ID: ap1, CardDigest: cards[0].CardDigest, Scope: "run", Until: time.Date(2031, 4, 5, 7, 0, 0, 0, time.UTC)}},
	} {
		w.want(0, "", append(append([]string{"approve"}, tt.args...), "--passphrase-fd", "3")...)
		var args api.ApproveArgs
		w.last(api.PathApprovalGrant, &args)
		if !reflect.DeepEqual(args, tt.want) {
			t.Errorf("%v: args %+v, want %+v", tt.args, args, tt.want)
		}
	}
	_, errs := w.want(1, "", "approve", "ap_99", "--passphrase-fd", "3")
	contains(t, "stderr", errs, "not_found")
	_, errs = w.want(1, "", "approve", ap1[:len(ap1)-1]+"9", "--passphrase-fd", "3")
	contains(t, "a card that is gone", errs, "not_found")
	_, errs = w.want(2, "", "approve", ap1, "--accept-weak", "--passphrase-fd", "3")
	contains(t, "a strong agent", errs, "is not weak")

	// What the gateway shows must be what its digest names, or nothing is signed.
	cards[0].Summary = "GET https://api.github.com/else"
	cards[1].Offers = nil
	cards[1] = named(cards[1])
	a := sample()
	a[api.PathApprovalList] = cards
	w = newWorld(t)
	w.operator(a)
	w.fds[3] = "pass"
	_, errs = w.want(1, "", "approve", ap1, "--passphrase-fd", "3")
	contains(t, "a card that was changed", errs, "not the one that its digest names")
	_, errs = w.want(1, "", "approve", ap2, "--passphrase-fd", "3")
	contains(t, "no offer", errs, "identity is weak", "--accept-weak")
	if n := w.count(); n != 2 {
		t.Errorf("%d commands, want the two listings", n)
	}
}

func TestShortIDs(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	var id api.IDArgs
	w.want(0, "", "run", "show", "01jv")
	w.last(api.PathRunShow, &id)
	if id.ID != run1 {
		t.Errorf("run %s", id.ID)
	}
	w.want(0, "", "action", "show", act2[:len(act2)-1]+"2")
	w.last(api.PathActionShow, &id)
	if id.ID != act2 {
		t.Errorf("action %s", id.ID)
	}
	_, errs := w.want(2, "", "action", "show", "act_01")
	contains(t, "stderr", errs, "could be any of")
	w.want(1, "", "run", "revoke", "run_zz")
	n := w.count()
	w.want(0, "", "run", "revoke", run1)
	if w.count() != n+1 {
		t.Error("a complete id was searched for before the revocation")
	}
	var list api.ListArgs
	w.want(0, "", "action", "ls", "--run", "01")
	w.last(api.PathActionList, &list)
	if list.AgentRun != run1 {
		t.Errorf("args %+v", list)
	}
}

// A gateway that stays silent on a revocation is told about before it answers.
func TestRevokeSilence(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	a := sample()
	answer := a[api.PathRunRevoke]
	a[api.PathRunRevoke] = func(asked) any { <-release; return answer }
	w.operator(a)
	var said watched
	said.on, said.then = "no answer from the gateway", func() { close(release) }
	v := w.env
	var out bytes.Buffer
	v.in, v.out, v.err = strings.NewReader(""), &out, &said
	if exit := run(t.Context(), v, []string{"run", "revoke", run1}); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	contains(t, "stderr", said.String(), "--force")
	contains(t, "stdout", out.String(), "is revoked", act2)
}

// watched is a stderr that reacts once to what is said.
type watched struct {
	bytes.Buffer
	on   string
	then func()
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if w.then != nil && strings.Contains(w.String(), w.on) {
		w.then()
		w.then = nil
	}
	return n, err
}

func TestVersionAndCompletion(t *testing.T) {
	w := newWorld(t)
	out, _ := w.want(0, "", "version", "--json")
	contains(t, "version", out, `"version":"`, `"go":"go1.`)
	out, _ = w.want(0, "", "version")
	contains(t, "version", out, "sp ")
	if flag, _ := w.want(0, "", "--version"); flag != out {
		t.Errorf("--version says %q, version %q", flag, out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out, _ := w.want(0, "", "completion", shell)
		contains(t, shell, out, "__complete")
	}
	out, _ = w.want(0, "", "__complete", "secret", "")
	contains(t, "completion of secret", out, "add\t", "ls\t", "rm\t")
	out, _ = w.want(0, "", "approve", "--help")
	contains(t, "help", out, "--passphrase-fd", "--scope", "--uses")
}
