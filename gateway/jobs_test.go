package gateway

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sallyport/gateway/api"
)

// jobHost starts jobs with POST /jobs; GET and DELETE /jobs/ID ask for one and cancel it. A cancellation of "lost" is
// taken and never answered.
type jobHost struct {
	*upstream
	mu    sync.Mutex
	next  string
	state map[string]string
}

// will name the next job.
func (h *jobHost) will(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = id
}

func newJobHost(t *testing.T) *jobHost {
	h := &jobHost{state: map[string]string{}}
	h.upstream = newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		id := strings.TrimPrefix(q.URL.Path, "/jobs/")
		switch {
		case q.Method == "POST":
			h.state[h.next] = "running"
			w.WriteHeader(http.StatusAccepted)
			io.WriteString(w, `{"id":"`+h.next+`"}`)
		case h.state[id] == "":
			w.WriteHeader(http.StatusNotFound)
		case q.Method == "DELETE":
			h.state[id] = "stopping"
			if id == "lost" {
				c, _, _ := http.NewResponseController(w).Hijack()
				c.Close()
			}
		default:
			io.WriteString(w, h.state[id])
		}
	})
	return h
}

// addRules stores a credential for rules beyond addBearer's.
func (r *rig) addRules(name string, rules api.HTTPRules) {
	r.t.Helper()
	salt := []byte("0123456789abcdef")
	sum := sha256.Sum256(append(salt[:16:16], testSecret...))
	rules.AllowHTTP, rules.AllowNetwork = true, []string{"127.0.0.0/8"}
	_, err := r.opCredentialAdd(opRequest{ctx: r.t.Context(), who: "passphrase", salt: salt, value: []byte(testSecret), args: encode(api.CredentialArgs{
		Name: name, Kind: "bearer", ValueLength: len(testSecret), ValueDigest: sum[:], Rules: rules,
	})})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) addJobs(name, origin string) {
	r.t.Helper()
	r.addRules(name, api.HTTPRules{Allow: []string{"POST " + origin + "/jobs"},
		RemoteJob: api.RemoteJob{JobID: "json:/id", JobStatus: "GET /jobs/{id}", JobCancel: "DELETE /jobs/{id}"}})
}

func (r *rig) addIdempotent(name, origin string) {
	r.t.Helper()
	r.addRules(name, api.HTTPRules{Allow: []string{"POST " + origin + "/**"}, IdempotencyHeader: "Idempotency-Key"})
}

func jobBody(t *testing.T, a *api.Action) string {
	t.Helper()
	if a == nil || a.Job == nil {
		t.Fatalf("no answer about the job: %+v", a)
	}
	return string(a.Job.Result)
}

