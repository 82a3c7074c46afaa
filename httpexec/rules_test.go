package httpexec

import (
	"crypto/rand"
	"encoding/pem"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestRuleMatch(t *testing.T) {
	for _, c := range []struct {
		rule, method, url, word string // word "": allowed
	}{
		{"GET,POST https://api.example.com/repos/**", "POST", "https://api.example.com/repos/a/b", ""},
		{"GET,POST https://api.example.com/repos/**", "DELETE", "https://api.example.com/repos/a/b", "method"},
		{"GET https://api.example.com/repos/**", "GET", "https://api.example.com/repos", "path"},
		{"GET https://api.example.com/repos/**", "GET", "https://api.example.com/repos/", ""},
		{"GET https://api.example.com/repos/**", "GET", "https://api.example.com/reposX/a", "path"},
		{"GET https://api.example.com/**", "GET", "https://api.example.com", ""},
		{"GET https://api.example.com/", "GET", "https://api.example.com", ""},
		{"GET https://api.example.com/", "GET", "https://api.example.com/a", "path"},
		{"GET https://api.example.com/a", "GET", "https://api.example.com/a/", "path"},
		{"GET https://api.example.com/a/", "GET", "https://api.example.com/a/", ""},
		{"GET https://api.example.com/a/*", "GET", "https://api.example.com/a/", "path"},
		{"GET https://api.example.com/a/*/c", "GET", "https://api.example.com/a/b/c", ""},
		{"GET https://api.example.com/a/*/c", "GET", "https://api.example.com/a/b/x/c", "path"},
		{"GET https://api.example.com/a/*", "GET", "https://api.example.com/a/b;c", "path"},
		{"GET https://api.example.com/a/**", "GET", "https://api.example.com/a/b%3Bc", "path"},
		{"GET https://api.example.com/A", "GET", "https://api.example.com/a", "path"},
		{"GET https://api.example.com/**", "GET", "http://api.example.com/", "origin"},
		{"GET https://api.example.com/**", "GET", "https://api.example.com:8443/", "origin"},
		{"GET https://api.example.com/**", "GET", "https://api.example.com.evil.example/", "origin"},
		{"GET https://api.example.com/**", "GET", "https://xapi.example.com/", "origin"},
		{"GET https://*.example.com/**", "GET", "https://a.example.com/", ""},
		{"GET https://*.example.com/**", "GET", "https://example.com/", "origin"},
		{"GET https://*.example.com/**", "GET", "https://a.b.example.com/", "origin"},
		{"GET https://*.example.com/**", "GET", "https://aexample.com/", "origin"},
		{"GET https://example.com/*?v=1*&k=*", "GET", "https://example.com/a?k&v=12", ""},
		{"GET https://example.com/*?v=1*2*3", "GET", "https://example.com/a?v=1x2y2z3", ""},
		{"GET https://example.com/*?v=1*2*3", "GET", "https://example.com/a?v=123", ""},
		{"GET https://example.com/*?v=1*1", "GET", "https://example.com/a?v=1", "query"},
		{"GET https://example.com/*?v=%2A", "GET", "https://example.com/a?v=*", ""},
		{"GET https://example.com/*?v=%2A", "GET", "https://example.com/a?v=x", "query"},
		{"GET https://example.com/*?v=", "GET", "https://example.com/a?v=", ""},
		{"GET https://example.com/*?v=", "GET", "https://example.com/a?v=1", "query"},
	} {
		_, err := rules(t, bearer(c.rule)).Match(parse(t, Input{URL: c.url, Method: c.method}))
		switch {
		case c.word != "":
			wantError(t, err, "rule_mismatch", c.word)
		case err != nil:
			t.Errorf("%s, %s %s: %v", c.rule, c.method, c.url, err)
		}
	}
	m := match(t, rules(t, bearer("GET https://a.example/x", "POST https://a.example/**")), parse(t, Input{URL: "https://a.example/x", Method: "POST"}))
	if m.Rule() != "POST https://a.example/**" || (Match{}).Rule() != "" {
		t.Errorf("rule %q", m.Rule())
	}
	if _, err := (Rules{}).Match(parse(t, Input{URL: "https://a.example/"})); err == nil {
		t.Error("zero rules allow something")
	}
	if _, err := rules(t, bearer("GET https://a.example/**")).Match(Request{}); err == nil {
		t.Error("the zero request is allowed")
	}
}

func TestRuleFaults(t *testing.T) {
	for _, c := range []struct{ rule, word string }{
		{"", "METHODS URL"},
		{"https://a.example/", "METHODS URL"},
		{"get https://a.example/", `"GET https://a.example/"`},
		{"GET,GET https://a.example/", "twice"},
		{"GET, POST https://a.example/", "method"},
		{"CONNECT https://a.example/", "method"},
		{"GET  https://a.example/", "begin with"},
		{"GET https://a.example", "/**"},
		{"GET https://A.example/", "write it as"},
		{"GET https://a.example:443/", "write it as"},
		{"GET https://a.example./", "write it as"},
		{"GET https://a.example/%41", "write it as"},
		{"GET https://a.example/a%2fb", "write it as"},
		{"GET https://u@a.example/", "userinfo"},
		{"GET https://*.com/**", "labels"},
		{"GET https://*.co.uk/**", "labels"},
		{"GET https://*.github.io/**", "labels"},
		{"GET https://*.0.0.1/**", "number"},
		{"GET https://*.1.0.0.127/**", "labels"},
		{"GET https://*.*.a.example/**", "label"},
		{"GET https://a*.example/**", "label"},
		{"GET https://*/**", "label"},
		{"GET http://a.example/**", "allowHttp"},
		{"GET https://a.example/**/b", "last"},
		{"GET https://a.example/a*", "%2A"},
		{"GET https://a.example/{id}", "raw"},
		{"GET https://a.example/../b", "dot"},
		{"GET https://a.example//b", "empty"},
		{"GET https://a.example/b?", "KEY=PATTERN"},
		{"GET https://a.example/b?k", "KEY=PATTERN"},
		{"GET https://a.example/b?k=1&K=2", "twice"},
		{"GET https://a.example/b?k=%", "escape"},
		{"GET https://a.example/b?_method=*", "method"},
	} {
		s := Spec{Kind: "bearer", Allow: []string{"GET https://ok.example/", c.rule}}
		if _, err := s.compile(); err == nil || !strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), "allow[1]") {
			t.Errorf("%q: %v, want allow[1] and %q", c.rule, err, c.word)
		}
	}
	for _, u := range []string{"http://localhost/**", "http://127.0.0.1:8080/**", "http://[::1]/**", "http://x.localhost/**"} {
		if _, err := (Spec{Kind: "bearer", Allow: []string{"GET " + u}}).compile(); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestSpecFaults(t *testing.T) {
	good := Spec{Kind: "bearer", Allow: []string{"GET https://a.example/**"}}
	for _, c := range []struct {
		word   string
		change func(*Spec)
	}{
		{"kind", func(s *Spec) { s.Kind = "" }},
		{"kind", func(s *Spec) { s.Kind = "sigv4" }},
		{"allow: empty", func(s *Spec) { s.Allow = nil }},
		{"scrub", func(s *Spec) { s.Scrub = "maybe" }},
		{"username", func(s *Spec) { s.Username = "u" }},
		{"username", func(s *Spec) { s.Kind = "basic" }},
		{"username", func(s *Spec) { s.Kind, s.Username = "basic", "a:b" }},
		{"username", func(s *Spec) { s.Kind, s.Username = "basic", "a\nb" }},
		{"header", func(s *Spec) { s.Header = "X-Key" }},
		{"header", func(s *Spec) { s.Kind = "header" }},
		{"header", func(s *Spec) { s.Kind, s.Header = "header", "X Key" }},
		{"header", func(s *Spec) { s.Kind, s.Header = "header", "host" }},
		{"header", func(s *Spec) { s.Kind, s.Header = "header", "Content-Length" }},
		{"header", func(s *Spec) { s.Kind, s.Header = "header", "Cookie" }},
		{"%s", func(s *Spec) { s.Kind, s.Header, s.Format = "header", "X-Key", "token" }},
		{"%s", func(s *Spec) { s.Kind, s.Header, s.Format = "header", "X-Key", "%s%s" }},
		{"%s", func(s *Spec) { s.Kind, s.Header, s.Format = "header", "X-Key", "%d %s" }},
		{"format", func(s *Spec) { s.Kind, s.Header, s.Format = "header", "X-Key", "%s\r\nX: y" }},
		{"allowHeader[0]", func(s *Spec) { s.AllowHeader = []string{"Authorization"} }},
		{"allowHeader[0]", func(s *Spec) { s.AllowHeader = []string{"X-Forwarded-Host=*"} }},
		{"allowHeader[0]", func(s *Spec) { s.AllowHeader = []string{"=x"} }},
		{"allowHeader[0]", func(s *Spec) { s.AllowHeader = []string{"X-A=\n"} }},
		{"allowHeader[0]", func(s *Spec) {
			s.Kind, s.Header, s.AllowHeader = "header", "X-Key", []string{"x-key"}
		}},
		{"allowNetwork[0]", func(s *Spec) { s.AllowNetwork = []string{"10.0.0.1"} }},
		{"allowNetwork[0]", func(s *Spec) { s.AllowNetwork = []string{"10.0.0.1/8"} }},
		{"allowNetwork[0]", func(s *Spec) { s.AllowNetwork = []string{"::ffff:10.0.0.0/104"} }},
		{"idempotencyHeader", func(s *Spec) { s.IdempotencyHeader = "Host" }},
		{"idempotencyHeader", func(s *Spec) { s.IdempotencyHeader = "authorization" }},
		{"ca", func(s *Spec) { s.CA = "not pem" }},
		{"ca", func(s *Spec) { s.CA = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n" }},
		{"ca", func(s *Spec) { s.CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" }},
		{"allow", func(s *Spec) {
			for range 300 {
				s.Allow = append(s.Allow, s.Allow[0])
			}
		}},
	} {
		s := good
		c.change(&s)
		if _, err := s.compile(); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%+v: %v, want %q", s, err, c.word)
		}
	}
	for _, text := range []string{``, `{}`, `null`, `[]`, `{"kind":"bearer","allow":["GET https://a.example/"],"Kind":"x"}`,
		`{"kind":"bearer","kind":"basic","allow":["GET https://a.example/"]}`, `{"kind":"bearer","allow":["GET https://a.example/"]} x`,
		`{"kind":"bearer","allow":["GET https://a.example/"],"jobIdentity":"location"}`, `{"kind":"bearer","allow":"GET https://a.example/"}`} {
		if _, err := ParseRules([]byte(text)); err == nil {
			t.Errorf("%s taken", text)
		}
	}
	b, err := json.Marshal(Spec{Kind: "basic", Allow: []string{"GET https://a.example/**"}, Carry: Carry{Username: "u"}, AllowHTTP: true, AllowNetwork: []string{"10.0.0.0/8"}})
	if want := `{"kind":"basic","allow":["GET https://a.example/**"],"allowNetwork":["10.0.0.0/8"],"allowHttp":true,"username":"u"}`; err != nil || string(b) != want {
		t.Errorf("json %s, %v", b, err)
	}
	r, err := ParseRules(b)
	if err != nil || r.Spec().Username != "u" || !slices.Equal(r.Strings(), []string{"GET https://a.example/**"}) {
		t.Errorf("%v, %+v", err, r.Spec())
	}
}

func TestEntryCheck(t *testing.T) {
	allow := []string{"GET https://a.example/**"}
	b := Spec{Kind: "bearer", Allow: allow}
	hostile(t, "H38", func(t *testing.T) {
		if err := b.Check([]byte("abcd")); err == nil || !strings.Contains(err.Error(), `scrub "off"`) {
			t.Errorf("4 bytes: %v", err)
		}
		off := b
		off.Scrub = "off"
		if err := off.Check([]byte("abcd")); err != nil {
			t.Errorf("4 bytes with scrub off: %v", err)
		}
	})
	for _, c := range []struct {
		spec  Spec
		value string
		ok    bool
	}{
		{b, "12345678", true},
		{b, "1234567", false},
		{b, "", false},
		{b, "long enough but spaced", false},
		{b, "long-enough\n", false},
		{b, "long-enough-é", false},
		{b, strings.Repeat("a", maxSecret+1), false},
		{Spec{Kind: "basic", Carry: Carry{Username: "u"}, Allow: allow}, "pass word é", true},
		{Spec{Kind: "basic", Carry: Carry{Username: "u"}, Allow: allow}, "pass\x00word", false},
		{Spec{Kind: "header", Carry: Carry{Header: "X-Key", Format: "token %s"}, Allow: allow}, "a key with spaces", true},
		{Spec{Kind: "header", Carry: Carry{Header: "X-Key"}, Allow: allow}, "keyé-long-enough", false},
		{Spec{Kind: "header", Allow: allow}, "long-enough", false},
		{Spec{Kind: "header", Carry: Carry{Header: "X-Key", Format: "%s x"}, Allow: allow}, " long-enough", false},
	} {
		err := c.spec.Check([]byte(c.value))
		if (err == nil) != c.ok {
			t.Errorf("%s %q: %v", c.spec.Kind, c.value[:min(20, len(c.value))], err)
		}
		if err != nil && len(c.value) > 3 && strings.Contains(err.Error(), c.value) {
			t.Errorf("the value is in %v", err)
		}
	}
}

func TestInjection(t *testing.T) {
	q := Request{method: "POST"}
	for _, c := range []struct {
		spec        Spec
		name, value string
	}{
		{Spec{Kind: "bearer"}, "Authorization", "Bearer " + secret},
		{Spec{Kind: "basic", Carry: Carry{Username: "me"}}, "Authorization", "Basic bWU6czNjcjN0L1prK3ZhbHVlPTQy"},
		{Spec{Kind: "header", Carry: Carry{Header: "x-api-key"}}, "X-Api-Key", secret},
		{Spec{Kind: "header", Carry: Carry{Header: "Authorization", Format: "token %s;"}}, "Authorization", "token " + secret + ";"},
	} {
		h := http.Header{}
		set, err := c.spec.inject(&http.Request{Header: h}, q, Injection{Secret: []byte(secret), IdempotencyKey: "k"})
		if err != nil || h.Get(c.name) != c.value || len(h) != 1 {
			t.Errorf("%+v: %v, %v", c.spec, err, h)
		}
		if shown, n := set.String("x " + c.value + " y"); n != 1 || strings.Contains(shown, c.value[len(c.value)-5:]) {
			t.Errorf("%+v: echo shown as %q, %d hits", c.spec, shown, n)
		}
	}
	s := Spec{Kind: "bearer", IdempotencyHeader: "Idempotency-Key"}
	h := http.Header{}
	if _, err := s.inject(&http.Request{Header: h}, q, Injection{Secret: []byte(secret), IdempotencyKey: "k1"}); err != nil || h.Get("Idempotency-Key") != "k1" {
		t.Errorf("idempotency: %v, %v", err, h)
	}
	h = http.Header{}
	if _, err := s.inject(&http.Request{Header: h}, Request{method: "GET"}, Injection{Secret: []byte(secret), IdempotencyKey: "k1"}); err != nil || len(h) != 1 {
		t.Errorf("a read carries the key: %v, %v", err, h)
	}
	for _, in := range []Injection{{}, {Secret: []byte("a\r\nX: y-long")}, {Secret: []byte(secret), IdempotencyKey: "a\r\nb"}} {
		if _, err := s.inject(&http.Request{Header: http.Header{}}, q, in); err == nil || strings.Contains(err.Error(), "X: y") {
			t.Errorf("%v", err)
		}
	}
	// Whatever bytes a password has, its Basic value is found in an echo.
	for range 50 {
		pass := []byte(strings.ToLower(rand.Text()))[:12]
		h := http.Header{}
		set, err := (Spec{Kind: "basic", Carry: Carry{Username: "bob"}}).inject(&http.Request{Header: h}, q, Injection{Secret: pass})
		if err != nil {
			t.Fatal(err)
		}
		if shown, n := set.String(h.Get("Authorization")); n != 1 || shown != "Basic [redacted]" {
			t.Fatalf("shown %q, %d hits", shown, n)
		}
	}
}

func TestCA(t *testing.T) {
	_, ca := tlsServer(t, http.NotFoundHandler())
	s := Spec{Kind: "bearer", Allow: []string{"GET https://a.example/**"}, Trust: Trust{CA: ca + "\n" + ca}}
	if r, err := s.compile(); err != nil || r.roots == nil {
		t.Errorf("two certificates: %v", err)
	}
	s.CA = ca + "trailing words"
	if _, err := s.compile(); err == nil {
		t.Error("words after the certificate taken")
	}
	s.CA = ca + string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")}))
	if _, err := s.compile(); err == nil {
		t.Error("a key beside the certificate taken")
	}
}

func FuzzRule(f *testing.F) {
	for _, s := range []string{"GET,POST https://api.github.com/repos/**", "GET https://*.a.example/{raw}/*/?k=a*b&c=%2A", "DELETE http://[::1]:80/a%2Fb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRule(s)
		if err != nil {
			return
		}
		if r.String() != s {
			t.Fatalf("%q prints as %q", s, r.String())
		}
		if again, err := parseRule(r.String()); err != nil || again.String() != s {
			t.Fatalf("%q: %v", r.String(), err)
		}
	})
}
