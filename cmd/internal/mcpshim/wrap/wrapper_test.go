package wrap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sallyport/gateway/api"
)

// Lines go through as they came, in both directions, but for the two edits.
func TestLinesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.say(hello)
	got, _ := r.answered("0")
	if want := `{"jsonrpc":"2.0", "result":{"serverInfo":{"name":"s","version":"1"},"zz":1.50,"capabilities":{"tools":{"listChanged":true },"logging":{}},"protocolVersion":"2025-06-18"}, "id":0}`; got != want {
		t.Fatalf("initialize:\n got %s\nwant %s", got, want)
	}
	r.say(helloed)
	r.list("1")
	odd := ` {"params" : {"name":"echo", "arguments":{"b":1.0,"a":9007199254740993 ,"é":"\u00e9"},"_meta":{"x":[ ]}},"method":"tools/call","extra":{"k":1},"id":9007199254740993,"jsonrpc":"2.0"}`
	r.say(odd)
	got, _ = r.answered("9007199254740993")
	if want := `{"jsonrpc":"2.0","id":9007199254740993,"result":{"content":[ ],"big":9007199254740993,"x":"\u00e9"},"later":[1 ,2]}`; got != want {
		t.Fatalf("call:\n got %s\nwant %s", got, want)
	}
	if !slices.Contains(r.received(), odd) {
		t.Fatalf("the server was given\n%s", strings.Join(r.received(), "\n"))
	}
	for _, id := range []string{`1`, `"1"`, `"\u0032"`} {
		r.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		if got := r.hear(); got != `{"id":`+id+`,"jsonrpc":"2.0","result":{}}` {
			t.Fatalf("ping %s: %s", id, got)
		}
	}
	r.g.locked(func() {
		c := r.g.calls[0]
		if string(c.Params) != `{"name":"echo", "arguments":{"b":1.0,"a":9007199254740993 ,"é":"\u00e9"},"_meta":{"x":[ ]}}` || c.RequestID != "9007199254740993" {
			t.Errorf("the gateway was given %s, id %s", c.Params, c.RequestID)
		}
		if rep := r.g.reports[0]; rep.Outcome != "confirmed" || string(rep.Reply) != `{"content":[ ],"big":9007199254740993,"x":"\u00e9"}` {
			t.Errorf("reported %+v", rep)
		}
	})
}

// What two readers could read differently is passed to nobody.
func TestAmbiguousLinesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	n := len(r.received())
	for _, l := range []string{
		`{"jsonrpc":"2.0","id":5,"method":"ping","method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"ping","METHOD":"tools/call","params":{"name":"echo"}}`,
		`[{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo"}}]`,
		`{"jsonrpc":"2.0","id":5,"method":"ping","result":{}}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":5,"method":"ping"} {"jsonrpc":"2.0","id":6,"method":"tools/call"}`,
		"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}",
		`hello`,
	} {
		r.say(l)
		if got := r.hear(); !strings.Contains(got, `"id":null`) || !strings.Contains(got, `"error"`) {
			t.Errorf("%s: %s", l, got)
		}
	}
	r.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	r.answered("7")
	if got := r.received(); len(got) != n+1 && got[len(got)-1] != `{"jsonrpc":"2.0","id":7,"method":"ping"}` {
		t.Fatalf("the server was given %s", got[n:])
	}
}

