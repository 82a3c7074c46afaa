package httpexec

import (
	"bytes"
	"strings"
	"testing"
)

func TestHostileURLs(t *testing.T) {
	hostile(t, "H01", func(t *testing.T) {
		for _, u := range []string{"https://api.example.com@evil.example/", "https://a:b@evil.example/", "https://@evil.example/"} {
			_, err := ParseRequest(Input{URL: u})
			wantError(t, err, "invalid_request", "userinfo")
		}
	})
	hostile(t, "H02", func(t *testing.T) {
		q := parse(t, Input{URL: "HTTPS://API.Example.COM./p"})
		if q.URL() != "https://api.example.com/p" || q.origin.authority() != "api.example.com" {
			t.Errorf("got %s", q.URL())
		}
		match(t, rules(t, bearer("GET https://api.example.com/p")), q)
	})
	hostile(t, "H04", func(t *testing.T) {
		for _, p := range []string{"0443", "0", "70000", "", "+1", "-1", "1 ", "443x", "00"} {
			_, err := ParseRequest(Input{URL: "https://api.example.com:" + p + "/"})
			wantError(t, err, "invalid_request", "port")
		}
		if q := parse(t, Input{URL: "https://api.example.com:443/"}); q.Origin() != "https://api.example.com" {
			t.Errorf("default port kept: %s", q.Origin())
		}
		if q := parse(t, Input{URL: "http://api.example.com:443/"}); q.Origin() != "http://api.example.com:443" {
			t.Errorf("other scheme's port lost: %s", q.Origin())
		}
	})
	hostile(t, "H05", func(t *testing.T) {
		// Refused before any resolver is asked, so that cgo's and Go's can't differ.
		for _, h := range []string{"127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0x7f000001", "1.2.3.4.5", "127.0.0.0x1", "0x", "1.2.3.08", "127.0.0.1..", "a.1", "127.1."} {
			_, err := ParseRequest(Input{URL: "https://" + h + "/"})
			wantError(t, err, "invalid_request", "host")
		}
		if q := parse(t, Input{URL: "https://127.0.0.1./"}); q.Origin() != "https://127.0.0.1" {
			t.Errorf("got %s", q.Origin())
		}
	})
}

func TestRefusedURLs(t *testing.T) {
	for _, c := range []struct{ url, word string }{
		{"", "exactly one"},
		{"example.com", "begin with"},
		{"ftp://example.com/", "begin with"},
		{"https:example.com/", "begin with"},
		{"https:///p", "host"},
		{"https://", "host"},
		{" https://example.com/", "begin with"},
		{"https://example.com/#x", "fragment"},
		{"https://example.com\\@evil.example/", "backslash"},
		{"https://example.com/a\\b", "backslash"},
		{"https://example.com/\x00", "control"},
		{"https://example.com/\r\nHost: x", "control"},
		{"https://exa mple.com/", "label"},
		{"https://ex%61mple.com/", "label"},
		{"https://*.example.com/", "label"},
		{"https://a_b.example.com/", "label"},
		{"https://-a.example.com/", "label"},
		{"https://" + strings.Repeat("a", 64) + ".com/", "label"},
		{"https://" + strings.Repeat("a.", 130) + "com/", "253"},
		{"https://[fe80::1%25eth0]/", "IPv6"},
		{"https://[::ffff:127.0.0.1]/", "IPv6"},
		{"https://[1.2.3.4]/", "IPv6"},
		{"https://[::1/", "bracket"},
		{"https://[::1]x/", "bracket"},
		{"https://::1/", "port"},
		{"https://example.com/%zz", "escape"},
		{"https://example.com/%4", "escape"},
		{"https://example.com/?a=%4", "escape"},
		{"https://example.com/%ff", "UTF-8"},
		{"https://example.com/?a&&b", "empty key"},
		{"https://example.com/?=1", "empty key"},
		{"https://example.com/?a=%00", "NUL"},
		{"https://example.com/?_method=DELETE", "method"},
		{"https://example.com/?.method=DELETE", "method"},
		{"https://example.com/?+_METHOD=DELETE", "method"},
		{"https://example.com/?_method[]=DELETE", "method"},
		{"https://example.com/?x.http.method.override=DELETE", "method"},
		{"https://example.com/?a=" + strings.Repeat("x", 9000), "8 KiB"},
	} {
		_, err := ParseRequest(Input{URL: c.url})
		wantError(t, err, "invalid_request", c.word)
	}
}

