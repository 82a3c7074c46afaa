package httpexec

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/mccutchen/go-httpbin/v2/httpbin"
)

// What rules judged is, byte for byte, what the server gets: request line, Host, every
// header, body. The server's own view is read with net/http, which shares no code with
// the parser here, and matched against the rule a second time.
func TestMatcherAgainstWire(t *testing.T) {
	srv := serveRaw(t, alwaysOK)
	host := strings.TrimPrefix(srv.url, "http://")
	c := client(t)
	r := rand.New(rand.NewPCG(7, 8))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	spec := bearer("GET,POST,DELETE "+srv.url+"/a/*/c", "GET "+srv.url+"/r/{raw}", "POST "+srv.url+"/q/**", "GET "+srv.url+"/k?v=1*")
	spec.AllowHeader = []string{"X-Team=a*"}
	rs := rules(t, spec)
	var matched, refused int
	for range long(5000, 100000) {
		in := Input{URL: srv.url, Method: pick("GET", "POST", "DELETE", "get"), Headers: map[string]string{}}
		in.URL += pick("/a", "/a/b", "/a/é", "/r", "/q", "/k", "/%61", "/A")
		for range r.IntN(3) {
			in.URL += "/" + pick("b", "c", "é", "%62", "a%2Fb", "a%2fb", "..", "%2e%2e", ";x", "x;y", "*", "", "a b", "%25", "%2525", "%252f", "+", "%2B", "%00", "c%3Bd", "~", "%7E", "\\", "'\"", "@", ":")
		}
		if r.IntN(2) == 0 {
			in.URL += "?" + pick("v=1", "v=12", "v=2", "v=1&v=1", "V=1&v=1", "%76=1", "v", "x=+&v=1", "v=1%00", "v=1#f", "v=1;v=2", "&", "é=é&v=1", "v=1%26v%3D2")
		}
		if r.IntN(3) == 0 {
			in.Headers[pick("accept", "X-Team", "x-other", "Host", "X-Forwarded-For")] = pick("a", "ab", "b", " a ", "a\r\nX-Evil: 1")
		}
		if r.IntN(3) == 0 {
			in.Body = []byte(pick("x", "POST /evil HTTP/1.1\r\nHost: evil\r\n\r\n", strings.Repeat("y", 70000)))
		}
		q, err := ParseRequest(in)
		if err != nil {
			refused++
			continue
		}
		m, err := rs.Match(q)
		if err != nil {
			refused++
			continue
		}
		matched++
		res, err := c.Do(context.Background(), context.Background(), q, m, Injection{Secret: []byte(secret)}, io.Discard)
		if err != nil || res.Outcome != Confirmed {
			t.Fatalf("%+v: %+v, %v", in, res, err)
		}
		got, n := srv.last()
		head := q.Method() + " " + q.RequestURI() + " HTTP/1.1\r\nHost: " + host + "\r\n"
		if n != matched || !strings.HasPrefix(got, head) || q.Origin()+q.RequestURI() != q.URL() {
			t.Fatalf("judged %q, sent %q (%d of %d)", head, got, n, matched)
		}
		seen, err := http.ReadRequest(bufio.NewReader(strings.NewReader(got)))
		if err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		body, _ := io.ReadAll(seen.Body)
		var names []string
		for n := range seen.Header {
			names = append(names, n)
		}
		slices.Sort(names)
		want := []string{"Accept-Encoding", "Authorization", "User-Agent"}
		for n, v := range q.Headers() {
			want = append(want, n)
			if seen.Header.Get(n) != v {
				t.Fatalf("header %s: %q", n, seen.Header.Get(n))
			}
		}
		if seen.ContentLength > 0 || q.Method() == "POST" {
			want = append(want, "Content-Length")
		}
		slices.Sort(want)
		if !slices.Equal(names, want) || string(body) != string(in.Body) || seen.Host != host || len(seen.TransferEncoding) != 0 {
			t.Fatalf("judged %v, sent %v, body %q", want, names, body)
		}
		segs := strings.Split(strings.TrimPrefix(seen.URL.Path, "/"), "/")
		ok := false
		switch segs[0] {
		case "a":
			ok = len(segs) == 3 && segs[2] == "c"
		case "r":
			ok = strings.Count(seen.URL.EscapedPath(), "/") == 2 && seen.Method == "GET"
		case "q":
			ok = len(segs) >= 2 && seen.Method == "POST"
		case "k":
			ok = len(segs) == 1 && len(seen.URL.Query()["v"]) == 1 && strings.HasPrefix(seen.URL.Query().Get("v"), "1") && seen.Method == "GET"
		}
		if !ok || strings.Contains(seen.URL.Path, "..") {
			t.Fatalf("rule %s let %s %s through", m.Rule(), seen.Method, seen.URL)
		}
	}
	if matched < 100 || refused < 100 {
		t.Errorf("%d matched, %d refused: the generator is too narrow", matched, refused)
	}
}

