package gateway

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
)

const (
	testPassphrase = "correct horse battery"
	testSecret     = "tok-5f2b9c71e04d4a6b"
)

// rig is a gateway on sockets in a temp folder, with the test process as its agent. The operator's handlers are called
// directly: a process that is an agent's run is refused at the operators' door.
type rig struct {
	*Gateway
	t       testing.TB
	dir     string
	created api.Created
	stop    func()
}

// newRig serves a gateway in dir (empty: a new folder).
func newRig(t testing.TB, dir string, change ...func(*Config)) *rig {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
		os.Chmod(dir, 0o700)
	}
	r := &rig{t: t, dir: dir}
	cfg := testConfig(t, dir)
	for _, f := range change {
		f(&cfg)
	}
	g, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Gateway = g
	agents, err := peer.Listen(g.cfg.Home.AgentSocket())
	if err != nil {
		t.Fatal(err)
	}
	operators, err := peer.Listen(filepath.Join(dir, "op.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, agents, operators) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		r.placedAll()
	})
	t.Cleanup(r.stop)
	return r
}

func testConfig(t testing.TB, dir string) Config {
	h, err := home.Find(func(k string) string {
		if k == home.EnvHome {
			return dir
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Home: h, Version: "test", WorkFactor: 10, ApprovalLife: 5 * time.Minute, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// op calls an operator's handler with the passphrase proved.
func op[T any](r *rig, h opHandler, args any) T {
	r.t.Helper()
	out, err := h(opRequest{ctx: r.t.Context(), args: encode(args), who: "passphrase", proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}})
	if err != nil {
		r.t.Fatalf("operator: %v", err)
	}
	return out.(T)
}

// init makes the vault.
func (r *rig) init() {
	r.t.Helper()
	r.created = op[api.Created](r, r.opInit, struct{}{})
}

func (r *rig) unlock() { r.t.Helper(); op[api.Status](r, r.opUnlock, struct{}{}) }

// addBearer stores a credential named name for rules.
func (r *rig) addBearer(name string, rules ...string) api.Credential {
	r.t.Helper()
	salt := []byte("0123456789abcdef")
	sum := sha256.Sum256(append(salt[:16:16], testSecret...))
	out, err := r.opCredentialAdd(opRequest{ctx: r.t.Context(), who: "passphrase", salt: salt, value: []byte(testSecret), args: encode(api.CredentialArgs{
		Name: name, Kind: "bearer", ValueLength: len(testSecret), ValueDigest: sum[:],
		Rules: api.HTTPRules{Allow: rules, AllowHTTP: true, AllowNetwork: []string{"127.0.0.0/8"}},
	})})
	if err != nil {
		r.t.Fatalf("add credential: %v", err)
	}
	return out.(api.Credential)
}

// approveAll answers every card with yes until ctx ends.
func (r *rig) approveAll(ctx context.Context, scope string) {
	for ctx.Err() == nil {
		for _, c := range r.cards.list() {
			r.opApprovalGrant(opRequest{ctx: ctx, who: "passphrase", args: encode(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: scope})})
		}
		time.Sleep(time.Millisecond)
	}
}

// card waits for one card.
func (r *rig) card() api.Approval {
	r.t.Helper()
	var l []api.Approval
	until(r.t, "a card", func() bool { l = r.cards.list(); return len(l) > 0 })
	return l[0]
}

// until waits for what another process or goroutine does.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// agent is one connection to the agents' door.
type agent0 struct {
	t    testing.TB
	conn net.Conn
	mu   sync.Mutex
	wait map[string]chan api.Response
	next int
}

func (r *rig) agent() *agent0 {
	r.t.Helper()
	c, err := net.Dial("unix", r.cfg.Home.AgentSocket())
	if err != nil {
		r.t.Fatal(err)
	}
	a := &agent0{t: r.t, conn: c, wait: map[string]chan api.Response{}}
	r.t.Cleanup(func() { c.Close() })
	go func() {
		sc := bufio.NewScanner(c)
		sc.Buffer(nil, api.FrameLimit)
		for sc.Scan() {
			var res api.Response
			if err := json.Unmarshal(sc.Bytes(), &res); err != nil {
				r.t.Errorf("answer: %v", err)
			}
			a.mu.Lock()
			if ch := a.wait[res.ID]; ch != nil {
				ch <- res
			}
			a.mu.Unlock()
		}
	}()
	return a
}

// send writes a line and returns where its answer comes.
func (a *agent0) send(method string, params any) <-chan api.Response {
	a.mu.Lock()
	a.next++
	id, ch := fmt.Sprint(a.next), make(chan api.Response, 1)
	a.wait[id] = ch
	a.mu.Unlock()
	a.conn.Write(append(encode(api.Request{ID: id, Method: method, Params: encode(params)}), '\n'))
	return ch
}

func (a *agent0) ask(method string, params any) api.Response {
	a.t.Helper()
	select {
	case res := <-a.send(method, params):
		return res
	case <-time.After(2 * time.Minute):
		a.t.Fatalf("%s: no answer", method)
		return api.Response{}
	}
}

func call0(url, method string) api.ActionRequest {
	return api.ActionRequest{Tool: api.ToolHTTP, Args: encode(api.HTTPArgs{URL: url, Method: method})}
}

// code is the answer's code: of its error, or of its action's, or the outcome.
func code(r api.Response) string {
	switch {
	case r.Error != nil:
		return r.Error.Code
	case r.Action == nil:
		return "result"
	case r.Action.Error != nil:
		return r.Action.Error.Code
	}
	return r.Action.Outcome
}

// upstream is a ledger: every request that arrived, in order.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
	auth []string
}

func newUpstream(t testing.TB, h http.HandlerFunc) *upstream {
	u := &upstream{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.seen, u.auth = append(u.seen, r.URL.Path), append(u.auth, r.Header.Get("Authorization"))
		u.mu.Unlock()
		if h != nil {
			h(w, r)
			return
		}
		io.WriteString(w, "done")
	}))
	u.Listener = stamped(t, u.Config, u.Listener)
	u.Start()
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) paths() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.seen...)
}