func TestHostilePaths(t *testing.T) {
	hostile(t, "H16", func(t *testing.T) {
		for _, p := range []string{
			"/allowed/../admin", "/allowed/%2e%2e/admin", "/allowed/..%2fadmin", "//admin",
			"/a//b", "/./a", "/a/.", "/a/..", "/%2e/a", "/a/%2E%2e", "/a%2f%2e%2e", "/a%2f..%2fb", "/a%5c..%5cb", "/a%5Cb",
			"/a/%252e%252e/b", "/a/%25252e/b", "/a%252fb", "/a/..;/b", "/a/..;x=1/b", "/a/;/b", "/a/.;x/b", "/a/%2e%2e;/b",
			"/a/..%3b/b", "/a%2f", "/%2fa", "/a/%00", "/a/%0d%0a", "/a/%7f", "/a//", "/v1%2e2",
		} {
			for _, in := range []Input{{URL: "https://example.com" + p}, {Target: "t", Path: p}} {
				if q, err := ParseRequest(in); err == nil {
					t.Errorf("%s taken as %s", p, q.Path())
				}
			}
		}
	})
	hostile(t, "H17", func(t *testing.T) {
		q := parse(t, Input{URL: "https://gitlab.example/api/v4/projects/a%2fb/issues"})
		if q.Path() != "/api/v4/projects/a%2Fb/issues" {
			t.Errorf("path %s", q.Path())
		}
		match(t, rules(t, bearer("GET https://gitlab.example/api/v4/projects/{raw}/issues")), q)
		for _, r := range []string{"/api/v4/projects/*/issues", "/api/v4/**", "/**", "/api/v4/projects/a%2Fc/issues"} {
			_, err := rules(t, bearer("GET https://gitlab.example"+r)).Match(q)
			wantError(t, err, "rule_mismatch", "{raw}")
		}
	})
	for in, want := range map[string]string{
		"":                "/",
		"/a b":            "/a%20b",
		"/%41%7e%2D":      "/A~-",
		"/é":              "/%C3%A9",
		"/%c3%a9":         "/%C3%A9",
		"/a%2bb+c":        "/a%2Bb+c",
		"/100%25":         "/100%25",
		"/a/":             "/a/",
		"/x..y/...":       "/x..y/...",
		"/repos:scan@v1":  "/repos:scan@v1",
		"/a;v=1/b":        "/a;v=1/b",
		"/\"<>^`{|}":      "/%22%3C%3E%5E%60%7B%7C%7D",
		"/%3Fq":           "/%3Fq",
		"/*":              "/*",
		"/a=b,c$d&e!f'()": "/a=b,c$d&e!f'()",
	} {
		q := parse(t, Input{Target: "t", Path: in})
		if q.Path() != want {
			t.Errorf("%q: %s, want %s", in, q.Path(), want)
		}
		if again := parse(t, Input{Target: "t", Path: want}); again.Path() != want {
			t.Errorf("%s is not canonical: %s", want, again.Path())
		}
	}
	_, err := ParseRequest(Input{Target: "t", Path: "/a?b=c"})
	wantError(t, err, "invalid_request", "query")
	_, err = ParseRequest(Input{Target: "t", Path: "a"})
	wantError(t, err, "invalid_request", "begin")
	_, err = ParseRequest(Input{URL: "https://example.com/", Path: "/a"})
	wantError(t, err, "invalid_request", "target")
	_, err = ParseRequest(Input{URL: "https://example.com/", Target: "t"})
	wantError(t, err, "invalid_request", "exactly one")
}