// FuzzWire: of whatever is taken, what is written is what was judged: nothing after the request line that net/http did
// not put there, and nothing else in it.
func FuzzWire(f *testing.F) {
	for _, s := range []string{"/a/b?x=1", "/%41/%2e?x", "/a;b/c%2Fd?%20=+&y", "//x", "/é?é=é#f", "/a b", "/?a=b\r\nX: y"} {
		f.Add("GET", s, "X-A", "v")
	}
	c := NewClient(ClientOptions{})
	f.Fuzz(func(t *testing.T, method, after, name, value string) {
		q, err := ParseRequest(Input{URL: "https://a.example" + after, Method: method, Headers: map[string]string{name: value}})
		if err != nil || q.Origin() != "https://a.example" {
			return
		}
		req, _, err := c.wireRequest(q, Spec{Kind: "bearer"}, Injection{Secret: []byte(secret)})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := req.Write(&b); err != nil {
			t.Fatal(err)
		}
		want := q.Method() + " " + q.RequestURI() + " HTTP/1.1\r\nHost: a.example\r\n"
		if !strings.HasPrefix(b.String(), want) || strings.ContainsAny(q.RequestURI(), " \r\n\x00") {
			t.Fatalf("judged %q, written %q", want, b.String())
		}
		seen, err := http.ReadRequest(bufio.NewReader(strings.NewReader(b.String())))
		if err != nil || seen.RequestURI != q.RequestURI() || seen.Host != "a.example" || len(seen.Header) > 4 {
			t.Fatalf("%q read as %+v: %v", b.String(), seen, err)
		}
		again, err := ParseRequest(Input{URL: q.URL(), Method: q.Method(), Headers: q.Headers()})
		if err != nil || string(again.Canonical()) != string(q.Canonical()) {
			t.Fatalf("%q is not canonical: %v", q.URL(), err)
		}
	})
}

