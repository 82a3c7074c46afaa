package gateway

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 90 * time.Second

// wrapper0 is a wrapper on the agents' door that speaks lines: this process, with children of its own.
type wrapper0 struct {
	t     testing.TB
	r     *rig
	conn  net.Conn
	mu    sync.Mutex
	wait  map[string]chan api.Response
	next  int
	pushs chan api.Push
	epoch string
}

func (r *rig) wrapper() *wrapper0 {
	r.t.Helper()
	c, err := net.Dial("unix", r.cfg.Home.AgentSocket())
	if err != nil {
		r.t.Fatal(err)
	}
	w := &wrapper0{t: r.t, r: r, conn: c, wait: map[string]chan api.Response{}, pushs: make(chan api.Push, 256)}
	r.t.Cleanup(func() { c.Close() })
	go func() {
		sc := bufio.NewScanner(c)
		sc.Buffer(nil, api.FrameLimit)
		for sc.Scan() {
			var res api.Response
			if err := json.Unmarshal(sc.Bytes(), &res); err != nil {
				r.t.Errorf("answer: %v", err)
			}
			if res.Push != nil {
				w.pushs <- *res.Push
				continue
			}
			w.mu.Lock()
			if ch := w.wait[res.ID]; ch != nil {
				ch <- res
			}
			w.mu.Unlock()
		}
	}()
	return w
}

// send writes a line; its answers come on the channel, of a forwarded call two.
func (w *wrapper0) send(method string, params any) <-chan api.Response {
	w.mu.Lock()
	w.next++
	id, ch := "w"+strings.Repeat("x", w.next%7)+time.Now().Format("150405.000000000"), make(chan api.Response, 2)
	w.wait[id] = ch
	w.mu.Unlock()
	p, err := json.Marshal(params)
	if err != nil {
		w.t.Fatal(err)
	}
	w.conn.Write(append(encode(api.Request{ID: id, Method: method, Params: p}), '\n'))
	return ch
}

func (w *wrapper0) take(ch <-chan api.Response) api.Response {
	w.t.Helper()
	select {
	case res := <-ch:
		return res
	case <-time.After(patience):
		w.t.Fatal("no answer")
		return api.Response{}
	}
}

func (w *wrapper0) ask(method string, params any) api.Response {
	w.t.Helper()
	return w.take(w.send(method, params))
}

// result asks for what must succeed.
func result[T any](w *wrapper0, method string, params any) (out T) {
	w.t.Helper()
	res := w.ask(method, params)
	if res.Error != nil {
		w.t.Fatalf("%s: %v", method, res.Error)
	}
	if err := json.Unmarshal(res.Result, &out); err != nil {
		w.t.Fatalf("%s: %v: %s", method, err, res.Result)
	}
	return out
}

// push waits for a push of a kind.
func (w *wrapper0) push(kind string) api.Push {
	w.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case p := <-w.pushs:
			if p.Kind == kind {
				return p
			}
		case <-limit:
			w.t.Fatalf("no push %q came", kind)
		}
	}
}

// child is a process that reads its stdin.
type child0 struct {
	*exec.Cmd
	in io.WriteCloser
}

func (c child0) pid() int { return c.Process.Pid }

// spawn starts a child in its own process group.
func (w *wrapper0) spawn(dir string, argv ...string) child0 {
	w.t.Helper()
	x := exec.Command(argv[0], argv[1:]...)
	x.Dir = dir
	x.Env = childEnv
	x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := x.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { x.Wait(); close(done) }()
	w.t.Cleanup(func() {
		in.Close()
		syscall.Kill(-x.Process.Pid, syscall.SIGKILL)
		<-done
	})
	return child0{x, in}
}

var childEnv = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} // what spawn looks programs up in

// plan0 is what a wrapper says before exec.
func plan0(dir string, argv ...string) api.ServerPlan {
	return api.ServerPlan{ServerLabel: "inventory-local", LaunchCommand: argv, WorkingDirectory: dir, Environment: childEnv}
}

// launch walks plan and started.
func (w *wrapper0) launch(dir string, argv ...string) (child0, api.ServerState) {
	w.t.Helper()
	return w.launchAs(plan0(dir, argv...))
}

func (w *wrapper0) launchAs(p api.ServerPlan) (child0, api.ServerState) {
	w.t.Helper()
	result[api.ServerPlanned](w, api.MethodServerPlan, p)
	c := w.spawn(p.WorkingDirectory, p.LaunchCommand...)
	st := result[api.ServerState](w, api.MethodServerStarted, api.ServerStarted{ProcessID: c.pid()})
	w.epoch = st.ExecutionEpoch
	return c, st
}

// Two revisions of one catalog, and one with another presentation.
const (
	catalogA = `{"tools":[{"name":"inventory_adjust","inputSchema":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"}}}},
		{"name":"inventory_lookup","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}]}`
	catalogB = `{"tools":[{"name":"inventory_adjust","inputSchema":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"},
		"target":{"type":"string","enum":["preview","production"],"default":"preview"}}}},
		{"name":"inventory_lookup","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}]}`
	catalogC = `{"tools":[{"name":"inventory_adjust","inputSchema":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"}}}},
		{"name":"inventory_lookup","annotations":{"readOnlyHint":false},"description":"x","inputSchema":{"type":"object"}}]}`
)

func (w *wrapper0) catalog(page string, served bool) api.ServerState {
	w.t.Helper()
	return result[api.ServerState](w, api.MethodServerCatalog, api.ServerCatalog{ExecutionEpoch: w.epoch, Pages: []jsontext.Value{jsontext.Value(page)}, Served: served})
}

