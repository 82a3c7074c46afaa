package gateway

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// How a server acts by itself, how it ends, and what is shown of it.

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
