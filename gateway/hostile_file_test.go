package gateway

import (
	"strings"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// soon fails a test whose f takes longer than reading a file of the limit's size may.
func soon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("reading it does not end")
	}
}

// A quote that nothing closes, before as many lines as a file can have, is read once and not once for each line.
func TestReadEnvOpenQuote(t *testing.T) {
	file := []byte("A='" + strings.Repeat("\n", api.ValueLimit-8))
	soon(t, func() {
		if got := readEnv(file); len(got.values) != 0 || len(got.refused) != 1 || got.refused[0].From != "A" {
			t.Errorf("%d values, refused %v", len(got.values), got.refused)
		}
	})
}

// A file that is one key of many parts, or one list in another, is refused before anything is made of it.
func TestReadTOMLDeep(t *testing.T) {
	for name, file := range map[string]string{
		"dotted key":   strings.Repeat("a.", 1<<16) + "a = 1",
		"dotted table": "[" + strings.Repeat("a.", 1<<16) + "a]",
		"spaced key":   strings.Repeat("a . ", 1<<16) + "a = 1",
		"lists":        "a = " + strings.Repeat("[", 1<<19) + strings.Repeat("]", 1<<19-8),
		"lists, lines": "a = " + strings.Repeat("[\n", 1<<18) + strings.Repeat("]\n", 1<<18-8),
		"tables":       "a = " + strings.Repeat("{a=", 1<<17) + "1" + strings.Repeat("}", 1<<17),
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, func() {
				if _, err := parseApply([]byte(file), settings{}); err == nil || refusalOf(err).Code != "invalid_request" {
					t.Errorf("apply: %v", err)
				}
				if _, err := readBindings([]byte(file)); err == nil || refusalOf(err).Code != "invalid_request" {
					t.Errorf("bindings: %v", err)
				}
			})
		})
	}
}

// A key counts as it is spelt: the checks, the plan and the decoder must not each see another file.
func TestApplySpelling(t *testing.T) {
	const host = "[hosts.web]\naddress = 'h.example:22'\nuser = 'u'\ncredential = 'c'\n"
	for name, file := range map[string]string{
		"table":            "[Settings]\nauto_lock = '1h'",
		"two tables":       "[settings]\nauto_lock = '1h'\n[SETTINGS]\nauto_lock = 'off'",
		"long s":           "['\u017fettings']\nauto_lock = 'off'",
		"setting":          "[settings]\nAuto_Lock = 'off'",
		"setting twice":    "[settings]\nauto_lock = '1h'\nAUTO_LOCK = 'off'",
		"recipients":       "[settings]\nRecipients = ['age1xyz']",
		"nested":           "[settings.budgets]\nSession = 9999",
		"dotted":           "settings.AUTO_LOCK = 'off'",
		"credentials":      "[Credentials.a]\nkind = 'bearer'",
		"credential's key": "[credentials.a]\nKind = 'bearer'",
		"two host keys":    host + "host_key = 'ssh-ed25519 AAAA'\nhostKey = 'ssh-ed25519 BBBB'",
	} {
		if _, err := parseApply([]byte(file), settings{}); err == nil || !strings.Contains(refusalOf(err).Reason, "unknown key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the depth is counted in is what the decoder reads: nothing in a string counts, whatever quotes are in it.
func TestShallow(t *testing.T) {
	many := strings.Repeat("a.", 40)
	for text, want := range map[string]bool{
		"a = '" + many + "' # " + many:                          true,
		`a = "\"` + many + `"`:                                  true,
		"a = \"\"\"x\"\"\"\"\"\n" + many + "a = 1":              false,
		"a = '''\n" + many + "''' \nb=1":                        true,
		"a = ''\n" + many + "a = 1":                             false,
		`a = "\\"` + "\n" + many + "a = 1":                      false,
		strings.Repeat("a = [1.5, 2.5]\n", 40):                  true,
		strings.Repeat("'a'.", 40) + "a = 1":                    false,
		"a = [" + strings.Repeat("['b.c.d', \"e\"],", 40) + "]": true,
	} {
		if got := shallow(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A password that begins with # is not what stands after it.
func TestReadNetrcHash(t *testing.T) {
	for _, file := range []string{
		"machine a.example login ann password #secret0123\naccount work-0123",
		"machine a.example login ann password\n#secret0123\naccount work-0123",
	} {
		got := readNetrc([]byte(file))
		for _, v := range got.values {
			t.Errorf("%q: %q was taken", file, v.value)
		}
		if len(got.refused) == 0 || strings.Contains(strings.Join(reasons(got), " "), "secret") {
			t.Errorf("%q: %v", file, got.refused)
		}
	}
	if got := readNetrc([]byte(`machine a.example login ann password "#secret0123"`)); len(got.values) != 1 || string(got.values[0].value) != "#secret0123" {
		t.Errorf("in quotes: %v", got)
	}
}