func TestRemoteJob(t *testing.T) {
	h := newJobHost(t)
	r := newRig(t, "")
	r.init()
	r.addJobs("jobs", h.URL)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	start := func(id string) *api.Action {
		t.Helper()
		h.will(id)
		q := call0(h.URL+"/jobs", "POST")
		q.IdempotencyKey = "start " + id
		res := a.ask("call", q)
		if code(res) != "accepted" || res.Action.JobID != id || res.Action.State != api.Done {
			t.Fatalf("start %s: %+v %+v", id, res.Action, res.Error)
		}
		return res.Action
	}
	status := func(id string) *api.Action { return a.ask(api.MethodStatus, api.StatusRequest{Action: id}).Action }
	cancel := func(id string) *api.Action {
		return a.ask(api.MethodCancel, api.CancelRequest{Action: id}).Action
	}

	one := start("j1")
	if got := status(one.ID); !strings.Contains(jobBody(t, got), "running") || got.Outcome != "accepted" || got.Job.Asked != "status" || got.Job.Outcome != "confirmed" {
		t.Errorf("status: %+v %+v", got, got.Job)
	}
	if got := op[api.Action](r, r.opActionShow, api.IDArgs{ID: one.ID}); !strings.Contains(jobBody(t, &got), "running") {
		t.Errorf("the operator's status: %+v", got.Job)
	}
	if got := cancel(one.ID); got.Outcome != "cancel_requested" || got.Job.Asked != "cancel" || got.Error != nil {
		t.Errorf("cancel: %+v %+v", got, got.Job)
	}
	if got := status(one.ID); !strings.Contains(jobBody(t, got), "stopping") || got.Outcome != "cancel_requested" {
		t.Errorf("status after the cancellation: %+v %+v", got, got.Job)
	}
	two := start("j2")
	if got := op[api.Action](r, r.opActionCancel, api.IDArgs{ID: two.ID}); got.Outcome != "cancel_requested" || got.Job.Outcome != "confirmed" {
		t.Errorf("the operator's cancellation: %+v", got)
	}
	lost := start("lost")
	if got := cancel(lost.ID); got.Outcome != "cancel_unconfirmed" || got.Job.Outcome != "sent_unconfirmed" {
		t.Errorf("a cancellation without an answer: %+v", got)
	}
	gone := start("gone")
	h.mu.Lock()
	delete(h.state, "gone")
	h.mu.Unlock()
	if got := cancel(gone.ID); got.Outcome != "accepted" || got.Job.Outcome != "confirmed" {
		t.Errorf("a refused cancellation: %+v", got)
	}

	// The handle outlives the gateway, also where the row was not written yet.
	copies := []string{snapshot(t, r.dir)}
	if err := r.flushActions(ctx); err != nil {
		t.Fatal(err)
	}
	copies = append(copies, snapshot(t, r.dir))
	for _, dir := range copies {
		again := newRig(t, dir)
		again.unlock()
		for id, want := range map[string]string{one.ID: "cancel_requested", lost.ID: "cancel_unconfirmed", gone.ID: "accepted"} {
			x, ok := again.find(ctx, id)
			if !ok || x.Outcome != want || x.JobID == "" || x.State != api.Done {
				t.Errorf("after a restart: %+v, want %s", x, want)
			}
		}
		got := op[api.Action](again, again.opActionShow, api.IDArgs{ID: two.ID})
		if !strings.Contains(jobBody(t, &got), "stopping") {
			t.Errorf("status after a restart: %+v", got.Job)
		}
		again.stop()
		events(t, dir, r.created.ReaderIdentity)
	}

	// Another run's job, and anybody's after a revocation.
	r.acts.mu.Lock()
	r.acts.byID[two.ID].doc.AgentRun = "run_other"
	r.acts.mu.Unlock()
	seen := len(h.paths())
	for method, params := range map[string]any{api.MethodStatus: api.StatusRequest{Action: two.ID}, api.MethodCancel: api.CancelRequest{Action: two.ID}} {
		if got := code(a.ask(method, params)); got != "action_unknown" {
			t.Errorf("%s of another run's: %s", method, got)
		}
	}
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: one.AgentRun})
	for method, params := range map[string]any{api.MethodStatus: api.StatusRequest{Action: one.ID}, api.MethodCancel: api.CancelRequest{Action: one.ID}} {
		if got := code(a.ask(method, params)); got != "run_revoked" {
			t.Errorf("%s after the revocation: %s", method, got)
		}
	}
	if n := len(h.paths()); n != seen {
		t.Errorf("refused requests reached the service: %v", h.paths()[seen:])
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	for kind, want := range map[string]int{"job_changed": 3, "operator_called": 2, "authorization_denied": 4} {
		if n := count(evs, kind); n != want {
			t.Errorf("%d %s, want %d", n, kind, want)
		}
	}
}

// A lock waits for the operator's own calls too, and lets no further one out.
func TestOperatorsCallAndLock(t *testing.T) {
	h := newJobHost(t)
	r := newRig(t, "")
	r.init()
	r.addJobs("jobs", h.URL)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	h.will("j1")
	act := a.ask("call", call0(h.URL+"/jobs", "POST")).Action
	h.mu.Lock() // the host answers nobody
	shown := make(chan api.Action, 1)
	go func() {
		shown <- op[api.Action](r, r.opActionShow, api.IDArgs{ID: act.ID})
	}()
	until(t, "the question for the job", func() bool { return len(h.paths()) >= 2 })
	op[api.Status](r, r.opLock, struct{}{})
	if got := <-shown; got.Job == nil || got.Job.Outcome != "sent_unconfirmed" {
		t.Errorf("in flight at the lock: %+v", got)
	}
	h.mu.Unlock()
	if _, err := r.operate(ctx, askOf(askStatus, *act), "unproved", askStatus, act.ID); refusalOf(err).Code != "vault_locked" {
		t.Errorf("after the lock: %v", err)
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}