// A tools/call without an id has no answer and no decision: it reaches no server.
func TestCallWithoutIDReachesNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	r.say(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`, `{"jsonrpc":"2.0","method":"notifications/other"}`,
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	r.answered("7")
	got := strings.Join(r.received(), "\n")
	if strings.Contains(got, "tools/call") || !strings.Contains(got, "notifications/other") {
		t.Fatalf("the server was given\n%s", got)
	}
}

// M18: noise on stdout is dropped and counted, stderr is drained and passed on.
func TestM18NoiseIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	r.call("5", "noise")
	if _, before := r.answered("5"); len(before) > 0 {
		t.Fatalf("passed on: %q", before)
	}
	r.in.Close()
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	if !strings.Contains(r.errs.String(), "4 lines that were no JSON-RPC") {
		t.Fatalf("not counted: %s", tail(r.errs.String()))
	}
	// It is copied as it comes: a line of ours may stand within one of the server's, and the last bytes come when they come.
	r.eventually("all of the server's stderr", func() bool { return strings.Count(r.errs.String(), "x") >= 2000*1000 })
}

// A refusal is a result with all the gateway said; the server hears nothing of the call.
func TestRefusalReachesTheHostAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(r *rig) {
		r.g.refuse = func(api.ActionRequest) *api.Error {
			e := api.Fail("authorization_stale", "")
			e.ApprovedEpoch, e.CurrentEpoch = "ep_a", "ep_b"
			return e
		}
	})
	r.greet()
	r.call("5", "echo")
	got, _ := r.answered("5")
	if d := doc(t, got); d["error"] != "authorization_stale" || d["approvedEpoch"] != "ep_a" || d["currentEpoch"] != "ep_b" || d["next"] != "refresh_catalog" {
		t.Fatalf("told %v", d)
	}
	for _, l := range r.received() {
		if strings.Contains(l, "tools/call") {
			t.Fatalf("the server was given %s", l)
		}
	}
}

// M15: the server dies with a call in flight; nothing is sent again, and the host learns of both epochs.
func TestM15DeathInFlightNamesBothEpochs(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(r *rig) { r.cfg.Reload = "restart" })
	r.greet()
	r.call("5", "die")
	got, _ := r.answered("5")
	if d := doc(t, got); d["outcome"] != "sent_unconfirmed" || d["oldEpoch"] != "ep_1" || d["newEpoch"] != "ep_2" || d["action"] != "act_1" {
		t.Fatalf("told %v", d)
	}
	r.call("6", "echo")
	r.answered("6")
	if n := strings.Count(strings.Join(r.received(), "\n"), `"name":"die"`); n != 1 {
		t.Fatalf("the call was sent %d times", n)
	}
	if n := strings.Count(strings.Join(r.received(), "\n"), `"method":"initialize"`); n != 2 {
		t.Fatalf("the handshake was done %d times", n)
	}
	r.g.locked(func() {
		if r.g.plans[1].Cause != "crash" || r.g.reports[0].Outcome != "sent_unconfirmed" || r.g.calls[1].ExecutionEpoch != "ep_2" {
			t.Errorf("plans %+v reports %+v", r.g.plans, r.g.reports)
		}
	})
}

// Without reload a dead server stays down, and is asked of the gateway all the same: its refusal is recorded.
func TestDeadServerStaysDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	r.call("5", "die")
	got, _ := r.answered("5")
	if d := doc(t, got); d["outcome"] != "sent_unconfirmed" || d["oldEpoch"] != "ep_1" || d["newEpoch"] != nil {
		t.Fatalf("told %v", d)
	}
	r.g.locked(func() { r.g.refuse = func(api.ActionRequest) *api.Error { return api.Fail("server_suspended", "") } })
	r.call("6", "echo")
	got, _ = r.answered("6")
	if d := doc(t, got); d["next"] != "wait_restart" {
		t.Fatalf("told %v", d)
	}
	r.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	if got, _ := r.answered("7"); !strings.Contains(got, "-32012") {
		t.Fatalf("told %s", got)
	}
}

// A server that dies before it has listed its tools leaves no call without an answer.
func TestDeathWhileToolsAreFetched(t *testing.T) {
	t.Parallel()
	r := newRig(t, "shy")
	r.g.locked(func() { r.g.refuse = func(api.ActionRequest) *api.Error { return api.Fail("server_down", "") } })
	r.say(hello)
	r.answered("0")
	r.say(helloed)
	r.eventually("the tools are fetched", func() bool { return strings.Contains(strings.Join(r.received(), "\n"), "tools/list") })
	r.call("5", "echo") // waits for them
	if err := os.WriteFile(filepath.Join(r.dir, "grown"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, _ := r.answered("5")
	if d := doc(t, got); d["error"] != "server_down" {
		t.Fatalf("told %v", d)
	}
	r.call("6", "echo")
	got, _ = r.answered("6")
	if d := doc(t, got); d["error"] != "server_down" || d["next"] != api.NextAsk || !strings.Contains(fmt.Sprint(d["reason"]), "is not started again; connect again") {
		t.Fatalf("told %s", got) // nobody starts it: to wait would be in vain
	}
}

// Five deaths within two minutes are enough.
func TestFiveCrashesFail(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(r *rig) { r.cfg.Reload = "restart" })
	r.greet()
	for i := range 5 {
		id := strconv.Itoa(10 + i)
		r.call(id, "die")
		r.answered(id)
	}
	r.say(`{"jsonrpc":"2.0","id":20,"method":"ping"}`)
	if got, _ := r.answered("20"); !strings.Contains(got, "5 times") {
		t.Fatalf("told %s", got)
	}
	r.g.locked(func() {
		if r.g.epochs != 5 {
			t.Errorf("%d starts", r.g.epochs)
		}
	})
}

// M22: a server that ends when asked for server/discover is a legacy server, also without reload.
func TestM22DiscoverKillsTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, "legacy")
	r.say(discover)
	if got, _ := r.answered("0"); !strings.Contains(got, "-32601") {
		t.Fatalf("told %s", got)
	}
	r.greet()
	r.call("5", "echo")
	r.answered("5")
	r.say(strings.Replace(discover, `"id":0`, `"id":8`, 1))
	if got, _ := r.answered("8"); !strings.Contains(got, "-32601") {
		t.Fatalf("told %s", got)
	}
}

// A gateway that goes away: calls in flight are told at once, and the next one starts the server anew.
func TestGatewayRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	r.call("5", "hang")
	r.eventually("the call is sent", func() bool { return strings.Contains(strings.Join(r.received(), "\n"), `"name":"hang"`) })
	r.g.locked(func() { r.g.links[0].Close() })
	got, _ := r.answered("5")
	if d := doc(t, got); d["error"] != "gateway_restarted" {
		t.Fatalf("told %v", d)
	}
	r.call("6", "echo")
	r.answered("6")
	r.g.locked(func() {
		if r.g.epochs != 2 || r.g.calls[1].ExecutionEpoch != "ep_2" || len(r.g.links) != 2 {
			t.Errorf("epochs %d, links %d, calls %+v", r.g.epochs, len(r.g.links), r.g.calls)
		}
	})
	if n := strings.Count(strings.Join(r.received(), "\n"), `"name":"hang"`); n != 1 {
		t.Fatalf("the call was sent %d times", n)
	}
}

// Without a gateway nothing is started; the host is told why, and the next request tries again.
func TestNoGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(r *rig) { r.g.closed = true })
	r.say(hello)
	if got, _ := r.answered("0"); !strings.Contains(got, "sp up") || !strings.Contains(got, "-32012") {
		t.Fatalf("told %s", got)
	}
	r.g.locked(func() { r.g.closed = false })
	r.greet()
}

// M13: three list_changed of the server's become one of ours, after the gateway has the new list.
func TestM13OneListChangedPerRevision(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	r.call("5", "grow")
	_, before := r.answered("5")
	said := 0
	for _, l := range before {
		if strings.Contains(l, "list_changed") {
			said++
		}
	}
	for said == 0 {
		if l := r.hear(); strings.Contains(l, "list_changed") {
			said++
		}
	}
	r.g.locked(func() {
		if !strings.Contains(string(r.g.lists[len(r.g.lists)-1].Pages[0]), `"more"`) {
			t.Error("the host was told before the gateway")
		}
	})
	r.list("6")
	r.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	if _, before := r.answered("7"); len(before) > 0 || said != 1 {
		t.Fatalf("told again: %q, %d", before, said)
	}
}

// Modern hosts hear of it through their subscription, under its id.
func TestListChangedThroughASubscription(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.say(discover)
	if got, _ := r.answered("0"); !strings.Contains(got, `"tools":{"listChanged":true}`) {
		t.Fatalf("discover: %s", got)
	}
	r.say(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`)
	if got := r.hear(); got != `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"},"notifications":{"toolsListChanged":true}}}` {
		t.Fatalf("acknowledged: %s", got)
	}
	r.list("1")
	r.call("5", "grow")
	want := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}}}`
	for r.hear() != want {
	}
	for _, l := range r.received() {
		if strings.Contains(l, `"sub"`) {
			t.Fatalf("the server was given %s", l)
		}
	}
}

// A new process with other capabilities is no silent successor.
func TestOtherCapabilitiesReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(r *rig) { r.cfg.Reload = "restart" })
	r.greet()
	if err := os.WriteFile(filepath.Join(r.dir, "caps"), []byte(`{"tools":{},"prompts":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.call("5", "die")
	r.answered("5")
	if err := <-r.done; err == nil || !strings.Contains(err.Error(), "capabilities") {
		t.Fatalf("the session goes on: %v", err)
	} else {
		r.done <- err
	}
}