func TestQuery(t *testing.T) {
	q := parse(t, Input{URL: "https://example.com/s?q=a+b%20c&x%5b%5d=1&x[]=2&flag&e=", Query: map[string]string{"z": "é&=", "b": "1"}})
	if want := "/s?q=a%20b%20c&x%5B%5D=1&x%5B%5D=2&flag&e=&b=1&z=%C3%A9%26%3D"; q.RequestURI() != want {
		t.Errorf("got %s, want %s", q.RequestURI(), want)
	}
	_, err := ParseRequest(Input{URL: "https://example.com/s?q=1", Query: map[string]string{"q": "2"}})
	wantError(t, err, "invalid_request", `"q"`)
	hostile(t, "H18", func(t *testing.T) {
		r := rules(t, bearer("GET https://example.com/s?state=open"))
		match(t, r, parse(t, Input{URL: "https://example.com/s?state=open&other=1&other=2"}))
		for u, word := range map[string]string{
			"?state=open&state=all":   "twice",
			"?state=open&state=open":  "twice",
			"?state=open&STATE=all":   "twice",
			"?State=open":             "twice",
			"?state=open&%73tate=all": "twice",
			"?state=open&+state=all":  "twice", // PHP drops the space
			"?state=open&state[]=all": "twice",
			"?state=open&state[x]=a":  "twice",
			"?state=all":              "state",
			"?state=openx":            "state",
			"":                        "missing",
		} {
			_, err := r.Match(parse(t, Input{URL: "https://example.com/s" + u}))
			wantError(t, err, "rule_mismatch", word)
		}
		for rule, query := range map[string]string{"user_id=5": "user_id=5&user.id=6", "a_b=1": "a_b=1&a[b=2", "page[size]=9": "page[size]=9&page=1"} {
			r := rules(t, bearer("GET https://example.com/s?"+strings.NewReplacer("[", "%5B", "]", "%5D").Replace(rule)))
			_, err := r.Match(parse(t, Input{URL: "https://example.com/s?" + query}))
			wantError(t, err, "rule_mismatch", "twice")
		}
		r = rules(t, bearer("GET https://example.com/s?page%5Bsize%5D=9"))
		match(t, r, parse(t, Input{URL: "https://example.com/s?page[size]=9&page[number]=2"}))
	})
}

