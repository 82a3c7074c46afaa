package console

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// door stands for the operators' door: it says which tab spoke, and of what.
type door struct {
	mu   sync.Mutex
	did  []string
	gone chan string
}

func (d *door) of(tab string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.did = append(d.did, tab+" "+r.URL.Path)
		d.mu.Unlock()
		io.WriteString(w, "{}")
	})
}

func newConsole(t *testing.T) (*Server, *door) {
	t.Helper()
	l, err := Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := &door{gone: make(chan string, 16)}
	s := New(l, Config{Door: d.of, Gone: func(tab string) { d.gone <- tab }})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, d
}

// send makes one request as a browser's page would, changed by what change says: "-Name" leaves a header out.
func send(t *testing.T, s *Server, method, path, token string, change map[string]string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(s.URL(), "/")+path, strings.NewReader("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", "http://"+s.on.Host())
		r.Header.Set("Request-Id", "0123456789abcdef"+strconv.FormatInt(time.Now().UnixNano(), 36))
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for k, v := range change {
		switch {
		case k == "Host":
			r.Host = v
		case strings.HasPrefix(k, "-"):
			r.Header.Del(k[1:])
		default:
			r.Header.Set(k, v)
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// session opens a tab and claims it.
func session(t *testing.T, s *Server, tab string) string {
	t.Helper()
	_, token, _ := strings.Cut(s.Open(tab), "#")
	got, ok := s.tabs.claim(token)
	if !ok {
		t.Fatal("the token was not taken")
	}
	return got
}

// Whatever is asked for, only the console's own page is answered: a wrong Host, Origin, maker or token is 403 on every path.
func TestOnlyTheConsolesPage(t *testing.T) {
	s, d := newConsole(t)
	tok := session(t, s, "tab_1")
	host := s.on.Host()
	_, port, _ := net.SplitHostPort(host)
	wrong := map[string]map[string]string{
		"Host 127.0.0.1":         {"Host": "127.0.0.1:" + port},
		"Host ::1":               {"Host": "[::1]:" + port},
		"Host without port":      {"Host": "localhost"},
		"Host of another port":   {"Host": "localhost:1"},
		"Host upper case":        {"Host": "LOCALHOST:" + port},
		"Host with a dot":        {"Host": "localhost.:" + port},
		"rebound name":           {"Host": "evil.example:" + port},
		"Origin evil":            {"Origin": "http://evil.example"},
		"Origin null":            {"Origin": "null"},
		"Origin of another port": {"Origin": "http://localhost:1"},
		"Origin by address":      {"Origin": "http://127.0.0.1:" + port},
		"Origin https":           {"Origin": "https://" + host},
		"made cross-site":        {"Sec-Fetch-Site": "cross-site"},
		"made same-site":         {"Sec-Fetch-Site": "same-site"},
		"for a worker":           {"Sec-Fetch-Dest": "serviceworker"},
		"for a shared worker":    {"Sec-Fetch-Dest": "sharedworker"},
		"worker's script":        {"Service-Worker": "script"},
		"in a frame":             {"Sec-Fetch-Dest": "iframe"},
		"token wrong":            {"Authorization": "Bearer " + strings.Repeat("A", 43)},
		"token in another case":  {"Authorization": "Bearer " + strings.ToLower(tok)},
		"token empty":            {"Authorization": "Bearer "},
		"token as basic":         {"Authorization": "Basic " + tok},
	}
	paths := []string{"/", "/pending", "/runs/run_1", "/assets/app.js", "/assets/words.json", "/events", "/nowhere", "/open", "/v1/op/vault/status", "/v1/op/vault/reveal"}
	for name, change := range wrong {
		for _, path := range paths {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if res := send(t, s, method, path, tok, change); res.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %s %s: %s", name, method, path, res.Status)
				}
			}
		}
	}
	for _, path := range paths { // no Origin where a browser always sends one, and no token
		if res := send(t, s, http.MethodPost, path, tok, map[string]string{"-Origin": ""}); res.StatusCode != http.StatusForbidden {
			t.Errorf("no Origin: POST %s: %s", path, res.Status)
		}
		if res := send(t, s, http.MethodPost, path, "", nil); res.StatusCode != http.StatusForbidden {
			t.Errorf("no token: POST %s: %s", path, res.Status)
		}
	}
	if len(d.did) > 0 {
		t.Errorf("the door was reached: %v", d.did)
	}
	if res := send(t, s, http.MethodPost, "/v1/op/vault/status", tok, nil); res.StatusCode != http.StatusOK {
		t.Errorf("the page itself: %s", res.Status)
	}
	for _, path := range []string{"/v1/op/gateway/stop", "/v1/op/vault/init", "/v1/op/vault/backup", "/v1/op/console/open", "/v1/op/vault/reveal", "/nowhere"} {
		if res := send(t, s, http.MethodPost, path, tok, nil); res.StatusCode != http.StatusNotFound {
			t.Errorf("no verb of a tab: %s: %s", path, res.Status)
		}
	}
	for _, route := range api.Routes { // a tab that proves nothing reads and takes away
		if p := api.OperatorPrefix + route.Path; send(t, s, http.MethodPost, p, tok, nil).StatusCode == http.StatusOK && !route.Proof {
			continue
		} else if res := send(t, s, http.MethodPost, p, tok, nil); res.StatusCode == http.StatusForbidden {
			t.Errorf("%s: %s", p, res.Status)
		}
	}
}

// Every answer forbids frames, workers, foreign and inline content, keeps nothing and sets no cookie.
func TestEveryAnswersHeaders(t *testing.T) {
	s, _ := newConsole(t)
	for _, path := range []string{"/", "/runs", "/assets/app.js", "/nowhere"} {
		res := send(t, s, http.MethodGet, path, "", map[string]string{"Cookie": "other=1"})
		h := res.Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "worker-src 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: no %s in %q", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: %q", path, csp)
		}
		if h.Get("Cache-Control") != "no-store" || h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", path, h)
		}
		if page := path == "/" || path == "/runs"; page != (h.Get("Clear-Site-Data") != "") {
			t.Errorf("%s: Clear-Site-Data %q", path, h.Get("Clear-Site-Data"))
		}
	}
}

