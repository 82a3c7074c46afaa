package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sallyport/gateway/api"
)

func (s source) String() string {
	var b strings.Builder
	for _, v := range s.values {
		fmt.Fprintf(&b, "%d %s=%q %s\n", v.line, v.from, v.value, v.login)
	}
	for _, r := range s.refused {
		fmt.Fprintf(&b, "%d %s: %s\n", r.Line, r.From, r.Reason)
	}
	return b.String()
}

func TestReadEnv(t *testing.T) {
	file := strings.Join([]string{
		"\ufeff# a comment", "PLAIN=abc", "export EXPORTED=abc # why", "  INDENTED = abc", `SINGLE='a $b "c" \n'`, `DOUBLE="a \"b\" \\ \$c"`, "CRLF=abc\r",
		"KEY='-----BEGIN X-----", "line", "-----END X-----'", "AFTER=1=2&3", `ESCAPED="a\nb"`, "HASH=a#b", "",
		"not a line", "yaml: abc", "EMPTY=", "EMPTYQ=''", "COMMENT= # nothing", "SPACES=a b", "EXPANDED=a$HOME", "BRACED=\"a${HOME}\"", "COMMAND=$(cat x)", "TICK=\"`id`\"",
		"MIDDLE=a'b'", `BACK=a\b`, `OTHER="a\tb"`, "TRAILING='a'b", "TWICE=1", "TWICE=2", "1DIGIT=a", "OPEN='abc", "SWALLOWED=x",
	}, "\n")
	want := `2 PLAIN="abc" 
3 EXPORTED="abc" 
4 INDENTED="abc" 
5 SINGLE="a $b \"c\" \\n" 
6 DOUBLE="a \"b\" \\ $c" 
7 CRLF="abc" 
8 KEY="-----BEGIN X-----\nline\n-----END X-----" 
11 AFTER="1=2&3" 
12 ESCAPED="a\nb" 
13 HASH="a#b" 
15 : no KEY=value line
16 : no KEY=value line
17 EMPTY: empty
18 EMPTYQ: empty
19 COMMENT: empty
20 SPACES: spaces without quotes around them
21 EXPANDED: a $ or ` + "`" + ` that a shell would replace; put the value in single quotes, or say what it stands for
22 BRACED: a $ or ` + "`" + ` that a shell would replace; put the value in single quotes, or say what it stands for
23 COMMAND: spaces without quotes around them
24 TICK: a $ or ` + "`" + ` that a shell would replace; put the value in single quotes, or say what it stands for
25 MIDDLE: a quote or a backslash in the middle; put the whole value in single quotes
26 BACK: a quote or a backslash in the middle; put the whole value in single quotes
27 OTHER: a backslash that readers of such files take differently; put the value in single quotes
28 TRAILING: something after the closing quote
31 : no KEY=value line
32 OPEN: a quote that is not closed
29 TWICE: there more than once; leave the one that counts
30 TWICE: there more than once; leave the one that counts
`
	if got := readEnv([]byte(file)).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReadNetrc(t *testing.T) {
	file := `# comment
machine a.example login ann password pw-a-0123
machine b.example
	login "bob smith"
	password "pw \"b\" 0123" account x
macdef init
machine never.example login x password y

machine c.example login only
default login anonymous password x
machine d.example login d password p d
machine e.example login e password one
machine e.example login f password two
stray word
machine f.example login`
	want := `2 a.example="pw-a-0123" ann
3 b.example="pw \"b\" 0123" bob smith
9 c.example: no password
10 default: it is for any host, and a credential is for one
11 d.example: a word that no netrc has; a password with a space needs double quotes
`
	got := readNetrc([]byte(file)).String()
	if !strings.HasPrefix(got, want) || strings.Contains(got, "never.example") || strings.Count(got, "more than once") != 0 && !strings.Contains(got, "e.example: there more than once") {
		t.Errorf("got\n%s\nwant it to begin\n%s", got, want)
	}
	if strings.Contains(got, "pw-a") && strings.Contains(strings.Join(reasons(readNetrc([]byte(file))), " "), "pw-a") {
		t.Error("a reason holds a value")
	}
}

func reasons(s source) (out []string) {
	for _, r := range s.refused {
		out = append(out, r.From+" "+r.Reason)
	}
	return out
}

// What a file holds is never in a reason, whatever the file is.
func FuzzSources(f *testing.F) {
	f.Add("A=secret0123\n'", true)
	f.Add("machine a login b password secret0123 c", false)
	f.Add("macdef x\n\nmachine a\npassword \"secret0123", false)
	f.Fuzz(func(t *testing.T, file string, env bool) {
		read := readNetrc
		if env {
			read = readEnv
		}
		s := read([]byte(file))
		for _, v := range s.values {
			if v.from == "" || len(v.value) == 0 || v.line < 1 || v.line > strings.Count(file, "\n")+1 {
				t.Errorf("%+v", v)
			}
		}
		for _, r := range s.refused {
			if r.Reason == "" || strings.Contains(r.Reason, "secret0123") {
				t.Errorf("%+v", r)
			}
		}
	})
}

// imports runs inspect and, unless dry, import.
func (r *rig) imports(format, file, bindings string, dry bool) (api.ImportPlan, error) {
	r.t.Helper()
	a := api.ImportArgs{Format: format, FileLength: len(file)}
	ask := func(h opHandler) (api.ImportPlan, error) {
		out, err := h(valueOf(r.t.Context(), file+bindings, func(n int, digest []byte) any {
			a.ValueLength, a.ValueDigest = n, digest
			return a
		}))
		if err != nil {
			return api.ImportPlan{}, err
		}
		return out.(api.ImportPlan), nil
	}
	plan, err := ask(r.opInspect)
	if err != nil || dry {
		return plan, err
	}
	a.Plan = plan.Digest
	return ask(r.opImport)
}

func TestImport(t *testing.T) {
	r := newRig(t, "")
	r.init()
	r.addBearer("openai", "GET https://api.openai.com/**")
	const env = `GITHUB_TOKEN=ghp_0123456789abcdef
OPENAI_API_KEY=sk-0123456789
export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE
export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY
STRIPE_API_KEY="rk_with a space"
INTERNAL_KEY='in-0123456789'
PORT=8080
PATHY=$HOME/x
`
	const bind = `[credentials.internal]
from = "INTERNAL_KEY"
kind = "header"
header = "X-Api-Key"
allow = ["GET https://api.example.com/**"]
`
	counter := r.vault.Snapshot().Counter
	plan, err := r.imports("env", env, bind, true)
	if err != nil || r.vault.Snapshot().Counter != counter {
		t.Fatal(err)
	}
	got, err := r.imports("env", env, bind, false)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Digest != got.Digest {
		t.Errorf("stored %+v\nshown %+v", got, plan)
	}
	taken := map[string]string{}
	for _, x := range got.Taken {
		taken[x.From] = x.Credential.Name + " " + x.Credential.Kind
		if len(x.Credential.Rules) == 0 || x.Credential.Version != counter+1 {
			t.Errorf("without rules: %+v", x)
		}
	}
	if fmt.Sprint(taken) != "map[AWS_ACCESS_KEY_ID:aws sigv4 GITHUB_TOKEN:github bearer INTERNAL_KEY:internal header]" {
		t.Errorf("taken %v", taken)
	}
	var refused []string
	for _, x := range got.Refused {
		refused = append(refused, x.From+": "+x.Reason)
	}
	for i, want := range []string{"OPENAI_API_KEY: there is a credential openai", "STRIPE_API_KEY: offset", "PORT: nothing says", "PATHY: a $"} {
		if i >= len(refused) || !strings.HasPrefix(refused[i], want) {
			t.Errorf("refused %q, want %q there", refused, want)
		}
	}
	if c := op[[]api.Credential](r, r.opCredentialList, struct{}{}); len(c) != 4 {
		t.Errorf("stored %+v", c)
	}
	// The same file again gives nothing.
	if again, err := r.imports("env", env, "", false); err != nil || len(again.Taken) != 0 {
		t.Errorf("again: %+v %v", again, err)
	}
	// A netrc: its logins become user names.
	const rc = "machine api.example.org login ann password pw-0123456789\nmachine other.example login x password pw-0123456789\n"
	got, err = r.imports("netrc", rc, "[credentials.org]\nfrom = \"api.example.org\"\nkind = \"basic\"\nallow = [\"GET https://api.example.org/**\"]\n", false)
	if err != nil || len(got.Taken) != 1 || len(got.Refused) != 1 {
		t.Fatalf("netrc: %+v %v", got, err)
	}
	if c := op[api.CredentialShown](r, r.opCredentialShow, api.NameArgs{Name: "org"}); c.Settings.Username != "ann" {
		t.Errorf("netrc: %+v", c)
	}
	r.stop()
	if n := count(events(t, r.dir, r.created.ReaderIdentity), "credential_added"); n != 5 {
		t.Errorf("%d recorded", n)
	}
}

func TestImportFaults(t *testing.T) {
	r := newRig(t, "")
	r.init()
	const env = "A=value-0123456789\n"
	rules := "kind = \"bearer\"\nallow = [\"GET https://a.example/*\"]\n"
	counter := r.vault.Snapshot().Counter
	for name, tt := range map[string]struct{ format, file, bind, says string }{
		"another format":  {"json", env, "", "format: env or netrc"},
		"binary":          {"env", "A=\x00\x01", "", "no text"},
		"no such value":   {"env", env, "[credentials.b]\nfrom = \"B\"\n" + rules, "no value under B"},
		"no from":         {"env", env, "[credentials.b]\n" + rules, "from: missing"},
		"two from one":    {"env", env, "[credentials.b]\nfrom = \"A\"\n" + rules + "[credentials.c]\nfrom = \"A\"\n" + rules, "two are from A"},
		"no rules":        {"env", env, "[credentials.b]\nfrom = \"A\"\nkind = \"bearer\"\n", "credentials.b: allow"},
		"unknown key":     {"env", env, "[credentials.b]\nfrom = \"A\"\nalow = []\n" + rules, "unknown key"},
		"unknown table":   {"env", env, "[hosts.b]\nfrom = \"A\"\n", "unknown key"},
		"not TOML":        {"env", env, "[credentials", "no TOML"},
		"a value in it":   {"env", env, "[credentials.b]\nfrom = \"A\"\nvalue = \"x\"\n" + rules, "never holds a value"},
		"a bad name":      {"env", env, "[credentials.\"B C\"]\nfrom = \"A\"\n" + rules, "name: 1 to 64"},
		"a binding twice": {"env", env, "[credentials.b]\nfrom = \"A\"\n[credentials.b]\nfrom = \"A\"\n", "no TOML"},
	} {
		_, err := r.imports(tt.format, tt.file, tt.bind, false)
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "value-0123456789") {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	// Import goes by what inspect showed.
	bind := "[credentials.b]\nfrom = \"A\"\n" + rules
	plan, err := r.imports("env", env, bind, true)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(bind, "GET", "GET,POST", 1)
	_, err = r.opImport(valueOf(t.Context(), env+other, func(n int, digest []byte) any {
		return api.ImportArgs{Format: "env", FileLength: len(env), Plan: plan.Digest, ValueLength: n, ValueDigest: digest}
	}))
	if err == nil || refusalOf(err).Code != "changed_meanwhile" {
		t.Errorf("other bindings than those shown: %v", err)
	}
	if s := r.vault.Snapshot(); s.Counter != counter || len(s.Credentials()) != 0 {
		t.Error("a refused import changed the vault")
	}
	// Each preset's names are its own.
	known, err := knownSources()
	if err != nil || len(known) < 10 || !slices.ContainsFunc([]string{"GITHUB_TOKEN"}, func(s string) bool { return known[s].args.Preset == "github" }) {
		t.Errorf("known sources: %v %v", known, err)
	}
}
