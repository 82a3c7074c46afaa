package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain é 日本 🙂":             "plain é 日本 🙂",
		"a\nb\tc":                  `a\nb\tc`,
		"\x1b[31m\x7f\u0085":       `\u001b[31m\u007f\u0085`,
		"\u202e\u2066\u200b\ufeff": `\u202e\u2066\u200b\ufeff`,
		"\xff\xfe":                 `\xff\xfe`,
		"\ufffd":                   `\ufffd`,
		"\U000e0041":               `\U000e0041`,
		"a\u2028b\u00a0c":          `a\u2028b\u00a0c`,
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}

// Whatever is shown stays on its line and moves nothing; a document keeps its value.
func FuzzShown(f *testing.F) {
	f.Add(hostile)
	f.Add("\xc2\x85\U0001f600\U000e0041")
	f.Fuzz(func(t *testing.T, s string) {
		if e := escape(s); strings.ContainsFunc(e, unsafe) || !utf8.ValidString(e) || escape(e) != e {
			t.Errorf("escape(%q) = %q", s, e)
		}
		if !utf8.ValidString(s) {
			return
		}
		var out bytes.Buffer
		a := &app{env: env{out: &out}}
		if err := a.document(map[string]string{s: s}); err != nil {
			t.Fatal(err)
		}
		line, ended := strings.CutSuffix(out.String(), "\n")
		if !ended || strings.ContainsFunc(line, unsafe) {
			t.Errorf("document %q", out.String())
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(line), &back); err != nil || back[s] != s || len(back) != 1 {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	})
}

func FuzzResolve(f *testing.F) {
	f.Add("ap_", ap1, ap2)
	f.Add("0", "0", "00")
	f.Fuzz(func(t *testing.T, typed, a, b string) {
		id, err := resolve(approvalPrefix, typed, []string{a, b})
		if err == nil && id != a && id != b {
			t.Errorf("%q named %q", typed, id)
		}
		// A whole id names itself, whatever else begins with it.
		if err == nil && a != b && id != typed && strings.HasPrefix(a, typed) && strings.HasPrefix(b, typed) {
			t.Errorf("%q could be %q and %q, and named one", typed, a, b)
		}
	})
}
