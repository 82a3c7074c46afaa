package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// The cases M11 to M27 of mcp.tsv, as far as they are the gateway's. The wrapper's own are where the wrapper is.

const speakerEnv = "SALLYPORT_TEST_SPEAKER"

// TestServerRole is no test: it is a server that passes its stdin on to agent.sock, and what comes back to its stdout.
func TestServerRole(t *testing.T) {
	path := os.Getenv(speakerEnv)
	if path == "" {
		t.Skip("it is a role of other tests")
	}
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil { // it speaks once it is told to
		os.Exit(0)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go io.Copy(os.Stdout, c)
	io.Copy(c, in)
	os.Exit(0)
}

func end(c child0) {
	syscall.Kill(c.pid(), syscall.SIGKILL)
}

// M12, M15: a restart with the same bytes is a new epoch, and what was in flight is told as lost in the transition.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	c := w.ready(dir, "cat")
	old := w.epoch
	first := w.done(adjust)

	write := w.call(`{"name":"inventory_adjust","arguments":{"sku":"b"}}`)
	f := w.forwarded(write)
	end(c)
	if p := w.push(api.PushEpoch); p.Server.State != api.ServerDown {
		t.Errorf("push %s", encode(p))
	}
	w.refused(adjust, "server_down")
	_, st := w.launchAs(func() api.ServerPlan { p := plan0(dir, "cat"); p.Cause = "crash"; return p }())
	res := w.take(write)
	if code(res) != "sent_unconfirmed" || res.Action.Error.OldEpoch != old || res.Action.Error.NewEpoch != st.ExecutionEpoch || res.Action.ID != f.Action {
		t.Fatalf("the write in flight: %s", encode(res))
	}
	if st.OldEpoch != old || st.Cause != "crash" || st.ExecutionEpoch == old {
		t.Errorf("state %+v", st)
	}
	// An old call, of the old epoch, and of the new one before anybody approved it.
	w.epoch = old
	e := w.refused(adjust, "authorization_stale")
	if e.ApprovedEpoch != old || e.CurrentEpoch != st.ExecutionEpoch || e.Reason != "server execution epoch changed" || e.Retry != "refresh tool metadata and request authorization" {
		t.Errorf("refusal %s", encode(e))
	}
	w.epoch = st.ExecutionEpoch
	if e = w.refused(adjust, "authorization_stale"); e.ApprovedEpoch != old || e.CurrentEpoch != w.epoch {
		t.Errorf("refusal %s", encode(e))
	}
	if st = w.catalog(catalogA, false); st.State != api.ServerCatalogReady || len(st.Changed) != 0 {
		t.Errorf("state %+v", st)
	}
	w.refused(adjust, "authorization_stale")
	card := w.approve("run")
	if card.ExecutionEpoch != w.epoch || card.Server == nil || card.Server.OldEpoch != old {
		t.Errorf("card %s", encode(card))
	}
	w.push(api.PushReady)
	second := w.done(adjust)
	if second.ExecutionEpoch == first.ExecutionEpoch {
		t.Error("both calls have one epoch")
	}
	// Nobody knows the end of the write: its twin waits for the operator's word, in this epoch too.
	w.refused(`{"name":"inventory_adjust","arguments":{"sku":"b"}}`, "outcome_unresolved")
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "server_replaced") != 1 || count(evs, "server_started") != 2 {
		t.Error("the replacement is not told")
	}
}

// M13, M14, M20, M24, M25: which changes of a catalog want what.
func TestServerCatalogs(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	w.ready(t.TempDir(), "cat")
	w.done(adjust)

	// Only the presentation: the host must look again, the grant stands.
	st := w.catalog(catalogC, false)
	if len(st.ContractChanged) != 0 || len(st.Changed) != 2 || !strings.Contains(strings.Join(st.Changed, "\n"), "readOnlyHint") {
		t.Errorf("changed %q, contract %q", st.Changed, st.ContractChanged)
	}
	w.refused(adjust, "catalog_stale")
	if st = w.catalog(catalogC, true); st.State != api.ServerReady {
		t.Errorf("state %+v", st)
	}
	w.done(adjust)

	// The contract: that tool wants approval, whatever the host knows.
	st = w.catalog(catalogB, false)
	if !slices.Equal(st.ContractChanged, []string{"inventory_adjust"}) {
		t.Errorf("contract changed: %q", st.ContractChanged)
	}
	w.refused(adjust, "catalog_stale")
	w.catalog(catalogB, true)
	w.refused(adjust, "not_authorized")
	c := w.approve("use")
	want := []api.Default{{Field: "target", Value: `"preview"`}}
	if !slices.Equal(c.Defaults, want) || !strings.Contains(c.Summary, "its claim") || len(c.Server.Diff) == 0 {
		t.Errorf("card %s", encode(c))
	}
	w.push(api.PushReady)
	w.done(adjust)
	w.refused(adjust, "not_authorized") // it was for one use
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if n := count(evs, "catalog_changed"); n != 3 {
		t.Errorf("%d × catalog_changed, want 3", n)
	}
	for _, e := range evs {
		if c, ok := e.(event.ToolCalled); ok && (c.Catalog == "" || c.Catalog != c.CatalogShown || c.Contract == "" || c.ServerLabel == "" || c.RequestID != "7") {
			t.Errorf("call %+v", c)
		}
	}
}

