package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sallyport/auditlog/event"
)

// TestSupervised plays mcp.tsv's cases of supervised servers with real servers, wrappers and hosts, on one real gateway.
func TestSupervised(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("supervised servers are recognised through /proc")
	}
	w := bareWorld(t)
	t.Run("all", func(t *testing.T) {
		for name, play := range map[string]func(*testing.T, *world){
			"M11RebuildWithoutRestart": playRebuild, "M12RestartWithTheSameBytes": playRestart, "M13ContractGrows": playGrowth,
			"M14OldShapeAfterAChange": playOldShape, "M15DiesWithAWriteInFlight": playDeath, "M16WorkerReplaced": playWorker,
			"M17DependencyTreeChanged": playTree, "M19ChildLeavesTheGroup": playOrphan, "M20ReadOnlyHintFlips": playHint,
			"M22EndsOnDiscover": playDiscover, "M23LazyImport": playLazy, "M24DescriptionChanges": playWords,
			"M25DefaultOnTheCard": playDefault, "M26CallFromATimer": playTimer, "M27ChildLeftAlive": playBreach,
			"M09LauncherKilled": playLauncher, "NodeExample": playNode,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(t, w)
			})
		}
	})
}

// python starts the Python server in a folder of its own.
func python(t *testing.T, w *world, flags []string, tools ...tool) *host {
	t.Helper()
	py := lookPython(t)
	return newHost(t, w, serverDir(t, tools...), flags, []string{py, "server.py"})
}

// M11: the running code is the old one, calls go on, the record says that files changed, and people are told in one wording.
func playRebuild(t *testing.T, w *world) {
	node := lookPart(t, "node")
	h := newHost(t, w, serverDir(t, plainTool("adjust")), nil, []string{node, "server.mjs"})
	h.greet()
	if r := h.granted("adjust", `{"marker":"1"}`); !strings.Contains(r.text(), "revision=A") {
		t.Fatal(r.raw)
	}
	started := h.status("server started:", 1)
	rebuild(t, filepath.Join(h.dir, "server.mjs"), "B")
	h.status("build changed: server.mjs", 1)
	if same := h.status("running process unchanged:", 1); !slices.Equal(same[3:5], started[2:4]) {
		t.Fatalf("started %v, unchanged %v", started, same)
	}
	h.status("files changed since start may be loaded later", 1) // the gateway's own look
	if r := h.call("adjust", `{"marker":"2"}`); !strings.Contains(r.text(), "revision=A") {
		t.Fatal(r.raw)
	}
	drifted := false
	for _, e := range w.events(t) {
		if c, ok := e.(event.ToolCalled); ok && c.ServerLabel == h.label && c.ArtifactDrift {
			drifted = true
		}
	}
	if !drifted {
		t.Error("no call is recorded with artifactDrift")
	}
}

// M12: a restart with equal bytes is a new epoch; the old approval does not reach it.
func playRestart(t *testing.T, w *world) {
	h := python(t, w, []string{"--reload", "restart"}, plainTool("adjust"))
	h.greet()
	h.granted("adjust", `{"marker":"1"}`)
	first := h.status("server started:", 1)
	h.kill(first)
	second := h.status("server started:", 2)
	h.list()
	r := h.call("adjust", `{"marker":"2"}`)
	if r.code() != "authorization_stale" || "epoch="+fmt.Sprint(r.Result.Doc["approvedEpoch"]) != first[3] || "epoch="+fmt.Sprint(r.Result.Doc["currentEpoch"]) != second[3] {
		t.Fatalf("first %v, second %v: %s", first, second, r.raw)
	}
	h.approve("adjust")
	if r := h.call("adjust", `{"marker":"3"}`); r.code() != "" {
		t.Fatal(r.raw)
	}
	if got := h.wrote(); !slices.Equal(got, []string{"1 revision=A", "3 revision=A"}) {
		t.Fatalf("written %v", got)
	}
}

