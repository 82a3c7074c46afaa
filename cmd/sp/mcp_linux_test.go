package main_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog/event"
	"sallyport/cmd/internal/drill"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// mcpPatience bounds what must come; nothing here is measured.
const mcpPatience = 2 * time.Minute

const (
	sayInitialize  = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	sayInitialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	stateless      = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
)

// TestMCP drives the real `sp mcp`, and a real spd where one matters, through the cases M01 to M10, M21 and M28 of the
// shim, and through the ways in which known clients end their servers.
func TestMCP(t *testing.T) {
	bin := build(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "agent")); err != nil { // TestMain knows it by its name
		t.Fatal(err)
	}
	s, err := drill.NewStage(t.Context(), drill.Options{SP: filepath.Join(bin, "sp"), SPD: filepath.Join(bin, "spd"), Patience: mcpPatience, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w := &mcpWorld{bin: bin, s: s}
	for name, f := range map[string]func(*testing.T, *mcpWorld){
		"M01": testM01, "M02": testM02, "M03": testM03, "M04": testM04, "M05": testM05, "M06": testM06, "M07": testM07,
		"M08": testM08, "M09": testM09, "M21": testM21, "M28": testM28,
	} {
		t.Run(name, func(t *testing.T) { f(t, w) })
	}
	t.Run("habits", func(t *testing.T) { testHabits(t, w) })
	t.Run("M10", func(t *testing.T) { testM10(t, w) }) // restarts the gateway
	items, err := s.Records()
	if err != nil {
		t.Fatal(err)
	}
	if v := event.Check(slices.Values(items)); len(v.Breaches) != 0 {
		t.Errorf("breaches: %+v", v.Breaches)
	}
}

type mcpWorld struct {
	bin string
	s   *drill.Stage
}

// shim is a server process as its host sees it.
type shim struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.Closer
	lines chan string // closed at the end of its output
	exit  chan error
}

// start starts a command with pipes; it is killed with its group at the test's end.
func (w *mcpWorld) start(t *testing.T, env []string, argv ...string) *shim {
	t.Helper()
	x := &shim{t: t, lines: make(chan string, 1024), exit: make(chan error, 1)}
	x.cmd = exec.Command(argv[0], argv[1:]...)
	x.cmd.Env, x.cmd.Dir, x.cmd.Stderr = env, "/", t.Output()
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	x.cmd.WaitDelay = mcpPatience
	var err error
	if x.in, err = x.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	r, wr, err := os.Pipe() // not StdoutPipe: Wait would close it before the end is read
	if err != nil {
		t.Fatal(err)
	}
	x.cmd.Stdout, x.out = wr, r
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wr.Close()
	go func() {
		defer close(x.lines)
		for b := bufio.NewReader(r); ; {
			line, err := b.ReadString('\n')
			if err != nil {
				return
			}
			x.lines <- line
		}
	}()
	go func() { x.exit <- x.cmd.Wait() }()
	t.Cleanup(func() {
		syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL)
		x.in.Close()
		r.Close()
	})
	return x
}

// shim starts a host with `sp mcp` as its server: the operator, who is this process, can be nobody's client.
func (w *mcpWorld) shim(t *testing.T) *shim {
	t.Helper()
	return w.start(t, w.s.Env(), filepath.Join(w.bin, "agent"), "host", "pipe", filepath.Join(w.bin, "sp"), "mcp")
}

func (x *shim) say(lines ...string) {
	x.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(x.in, l+"\n"); err != nil {
			x.t.Fatalf("write to shim: %v", err)
		}
	}
}

// heard is a line of the shim's.
type heard struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Result struct {
		IsError    bool           `json:"isError"`
		Structured jsontext.Value `json:"structuredContent"`
		Rest       jsontext.Value `json:",embed"`
	} `json:"result"`
	Error struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Rest jsontext.Value `json:",embed"`
}

func (x *shim) hear() heard {
	x.t.Helper()
	select {
	case line, ok := <-x.lines:
		var h heard
		if !ok {
			x.t.Fatal("the shim's output ended")
		}
		if err := json.Unmarshal([]byte(line), &h); err != nil {
			x.t.Fatalf("the shim wrote %q: %v", line, err)
		}
		return h
	case <-time.After(mcpPatience):
		x.t.Fatal("no line from the shim")
	}
	panic("unreachable")
}