// The server's own questions reach the host, and the host's answers the server that asked.
func TestServersOwnRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	r.call("5", "ask")
	for r.hear() != `{"jsonrpc":"2.0","id":9007199254740993,"method":"roots/list"}` {
	}
	r.say(`{"jsonrpc":"2.0","id":77,"result":{}}`, `{"jsonrpc":"2.0","id":9007199254740993,"result":{"roots":[ ]}}`, `{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	r.answered("8")
	got := strings.Join(r.received(), "\n")
	if !strings.Contains(got, `{"jsonrpc":"2.0","id":9007199254740993,"result":{"roots":[ ]}}`) || strings.Contains(got, `"id":77`) {
		t.Fatalf("the server was given %s", got)
	}
}

// A cancelled call is not answered, and reported once.
func TestCancelledCallIsSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.greet()
	r.call("5", "hang")
	r.eventually("the call is sent", func() bool { return strings.Contains(strings.Join(r.received(), "\n"), `"name":"hang"`) })
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"x" }}`
	r.say(cancel, `{"jsonrpc":"2.0","id":6,"method":"ping"}`)
	if _, before := r.answered("6"); len(before) > 0 {
		t.Fatalf("answered %q", before)
	}
	if !slices.Contains(r.received(), cancel) {
		t.Fatal("the server was not told")
	}
	r.eventually("a report", func() (ok bool) {
		r.g.locked(func() { ok = len(r.g.reports) == 1 && r.g.reports[0].Outcome == "sent_unconfirmed" })
		return ok
	})
}

// A host that has died, though somebody holds our input open.
func TestHostGone(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	r := newRig(t, "", func(r *rig) { r.gone = gone })
	r.greet()
	close(gone)
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	r.g.locked(func() {
		if !slices.Equal(r.g.ends, []string{"eof"}) {
			t.Errorf("ends %v", r.g.ends)
		}
	})
}

// The host's end: the server gets EOF, then TERM, then KILL; its environment held a path and no more of ours.
func TestEndOfTheHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, "stubborn")
	r.greet()
	r.call("5", "env")
	got, _ := r.answered("5")
	if !strings.Contains(got, `"`+EnvSocket+`=/run/x/agent.sock"`) {
		t.Fatalf("environment: %s", got)
	}
	pid, _ := strconv.Atoi(strings.Fields(r.errs.String()[strings.Index(r.errs.String(), "server up "):])[2])
	r.in.Close()
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Fatalf("the server lives: %v", err)
	}
	r.g.locked(func() {
		if !slices.Equal(r.g.ends, []string{"eof"}) {
			t.Errorf("ends %v", r.g.ends)
		}
	})
}

func tail(s string) string { return s[max(0, len(s)-500):] }
