package scrub

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A document that holds secrets in every encoding once, in values and in names, between text that JSON escapes, is still a
// document of the same shape once it is masked, and none of them is in it.
func TestJSONStaysJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	filler := []string{"", "plain", "\n", "\"quoted\"", "back\\slash", "é", "😀", "\x01", "<&>", "\t\\n", "a/b", "\u2028"}
	secrets := []string{"ghp_abcdefghijklmnopqrstuvwxyz0123456789", `p@ss "w\rd/+<&>é`, "line one\nline two", "sk-ant-\\u0041bcdefgh", "trailing\\"}
	encodings := []func(string) string{
		func(s string) string { return s },
		func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("x" + s + "yz")) },
		func(s string) string { return base64.StdEncoding.EncodeToString([]byte("user:" + s)) },
		func(s string) string { return hex.EncodeToString([]byte(s)) },
		func(s string) string { return url.QueryEscape(s) },
		func(s string) string { return url.PathEscape(s) },
	}
	encoders := []json.Options{jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true), jsontext.Multiline(true)}
	for range 3000 {
		secret := secrets[r.IntN(len(secrets))]
		word := func() string {
			return filler[r.IntN(len(filler))] + encodings[r.IntN(len(encodings))](secret) + filler[r.IntN(len(filler))]
		}
		doc := map[string]any{"a": word(), word(): []any{1.5, nil, true, word()}, "n": map[string]any{"deep": word() + word()}}
		in, err := json.Marshal(doc, encoders[r.IntN(len(encoders))], json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		set := New([]byte(secret))
		var out strings.Builder
		w := set.Writer(&out)
		for p := in; len(p) > 0; {
			n := 1 + r.IntN(min(len(p), 40))
			w.Write(p[:n])
			p = p[n:]
		}
		hits, err := w.Close(true)
		if err != nil || hits < 5 {
			t.Fatalf("%d hits (%v) in %s", hits, err, in)
		}
		var back map[string]any
		if err := json.Unmarshal([]byte(out.String()), &back, jsontext.AllowDuplicateNames(true)); err != nil || len(back) != len(doc) {
			t.Fatalf("%v\n in %s\nout %s", err, in, out.String())
		}
		if strings.Contains(out.String(), secret) {
			t.Fatalf("%s", out.String())
		}
	}
}