// A token makes one session, and a session ends with its page.
func TestTokenIsOneTabs(t *testing.T) {
	s, d := newConsole(t)
	_, token, ok := strings.Cut(s.Open("tab_1"), "#")
	if !ok || len(token) != 43 {
		t.Fatalf("token %q", token)
	}
	if res := send(t, s, http.MethodPost, "/v1/op/vault/status", token, nil); res.StatusCode != http.StatusForbidden {
		t.Errorf("a token is no session: %s", res.Status)
	}
	res := send(t, s, http.MethodPost, "/open", token, nil)
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("claim: %s %v", res.Status, err)
	}
	mine := strings.Split(string(body), `"`)[3]
	for _, again := range []string{token, mine} {
		if res := send(t, s, http.MethodPost, "/open", again, nil); res.StatusCode != http.StatusForbidden {
			t.Errorf("claimed again: %s", res.Status)
		}
	}
	once := map[string]string{"Request-Id": "0123456789abcdef"}
	for i, want := range []int{200, 409} {
		if res := send(t, s, http.MethodPost, "/v1/op/run/revoke", mine, once); res.StatusCode != want {
			t.Errorf("revoke, time %d: %s", i+1, res.Status)
		}
		if res := send(t, s, http.MethodPost, "/v1/op/run/list", mine, once); res.StatusCode != 200 {
			t.Errorf("a read, time %d: %s", i+1, res.Status)
		}
	}
	s.tabs.drop(s.tabs.of(mine))
	select {
	case tab := <-d.gone:
		if tab != "tab_1" {
			t.Errorf("gone: %s", tab)
		}
	case <-time.After(time.Minute):
		t.Error("nobody was told that the tab is gone")
	}
	if res := send(t, s, http.MethodPost, "/v1/op/run/list", mine, nil); res.StatusCode != http.StatusForbidden {
		t.Errorf("after its end: %s", res.Status)
	}
}

// hold takes one address on a port that is free on the other, and below those that the kernel gives away by itself: what
// another test connects with could hold it there else.
func hold(addr string) (held net.Listener, port int, err error) {
	for range 1000 {
		port = 10_000 + rand.IntN(20_000)
		var both *Listener
		if both, err = listen(context.Background(), port); err != nil {
			continue
		}
		both.Close()
		if held, err = net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(port))); err == nil {
			return held, port, nil
		}
	}
	return nil, 0, err
}

// Both loopback addresses are taken or neither: whoever holds one of them on the port keeps the console away.
func TestBothAddressesOrNeither(t *testing.T) {
	for _, addr := range []string{loopback6, loopback4} {
		held, port, err := hold(addr)
		if err != nil {
			t.Skipf("%s: not on this machine: %v", addr, err)
		}
		l, err := listen(t.Context(), port)
		if err == nil {
			l.Close()
			t.Fatalf("opened on port %d, of which another holds %s", port, addr)
		}
		if addr == loopback6 && (!errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "::1")) {
			t.Errorf("%s held: %v", addr, err)
		}
		held.Close()
		l, err = listen(t.Context(), port) // nothing of the failed try is left
		if err != nil {
			t.Fatalf("after it was let go: %v", err)
		}
		if len(l.on) != 2 {
			t.Errorf("%d addresses", len(l.on))
		}
		l.Close()
	}
}

// Another user holds ::1 on the port: the console is refused, with the reason.
func TestTakenByAnotherUser(t *testing.T) {
	python, err := exec.LookPath("python3")
	setpriv, err2 := exec.LookPath("setpriv")
	if err != nil || err2 != nil || os.Geteuid() != 0 {
		if os.Getenv("SALLYPORT_REAL") == "require" && os.Geteuid() == 0 {
			t.Fatal("python3, setpriv: not both are installed, and SALLYPORT_REAL=require")
		}
		t.Skip("setpriv: it takes root, python3 and setpriv")
	}
	cmd := exec.Command(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", python, "-c",
		"import socket,sys\ns=socket.socket(socket.AF_INET6)\ns.bind(('::1',0))\ns.listen()\nprint(s.getsockname()[1],flush=True)\nsys.stdin.read()")
	cmd.Dir = "/"
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { hold.Close(); cmd.Wait() }()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Skipf("::1: not on this machine: %v", err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := listen(t.Context(), port); !errors.Is(err, ErrTaken) {
		if err == nil {
			l.Close()
		}
		t.Errorf("with ::1 in another user's hands: %v", err)
	} else {
		t.Log(err)
	}
}

// Whoever is on this machine may send a ticketed request: its body is bounded before a ticket is looked at.
func TestTicketedBodiesAreBounded(t *testing.T) {
	l, err := Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan int, 1)
	s := New(l, Config{Ticketed: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		read <- len(b)
	})})
	defer l.Close()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.OperatorPrefix+api.PathPasskeyOpen, strings.NewReader(strings.Repeat("x", 8<<20)))
	r.Host = l.Host()
	r.Header.Set("Origin", "http://"+l.Host())
	s.handler().ServeHTTP(httptest.NewRecorder(), r)
	if n := <-read; n > maxTicketed {
		t.Errorf("%d bytes of a stranger were read", n)
	}
}