func (x *shim) handshake() {
	x.t.Helper()
	x.say(sayInitialize)
	if h := x.hear(); string(h.ID) != `"init"` || h.Error.Code != 0 {
		x.t.Fatalf("initialize: %+v", h)
	}
	x.say(sayInitialized)
}

// ends waits for the process, which must end by itself with status 0.
func (x *shim) ends() {
	x.t.Helper()
	select {
	case err := <-x.exit:
		if err != nil {
			x.t.Errorf("the shim: %v", err)
		}
	case <-time.After(mcpPatience):
		x.t.Fatal("the shim does not end")
	}
}

// post is a tools/call that writes at the ledger.
func (w *mcpWorld) post(id, path string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"http_request","arguments":{"method":"POST","url":%q}}}`, id, w.s.Ledger.URL()+path)
}

// card waits for the card of a write to path.
func (w *mcpWorld) card(t *testing.T, path string) (card api.Approval) {
	t.Helper()
	err := w.s.Until(t.Context(), "a card for "+path, func() (bool, error) {
		cards, err := w.s.Cards(t.Context())
		i := slices.IndexFunc(cards, func(c api.Approval) bool { return strings.Contains(c.Summary, path) })
		if i >= 0 {
			card = cards[i]
		}
		return i >= 0, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return card
}

// withdrawn waits until a card is no more, and sees that nothing was sent for it.
func (w *mcpWorld) withdrawn(t *testing.T, c api.Approval, path string) {
	t.Helper()
	err := w.s.Until(t.Context(), "the end of card "+c.ID, func() (bool, error) {
		items, err := w.s.Records()
		return slices.ContainsFunc(items, func(it event.Item) bool {
			e, ok := it.Event.(event.ApprovalExpired)
			return ok && e.Approval == c.ID
		}), err
	})
	if err != nil {
		t.Fatal(err)
	}
	cards, err := w.s.Cards(t.Context())
	if err != nil || slices.ContainsFunc(cards, func(x api.Approval) bool { return x.ID == c.ID }) {
		t.Errorf("the card is still there: %v", err)
	}
	if n := w.arrived(path); n != 0 {
		t.Errorf("%d writes at %s", n, path)
	}
}

func (w *mcpWorld) arrived(path string) int {
	all, _ := w.s.Ledger.Arrived("POST", path)
	return len(all)
}

// sent brings a call to the ledger, where its answer is held until release.
func (w *mcpWorld) sent(t *testing.T, x *shim, id, path string) (release func()) {
	t.Helper()
	release = w.s.Ledger.Hold(path)
	t.Cleanup(release)
	x.say(w.post(id, path))
	if err := w.s.Approve(t.Context(), w.card(t, path)); err != nil {
		t.Fatal(err)
	}
	if err := w.s.Until(t.Context(), "the call at "+path, func() (bool, error) { return w.arrived(path) > 0, nil }); err != nil {
		t.Fatal(err)
	}
	return release
}

// recorded waits for the recorded result of the one write at path.
func (w *mcpWorld) recorded(t *testing.T, path string) (act api.Action) {
	t.Helper()
	job := strings.TrimPrefix(path, "/jobs/")
	err := w.s.Until(t.Context(), "the result of "+path, func() (bool, error) {
		var all []api.Action
		err := w.s.Operator(t.Context(), api.PathActionList, api.ListArgs{}, &all)
		i := slices.IndexFunc(all, func(x api.Action) bool { return x.JobID == job })
		if i >= 0 {
			act = all[i]
		}
		return i >= 0 && act.State == api.Done, err
	})
	if err != nil {
		var all []api.Action
		w.s.Operator(context.Background(), api.PathActionList, api.ListArgs{}, &all)
		t.Fatalf("%v; of %+v", err, all)
	}
	if act.Outcome != "accepted" || w.arrived(path) != 1 {
		t.Errorf("%s: %s, %d writes", path, act.Outcome, w.arrived(path))
	}
	return act
}

// below are the processes under a host, the host first.
func below(t *testing.T, pid int) []*peer.Process {
	t.Helper()
	p, err := peer.Find(pid)
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.Descendants()
	if err != nil {
		t.Fatal(err)
	}
	all = append([]*peer.Process{p}, all...)
	t.Cleanup(func() {
		for _, p := range all {
			p.Close()
		}
	})
	return all
}

// gone waits until each process has ended, by its state.
func gone(t *testing.T, all []*peer.Process) {
	t.Helper()
	for _, p := range all {
		select {
		case <-p.Gone():
		case <-time.After(mcpPatience):
			t.Errorf("pid %d (%s) is left", p.Facts().PID, p.Facts().Comm)
		}
	}
}

// M01: on a pipe that stays open, and without a gateway, initialize and tools/list are answered.
func testM01(t *testing.T, w *mcpWorld) {
	x := w.start(t, []string{"SALLYPORT_HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, filepath.Join(w.bin, "sp"), "mcp")
	x.handshake()
	x.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_targets"}}`)
	if h := x.hear(); string(h.ID) != "1" || h.Error.Code != 0 {
		t.Fatalf("%+v", h)
	}
	if h := x.hear(); string(h.ID) != "2" || !h.Result.IsError || !strings.Contains(string(h.Result.Structured), `"gateway_unreachable"`) {
		t.Fatalf("%+v", h)
	}
	x.in.Close()
	x.ends()
}

