package gateway

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
)

// steps are the types of a walk's events, in its order, repeats left out.
func steps(t *testing.T, c api.Contained) (out []string) {
	t.Helper()
	last := uint64(0)
	for _, s := range c.Steps {
		var e struct {
			Seq  uint64 `json:"seq"`
			Type string `json:"type"`
		}
		if err := json.Unmarshal(s, &e); err != nil {
			t.Fatal(err)
		}
		if e.Seq <= last {
			t.Errorf("step %s is record %d, after record %d", e.Type, e.Seq, last)
		}
		last = e.Seq
		out = append(out, e.Type)
	}
	return slices.Compact(out)
}

// M26, M28: the client crashes and others live on. The walk keeps its order, each step an event; nothing is signalled but
// what was named; who is blocked in the kernel is reported as such before any SIGKILL; a stranger with the same command
// line lives on.
func TestContain(t *testing.T) {
	up := newUpstream(t, nil)
	r := realRig(t, up)
	b := r.newBand(false, []string{"role:blocked"}, []string{"sh", "-c", `trap "" TERM; sleep 1013; :`})
	decoy := roleCommand(self(t), "idle")
	in, err := decoy.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := decoy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); decoy.Wait() }()

	if got := code(b.call(up.URL+"/one", "POST")); got != "confirmed" {
		t.Fatalf("first call: %s", got)
	}
	x := r.book.all()[0]
	defer func() { r.lookOnce(t.Context()); endSleeper(t, x) }()
	// Shim, blocked one and its child, the shell and its child, the client.
	until(t, "the client's family on the roster", func() bool { r.lookOnce(t.Context()); return len(x.relatives()) == 6 })
	b.kill()
	until(t, "the orphan", func() bool { return x.stands() == authz.Orphaned })

	got := op[api.Contained](r, r.opRunContain, api.IDArgs{ID: x.id})
	want := "containment_started process_observed actions_reviewed run_revoked remote_work_listed denial_proved containment_finished"
	if s := strings.Join(steps(t, got), " "); s != want {
		t.Errorf("steps: %s", s)
	}
	if got.Verdict != api.VerdictContained || got.Denial.Method != "probe" || got.Run.State != "revoked" || len(got.Processes) != 5 {
		t.Errorf("contained: %+v", got)
	}
	if got.Last == nil || got.Last.Outcome != "confirmed" {
		t.Errorf("last attempted: %+v", got.Last)
	}
	if got.Run.Calls != 1 {
		t.Errorf("the probe counts as a call: %d", got.Run.Calls)
	}
	find := func(c api.Contained, what string) api.Survivor {
		t.Helper()
		for _, p := range c.Processes {
			if p.Role == what || strings.Contains(p.Command, what) {
				return p
			}
		}
		t.Fatalf("no %s among %+v", what, c.Processes)
		return api.Survivor{}
	}
	if shim := find(got, "shim"); slices.Contains(shim.Strangers, b.client.Process.Pid) || !slices.Contains(shim.Strangers, os.Getpid()) {
		t.Errorf("group of the shim: %+v", shim)
	}

	// A survivor's own attempt is a better proof, and comes next.
	if c := code(b.call(up.URL+"/two", "POST")); c != "run_revoked" {
		t.Errorf("the survivor's call: %s", c)
	}
	again := op[api.Contained](r, r.opRunContain, api.IDArgs{ID: x.id})
	if again.Denial.Method != "observed" || again.Denial.Record == 0 || slices.Contains(steps(t, again), "run_revoked") {
		t.Errorf("again: %+v", again)
	}

	// Strangers are refused before anybody is signalled.
	shim, blocked := find(got, "shim"), blockedOf(t, x)
	shell := find(got, "sh -c trap")
	stranger := api.ProcessRef{ProcessID: decoy.Process.Pid, Key: shim.Key}
	_, err = r.opRunTerminate(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.TerminateArgs{ID: x.id, Processes: []api.ProcessRef{shim.ProcessRef, stranger}, Kill: true})})
	if err == nil || !alive(shim.ProcessID) {
		t.Errorf("a stranger was named: %v", err)
	}

	ended := op[api.Contained](r, r.opRunTerminate, api.TerminateArgs{ID: x.id, Processes: []api.ProcessRef{shim.ProcessRef, blocked, shell.ProcessRef}})
	for pid, state := range map[int]string{shim.ProcessID: stateExited, blocked.ProcessID: stateBlocked, shell.ProcessID: stateHeld} {
		i := slices.IndexFunc(ended.Processes, func(p api.Survivor) bool { return p.ProcessID == pid })
		if i < 0 || ended.Processes[i].State != state || ended.Processes[i].Forced {
			t.Errorf("pid %d should be %s: %+v", pid, state, ended.Processes)
		}
	}
	killed := op[api.Contained](r, r.opRunTerminate, api.TerminateArgs{ID: x.id, Processes: []api.ProcessRef{blocked, shell.ProcessRef}, Kill: true})
	for _, p := range killed.Processes {
		if (p.ProcessID == blocked.ProcessID || p.ProcessID == shell.ProcessID) && (p.State != stateExited || !p.Forced) {
			t.Errorf("after SIGKILL: %+v", p)
		}
	}
	if !alive(decoy.Process.Pid) {
		t.Error("a stranger with the same command line was ended")
	}
	if got := up.paths(); len(got) != 1 {
		t.Errorf("arrived: %v", got)
	}
	checkSignals(t, r.ends(), shim.ProcessID, blocked.ProcessID, shell.ProcessID)
}

