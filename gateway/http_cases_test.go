package gateway

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/gzip"

	"sallyport/gateway/api"
)

// The hostile cases of httpexec/testdata/http.tsv, walked the whole road: from an agent's line on its socket to a server
// that notes what arrives. What only an executor can see (resolvers, wire timing) is tested in httpexec.

// caseRig is a gateway with one bearer credential for a server, and an agent whose cards are all approved.
type caseRig struct {
	*rig
	a  *agent0
	up *upstream
}

func newCaseRig(t *testing.T, h http.HandlerFunc, rules ...string) *caseRig {
	t.Helper()
	up := newUpstream(t, h)
	r := newRig(t, "")
	r.init()
	for i, x := range rules {
		rules[i] = strings.ReplaceAll(x, "UP", up.URL)
	}
	r.addBearer("up", rules...)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go r.approveAll(ctx, "run")
	return &caseRig{r, r.agent(), up}
}

// call sends http_request with args as JSON, where UP is the server's URL.
func (c *caseRig) call(args string) api.Response {
	c.t.Helper()
	return c.a.ask("call", api.ActionRequest{Tool: api.ToolHTTP, Args: []byte(strings.ReplaceAll(args, "UP", c.up.URL))})
}

func (c *caseRig) result(res api.Response) (out api.HTTPResult) {
	c.t.Helper()
	if res.Action == nil {
		c.t.Fatalf("no action: %+v", res.Error)
	}
	if err := json.Unmarshal(res.Action.Result, &out); err != nil {
		c.t.Fatalf("%s: %v", code(res), err)
	}
	return out
}

// A target is its credential's name: who names one is given no other's rules and no other's secret.
func TestTargetIsItsCredential(t *testing.T) {
	c := newCaseRig(t, nil, "GET UP/both/**")
	c.addBearer("wide", "GET "+c.up.URL+"/**")
	for _, x := range []struct{ args, want, credential string }{
		{`{"url":"UP/both/x"}`, "rule_mismatch", ""}, // two allow it
		{`{"target":"up","path":"/both/x"}`, "confirmed", "up"},
		{`{"target":"wide","path":"/both/x"}`, "confirmed", "wide"},
		{`{"target":"up","path":"/else"}`, "rule_mismatch", ""},
		{`{"target":"up","credential":"wide","path":"/else"}`, "confirmed", "wide"}, // said in so many words
		{`{"url":"UP/else"}`, "confirmed", "wide"},
	} {
		res := c.call(x.args)
		if code(res) != x.want || x.credential != "" && res.Action.Credential != x.credential {
			t.Errorf("%s: %s, %+v", x.args, code(res), res.Action)
		}
	}
}