// M02: a probe, then a handshake on the same process; calls in both eras reach the gateway.
func testM02(t *testing.T, w *mcpWorld) {
	x := w.shim(t)
	x.say(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + stateless + `}}`)
	if h := x.hear(); string(h.ID) != "1" || h.Error.Code != 0 {
		t.Fatalf("%+v", h)
	}
	x.handshake()
	for i, meta := range []string{stateless + ",", ""} {
		x.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s"name":"list_targets"}}`, i+2, meta))
		if h := x.hear(); string(h.ID) != fmt.Sprint(i+2) || h.Result.IsError || !strings.Contains(string(h.Result.Structured), drill.CredentialName) {
			t.Fatalf("%+v", h)
		}
	}
}

// M03: bad lines cost one error each, and the shim lives on.
func testM03(t *testing.T, w *mcpWorld) {
	x := w.shim(t)
	for _, c := range []struct {
		line string
		code int64
	}{
		{"garbage", -32700}, {"\ufeff" + sayInitialize, -32700}, {sayInitialize + sayInitialize, -32700}, {strings.Repeat("x", 17<<20), -32600},
	} {
		x.say(c.line)
		if h := x.hear(); h.Error.Code != c.code || string(h.ID) != "null" {
			t.Fatalf("%.40s: %+v", c.line, h)
		}
	}
	x.handshake()
}

// M04: ids come back as they were sent.
func testM04(t *testing.T, w *mcpWorld) {
	x := w.shim(t)
	x.handshake()
	for _, id := range []string{"9007199254740993", `"1"`, "1"} {
		x.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"session_status"}}`)
		if h := x.hear(); string(h.ID) != id || h.Result.IsError {
			t.Errorf("%s: %+v", id, h)
		}
	}
	x.say(`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"session_status"}}`)
	if h := x.hear(); string(h.ID) != "null" || h.Error.Code != -32600 {
		t.Errorf("1.5: %+v", h)
	}
}

