package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sallyport/gateway/api"
)

// everyCommand lists sp's commands, each with its flags.
func everyCommand(root *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{root}
	for _, c := range root.Commands() {
		out = append(out, everyCommand(c)...)
	}
	return out
}

// V11: no command takes a value as an argument, in a flag or from the environment. A flag with a suspect name is a
// descriptor, or stands here with what it is instead.
func TestV11NoValueByArgument(t *testing.T) {
	w := newWorld(t)
	a := &app{env: w.env}
	suspect := regexp.MustCompile(`secret|value|pass|token|key|identity|phrase|pin|code|auth`)
	known := map[string]string{
		"ca": "certificates", "host-key": "a file with public keys", "enrol": "a switch", "idempotency-key": "the caller's own word for a call",
		"idempotency-header": "a header's name", "token-url": "an address", "spki-pin": "public keys' digests", "identity": "a file's name",
		"oauth-scope": "names of permissions", "token-auth": "which of two places", "key": "a witness's public key", "credential": "a credential's name", "keychain": "a switch", "passkey": "a switch", "pub": "a file's name", "backup-key": "which kind of key is asked for", "accept-log-head": "a switch",
	}
	for _, c := range everyCommand(a.root()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !suspect.MatchString(f.Name) || known[f.Name] != "" {
				return
			}
			if !strings.HasSuffix(f.Name, "-fd") || !strings.HasPrefix(f.Value.Type(), "int") {
				t.Errorf("%s --%s takes a %s: is that a secret?", c.CommandPath(), f.Name, f.Value.Type())
			}
		})
	}
	w.operator(sample())
	for _, args := range [][]string{
		{"secret", "add", "x", "hunter2hunter2", "--kind", "bearer"}, {"secret", "add", "x", "--kind", "bearer", "--value", "hunter2hunter2"},
		{"secret", "add", "x", "--kind", "bearer", "--value=hunter2hunter2"}, {"secret", "add", "x", "--kind", "bearer", "--token=hunter2hunter2"},
		{"secret", "rotate", "x", "hunter2hunter2"}, {"secret", "rotate", "x", "--secret=hunter2hunter2"},
		{"init", "--passphrase=hunter2hunter2"}, {"unlock", "--passphrase=hunter2hunter2"}, {"unlock", "--recovery=hunter2hunter2"},
	} {
		before := w.count()
		out, errs, exit := w.sp("", args...)
		if exit != 2 || out != "" || w.count() != before {
			t.Errorf("sp %v: exit %d", args, exit)
		}
		if strings.Contains(errs, "hunter2") && !slices.Contains(args, "--recovery=hunter2hunter2") { // that switch names what it can't read
			t.Errorf("sp %v says it again: %s", args, errs)
		}
	}
}

// V11: what sp reads of its environment is where things lie, and how to show them.
func TestV11NoValueFromEnvironment(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	home := w.env.getenv
	asked := map[string]bool{}
	w.env.getenv = func(name string) string { asked[name] = true; return home(name) }
	for _, args := range [][]string{{"status"}, {"secret", "add", "x", "--kind", "bearer"}, {"secret", "rotate", "x"}, {"unlock"}, {"init"}, {"apply", "-"}} {
		w.sp("", args...)
	}
	for name := range asked {
		if !slices.Contains([]string{"SALLYPORT_HOME", "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "NO_COLOR", "TERM"}, name) {
			t.Errorf("sp reads $%s", name)
		}
	}
	// confine.go hands its environment on to the agent that it starts, mcp_supervise.go to a server.
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if f == "env.go" || f == "confine.go" || f == "mcp_supervise.go" || strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, call := range []string{"os.Getenv", "os.LookupEnv", "os.Environ", "syscall.Getenv"} {
			if strings.Contains(string(b), call) {
				t.Errorf("%s reads the environment by %s", f, call)
			}
		}
	}
}