func TestHTTPCasesRefused(t *testing.T) {
	c := newCaseRig(t, nil, "GET,POST UP/allowed/**", "GET UP/api/v4/projects/{raw}/issues", "GET UP/q?page=1")
	host := strings.TrimPrefix(c.up.URL, "http://")
	for _, x := range []struct{ id, args, want, word string }{
		{"H01", `{"url":"https://api.example.com@evil.example/"}`, "invalid_request", "user"},
		{"H03", `{"url":"https://аpi.example.com/"}`, "rule_mismatch", ""},
		{"H04", `{"url":"http://127.0.0.1:0443/allowed/x"}`, "invalid_request", "port"},
		{"H04", `{"url":"http://127.0.0.1:0/allowed/x"}`, "invalid_request", "port"},
		{"H04", `{"url":"http://127.0.0.1:70000/allowed/x"}`, "invalid_request", "port"},
		{"H04", `{"url":"http://127.0.0.1:/allowed/x"}`, "invalid_request", "port"},
		{"H05", `{"url":"http://127.1/allowed/x"}`, "invalid_request", "host"},
		{"H05", `{"url":"http://2130706433/allowed/x"}`, "invalid_request", "host"},
		{"H13", `{"url":"UP/allowed/x","headers":{"Authorization":"Bearer canary-value"}}`, "header_refused", "the vault sets it"},
		{"H13", `{"url":"UP/allowed/x","headers":{"authorization":"Bearer canary-value"}}`, "header_refused", "the vault sets it"},
		{"H13", `{"url":"UP/allowed/x","headers":{"Authorization ":"Bearer canary-value"}}`, "header_refused", "the vault sets it"},
		{"H14", `{"url":"UP/allowed/x","headers":{"Accept":"canary-value\r\nX: y"}}`, "header_refused", "printable"},
		{"H14", `{"url":"UP/allowed/x","headers":{"Accept":"canary-value\u0000"}}`, "header_refused", "printable"},
		{"H14", `{"url":"UP/allowed/x","headers":{"Accept":"canary-value\n y"}}`, "header_refused", "printable"},
		{"H15", `{"url":"UP/allowed/x","method":"POST","headers":{"X-HTTP-Method-Override":"DELETE"}}`, "header_refused", "X-HTTP-Method-Override"},
		{"H15", `{"url":"UP/allowed/x","method":"POST","headers":{"X-Forwarded-Host":"evil"}}`, "header_refused", "X-Forwarded-Host"},
		{"H15", `{"url":"UP/allowed/x","method":"POST","body":"_method=delete","headers":{"Content-Type":"application/x-www-form-urlencoded"}}`, "invalid_request", "overrides the method"},
		{"H16", `{"url":"UP/allowed/../admin"}`, "invalid_request", "dot"},
		{"H16", `{"url":"UP/allowed/%2e%2e/admin"}`, "invalid_request", ""},
		{"H16", `{"url":"UP/allowed/..%2fadmin"}`, "invalid_request", "dot"},
		{"H16", `{"url":"UP//admin"}`, "invalid_request", "empty segment"},
		{"H16", `{"url":"UP/allowed/a%2Fb"}`, "rule_mismatch", "{raw}"},
		{"H18", `{"url":"UP/q?page=1&page=2"}`, "rule_mismatch", "given twice"},
		{"H36", `{"url":"UP/allowed/x","method":"POST","headers":{"Content-Type":"multipart/form-data; boundary=b"},"body":"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\\\"\r\n x\"\r\n\r\nv\r\n--b--\r\n"}`, "invalid_request", "multipart"},
		{"H36", `{"url":"UP/allowed/x","method":"POST","bodyFile":"/etc/passwd"}`, "invalid_request", "bodyFile"},
	} {
		res := c.call(x.args)
		e := res.Error
		if e == nil && res.Action != nil {
			e = res.Action.Error
		}
		if code(res) != x.want || e == nil || !strings.Contains(e.Reason, x.word) {
			t.Errorf("%s %s: %s, %+v; want %s with %q", x.id, x.args, code(res), e, x.want, x.word)
		}
		if b := string(encode(res)); strings.Contains(b, "canary-value") || strings.Contains(b, testSecret) {
			t.Errorf("%s: the value is in the answer: %s", x.id, b)
		}
	}
	if got := c.up.paths(); len(got) != 0 {
		t.Errorf("refused requests arrived: %q", got)
	}
	// What is allowed arrives as it was judged.
	t.Run("H02", func(t *testing.T) {
		if got := code(c.call(`{"url":"http://` + host + `/allowed/x"}`)); got != "confirmed" {
			t.Error(got)
		}
	})
	t.Run("H17", func(t *testing.T) {
		if got := code(c.call(`{"url":"UP/api/v4/projects/a%2fb/issues"}`)); got != "confirmed" || c.up.paths()[1] != "/api/v4/projects/a/b/issues" {
			t.Errorf("%s %q", got, c.up.paths())
		}
	})
}