// M05: a cancel while a call waits for approval withdraws the card; nothing is sent, and the call is not answered.
func testM05(t *testing.T, w *mcpWorld) {
	x := w.shim(t)
	x.handshake()
	x.say(w.post(`"call"`, "/jobs/m05"))
	card := w.card(t, "/jobs/m05")
	x.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"call"}}`)
	w.withdrawn(t, card, "/jobs/m05")
	x.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if h := x.hear(); string(h.ID) != "2" {
		t.Errorf("after the cancel: %+v", h)
	}
	x.in.Close()
	x.ends()
	for line := range x.lines {
		t.Errorf("after the cancel: %s", line)
	}
}

// M06: stdin is closed while a call waits for approval.
func testM06(t *testing.T, w *mcpWorld) {
	x := w.shim(t)
	x.handshake()
	x.say(w.post("1", "/jobs/m06"))
	card := w.card(t, "/jobs/m06")
	x.in.Close()
	x.ends()
	w.withdrawn(t, card, "/jobs/m06")
}

// M07: stdin is closed after a call was sent. Its result is recorded, told as late, and found by the next session.
func testM07(t *testing.T, w *mcpWorld) {
	x := w.shim(t)
	x.handshake()
	release := w.sent(t, x, "1", "/jobs/m07")
	x.say("!again")
	if h := x.hear(); string(h.ID) != "1" || !strings.Contains(string(h.Result.Structured), `"sent_unconfirmed"`) { // before it ended
		t.Errorf("%+v", h)
	}
	x.handshake() // at the next one
	release()
	act := w.recorded(t, "/jobs/m07")
	err := w.s.Until(t.Context(), "late_result", func() (bool, error) {
		items, err := w.s.Records()
		return slices.ContainsFunc(items, func(it event.Item) bool {
			e, ok := it.Event.(event.LateResult)
			return ok && e.Action == act.ID
		}), err
	})
	if err != nil {
		t.Error(err)
	}
	x.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"action_status","arguments":{"action":"` + act.ID + `"}}}`)
	if h := x.hear(); h.Result.IsError || !strings.Contains(string(h.Result.Structured), `"outcome":"accepted"`) {
		t.Errorf("%+v %s", h, h.Result.Structured)
	}
}

// M08: the host closes its end of stdout and keeps stdin open: the host is gone.
func testM08(t *testing.T, w *mcpWorld) {
	x := w.shim(t)
	x.handshake()
	x.say(w.post("1", "/jobs/m08"))
	card := w.card(t, "/jobs/m08")
	x.out.Close()
	x.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	x.ends()
	w.withdrawn(t, card, "/jobs/m08")
}

// M09: a launcher between client and shim is killed and the session goes on; then the client is, and nothing is left.
func testM09(t *testing.T, w *mcpWorld) {
	for _, kind := range []string{"pipe", "socket"} {
		x := w.start(t, w.s.Env(), filepath.Join(w.bin, "agent"), "host", kind, "sh", "-c", filepath.Join(w.bin, "sp")+" mcp; true")
		x.handshake()
		all := below(t, x.cmd.Process.Pid)
		i := slices.IndexFunc(all, func(p *peer.Process) bool { return p.Facts().Comm == "sh" })
		if len(all) != 3 || i < 0 {
			t.Fatalf("%d processes, launcher %d", len(all), i)
		}
		if err := all[i].Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-all[i].Gone()
		x.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_status"}}`)
		if h := x.hear(); string(h.ID) != "1" || h.Result.IsError {
			t.Errorf("%s: after the launcher's death: %+v", kind, h)
		}
		if err := all[0].Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, all)
	}
}