// Every field of a credential's rules has a flag of its name, on add and on rebind.
func TestRuleFlags(t *testing.T) {
	a := &app{env: newWorld(t).env}
	for _, cmd := range []*cobra.Command{a.secretAdd(), a.secretRebind()} {
		for _, f := range reflect.VisibleFields(reflect.TypeFor[api.HTTPRules]()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			if cmd.Flags().Lookup(flagOf(name)) == nil {
				t.Errorf("%s has no --%s", cmd.Name(), flagOf(name))
			}
			if fieldOf(flagOf(name)) != name {
				t.Errorf("--%s is not %s again", flagOf(name), name)
			}
		}
	}
}

// rebind sends all of what shall stand: what the flags name, and the rest as it was.
func TestRebindOverlay(t *testing.T) {
	was := api.CredentialShown{Credential: api.Credential{Name: "gh", Kind: "header", Version: 7, Account: "ann", Confirm: "click"},
		Settings: api.HTTPRules{Allow: []string{"GET https://a.example/**", "POST https://a.example/x"}, AllowHeader: []string{"X-A"}, AllowHTTP: true,
			CA: "PEM", Carried: api.Carried{Header: "X-Key", Format: "token %s"}}}
	for name, tt := range map[string]struct {
		flags []string
		want  func(*api.RebindArgs)
	}{
		"nothing":  {nil, func(*api.RebindArgs) {}},
		"replaced": {[]string{"--allow", "GET https://b.example/**"}, func(a *api.RebindArgs) { a.Rules.Allow = []string{"GET https://b.example/**"} }},
		"taken off": {[]string{"--allow-header", "", "--format=", "--allow-http=false", "--ca="}, func(a *api.RebindArgs) {
			a.Rules.AllowHeader, a.Rules.Format, a.Rules.AllowHTTP, a.Rules.CA = nil, "", false, ""
		}},
		"account": {[]string{"--account", "", "--confirm", "never"}, func(a *api.RebindArgs) { a.Account, a.Confirm = "", "never" }},
		"another": {[]string{"--scrub", "off", "--job-id", "location"}, func(a *api.RebindArgs) { a.Rules.Scrub, a.Rules.JobID = "off", "location" }},
	} {
		w := newWorld(t)
		all := sample()
		all[api.PathCredentialShow] = was
		w.operator(all)
		w.fds = map[int]string{3: "pass\n"}
		w.want(0, "", append([]string{"secret", "rebind", "gh", "--passphrase-fd", "3"}, tt.flags...)...)
		var got api.RebindArgs
		w.last(api.PathCredentialRebind, &got)
		want := api.RebindArgs{Name: "gh", Version: 7, Account: "ann", Confirm: "click", Rules: was.Settings}
		tt.want(&want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v\nwant %+v", name, got, want)
		}
	}
}

func TestCAFile(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	w.fds = map[int]string{3: "pass\n"}
	for _, garbage := range []string{"\xff\xfe\x00garbage", "no certificate", ""} {
		_, errs := w.want(2, "value", "secret", "add", "x", "--kind", "bearer", "--ca", w.file("ca.pem", garbage), "--passphrase-fd", "3")
		if !strings.Contains(errs, "ca.pem holds no PEM certificate") {
			t.Errorf("%q: %s", garbage, errs)
		}
	}
}

// No command of sp gives a value back: these are all that speak of credentials, and each is looked at when it is added.
func TestNoCommandReveals(t *testing.T) {
	a := &app{env: newWorld(t).env}
	var names []string
	for _, c := range a.secret().Commands() {
		names = append(names, c.Name())
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "add import ls presets rebind rm rotate show test" {
		t.Errorf("sp secret has %s", got)
	}
	reveal := regexp.MustCompile(`\b(reveal|export|dump|decrypt|print|unmask|plaintext)\b`)
	known := map[string]string{"sp audit export": "the log's records, which hold no value", "sp service print": "a file for a service manager"}
	for _, c := range everyCommand(a.root()) {
		if known[c.CommandPath()] == "" && reveal.MatchString(c.Name()) {
			t.Errorf("%s: what does it show?", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if reveal.MatchString(f.Name) {
				t.Errorf("%s --%s: what does it show?", c.CommandPath(), f.Name)
			}
		})
	}
}