func TestHostileHeaders(t *testing.T) {
	const value = "evil-value-123"
	header := func(name, value string) error {
		q, err := ParseRequest(Input{URL: "https://example.com/", Headers: map[string]string{name: value}})
		if err == nil {
			s := bearer("GET https://example.com/**")
			s.AllowHeader = []string{"X-Team=a*z", "X-Any"}
			_, err = rules(t, s).Match(q)
		}
		if err != nil && strings.Contains(err.Error(), value) {
			t.Errorf("value in %v", err)
		}
		return err
	}
	hostile(t, "H13", func(t *testing.T) {
		for _, n := range []string{"Authorization", "authorization", "Authorization ", "AUTHORIZATION", " authorization\t", "Proxy-Authorization", "Cookie"} {
			wantError(t, header(n, value), "header_refused", "the vault sets it")
		}
	})
	hostile(t, "H14", func(t *testing.T) {
		for _, v := range []string{value + "\r\nX: y", value + "\nX: y", value + "\x00", value + "\r\n folded", value + "\x7f", value + "é"} {
			wantError(t, header("Accept", v), "header_refused", "Accept")
		}
	})
	hostile(t, "H15", func(t *testing.T) {
		for _, n := range []string{"X-HTTP-Method-Override", "X_HTTP_Method_Override", "x_forwarded_for", "x-http-method", "X-Method-Override", "X-Forwarded-Host", "x-forwarded-for", "Forwarded",
			"Host", "Connection", "TE", "Trailer", "Transfer-Encoding", "Content-Length", "Upgrade", "Expect", "Range", "Accept-Encoding", "Keep-Alive", "Proxy-Connection"} {
			wantError(t, header(n, value), "header_refused", n)
		}
	})
	for _, n := range []string{"X-Other", "X-Team", "Origin"} {
		wantError(t, header(n, value), "header_refused", n)
	}
	for _, n := range []string{"X:y", "X y", "", "X\r\nY", "Xé", strings.Repeat("x", 200)} {
		wantError(t, header(n, value), "header_refused", "not a header name")
	}
	for n, v := range map[string]string{"accept": "a/b", "User-Agent": "me", "x-any": value, "x-team": "abz", "if-match": `"x"`} {
		if err := header(n, v); err != nil {
			t.Errorf("%s refused: %v", n, err)
		}
	}
	_, err := ParseRequest(Input{URL: "https://example.com/", Headers: map[string]string{"Accept": "a", "accept": "b"}})
	wantError(t, err, "invalid_request", "twice")
	_, err = ParseRequest(Input{URL: "https://example.com/", Headers: map[string]string{"Accept": strings.Repeat("a", 40<<10)}})
	wantError(t, err, "invalid_request", "32 KiB")

	s := Spec{Kind: "header", Carry: Carry{Header: "X-Api-Key"}, Allow: []string{"GET https://example.com/**"}, IdempotencyHeader: "Idempotency-Key"}
	for _, n := range []string{"x-api-key", "X-API-KEY", "idempotency-key"} {
		_, err := rules(t, s).Match(parse(t, Input{URL: "https://example.com/", Headers: map[string]string{n: value}}))
		wantError(t, err, "header_refused", "sets it")
	}
}

func TestMethodAndBody(t *testing.T) {
	for m, effect := range map[string]string{"": "read", "get": "read", "HEAD": "read", "OPTIONS": "read", "POST": "write", "put": "write", "PATCH": "write", "PURGE": "write", "delete": "destructive"} {
		if q := parse(t, Input{URL: "https://example.com/", Method: m}); q.Effect() != effect {
			t.Errorf("%s is %s", q.Method(), q.Effect())
		}
	}
	for _, m := range []string{"CONNECT", "trace", "GET ", "GE T", "G\r\nX", "PRI", "M-SEARCH", strings.Repeat("A", 21)} {
		_, err := ParseRequest(Input{URL: "https://example.com/", Method: m})
		wantError(t, err, "invalid_request", "method")
	}
	if _, err := ParseRequest(Input{URL: "https://example.com/", Method: "POST", Body: make([]byte, maxBody)}); err != nil {
		t.Error(err)
	}
	_, err := ParseRequest(Input{URL: "https://example.com/", Method: "POST", Body: make([]byte, maxBody+1)})
	wantError(t, err, "invalid_request", "16 MiB")
}

func TestAt(t *testing.T) {
	q := parse(t, Input{Target: "github", Path: "/repos"})
	if q.Origin() != "" || q.URL() != "/repos" || q.Target() != "github" {
		t.Errorf("named target: %q %q", q.Origin(), q.URL())
	}
	r := rules(t, bearer("GET https://api.example.com:8443/**", "GET https://*.example.com/**"))
	if _, err := r.Match(q); err == nil {
		t.Error("a request without an origin matched")
	}
	if o := r.Origins(); len(o) != 2 || o[0] != "https://api.example.com:8443" || o[1] != "https://*.example.com" {
		t.Errorf("origins %v", o)
	}
	at, err := q.At(r.Origins()[0])
	if err != nil || at.URL() != "https://api.example.com:8443/repos" || q.Origin() != "" {
		t.Errorf("At: %v, %s; before: %q", err, at.URL(), q.Origin())
	}
	match(t, r, at)
	_, err = q.At(r.Origins()[1])
	wantError(t, err, "invalid_request", "url")
	for _, o := range []string{"", "https://a.example/", "https://a@b.example", "a.example", "https://a.example?x"} {
		_, err := q.At(o)
		wantError(t, err, "invalid_request", "")
	}
	_, err = at.At("https://other.example")
	wantError(t, err, "invalid_request", "already")
}