// kill ends the process that a status line named.
func (h *host) kill(started []string) {
	h.t.Helper()
	var pid int
	if _, err := fmt.Sscanf(started[2], "pid=%d", &pid); err != nil {
		h.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
}

func grown() tool {
	x := plainTool("publish")
	x["inputSchema"].(map[string]any)["properties"].(map[string]any)["target"] = map[string]any{"type": "string", "enum": []string{"preview", "production"}, "default": "preview"}
	return x
}

// changed waits for the one list_changed.
func (h *host) changed() {
	h.t.Helper()
	for _, l := range h.noted {
		if strings.Contains(l, "tools/list_changed") {
			return
		}
	}
	for {
		if l := h.hear(); strings.Contains(l, "tools/list_changed") {
			h.noted = append(h.noted, l)
			return
		} else if l == "" {
			h.t.Fatal("the wrapper has ended")
		}
	}
}

// toldOfChanges counts them.
func (h *host) toldOfChanges() (n int) {
	for _, l := range h.noted {
		if strings.Contains(l, "tools/list_changed") {
			n++
		}
	}
	return n
}

// M13: another contract of one tool: that tool wants a new approval, the other does not, and the host is told once.
func playGrowth(t *testing.T, w *world) {
	h := python(t, w, nil, plainTool("adjust"), plainTool("publish"), plainTool("notify"))
	h.greet()
	h.granted("adjust", `{"marker":"1"}`)
	h.granted("publish", `{"marker":"2"}`)
	h.granted("notify", `{}`)
	setTools(t, h.dir, plainTool("adjust"), grown(), plainTool("notify"))
	for range 3 {
		h.call("notify", `{}`)
	}
	h.changed()
	h.list()
	if r := h.call("publish", `{"marker":"3"}`); r.code() != "not_authorized" && r.code() != "authorization_stale" {
		t.Fatal(r.raw)
	}
	if r := h.call("adjust", `{"marker":"4"}`); r.code() != "" {
		t.Fatal(r.raw)
	}
	h.approve("publish")
	if r := h.call("publish", `{"marker":"5"}`); r.code() != "" {
		t.Fatal(r.raw)
	}
	if got := h.wrote(); !slices.Equal(got, []string{"1 revision=A", "2 revision=A", "4 revision=A", "5 revision=A"}) {
		t.Fatalf("written %v", got)
	}
	if n := h.toldOfChanges(); n != 1 {
		t.Fatalf("told %d times: %v", n, h.noted)
	}
}

// M14: who ignores list_changed is refused, and nothing reaches the server.
func playOldShape(t *testing.T, w *world) {
	h := python(t, w, nil, plainTool("publish"), plainTool("notify"))
	h.greet()
	h.granted("publish", `{"marker":"1"}`)
	h.granted("notify", `{}`)
	setTools(t, h.dir, grown(), plainTool("notify"))
	h.call("notify", `{}`)
	h.changed()
	r := h.call("publish", `{"marker":"2"}`)
	if r.code() != "catalog_stale" || r.Result.Doc["next"] != "refresh_catalog" {
		t.Fatal(r.raw)
	}
	if got := h.wrote(); !slices.Equal(got, []string{"1 revision=A"}) {
		t.Fatalf("written %v", got)
	}
}

// M15: the server dies after its write and before its answer: told with both epochs, written once.
func playDeath(t *testing.T, w *world) {
	for _, how := range []string{"die_after", "die_before"} {
		h := python(t, w, []string{"--reload", "restart"}, plainTool(how))
		h.greet()
		first := h.status("server started:", 1)
		h.call(how, `{"marker":"1"}`)
		h.approve(how)
		r := h.call(how, `{"marker":"1"}`)
		second := h.status("server started:", 2)
		d := r.Result.Doc
		if r.code() != "sent_unconfirmed" || d["outcome"] != "sent_unconfirmed" || "epoch="+fmt.Sprint(d["oldEpoch"]) != first[3] || "epoch="+fmt.Sprint(d["newEpoch"]) != second[3] {
			t.Fatalf("first %v, second %v: %s", first, second, r.raw)
		}
		h.list()
		want := map[string]int{"die_after": 1}[how]
		if got := h.wrote(); len(got) != want {
			t.Fatalf("%s: written %v", how, got)
		}
	}
}

// M16: a parent keeps the pipe and replaces its worker: the next call does not reach the new one.
func playWorker(t *testing.T, w *world) {
	py := lookPython(t)
	h := newHost(t, w, serverDir(t, plainTool("adjust")), nil, []string{py, "parent.py"})
	h.greet()
	if r := h.granted("adjust", `{"marker":"1"}`); r.code() != "" {
		t.Fatal(r.raw)
	}
	sign := filepath.Join(h.dir, "replace")
	rebuild(t, filepath.Join(h.dir, "server.py"), "B")
	save(t, sign, "")
	h.until("the worker is replaced", func() bool { _, err := os.Stat(sign); return err != nil })
	r := h.call("adjust", `{"marker":"2"}`)
	if r.code() == "" || len(h.wrote()) != 1 {
		t.Fatalf("%s; written %v", r.raw, h.wrote())
	}
	h.status("server replaced by another process:", 1)
	h.until("an approval", func() bool {
		h.list()
		r = h.granted("adjust", `{"marker":"3"}`)
		return r.code() == ""
	})
	if got := h.wrote(); !slices.Equal(got, []string{"1 revision=A", "3 revision=B"}) {
		t.Fatalf("written %v", got)
	}
}

// M17: the entry is the same file, what it loads is not: the next start has another identity.
func playTree(t *testing.T, w *world) {
	node := lookPart(t, "node")
	h := newHost(t, w, serverDir(t, plainTool("adjust")), []string{"--reload", "restart"}, []string{node, "server.mjs"})
	h.greet()
	h.granted("adjust", `{"marker":"1"}`)
	save(t, filepath.Join(h.dir, "node_modules", "dep", "index.js"), "export const word = 'two'\n")
	h.kill(h.status("server started:", 1))
	h.status("server started:", 2)
	h.list()
	if r := h.call("adjust", `{"marker":"2"}`); r.code() != "authorization_stale" {
		t.Fatal(r.raw)
	}
	var starts []event.ServerStarted
	for _, e := range w.events(t) {
		if s, ok := e.(event.ServerStarted); ok && s.ServerLabel == h.label {
			starts = append(starts, s)
		}
	}
	if len(starts) != 2 || starts[0].Execution.EntryDigest != starts[1].Execution.EntryDigest || starts[0].Execution.TreeDigest == starts[1].Execution.TreeDigest {
		t.Fatalf("recorded %+v", starts)
	}
}

// gone waits until no process has this number any more.
func (h *host) gone(pid int) {
	h.t.Helper()
	h.until(fmt.Sprintf("process %d has ended", pid), func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}

// leave closes the host's end and waits for the agent.
func (h *host) leave() {
	h.t.Helper()
	h.in.Close()
	for h.hear() != "" {
	}
}

// M19: a child of the server's with a session of its own ends with the run.
func playOrphan(t *testing.T, w *world) {
	h := python(t, w, nil, plainTool("orphan"))
	h.greet()
	var pid int
	if r := h.granted("orphan", `{}`); r.code() != "" {
		t.Fatal(r.raw)
	} else if _, err := fmt.Sscan(r.text(), &pid); err != nil {
		t.Fatal(err)
	}
	h.leave()
	h.gone(pid)
	h.recorded("an escaped process's signal", func(e event.Event) bool {
		s, ok := e.(event.ServerSignalled)
		return ok && s.ServerLabel == h.label && s.ProcessID == pid && s.Escaped
	})
}

// recorded waits until the log holds it.
func (h *host) recorded(what string, f func(event.Event) bool) {
	h.t.Helper()
	h.until("recorded: "+what, func() bool { return slices.ContainsFunc(h.w.events(h.t), f) })
}

// M20: an annotation turns: the host fetches again, and no decision changes.
func playHint(t *testing.T, w *world) {
	quiet := plainTool("adjust")
	quiet["annotations"] = map[string]any{"readOnlyHint": true}
	loud := plainTool("adjust")
	loud["annotations"] = map[string]any{"readOnlyHint": false}
	present(t, w, quiet, loud)
}

// M24: only words change.
func playWords(t *testing.T, w *world) {
	other := plainTool("adjust")
	other["description"] = "changes nothing but words"
	present(t, w, plainTool("adjust"), other)
}

// present changes what a host shows of a tool, and no more: refetch, and the grant stands.
func present(t *testing.T, w *world, before, after tool) {
	h := python(t, w, nil, before, plainTool("notify"))
	h.greet()
	if r := h.call("adjust", `{}`); r.code() != "not_authorized" { // read-only or not
		t.Fatal(r.raw)
	}
	h.approve("adjust")
	h.granted("notify", `{}`)
	h.call("adjust", `{"marker":"1"}`)
	setTools(t, h.dir, after, plainTool("notify"))
	h.call("notify", `{}`)
	h.changed()
	if r := h.call("adjust", `{"marker":"2"}`); r.code() != "catalog_stale" {
		t.Fatal(r.raw)
	}
	h.list()
	if r := h.call("adjust", `{"marker":"3"}`); r.code() != "" {
		t.Fatal(r.raw)
	}
	if got := h.wrote(); !slices.Equal(got, []string{"1 revision=A", "3 revision=A"}) {
		t.Fatalf("written %v", got)
	}
}

// M22: a server that ends when it is asked for server/discover is started again, for the handshake.
func playDiscover(t *testing.T, w *world) {
	h := python(t, w, nil, plainTool("adjust"))
	if r := h.request("server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`); r.Error == nil || r.Error.Code != -32601 {
		t.Fatal(r.raw)
	}
	h.greet()
	if r := h.granted("adjust", `{"marker":"1"}`); r.code() != "" {
		t.Fatal(r.raw)
	}
}

// M23: a module is rewritten before its first import: the call is recorded as one of changed files.
func playLazy(t *testing.T, w *world) {
	h := python(t, w, nil, plainTool("lazy"), plainTool("get"))
	h.greet()
	h.granted("get", `{}`)
	save(t, filepath.Join(h.dir, "late.py"), "def word():\n    return 'rewritten'\n")
	h.status("files changed since start may be loaded later", 1)
	if r := h.granted("lazy", `{}`); r.text() != "rewritten" {
		t.Fatal(r.raw)
	}
	h.recorded("artifactDrift on the call", func(e event.Event) bool {
		c, ok := e.(event.ToolCalled)
		return ok && c.ServerLabel == h.label && c.Tool == "lazy" && c.ArtifactDrift
	})
}

// M25: an omitted field's default is on the card, as the server's claim; the running code says what it does with it.
func playDefault(t *testing.T, w *world) {
	x := grown()
	x["name"] = "target"
	h := python(t, w, nil, x)
	h.greet()
	h.call("target", `{"marker":"1"}`)
	c := h.card("target")
	if len(c.Defaults) != 1 || c.Defaults[0].Field != "target" || c.Defaults[0].Value != `"preview"` {
		t.Fatalf("the card shows %+v", c.Defaults)
	}
	h.approve("target")
	if r := h.call("target", `{"marker":"1"}`); r.text() != "preview" {
		t.Fatal(r.raw)
	}
}

// M27: a server that leaves a child behind against its written expectation.
func playBreach(t *testing.T, w *world) {
	h := python(t, w, []string{"--exit-within", "2s", "--children", "die"}, plainTool("orphan"))
	h.greet()
	h.granted("orphan", `{}`)
	h.leave()
	h.recorded("the breach", func(e event.Event) bool {
		b, ok := e.(event.CleanupExpectationBroken)
		return ok && b.ServerLabel == h.label
	})
	h.recorded("a look before the signal", func(e event.Event) bool {
		o, ok := e.(event.ProcessObserved)
		return ok && strings.HasPrefix(o.Why, "server_")
	})
}

// M26, and the other side of it: a server's own call is admitted while a granted call of its tool is in flight, and not
// from a timer afterwards. The server's code is the one in docs/supervised-servers.md.
func playTimer(t *testing.T, w *world) {
	py := lookPython(t)
	up := newRecorder(t)
	w.addBearer(t, "inventory", up.addr())
	h := newHost(t, w, serverDir(t, plainTool("fetch"), plainTool("timer")), nil, []string{py, "server.py"})
	h.greet()
	get := `{"target":"inventory","method":"GET","path":"/items/1"}`
	h.call("fetch", get)
	h.approve("fetch")
	id := h.ask("tools/call", `{"name":"fetch","arguments":`+get+`}`)
	h.approveAny("http_request", "inventory")
	if r := h.answer(id); !strings.Contains(r.text(), `"confirmed"`) {
		t.Fatal(r.raw)
	}
	gate := filepath.Join(h.dir, "gate")
	h.granted("timer", `{"gate":"`+gate+`","request":`+get+`}`)
	h.recorded("the timer's call has ended", func(e event.Event) bool {
		f, ok := e.(event.ToolFinished)
		return ok && f.Action != ""
	})
	before := up.count()
	h.pastGrace()
	save(t, gate, "")
	h.until("the timer's answer", func() bool { _, err := os.Stat(gate + ".done"); return err == nil })
	b, err := os.ReadFile(gate + ".done")
	if err != nil || !strings.Contains(string(b), "no_call_in_flight") {
		t.Fatalf("%s %v", b, err)
	}
	if up.count() != before {
		t.Fatal("the timer's call arrived")
	}
}

// M09: a launcher between host and wrapper is killed: the session goes on. Then the host ends, and nothing is left.
func playLauncher(t *testing.T, w *world) {
	py := lookPython(t)
	h := &host{t: t, w: w, dir: serverDir(t, plainTool("adjust")), lines: make(chan string, 1000), errs: &shared{}, next: 100, label: "launched"}
	pidFile := filepath.Join(h.dir, "launcher")
	h.start([]string{"sh", "-c", `echo $$ > "$0"; "$@"; true`, pidFile, "sp", "mcp", "--label", h.label, "--", py, "server.py"})
	h.greet()
	if r := h.granted("adjust", `{"marker":"1"}`); r.code() != "" {
		t.Fatal(r.raw)
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	var launcher, server int
	fmt.Sscan(string(b), &launcher)
	fmt.Sscanf(h.status("server started:", 1)[2], "pid=%d", &server)
	wrapper := childOf(launcher)
	if launcher == 0 || wrapper == 0 {
		t.Fatalf("launcher %d, wrapper %d", launcher, wrapper)
	}
	if err := syscall.Kill(launcher, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.gone(launcher)
	if r := h.call("adjust", `{"marker":"2"}`); r.code() != "" {
		t.Fatal(r.raw)
	}
	h.cmd.Process.Kill()
	h.gone(server)
	h.gone(wrapper)
}

// The Node program of docs/supervised-servers.md: a server's own call while its tool is called.
func playNode(t *testing.T, w *world) {
	node := lookPart(t, "node")
	up := newRecorder(t)
	w.addBearer(t, "orders", up.addr())
	h := newHost(t, w, serverDir(t, plainTool("fetch")), nil, []string{node, "server.mjs"})
	h.greet()
	get := `{"target":"orders","method":"GET","path":"/items/1"}`
	h.call("fetch", get)
	h.approve("fetch")
	id := h.ask("tools/call", `{"name":"fetch","arguments":`+get+`}`)
	h.approveAny("http_request", "orders")
	if r := h.answer(id); !strings.Contains(r.text(), `"confirmed"`) || up.count() != 1 {
		t.Fatalf("%d arrived: %s", up.count(), r.raw)
	}
}
