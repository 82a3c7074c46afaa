package gateway

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/auditlog/incident"
	"sallyport/authz"
	"sallyport/gateway/api"
)

// I24, M24: the client dies and its shim lives on. The run is an orphan within a second, the gate is closed, the attempt
// is recorded, and what lived on was looked at.
func TestClientGone(t *testing.T) {
	up := newUpstream(t, nil)
	r := realRig(t, up)
	b := r.newBand(false, []string{"sleep", "1009"})
	if got := code(b.call(up.URL+"/one", "POST")); got != "confirmed" {
		t.Fatalf("first call: %s", got)
	}
	x := r.book.all()[0]
	until(t, "the client's child on the roster", func() bool { r.lookOnce(t.Context()); return len(x.relatives()) == 3 })
	defer endSleeper(t, x)

	b.kill()
	died := time.Now()
	until(t, "the orphan", func() bool { return x.stands() == authz.Orphaned })
	t.Logf("known after %v", time.Since(died)) // a second at most where nothing else runs; a busy machine says nothing about it
	if got := code(b.call(up.URL+"/two", "POST")); got != "run_orphaned" {
		t.Errorf("the survivor's call: %s", got)
	}
	if got := up.paths(); len(got) != 1 {
		t.Errorf("arrived: %v", got)
	}
	shown := op[api.Run](r, r.opRunShow, api.IDArgs{ID: x.id})
	if shown.ClientUnavailableAt.IsZero() || !shown.LastActionStartedAt.Before(shown.ClientUnavailableAt) || !shown.UnresponsiveSince.IsZero() {
		t.Errorf("times: %+v", shown)
	}
	if c := shown.CallClasses; c == nil || *c != (api.CallClasses{Before: 1}) {
		t.Errorf("classes: %+v", c)
	}
	var seen []string
	for _, e := range r.ends() {
		switch e := e.(type) {
		case event.ProcessObserved:
			seen = append(seen, e.Role)
			if e.Why != whyClientGone || e.Process.ProcessID == b.client.Process.Pid {
				t.Errorf("observed: %+v", e)
			}
			if e.Role == roleDescendant && !strings.Contains(e.Process.Command, "sleep 1009") {
				t.Errorf("descendant: %+v", e.Process)
			}
		case event.ProcessReparented:
			t.Errorf("a crash of the client is no OS orphan: %+v", e)
		}
	}
	if got := strings.Join(seen, " "); got != "shim descendant" {
		t.Errorf("observed %q", got)
	}
}

// endSleeper ends what a client of the test had started beside its shim.
func endSleeper(t *testing.T, x *run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.roster.below {
		syscall.Kill(m.pid, syscall.SIGKILL)
	}
}

// I28, M24: a launcher between client and shim dies. That is recorded, and nothing else happens.
func TestLauncherGone(t *testing.T) {
	up := newUpstream(t, nil)
	r := realRig(t, up)
	b := r.newBand(true)
	if got := code(b.call(up.URL+"/one", "POST")); got != "confirmed" {
		t.Fatalf("first call: %s", got)
	}
	x := r.book.all()[0]
	if x.owner.facts.PID != b.client.Process.Pid {
		t.Fatalf("the run is of pid %d, not of the client", x.owner.facts.PID)
	}
	var launcher int
	until(t, "the shell on the roster", func() bool {
		r.lookOnce(t.Context())
		for _, m := range x.relatives() {
			if m.role == roleDescendant {
				launcher = m.pid
			}
		}
		return launcher != 0
	})
	if err := syscall.Kill(launcher, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the mark", func() bool { return len(x.show().Reparented) == 1 })
	if got := code(b.call(up.URL+"/two", "POST")); got != "confirmed" {
		t.Errorf("after it: %s", got)
	}
	if got := x.stands(); got != authz.Active {
		t.Errorf("the run is %s", got)
	}
	evs := r.ends()
	if n := count(evs, "process_reparented"); n != 1 {
		t.Errorf("%d records", n)
	}
	for _, e := range evs {
		if e, ok := e.(event.ProcessReparented); ok && (e.Parent != launcher || e.ProcessID != x.epochs[0].facts.PID || e.PPID == launcher) {
			t.Errorf("recorded: %+v", e)
		}
	}
}

// A client that is stopped, or that leaves its answers unread, is shown as silent; its calls go on, and are classed.
func TestClientSilent(t *testing.T) {
	up := newUpstream(t, nil)
	r := realRig(t, up)
	b := r.newBand(false)
	if got := code(b.call(up.URL+"/one", "POST")); got != "confirmed" {
		t.Fatalf("first call: %s", got)
	}
	x := r.book.all()[0]
	silent := func() bool { r.lookOnce(t.Context()); return !x.show().UnresponsiveSince.IsZero() }

	b.client.Process.Signal(syscall.SIGSTOP)
	until(t, "stopped", silent)
	if got := code(b.call(up.URL+"/two", "POST")); got != "confirmed" {
		t.Errorf("a silent client's call: %s", got)
	}
	if c := op[api.Run](r, r.opRunShow, api.IDArgs{ID: x.id}).CallClasses; c == nil || c.Before != 1 || c.Uncertain != 1 {
		t.Errorf("classes: %+v", c)
	}
	b.client.Process.Signal(syscall.SIGCONT)
	until(t, "going on", func() bool { return !silent() })

	b.ask("say 100")
	until(t, "unread", silent)

	var reasons []string
	for _, e := range r.ends() {
		if e, ok := e.(event.ClientUnresponsive); ok {
			reasons = append(reasons, e.Reason)
		}
	}
	if got := strings.Join(reasons, " "); got != "stopped unread_output" {
		t.Errorf("recorded %q", got)
	}
}

// Every call is in one class, by when it began and ended.
func TestCallClass(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	lost := times{clientUnavailable: at(10), revoked: at(20)}
	silent := times{clientUnavailable: at(10), unresponsive: at(5)}
	for _, c := range []struct {
		t                 times
		started, finished int
		want              string
	}{
		{times{}, 1, 2, incident.Before},
		{times{}, 1, 0, incident.Before},
		{lost, 1, 9, incident.Before},
		{lost, 1, 10, incident.Before},
		{lost, 1, 11, incident.Uncertain},
		{lost, 1, 0, incident.Uncertain},
		{lost, 12, 13, incident.Uncertain},
		{lost, 21, 22, incident.After},
		{silent, 4, 5, incident.Before},
		{silent, 4, 6, incident.Uncertain},
		{times{revoked: at(20)}, 1, 19, incident.Before},
		{times{revoked: at(20)}, 1, 0, incident.Uncertain},
	} {
		finished := time.Time{}
		if c.finished != 0 {
			finished = at(c.finished)
		}
		if got := c.t.class(api.Action{StartedAt: at(c.started), FinishedAt: finished}); got != c.want {
			t.Errorf("%+v started %d finished %d: %s, want %s", c.t, c.started, c.finished, got, c.want)
		}
	}
}
