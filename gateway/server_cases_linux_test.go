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

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
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