// credentials are the Authorization headers that arrived.
func (u *upstream) credentials() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.auth...)
}

// events reads the log in dir with the reader's identity.
func events(t testing.TB, dir, identity string) []event.Event {
	t.Helper()
	pub, err := os.ReadFile(filepath.Join(dir, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := auditlog.Verify(os.DirFS(filepath.Join(dir, "audit")), pub, auditlog.VerifyOptions{})
	if err != nil || rep.Verdict != "intact" {
		t.Fatalf("verify: %+v %v", rep, err)
	}
	var out []event.Event
	var items []event.Item
	for r, err := range auditlog.Read(os.DirFS(filepath.Join(dir, "audit")), pub, identity) {
		if err != nil {
			t.Fatal(err)
		}
		ev, err := event.Decode(r.Body)
		if err != nil {
			t.Fatalf("record %d: %v", r.Seq, err)
		}
		out, items = append(out, ev), append(items, event.Item{Seq: r.Seq, Time: r.Time, Event: ev})
	}
	// Whatever a test did to the gateway, its log must mean what it may mean.
	if v := event.Check(slices.Values(items)); len(v.Breaches) > 0 {
		t.Errorf("breaches of meaning: %+v", v.Breaches)
	}
	return out
}

// count tells how many events have a type.
func count(evs []event.Event, kind string) (n int) {
	for _, e := range evs {
		if event.Type(e) == kind {
			n++
		}
	}
	return n
}

// snapshot copies a home as a crash at this moment would leave it.
func snapshot(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	os.Chmod(to, 0o700)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSocket != 0 || strings.HasSuffix(path, ".lock") {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// long is how often a loop runs: few times by default, in full with SALLYPORT_LONG=1.
func long(short, full int) int {
	if os.Getenv("SALLYPORT_LONG") == "1" {
		return full
	}
	return short
}

// parse is parseWith for a caller that sent no bytes before.
func parse(r api.ActionRequest) parsed {
	return parseWith(r, func(string) ([]byte, *api.Error) {
		return nil, api.Fail("invalid_request", "bodyRef: no blob was sent")
	})
}