// Each part that is sent changes the canonical bytes, and no two splits of the same
// text give the same bytes.
func TestCanonical(t *testing.T) {
	base := Input{URL: "https://example.com/a?b=c", Method: "POST", Headers: map[string]string{"Accept": "x"}, Body: []byte("yz")}
	seen := map[string]string{}
	for name, change := range map[string]func(*Input){
		"none":        func(*Input) {},
		"method":      func(i *Input) { i.Method = "PUT" },
		"scheme":      func(i *Input) { i.URL = "http://example.com:443/a?b=c" },
		"host":        func(i *Input) { i.URL = "https://example.org/a?b=c" },
		"port":        func(i *Input) { i.URL = "https://example.com:444/a?b=c" },
		"path":        func(i *Input) { i.URL = "https://example.com/A?b=c" },
		"query":       func(i *Input) { i.URL = "https://example.com/a?b=C" },
		"bare":        func(i *Input) { i.URL = "https://example.com/a?b" },
		"empty":       func(i *Input) { i.URL = "https://example.com/a?b=" },
		"header":      func(i *Input) { i.Headers = map[string]string{"Accept": "y"} },
		"header name": func(i *Input) { i.Headers = map[string]string{"User-Agent": "x"} },
		"no header":   func(i *Input) { i.Headers = nil },
		"two headers": func(i *Input) { i.Headers = map[string]string{"Accept": "x", "User-Agent": ""} },
		"body":        func(i *Input) { i.Body = []byte("yZ") },
		"moved":       func(i *Input) { i.Headers = map[string]string{"Accept": "xy"}; i.Body = []byte("z") },
	} {
		in := base
		change(&in)
		c := string(parse(t, in).Canonical())
		if other, ok := seen[c]; ok {
			t.Errorf("%s and %s have the same bytes", name, other)
		}
		seen[c] = name
	}
	same := parse(t, Input{URL: "HTTPS://EXAMPLE.com:443/%61?b=c", Method: "post", Headers: map[string]string{"accept": " x "}, Body: []byte("yz")})
	if !bytes.Equal(same.Canonical(), parse(t, base).Canonical()) {
		t.Error("another spelling of the same request has other bytes")
	}
}

// A request's own URL parses to the same request: print(parse(x)) is a fixed point.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{"https://a.example/x/%2F/é?b=1&c", "http://[::1]:80/", "https://a.b:1/;/..", "https://xn--a.example/%25%32%65"} {
		f.Add(s, "/a/b%20c")
	}
	f.Fuzz(func(t *testing.T, u, path string) {
		for _, in := range []Input{{URL: u}, {Target: "t", Path: path}} {
			q, err := ParseRequest(in)
			if err != nil {
				continue
			}
			if in.URL == "" {
				if q, err = q.At("https://a.example"); err != nil {
					t.Fatal(err)
				}
			}
			again, err := ParseRequest(Input{URL: q.URL()})
			if err != nil || again.URL() != q.URL() || !bytes.Equal(again.Canonical(), q.Canonical()) {
				t.Fatalf("%q prints as %q, which parses as %q, %v", u, q.URL(), again.URL(), err)
			}
			for _, s := range strings.Split(q.Path()[1:], "/") {
				plain, err := unescape(s)
				for part := range strings.SplitSeq(plain, "/") {
					part, _, _ = strings.Cut(part, ";")
					if err != nil || part == ".." || part == "." || strings.ContainsAny(plain, "\\\x00\r\n") {
						t.Fatalf("path %q let through", q.Path())
					}
				}
			}
			if strings.ContainsAny(q.URL(), " \t\r\n#\\@") && !strings.Contains(q.Path(), "@") {
				t.Fatalf("url %q let through", q.URL())
			}
		}
	})
}