func TestHTTPCasesAnswers(t *testing.T) {
	second := newUpstream(t, nil)
	c := newCaseRig(t, func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		token := strings.TrimPrefix(auth, "Bearer ")
		quoted, _ := json.Marshal(token)
		switch r.URL.Path {
		case "/302", "/307":
			w.Header().Set("Location", second.URL+"/stolen?"+token)
			w.WriteHeader(map[string]int{"/302": 302, "/307": 307}[r.URL.Path])
		case "/echo":
			w.Header().Set("X-Token", auth)
			fmt.Fprintf(w, "raw %s json %s base64 %s hex %s", token, quoted, base64.StdEncoding.EncodeToString([]byte(token)), hex.EncodeToString([]byte(token)))
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, "inside: "+auth)
			z.Close()
		case "/twice":
			w.Header().Set("Content-Encoding", "gzip, br")
			io.WriteString(w, auth)
		case "/split":
			for i := range len(auth) {
				fmt.Fprintf(w, "%s", auth[i:i+1])
				w.(http.Flusher).Flush()
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			zeros := make([]byte, 1<<20)
			for range 100 {
				z.Write(zeros)
			}
			z.Close()
		case "/cookie":
			w.Header().Add("Set-Cookie", "session=abc")
			io.WriteString(w, r.Header.Get("Cookie"))
		case "/101":
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	}, "GET,POST UP/**")
	t.Setenv("HTTP_PROXY", second.URL)
	t.Setenv("HTTPS_PROXY", second.URL)
	t.Setenv("ALL_PROXY", second.URL)
	clean := func(id string, res api.Response) {
		t.Helper()
		b := string(encode(res))
		for _, form := range []string{testSecret, base64.StdEncoding.EncodeToString([]byte(testSecret)), hex.EncodeToString([]byte(testSecret))} {
			if strings.Contains(b, form) {
				t.Errorf("%s: the secret is shown: %s", id, b)
			}
		}
	}
	for id, args := range map[string]string{"H10": `{"url":"UP/302"}`, "H12": `{"url":"UP/307","method":"POST","body":"x"}`} {
		res := c.call(args)
		if code(res) != "redirect_not_followed" || !strings.Contains(c.result(res).Headers["Location"], "[redacted]") || c.result(res).Status/100 != 3 {
			t.Errorf("%s: %s %+v", id, code(res), res.Action)
		}
		clean(id, res)
	}
	res := c.call(`{"url":"UP/echo"}`)
	if code(res) != "confirmed" || res.Action.ReflectedCount != 5 || !strings.Contains(strings.Join(res.Action.Flags, " "), "reflected") {
		t.Errorf("H19, H21: %s %+v", code(res), res.Action)
	}
	clean("H19", res)
	res = c.call(`{"url":"UP/gzip"}`)
	if got := c.result(res); got.Body != "inside: Bearer [redacted]" || !got.BodyComplete {
		t.Errorf("H19 under gzip: %+v", got)
	}
	res = c.call(`{"url":"UP/split"}`)
	if got := c.result(res); got.Body != "Bearer [redacted]" || res.Action.ReflectedCount != 1 {
		t.Errorf("H20: %+v", got)
	}
	res = c.call(`{"url":"UP/twice"}`)
	if got := c.result(res); got.Body != "" || !strings.Contains(strings.Join(res.Action.Flags, " "), "scrub_withheld") {
		t.Errorf("H22: %+v %+v", got, res.Action)
	}
	clean("H22", res)
	res = c.call(`{"url":"UP/bomb"}`)
	if got := c.result(res); got.BodyComplete || !strings.Contains(strings.Join(res.Action.Flags, " "), "output_truncated") {
		t.Errorf("H23: complete %v, flags %q", got.BodyComplete, res.Action.Flags)
	}
	for range 2 {
		res = c.call(`{"url":"UP/cookie"}`)
		if got := c.result(res); got.Body != "" || got.Headers["Set-Cookie"] != "" {
			t.Errorf("H32: %+v", got)
		}
	}
	if res = c.call(`{"url":"UP/101"}`); code(res) != "failed_remote" {
		t.Errorf("H37: %s", code(res))
	}
	// H09: nothing of this went to the proxy, nor to where a Location pointed.
	if got := second.paths(); len(got) != 0 {
		t.Errorf("H09, H10: the second server saw %q", got)
	}
}