// M21: a client's probe, a process of its own that lives a moment, is no session: no run, no card.
func testM21(t *testing.T, w *mcpWorld) {
	runs := func() (all []api.Run) {
		t.Helper()
		if err := w.s.Operator(t.Context(), api.PathRunList, nil, &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := len(runs())
	x := w.shim(t)
	x.say(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+stateless+`}}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{`+stateless+`}}`)
	x.hear()
	if h := x.hear(); string(h.ID) != "2" || h.Error.Code != 0 {
		t.Fatalf("%+v", h)
	}
	all := below(t, x.cmd.Process.Pid)
	x.say("!zed")
	gone(t, all)
	if after := runs(); len(after) != before {
		t.Errorf("%d runs, %d before the probe", len(after), before)
	}
}

// M28: a bare environment and cwd / find spd and answer.
func testM28(t *testing.T, w *mcpWorld) {
	if _, err := os.Stat(fmt.Sprintf("/run/user/%d", os.Getuid())); err == nil {
		t.Skip("home: this user has a runtime folder, which would be this machine's own gateway's")
	}
	dir, err := os.MkdirTemp("", "sp-bare") // short: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	env := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "USER=somebody"}
	spd := exec.Command(filepath.Join(w.bin, "spd"), "serve")
	spd.Env, spd.Dir, spd.Stderr = env, "/", t.Output()
	if err := spd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { spd.Process.Kill(); spd.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), mcpPatience)
	defer cancel()
	status := exec.CommandContext(ctx, filepath.Join(w.bin, "sp"), "status", "--wait", "110s")
	status.Env = env
	if out, err := status.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	x := w.start(t, env, filepath.Join(w.bin, "sp"), "mcp")
	x.handshake()
	x.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session_status"}}`)
	if h := x.hear(); string(h.ID) != "1" || strings.Contains(string(h.Result.Structured), "gateway_unreachable") || !strings.Contains(string(h.Result.Structured), "absent") {
		t.Errorf("%+v %s", h, h.Result.Structured)
	}
}

// M10: spd ends in mid session. The call in flight is told so once; the same shim reaches the next spd, where the grant is
// void and the operator is asked again; nothing is sent twice.
func testM10(t *testing.T, w *mcpWorld) {
	x := w.shim(t)
	x.handshake()
	w.sent(t, x, "1", "/jobs/m10")
	if err := w.s.Crash(); err != nil {
		t.Fatal(err)
	}
	h := x.hear()
	var e api.Error
	if err := json.Unmarshal(h.Result.Structured, &e); err != nil || string(h.ID) != "1" || !h.Result.IsError || e.Code != "gateway_restarted" {
		t.Fatalf("%+v %s", h, h.Result.Structured)
	}
	if err := w.s.Again(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.say(w.post("2", "/jobs/m10-next"))
	if err := w.s.Approve(t.Context(), w.card(t, "/jobs/m10-next")); err != nil {
		t.Fatal(err)
	}
	if h := x.hear(); string(h.ID) != "2" || h.Result.IsError {
		t.Errorf("%+v %s", h, h.Result.Structured)
	}
	if n := w.arrived("/jobs/m10"); n != 1 {
		t.Errorf("the call in flight arrived %d times", n)
	}
	x.in.Close()
	x.ends()
	for line := range x.lines {
		t.Errorf("once more: %s", line)
	}
}

// Every known way to end a server, with a call that waits and with one that was sent: nothing is left, what was not sent
// is withdrawn, what was sent is recorded once.
func testHabits(t *testing.T, w *mcpWorld) {
	for _, habit := range []string{"claude", "codex", "gemini", "eof", "zed", "vscode", "hangup", "crash", "crash-pipe"} {
		for _, behind := range []string{"direct", "sh"} {
			if behind == "sh" && habit != "eof" && habit != "zed" && habit != "claude" && habit != "crash" && habit != "crash-pipe" {
				continue
			}
			t.Run(habit+" "+behind, func(t *testing.T) {
				t.Parallel()
				kind := "socket"
				if habit == "codex" || habit == "crash-pipe" {
					kind = "pipe"
				}
				argv := []string{filepath.Join(w.bin, "agent"), "host", kind, filepath.Join(w.bin, "sp"), "mcp"}
				if behind == "sh" {
					argv = []string{filepath.Join(w.bin, "agent"), "host", kind, "sh", "-c", filepath.Join(w.bin, "sp") + " mcp; true"}
				}
				waits, sends := "/jobs/"+habit+"-"+behind+"-waits", "/jobs/"+habit+"-"+behind+"-sends"

				x := w.start(t, w.s.Env(), argv...)
				x.handshake()
				x.say(w.post("1", waits))
				card := w.card(t, waits)
				all := below(t, x.cmd.Process.Pid)
				x.say("!" + habit)
				gone(t, all)
				w.withdrawn(t, card, waits)

				x = w.start(t, w.s.Env(), argv...)
				x.handshake()
				release := w.sent(t, x, "1", sends)
				all = below(t, x.cmd.Process.Pid)
				x.say("!" + habit)
				gone(t, all)
				release()
				w.recorded(t, sends)
			})
		}
	}
	t.Run("crash supervised", func(t *testing.T) {
		t.Parallel()
		x := w.start(t, w.s.Env(), filepath.Join(w.bin, "agent"), "host", "socket", filepath.Join(w.bin, "sp"), "mcp", "--label", "crash", "--", "cat")
		started := func(p *peer.Process) bool { return p.Facts().Comm == "cat" }
		all := below(t, x.cmd.Process.Pid)
		for end := time.Now().Add(mcpPatience); !slices.ContainsFunc(all, started); all = below(t, x.cmd.Process.Pid) {
			if time.Now().After(end) {
				t.Fatal("the server does not start")
			}
			time.Sleep(10 * time.Millisecond)
		}
		x.say("!crash")
		gone(t, all)
	})
}