const adjust = `{"name":"inventory_adjust","arguments":{"sku":"a","n":9007199254740993,"note":null},"_meta":{"progressToken":1}}`

// call sends a tools/call of the current epoch.
func (w *wrapper0) call(params string) <-chan api.Response {
	return w.send(api.MethodCall, api.ActionRequest{ExecutionEpoch: w.epoch, Params: jsontext.Value(params), RequestID: "7"})
}

// forwarded waits for a call's forward.
func (w *wrapper0) forwarded(ch <-chan api.Response) api.Forward {
	w.t.Helper()
	res := w.take(ch)
	if res.Forward == nil {
		w.t.Fatalf("not forwarded: %s", encode(res))
	}
	return *res.Forward
}

// report answers a forwarded call.
func (w *wrapper0) report(action, outcome string) {
	w.t.Helper()
	r := api.ServerReport{Action: action, Outcome: outcome}
	if outcome == "confirmed" {
		r.Reply = jsontext.Value(`{"content":[{"type":"text","text":null}]}`)
	}
	if res := w.ask(api.MethodServerReport, r); res.Error != nil {
		w.t.Fatalf("report: %v", res.Error)
	}
}

// refused is a call that must be refused at once.
func (w *wrapper0) refused(params, code string) *api.Error {
	w.t.Helper()
	res := w.take(w.call(params))
	if res.Error == nil || res.Error.Code != code {
		w.t.Fatalf("want %s, got %s", code, encode(res))
	}
	return res.Error
}

// approve answers the next card with yes.
func (w *wrapper0) approve(scope string) api.Approval {
	w.t.Helper()
	c := w.r.card()
	op[api.Grant](w.r, w.r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: scope})
	return c
}

// done makes one call that is granted, and returns its action.
func (w *wrapper0) done(params string) api.Action {
	w.t.Helper()
	ch := w.call(params)
	f := w.forwarded(ch)
	w.report(f.Action, "confirmed")
	res := w.take(ch)
	if res.Action == nil || res.Action.Outcome != "confirmed" {
		w.t.Fatalf("the call ended as %s", encode(res))
	}
	return *res.Action
}

// ready brings a server to where inventory_adjust is granted.
func (w *wrapper0) ready(dir string, argv ...string) child0 {
	w.t.Helper()
	c, _ := w.launch(dir, argv...)
	w.catalog(catalogA, true)
	w.refused(adjust, "not_authorized")
	w.approve("run")
	w.push(api.PushReady)
	return c
}

func newServerRig(t *testing.T) (*rig, *wrapper0) {
	t.Helper()
	r := newRig(t, "")
	r.init()
	return r, r.wrapper()
}

// The road of a supervised server, once: plan, started, catalog, a refusal that opens the card, a call, a result.
func TestServerRoad(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	if res := w.ask(api.MethodServerStarted, api.ServerStarted{ProcessID: os.Getpid()}); code(res) != "invalid_request" {
		t.Errorf("started without a plan: %s", encode(res))
	}
	_, st := w.launch(dir, "cat")
	if st.State != api.ServerIdentityPending || st.ExecutionEpoch == "" {
		t.Fatalf("state %+v", st)
	}
	w.refused(adjust, "not_authorized")
	if st = w.catalog(catalogA, true); st.State != api.ServerCatalogReady || st.Catalog == "" || st.Shown != st.Catalog {
		t.Fatalf("state %+v", st)
	}
	c := w.approve("run") // of the call before the catalog was known
	if c.Tool != "inventory_adjust" || c.Target != "inventory-local" || !strings.Contains(c.Summary, "9007199254740993") {
		t.Errorf("card %s", encode(c))
	}
	if p := w.push(api.PushReady); p.Server.State != api.ServerReady {
		t.Errorf("push %s", encode(p))
	}
	a := w.done(adjust)
	if a.ExecutionEpoch != w.epoch || a.Tool != "inventory_adjust" || a.Target != "inventory-local" {
		t.Errorf("action %s", encode(a))
	}
	w.refused(`{"name":"inventory_lookup","arguments":{}}`, "not_authorized")
	w.refused(`{"name":"no_such_tool"}`, "unknown_tool")
	if got, ok := r.find(t.Context(), a.ID); !ok || !strings.Contains(string(got.Result), `"content"`) {
		t.Errorf("kept: %s", encode(got))
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	for kind, want := range map[string]int{"server_started": 1, "server_measured": 1, "catalog_changed": 1, "catalog_served": 1, "tool_called": 1, "tool_finished": 1} {
		if n := count(evs, kind); n != want {
			t.Errorf("%d × %s, want %d", n, kind, want)
		}
	}
}

// speaker starts a child whose stdout is read here.
func (w *wrapper0) speaker(p api.ServerPlan) (child0, *bufio.Reader) {
	w.t.Helper()
	x := exec.Command(p.LaunchCommand[0], p.LaunchCommand[1:]...)
	x.Dir, x.Env = p.WorkingDirectory, p.Environment
	x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := x.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := x.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		in.Close()
		syscall.Kill(-x.Process.Pid, syscall.SIGKILL)
		x.Wait()
	})
	return child0{x, in}, bufio.NewReader(out)
}

// need skips a test without a program that it shows something with.
func need(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatalf("%s is required and not installed", program)
	}
	t.Skipf("%s: not installed", program)
}