// roughly serves each connection by hand.
func roughly(t *testing.T, serve func(n int, c net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); serve(n, c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

func TestHTTPCasesLost(t *testing.T) {
	var mu sync.Mutex
	hits := map[string]int{}
	raw := roughly(t, func(_ int, conn net.Conn) {
		br := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			mu.Lock()
			hits[req.URL.Path]++
			mu.Unlock()
			switch req.URL.Path {
			case "/warm":
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			case "/dies":
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+strings.Repeat("x", 500))
				return
			default:
				return
			}
		}
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("raw", "GET,POST "+raw+"/**")
	const dead = "http://127.0.0.1:1" // a port that was let go could be another test's by now
	r.addBearer("dead", "POST "+dead+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	// H25, H26: a reused connection that dies under a write; with and without a key. One hit each, and no claim.
	for id, path := range map[string]string{"H25": "/lost", "H26": "/lost-keyed"} {
		if got := code(a.ask("call", call0(raw+"/warm", "GET"))); got != "confirmed" {
			t.Fatal(got)
		}
		q := call0(raw+path, "POST")
		if id == "H26" {
			q.IdempotencyKey = "k"
		}
		if got := code(a.ask("call", q)); got != "sent_unconfirmed" {
			t.Errorf("%s: %s", id, got)
		}
		// H40: the same again is refused, by whatever key; the same path with another body asks.
		if got := code(a.ask("call", call0(raw+path, "POST"))); got != "outcome_unresolved" {
			t.Errorf("H40 after %s: %s", id, got)
		}
	}
	if got := code(a.ask("call", call0(dead+"/x", "POST"))); got != "dial_failed" {
		t.Errorf("H27: %s", got)
	}
	res := a.ask("call", call0(raw+"/dies", "GET"))
	var out api.HTTPResult
	if err := json.Unmarshal(res.Action.Result, &out); err != nil || code(res) != "confirmed" || out.BodyComplete || out.Status != 200 {
		t.Errorf("H28: %s %+v %v", code(res), out, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if hits["/lost"] != 1 || hits["/lost-keyed"] != 1 {
		t.Errorf("H25, H26: hits %v", hits)
	}
}

// H30: one key, two bodies; and one key twice at once.
func TestH30(t *testing.T) {
	gate := make(chan struct{})
	c := newCaseRig(t, func(w http.ResponseWriter, r *http.Request) { <-gate }, "POST UP/**")
	q := call0(c.up.URL+"/x", "POST")
	q.IdempotencyKey = "k"
	first := c.a.send("call", q)
	until(t, "the call", func() bool { return len(c.up.paths()) > 0 })
	if got := code(c.a.ask("call", q)); got != "in_progress" {
		t.Errorf("the same key at once: %s", got)
	}
	other := api.ActionRequest{Tool: api.ToolHTTP, Args: encode(api.HTTPArgs{URL: c.up.URL + "/x", Method: "POST", Body: "other"}), IdempotencyKey: "k"}
	if got := code(c.a.ask("call", other)); got != "idempotency_mismatch" {
		t.Errorf("another body: %s", got)
	}
	close(gate)
	if got := code(<-first); got != "confirmed" || len(c.up.paths()) != 1 {
		t.Errorf("%s, %d hits", got, len(c.up.paths()))
	}
}

// H31: what a token endpoint mints goes to the vault, and the agent gets a reference.
func TestH31(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"access_token":"minted-7d1c0f","token_type":"bearer"}`)
	})
	r := newRig(t, "")
	r.init()
	err := r.addKind(api.CredentialArgs{Name: "login", Kind: "basic", Rules: api.HTTPRules{Allow: []string{"POST " + up.URL + "/token"},
		Capture: []string{"/access_token"}, Carried: api.Carried{Username: "ann"}}}, testSecret)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	res := r.agent().ask("call", call0(up.URL+"/token", "POST"))
	if code(res) != "confirmed" || strings.Contains(string(res.Action.Result), "minted-7d1c0f") || !strings.Contains(string(res.Action.Result), "captured:login:/access_token") {
		t.Fatalf("%s %s", code(res), res.Action.Result)
	}
	var kept string
	if err := r.derived(ctx, "login", func(f map[string][]byte) { kept = string(f["capture/access_token"]) }); err != nil || kept != "minted-7d1c0f" {
		t.Errorf("kept %q, %v", kept, err)
	}
	r.stop()
	if evs := events(t, r.dir, r.created.ReaderIdentity); count(evs, "token_kept") != 1 {
		t.Errorf("log: %v", kinds(evs))
	}
}

// H38: four bytes are no secret that can be looked for.
func TestH38(t *testing.T) {
	r := newRig(t, "")
	r.init()
	args := api.CredentialArgs{Name: "short", Kind: "header", Rules: api.HTTPRules{Allow: []string{"GET https://a.example/**"}, Carried: api.Carried{Header: "X-Pin"}}}
	if err := r.addKind(args, "1234"); err == nil || !strings.Contains(err.Error(), "scrub") {
		t.Errorf("taken: %v", err)
	}
	args.Rules.Scrub = "off"
	if err := r.addKind(args, "1234"); err != nil {
		t.Errorf("by word: %v", err)
	}
}

// H39: a revocation ends a download: the connection is closed, and the rest is not read.
func TestH39(t *testing.T) {
	closed := make(chan struct{})
	begun := make(chan struct{})
	c := newCaseRig(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		delivered(t, r)
		close(begun)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1024)); err != nil {
				break
			}
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
		close(closed)
	}, "GET UP/**")
	q := call0(c.up.URL+"/download", "GET")
	res := c.a.send("call", q)
	<-begun
	out := op[api.Revoked](c.rig, c.opRunRevoke, api.IDArgs{ID: c.book.all()[0].id})
	<-closed
	<-res
	if len(out.Left) != 1 || out.Left[0].Outcome != "confirmed" {
		t.Errorf("left: %+v", out.Left)
	}
	if x, ok := c.acts.get(out.Left[0].ID); !ok || !strings.Contains(string(x.Result), `"bodyComplete":false`) {
		t.Errorf("%+v", x)
	}
}

// H29: killed between send and answer. The next start says that nobody knows, and sends nothing.
func TestH29(t *testing.T) {
	gate := make(chan struct{})
	c := newCaseRig(t, func(w http.ResponseWriter, r *http.Request) { <-gate }, "POST UP/**")
	c.a.send("call", call0(c.up.URL+"/x", "POST"))
	until(t, "the call", func() bool { return len(c.up.paths()) > 0 })
	dir, created := snapshot(t, c.dir), c.created
	close(gate)
	c.stop()
	r := newRig(t, dir)
	r.created = created
	r.unlock()
	if got := code(r.agent().ask("call", call0(c.up.URL+"/x", "POST"))); got != "outcome_unresolved" {
		t.Errorf("the same again: %s", got)
	}
	r.stop()
	evs := events(t, dir, created.ReaderIdentity)
	if count(evs, "tool_unresolved") != 1 || len(c.up.paths()) != 1 {
		t.Errorf("log %v, upstream %q", kinds(evs), c.up.paths())
	}
}

// H34, H43: a foreign host is never asked, whatever a Location names; what is no id is in no template.
func TestH34H43(t *testing.T) {
	foreign := newUpstream(t, nil)
	answers := map[string]string{"/foreign": foreign.URL + "/jobs/1", "/dots": "/jobs/..", "/dot": "/jobs/.", "/path": "/jobs/a/../b"}
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if at, ok := answers[r.URL.Path]; ok {
			w.Header().Set("Location", at)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		io.WriteString(w, `{"id":"`+r.URL.Query().Get("id")+`"}`)
	})
	r := newRig(t, "")
	r.init()
	r.addRules("where", api.HTTPRules{Allow: []string{"POST " + up.URL + "/**"}, RemoteJob: api.RemoteJob{JobID: "location", JobStatus: "GET /jobs/{id}"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	for path := range answers {
		res := a.ask("call", call0(up.URL+path, "POST"))
		if res.Action == nil || path != "/foreign" && (res.Action.JobID != "" || res.Action.Outcome == "accepted") {
			t.Fatalf("%s: %s %+v", path, code(res), res.Action)
		}
		a.ask("status", api.StatusRequest{Action: res.Action.ID})
	}
	for _, p := range up.paths() {
		if _, ok := answers[p]; !ok && p != "/jobs/1" {
			t.Errorf("asked for %q", p)
		}
	}
	if len(foreign.paths()) != 0 {
		t.Errorf("the foreign host was asked: %q", foreign.paths())
	}
}

// H41: what was approved is what is sent: the bytes came with the request, and nobody can change them after.
func TestH41(t *testing.T) {
	got := make(chan string, 1)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- string(b)
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("up", "POST "+up.URL+"/**")
	a := r.agent()
	var b api.Blob
	res := a.ask(api.MethodBlob, api.BlobRequest{Data: []byte("what was approved"), EOF: true})
	if res.Error != nil || json.Unmarshal(res.Result, &b) != nil {
		t.Fatalf("%+v", res.Error)
	}
	done := a.send("call", api.ActionRequest{Tool: api.ToolHTTP, Args: encode(api.HTTPArgs{URL: up.URL + "/x", Method: "POST", BodyRef: b.Ref})})
	card := r.card()
	if res := a.ask(api.MethodBlob, api.BlobRequest{Ref: b.Ref, Data: []byte(" and more"), EOF: true}); res.Error == nil {
		t.Error("a blob that is ended takes more")
	}
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: card.ID, CardDigest: card.CardDigest, Scope: "use"})
	if x := <-done; code(x) != "confirmed" || <-got != "what was approved" {
		t.Errorf("%s", code(x))
	}
}

// Every case has a test that names it.
func TestEveryHTTPCase(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("..", "httpexec", "testdata", "http.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, pattern := range []string{"httpexec/*_test.go", "gateway/*_test.go", "cmd/sp/*_test.go", "cmd/sp/testdata/script/*.txtar", "cmd/internal/*/*_test.go"} {
		files, _ := filepath.Glob(filepath.Join("..", pattern))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(b)
		}
	}
	for _, id := range regexp.MustCompile(`(?m)^H\d\d`).FindAllString(string(table), -1) {
		if !regexp.MustCompile(`\b(Test)?` + id).MatchString(tests.String()) {
			t.Errorf("no test names %s", id)
		}
	}
}
