package wrap

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

// patience bounds every wait for what must come. It is no measure of speed.
const patience = 90 * time.Second

// fakeGateway forwards every call and makes an epoch of every child. Its End is no help: the wrapper ends children by itself.
type fakeGateway struct {
	mu      sync.Mutex
	refuse  func(api.ActionRequest) *api.Error // nil: forward
	epochs  int
	acts    int
	calls   []api.ActionRequest
	reports []api.ServerReport
	plans   []api.ServerPlan
	lists   []api.ServerCatalog
	ends    []string
	waits   map[string]chan api.Action
	links   []*fakeLink
	closed  bool          // nobody answers
	slow    chan struct{} // a start is told of once this is closed; nil: at once
}

type fakeLink struct {
	g      *fakeGateway
	pushed func(api.Push)
	done   chan struct{}
	once   sync.Once
}

func (g *fakeGateway) open(_ context.Context, pushed func(api.Push)) (Link, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, api.Fail("gateway_unreachable", "")
	}
	l := &fakeLink{g: g, pushed: pushed, done: make(chan struct{})}
	g.links = append(g.links, l)
	return l, nil
}

func (l *fakeLink) Socket() string        { return "/run/x/agent.sock" }
func (l *fakeLink) Done() <-chan struct{} { return l.done }
func (l *fakeLink) Close() error          { l.once.Do(func() { close(l.done) }); return nil }

func (l *fakeLink) Plan(_ context.Context, p api.ServerPlan) (api.ServerPlanned, error) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.g.plans = append(l.g.plans, p)
	return api.ServerPlanned{Record: jsontext.Value(`{}`)}, nil
}

func (l *fakeLink) Started(_ context.Context, pid int) (api.ServerState, error) {
	if l.g.slow != nil {
		<-l.g.slow
	}
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.g.epochs++
	return api.ServerState{ExecutionEpoch: fmt.Sprintf("ep_%d", l.g.epochs), ProcessID: pid}, nil
}

func (l *fakeLink) Catalog(_ context.Context, c api.ServerCatalog) (api.ServerState, error) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.g.lists = append(l.g.lists, c)
	h := sha256.New()
	for _, p := range c.Pages {
		h.Write(p)
	}
	return api.ServerState{ExecutionEpoch: c.ExecutionEpoch, Catalog: hex.EncodeToString(h.Sum(nil))}, nil
}

func (l *fakeLink) Call(_ context.Context, r api.ActionRequest) (*client.Forwarded, api.Action, error) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.g.calls = append(l.g.calls, r)
	if l.g.refuse != nil {
		if e := l.g.refuse(r); e != nil {
			return nil, api.Action{}, e
		}
	}
	l.g.acts++
	id := fmt.Sprintf("act_%d", l.g.acts)
	end := make(chan api.Action, 1)
	if l.g.waits == nil {
		l.g.waits = make(map[string]chan api.Action)
	}
	l.g.waits[id] = end
	return &client.Forwarded{Forward: api.Forward{Action: id, ExecutionEpoch: r.ExecutionEpoch}, Wait: func(ctx context.Context) (api.Action, error) {
		select {
		case a := <-end:
			return a, nil
		case <-l.done:
			return api.Action{}, api.Fail("gateway_restarted", "")
		case <-ctx.Done():
			return api.Action{}, ctx.Err()
		}
	}}, api.Action{}, nil
}

func (l *fakeLink) Report(_ context.Context, r api.ServerReport) error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.g.reports = append(l.g.reports, r)
	if c := l.g.waits[r.Action]; c != nil {
		c <- api.Action{ID: r.Action, State: api.Done, Outcome: r.Outcome}
	}
	return nil
}

func (l *fakeLink) End(_ context.Context, e api.ServerEnd) (api.ServerEnded, error) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.g.ends = append(l.g.ends, e.Reason)
	return api.ServerEnded{}, api.Fail("unknown_method", "")
}

// rig is a wrapper, its host, its server and its gateway.
type rig struct {
	t    *testing.T
	g    *fakeGateway
	dir  string
	cfg  Config
	in   *io.PipeWriter
	errs *lockedBuffer
	out  chan string
	done chan error
	stop context.CancelFunc
	gone chan struct{} // nil: nobody knows
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newRig(t *testing.T, role string, change ...func(*rig)) *rig {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, g: &fakeGateway{}, dir: t.TempDir(), errs: &lockedBuffer{}, out: make(chan string, 1000), done: make(chan error, 1)}
	r.cfg = Config{Label: "test", Command: []string{exe}, Dir: r.dir, Reload: "none", Open: r.g.open,
		Env: []string{roleEnv + "=" + role, "LOG=" + filepath.Join(r.dir, "log"), "GROWN=" + filepath.Join(r.dir, "grown"), "CAPS=" + filepath.Join(r.dir, "caps")}}
	for _, f := range change {
		f(r)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r.in = inW
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- Run(ctx, r.cfg, Host{In: inR, Out: outW, Err: r.errs, Gone: r.gone}) }()
	go func() {
		defer close(r.out)
		for b := bufio.NewReaderSize(outR, 1<<20); ; {
			line, err := b.ReadString('\n')
			if err != nil {
				return
			}
			r.out <- line
		}
	}()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-r.done:
			r.done <- err
		case <-time.After(patience):
			t.Error("the wrapper does not end")
		}
		inW.Close()
		outR.Close()
		if t.Failed() {
			t.Logf("stderr: %.4000s", r.errs)
		}
	})
	return r
}

// say writes lines as they are.
func (r *rig) say(lines ...string) {
	r.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(r.in, l+"\n"); err != nil {
			r.t.Fatal(err)
		}
	}
}

// hear waits for the next line.
func (r *rig) hear() string {
	r.t.Helper()
	select {
	case l, ok := <-r.out:
		if !ok {
			r.t.Fatal("the output has ended")
		}
		return strings.TrimSuffix(l, "\n")
	case <-time.After(patience):
		r.t.Fatal("no line came")
	}
	return ""
}

// answered waits for the answer to id and returns it; other lines before it are returned too.
func (r *rig) answered(id string) (answer string, before []string) {
	r.t.Helper()
	for {
		l := r.hear()
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
			Rest   jsontext.Value `json:",embed"`
		}
		if json.Unmarshal([]byte(l), &m) == nil && string(m.ID) == id && m.Method == "" {
			return l, before
		}
		before = append(before, l)
	}
}

const (
	hello    = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	helloed  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	discover = `{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
)

// greet does the handshake and lists the tools.
func (r *rig) greet() {
	r.t.Helper()
	r.say(hello)
	r.answered("0")
	r.say(helloed)
	r.list("1")
}

func (r *rig) list(id string) {
	r.t.Helper()
	r.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`)
	r.answered(id)
	r.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":{"cursor":"2"}}`)
	r.answered(id)
}

func (r *rig) call(id, tool string) {
	r.t.Helper()
	r.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `"}}`)
}

// doc is the structuredContent of an error result.
func doc(t *testing.T, line string) map[string]any {
	t.Helper()
	var a struct {
		Result struct {
			IsError bool           `json:"isError"`
			Doc     map[string]any `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil || !a.Result.IsError || a.Result.Doc == nil {
		t.Fatalf("no error result (%v): %s", err, line)
	}
	return a.Result.Doc
}

// eventually waits for what a goroutine is about to do.
func (r *rig) eventually(what string, f func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("never: %s", what)
		}
	}
}

func (r *rig) received() []string {
	b, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func (g *fakeGateway) locked(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}