// A whole call against an upstream that nobody here wrote, over TLS with a CA of its own.
func TestHTTPBin(t *testing.T) {
	u, ca := tlsServer(t, httpbin.New().Handler())
	spec := bearer()
	spec.CA = ca
	c := client(t)
	var seen struct {
		Method  string              `json:"method"`
		URL     string              `json:"url"`
		Headers map[string][]string `json:"headers"`
		Args    map[string][]string `json:"args"`
		Data    string              `json:"data"`
	}
	r, body := call(t, c, spec, Input{URL: u + "/anything/a%20b?x=1&x=2", Method: "PUT", Query: map[string]string{"y": "ü&"}, Body: []byte(`{"a":1}`), Headers: map[string]string{"Content-Type": "application/json"}})
	if err := json.Unmarshal([]byte(body), &seen); err != nil {
		t.Fatalf("%v: %q", err, body)
	}
	if r.Outcome != Confirmed || r.Code != 200 || r.Status != "200 OK" || !r.Complete || r.Hits != 1 || seen.Method != "PUT" ||
		seen.Headers["Authorization"][0] != "Bearer [redacted]" || seen.Headers["Content-Type"][0] != "application/json" || seen.Headers["User-Agent"][0] != "test" ||
		fmt.Sprint(seen.Args) != "map[x:[1 2] y:[ü&]]" || seen.Data != `{"a":1}` {
		t.Errorf("%+v\n%s", r, body)
	}
	leaks(t, r, body)
	if r.Sent == 0 || r.Received < int64(len(body)) {
		t.Errorf("sent %d, received %d for a body of %d", r.Sent, r.Received, len(body))
	}
	for path, want := range map[string]Result{
		"/redirect-to?url=https://evil.example/": {Outcome: RedirectNotFollowed, Code: 302},
		"/gzip":                                  {Outcome: Confirmed, Code: 200},
		"/deflate":                               {Outcome: Confirmed, Code: 200},
		"/status/500":                            {Outcome: Confirmed, Code: 500},
		"/status/204":                            {Outcome: Confirmed, Code: 204},
		"/drip?numbytes=20&duration=0.05&code=201&delay=0": {Outcome: Confirmed, Code: 201},
		"/bytes/100000":                      {Outcome: Confirmed, Code: 200},
		"/stream/3":                          {Outcome: Confirmed, Code: 200},
		"/sse?count=3&duration=10ms&delay=0": {Outcome: Confirmed, Code: 200},
	} {
		r, body := call(t, c, spec, Input{URL: u + path})
		if r.Outcome != want.Outcome || r.Code != want.Code || r.Withheld != want.Withheld || r.Truncated != want.Truncated || r.Complete == (want.Withheld || want.Truncated) {
			t.Errorf("%s: %+v", path, r)
		}
		if want.Withheld && body != "" || want.Truncated && len(body) > 1<<20 {
			t.Errorf("%s: %d bytes shown", path, len(body))
		}
	}
	if r, _ := call(t, c, spec, Input{URL: u + "/bearer"}); r.Code != 200 || r.Hits != 1 {
		t.Errorf("bearer: %+v", r)
	}
	spec.Kind, spec.Username = "basic", "me"
	if r, _ := call(t, client(t), spec, Input{URL: u + "/basic-auth/me/" + strings.ReplaceAll(secret, "/", "x")}); r.Code != 401 {
		t.Errorf("basic with another password: %+v", r)
	}
	if r, body := call(t, client(t), spec, Input{URL: u + "/headers"}); r.Code != 200 || r.Hits != 1 || !strings.Contains(body, "Basic [redacted]") {
		t.Errorf("basic: %+v %s", r, body)
	}
}

// Nothing is sent to a host that the credential's roots don't vouch for, or that can
// only speak TLS 1.1.
func TestTLS(t *testing.T) {
	u, _ := tlsServer(t, httpbin.New().Handler())
	r, _ := call(t, client(t), bearer(), Input{URL: u + "/get"})
	if r.Outcome != NotSent || !strings.Contains(r.Detail, "nobody trusted") {
		t.Errorf("unknown CA: %+v", r)
	}
	for version, want := range map[uint16]Outcome{tls.VersionTLS11: NotSent, tls.VersionTLS12: Confirmed, tls.VersionTLS13: Confirmed} {
		s := httptest.NewUnstartedServer(httpbin.New().Handler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		s.StartTLS()
		// Roots may also come from the client's options.
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		c := NewClient(ClientOptions{Roots: roots})
		if r, _ := call(t, c, bearer(), Input{URL: s.URL + "/get"}); r.Outcome != want {
			t.Errorf("TLS %x: %+v", version, r)
		}
		c.Close()
		s.Close()
	}
}

func BenchmarkDo(b *testing.B) {
	srv := serveRaw(b, func(_ *rawServer, _ int, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			if string(line) == "\r\n" {
				io.WriteString(c, okAnswer)
			}
		}
	})
	q := parse(b, Input{URL: srv.url + "/a/b"})
	m := match(b, rules(b, bearer("GET "+srv.url+"/**")), q)
	c := client(b)
	b.ReportAllocs()
	for b.Loop() {
		if r, err := c.Do(context.Background(), context.Background(), q, m, Injection{Secret: []byte(secret)}, io.Discard); err != nil || !r.Complete {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}