// workerScript is a parent that keeps the pipe and starts another worker behind it whenever one ends.
const workerScript = "exec 3<&0\nwhile :; do cat <&3 & wait $!; done\n"

// M16: a parent that replaces its worker behind the same pipe.
func TestServerWorkerReplaced(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nodemon.sh"), []byte(workerScript), 0o600); err != nil {
		t.Fatal(err)
	}
	c := w.ready(dir, "sh", "nodemon.sh")
	w.done(adjust)
	worker := r.serverState(r.only(t)).ProcessID
	if worker == c.pid() {
		t.Fatalf("the worker is the parent itself")
	}
	old := w.epoch
	syscall.Kill(worker, syscall.SIGKILL)
	p := w.push(api.PushEpoch)
	for p.Server.ExecutionEpoch == old {
		p = w.push(api.PushEpoch)
	}
	if p.Server.Cause != "foreign" || p.Server.State != api.ServerIdentityPending || p.Server.OldEpoch != old {
		t.Errorf("push %s", encode(p))
	}
	e := w.refused(adjust, "authorization_stale")
	if e.ApprovedEpoch != old || e.CurrentEpoch != p.Server.ExecutionEpoch {
		t.Errorf("refusal %s", encode(e))
	}
	w.epoch = p.Server.ExecutionEpoch
	w.refused(adjust, "authorization_stale")
	w.catalog(catalogA, true)
	w.approve("run")
	w.push(api.PushReady)
	w.done(adjust)
	r.stop()
	found := false
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if x, ok := e.(event.ServerReplaced); ok {
			found = x.OldEpoch == old && x.NewEpoch == w.epoch && x.Cause == "foreign" && x.OldProcessID == worker
		}
	}
	if !found {
		t.Error("the replacement is not told")
	}
}

// only is the rig's one server.
func (r *rig) only(t *testing.T) *server {
	r.servers.mu.Lock()
	defer r.servers.mu.Unlock()
	for _, s := range r.servers.by {
		return s
	}
	t.Fatal("no server")
	return nil
}