// blockedOf is the member of the run that waits in the kernel.
func blockedOf(t *testing.T, x *run) (out api.ProcessRef) {
	t.Helper()
	for _, m := range x.relatives() {
		if b, err := os.ReadFile("/proc/" + pidList([]int{m.pid}) + "/environ"); err == nil && strings.Contains(string(b), roleEnv+"=blocked\x00") &&
			(out.ProcessID == 0 || m.pid < out.ProcessID) { // its child has a later number
			out = api.ProcessRef{ProcessID: m.pid, Key: m.key}
		}
	}
	if out.ProcessID == 0 {
		t.Fatal("nobody is blocked")
	}
	return out
}

// checkSignals holds the log to the order of signals: nobody but pids, SIGTERM before the look, the look before SIGKILL.
func checkSignals(t *testing.T, evs []event.Event, pids ...int) {
	t.Helper()
	term, looked := map[int]bool{}, map[int]bool{}
	kills := 0
	for _, e := range evs {
		switch e := e.(type) {
		case event.ProcessSignalled:
			kill := e.Signal == "SIGKILL"
			if !slices.Contains(pids, e.ProcessID) || kill && !looked[e.ProcessID] || e.Forced != kill || e.CleanupMayBeIncomplete != kill {
				t.Errorf("signalled: %+v", e)
			}
			term[e.ProcessID] = true
			if kill {
				kills++
			}
		case event.ProcessChecked:
			looked[e.ProcessID] = term[e.ProcessID]
		}
	}
	if kills != 2 {
		t.Errorf("%d kills recorded", kills)
	}
}

// A run that is not known is not contained, and nobody is signalled for it.
func TestContainUnknownRun(t *testing.T) {
	r := newRig(t, "")
	r.init()
	id := "run_01JQ7R4S4S0QJ7GZP1S2ABCDEF"
	for _, err := range []error{
		second(r.opRunContain(opRequest{ctx: t.Context(), args: encode(api.IDArgs{ID: id})})),
		second(r.opRunTerminate(opRequest{ctx: t.Context(), args: encode(api.TerminateArgs{ID: id, Processes: []api.ProcessRef{{ProcessID: 1, Key: "x"}}})})),
	} {
		if err == nil || refusalOf(err).Code != "not_found" {
			t.Errorf("unknown run: %v", err)
		}
	}
}

func second(_ any, err error) error { return err }