// M16: another process that can read the pipe ends the epoch before a call is forwarded, though the old one lives.
func TestServerSecondReader(t *testing.T) {
	t.Parallel()
	_, w := newServerRig(t)
	dir := t.TempDir()
	go1 := filepath.Join(dir, "go")
	script := "exec 3<&0\nwhile [ ! -e " + go1 + " ]; do sleep 0.05; done\ncat <&3 >/dev/null &\necho $! > " + go1 + ".pid\nwait\n"
	if err := os.WriteFile(filepath.Join(dir, "s.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	// What the shell sleeps in can read the pipe too, until it has executed something that closes it: so it is told to close it.
	script = strings.Replace(script, "sleep 0.05", "sleep 0.05 3<&- </dev/null", 1)
	if err := os.WriteFile(filepath.Join(dir, "s.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ready(dir, "sh", "s.sh")
	w.done(adjust)
	if err := os.WriteFile(go1, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "what was to come", func() bool { b, _ := os.ReadFile(go1 + ".pid"); return strings.HasSuffix(string(b), "\n") })
	old := w.epoch
	e := w.refused(adjust, "authorization_stale")
	if e.ApprovedEpoch != old || e.CurrentEpoch == old {
		t.Errorf("refusal %s", encode(e))
	}
}

// M11, M23: files change under a running process.
func TestServerArtifactDrift(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	for name, body := range map[string]string{"server.sh": "cat\n", "package-lock.json": "{}", "package.json": "{}", "lib.sh": "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.ready(dir, "sh", "server.sh")
	w.done(adjust)
	if err := os.WriteFile(filepath.Join(dir, "server.sh"), []byte("cat # B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.push(api.PushStatus)
	s := r.serverState(r.only(t))
	want := []string{"build changed: server.sh", fmt.Sprintf("running process unchanged: pid=%d epoch=%s", s.ProcessID, w.epoch)}
	if len(p.Lines) < 2 || !slices.Equal(p.Lines[:2], want) || !slices.Equal(s.ArtifactChanged, []string{"server.sh"}) {
		t.Errorf("lines %q, want %q; state %+v", p.Lines, want, s)
	}
	a := w.done(adjust)
	if !slices.Contains(a.Flags, "artifact_drift") {
		t.Errorf("action %s", encode(a))
	}
	r.suspends.Store(true)
	if e := w.refused(adjust, "server_suspended"); e.Next != api.NextRestart {
		t.Errorf("refusal %s", encode(e))
	}
	if st := r.serverState(r.only(t)); st.State != api.ServerSuspended {
		t.Errorf("state %+v", st)
	}
	r.stop()
	var drift []bool
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if c, ok := e.(event.ToolCalled); ok {
			drift = append(drift, c.ArtifactDrift)
		}
	}
	if !slices.Equal(drift, []bool{false, true}) {
		t.Errorf("artifactDrift of the calls: %v", drift)
	}
}

// What was measured before exec must be what runs.
func TestServerUnstable(t *testing.T) {
	t.Parallel()
	_, w := newServerRig(t)
	dir := t.TempDir()
	w.launch(dir, "cat")
	p := plan0(dir, "cat")
	p.Environment = append(slices.Clone(p.Environment), "LD_PRELOAD=/tmp/x.so")
	c := w.r.only(t).current.inst.child.Facts().PID
	syscall.Kill(c, syscall.SIGKILL)
	w.push(api.PushEpoch)
	_, st := w.launchAs(p) // it is started without that variable
	if res := w.ask(api.MethodServerCatalog, api.ServerCatalog{ExecutionEpoch: st.ExecutionEpoch, Pages: []jsontext.Value{jsontext.Value(catalogA)}}); code(res) != "identity_unstable" || !strings.Contains(res.Error.Reason, "LD_PRELOAD") {
		t.Fatalf("catalog: %s", encode(res))
	}
	w.refused(adjust, "identity_unstable")
	if l := w.r.cards.list(); len(l) != 0 {
		t.Errorf("cards %s", encode(l))
	}
}

// M17: the entry is equal, what it resolves to is not: another identity at the next start.
func TestServerTreeChanged(t *testing.T) {
	t.Parallel()
	need(t, "node")
	r, w := newServerRig(t)
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "node_modules", "left"), 0o700)
	for name, body := range map[string]string{"server.js": "process.stdin.resume()\n", "package.json": "{}", "node_modules/left/index.js": "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := w.launch(dir, "node", "server.js")
	w.catalog(catalogA, true)
	if err := os.WriteFile(filepath.Join(dir, "node_modules/left/index.js"), []byte("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	end(c)
	w.push(api.PushEpoch)
	w.launch(dir, "node", "server.js")
	w.catalog(catalogA, true)
	r.stop()
	var seen []event.Execution
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		switch e := e.(type) {
		case event.ServerStarted:
			seen = append(seen, e.Execution)
		}
	}
	if len(seen) != 2 || seen[0].EntryDigest != seen[1].EntryDigest || seen[0].EntryDigest == "" || seen[0].TreeDigest == seen[1].TreeDigest {
		t.Errorf("records %+v", seen)
	}
}

// M26: a server's own call is admitted only while a tools/call of its epoch is in flight.
func TestServerOwnCall(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	up := newUpstream(t, nil)
	r.addBearer("inventory-api", "GET,POST "+up.URL+"/**")
	p := plan0(t.TempDir(), self(t), "-test.run=^TestServerRole$")
	p.Environment = append(slices.Clone(p.Environment), speakerEnv+"="+r.cfg.Home.AgentSocket())
	result[api.ServerPlanned](w, api.MethodServerPlan, p)
	c, out := w.speaker(p)
	st := result[api.ServerState](w, api.MethodServerStarted, api.ServerStarted{ProcessID: c.pid()})
	w.epoch = st.ExecutionEpoch
	own := func(n string) api.Response {
		io.WriteString(c.in, string(encode(api.Request{ID: n, Method: api.MethodCall, Params: encode(call0(up.URL+"/own/"+n, "POST"))}))+"\n")
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var res api.Response
		if err := json.Unmarshal([]byte(line), &res); err != nil {
			t.Fatal(err)
		}
		return res
	}
	io.WriteString(c.in, "go\n")
	w.catalog(catalogA, true)
	w.refused(adjust, "not_authorized")
	w.approve("run")
	w.push(api.PushReady)
	if res := own("1"); code(res) != "no_call_in_flight" {
		t.Fatalf("from a timer: %s", encode(res))
	}
	ch := w.call(adjust)
	f := w.forwarded(ch)
	yes := make(chan api.Approval, 1)
	go func() { yes <- w.approve("run") }()
	if res := own("2"); code(res) != "confirmed" || res.Action.ExecutionEpoch != w.epoch {
		t.Fatalf("during a call: %s", encode(res))
	}
	if card := <-yes; card.Credential != "inventory-api" {
		t.Errorf("card %s", encode(card))
	}
	w.report(f.Action, "confirmed")
	w.take(ch)
	r.stop()
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if x, ok := e.(event.ToolCalled); ok && x.Tool == api.ToolHTTP && !slices.Equal(x.During, []string{f.Action}) {
			t.Errorf("during %q, want %s", x.During, f.Action)
		}
	}
	if got := up.paths(); !slices.Equal(got, []string{"/own/2"}) {
		t.Errorf("arrived: %q", got)
	}
}

// M27: what was written down for the end is held against what is seen; a look comes before each signal.
func TestServerCleanup(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	mark := filepath.Join(dir, "pid")
	// A server that leaves a child alive at EOF, which also left its session (M19).
	script := "setsid sleep 1000 </dev/null >/dev/null 2>&1 &\necho $! > " + mark + "\ncat >/dev/null\n"
	if err := os.WriteFile(filepath.Join(dir, "s.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	p := plan0(dir, "sh", "s.sh")
	p.ExitWithin, p.Children = 5000, "die"
	c, _ := w.launchAs(p)
	w.catalog(catalogA, true)
	until(t, "what was to come", func() bool { b, _ := os.ReadFile(mark); return strings.HasSuffix(string(b), "\n") })
	s := r.only(t)
	until(t, "the child on the roster", func() bool {
		s.run.mu.Lock()
		defer s.run.mu.Unlock()
		return len(s.current.inst.kin) >= 2
	})
	c.in.Close()
	out := result[api.ServerEnded](w, api.MethodServerEnd, api.ServerEnd{ExecutionEpoch: w.epoch, Reason: "eof"})
	if !out.Exited || out.Cleanup != "broken" || len(out.Swept) == 0 || len(out.Left) != 0 {
		t.Errorf("ended %+v", out)
	}
	for _, pid := range out.Swept {
		if _, err := peer.Find(pid); err == nil {
			t.Errorf("pid %d lives", pid)
		}
	}
	w.refused(adjust, "server_down")
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	looked, broken := map[int]bool{}, 0
	for _, e := range evs {
		switch e := e.(type) {
		case event.ProcessObserved:
			looked[e.Process.ProcessID] = true
		case event.CleanupExpectationBroken:
			broken++
		case event.ServerSignalled:
			if !looked[e.ProcessID] {
				t.Errorf("pid %d was signalled without a look", e.ProcessID)
			}
			delete(looked, e.ProcessID)
		}
	}
	if broken != 1 || count(evs, "server_stopped") != 1 {
		t.Errorf("%d × cleanup_expectation_broken", broken)
	}
}

// A wrapper that dies leaves the same order to the gateway; a call in flight is not told as done.
func TestServerWrapperGone(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.sh"), []byte("trap '' TERM\nwhile :; do sleep 1000 3<&- </dev/null; done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := w.ready(dir, "sh", "s.sh")
	ch := w.call(adjust)
	f := w.forwarded(ch)
	s := r.only(t)
	w.conn.Close()
	until(t, "what was to come", func() bool { return over(s.current.inst.child) })
	until(t, "what was to come", func() bool { a, ok := r.find(t.Context(), f.Action); return ok && a.State == api.Done })
	if a, _ := r.find(t.Context(), f.Action); a.Outcome != "sent_unconfirmed" {
		t.Errorf("action %s", encode(a))
	}
	_ = c
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "server_stopped") != 1 {
		t.Error("its end is not told")
	}
	forced := false
	for _, e := range evs {
		if x, ok := e.(event.ServerSignalled); ok && x.Forced {
			forced = true
		}
	}
	if !forced {
		t.Error("it ignores SIGTERM, and was not killed")
	}
}

// A revocation waits for the wrapper's word a second at most, and no call begins after it.
func TestServerRevoked(t *testing.T) {
	t.Parallel()
	for _, speaks := range []bool{true, false} {
		r, w := newServerRig(t)
		w.ready(t.TempDir(), "cat")
		ch := w.call(adjust)
		f := w.forwarded(ch)
		if speaks {
			go func() {
				if p := w.push(api.PushCancel); p.Action == f.Action {
					w.report(f.Action, "confirmed")
				}
			}()
		}
		run := r.only(t).run.id
		out := op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run})
		if len(out.Left) != 1 || out.Left[0].ID != f.Action {
			t.Fatalf("left %s", encode(out))
		}
		if want := map[bool]string{true: "confirmed", false: "sent_unconfirmed"}[speaks]; out.Left[0].Outcome != want {
			t.Errorf("speaks %v: %s", speaks, encode(out.Left))
		}
		if speaks {
			w.refused(adjust, "run_revoked")
		}
		r.stop()
		events(t, r.dir, r.created.ReaderIdentity)
	}
}

// Whose process a wrapper may name.
func TestServerChildIsNobodyElses(t *testing.T) {
	t.Parallel()
	_, w := newServerRig(t)
	early := w.spawn(t.TempDir(), "cat")
	late := w.r.wrapper() // connects after that child was started
	dir := t.TempDir()
	wrong := func(w *wrapper0, pid int, why string) {
		t.Helper()
		result[api.ServerPlanned](w, api.MethodServerPlan, plan0(dir, "cat"))
		res := w.ask(api.MethodServerStarted, api.ServerStarted{ProcessID: pid})
		if code(res) != "peer_unidentified" || !strings.Contains(res.Error.Reason, why) {
			t.Errorf("pid %d: %s, want %q", pid, encode(res), why)
		}
	}
	wrong(w, os.Getpid(), "no living child")
	wrong(w, 1, "no living child")
	wrong(w, 1<<22+1, "no living child")
	time.Sleep(20 * time.Millisecond) // two ticks of the clock that starts are told in
	late2 := w.r.wrapper()
	wrong(late2, early.pid(), "before the wrapper connected")
	c, _ := late.launch(dir, "cat")
	wrong(w, c.pid(), "an epoch of this run already")
	if res := late.ask(api.MethodServerStarted, api.ServerStarted{ProcessID: c.pid()}); code(res) != "invalid_request" {
		t.Errorf("started twice: %s", encode(res))
	}
	p := plan0(dir, "cat")
	p.ServerLabel = "other"
	if res := late.ask(api.MethodServerPlan, p); code(res) != "invalid_request" {
		t.Errorf("another label: %s", encode(res))
	}
}

// What the operator sees of servers, and of a command before it runs.
func TestServerShown(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server.sh"), []byte("cat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.launch(dir, "sh", "server.sh")
	w.catalog(catalogA, true)
	w.refused(adjust, "not_authorized")
	if c := w.approve("run"); c.Origin.Others != 0 || len(c.Server.Unpinned) == 0 || len(c.Server.Record) == 0 {
		t.Errorf("card %s", encode(c))
	}
	w.push(api.PushReady)
	list := op[[]api.Server](r, r.opServerList, struct{}{})
	if len(list) != 1 || list[0].ServerLabel != "inventory-local" || list[0].State != api.ServerReady || list[0].ExecutionEpoch != w.epoch || list[0].ArtifactChanged == nil {
		t.Errorf("list %s", encode(list))
	}
	for _, id := range []string{"inventory-local", w.epoch, list[0].AgentRun} {
		s := op[*api.Server](r, r.opServerShow, api.IDArgs{ID: id})
		if !slices.Equal(s.Tools, []string{"inventory_adjust", "inventory_lookup"}) || !slices.Equal(s.ToolScope, []string{"inventory_adjust"}) || !strings.Contains(string(s.Record), "entryDigest") {
			t.Errorf("show %s: %s", id, encode(s))
		}
	}
	if _, err := r.opServerShow(opRequest{ctx: t.Context(), args: encode(api.IDArgs{ID: "x"})}); err == nil {
		t.Error("an unknown label is shown")
	}
	d := op[api.Digest](r, r.opServerDigest, api.DigestArgs{LaunchCommand: []string{"sh", "server.sh"}, WorkingDirectory: dir, Environment: childEnv})
	if !strings.Contains(d.Sums, "  server.sh\n") || len(d.Unpinned) == 0 {
		t.Errorf("digest %s", encode(d))
	}
	for _, x := range op[api.Run](r, r.opRunShow, api.IDArgs{ID: list[0].AgentRun}).Epochs {
		if x.ID == w.epoch && x.ServerLabel != "inventory-local" {
			t.Errorf("epoch %+v", x)
		}
	}
}
