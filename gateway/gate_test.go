package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// B4: 64 callers flat out. After revoke has returned the run holds nothing, so no write of a request can begin; and
// every request that reached the upstream later is in the list that revoke returned.
func TestRevokeUnderLoad(t *testing.T) {
	for name, slow := range map[string]bool{"fast upstream": false, "slow upstream": true} {
		t.Run(name, func(t *testing.T) {
			var took []time.Duration
			for range long(5, 100) {
				took = append(took, revokeRound(t, slow))
			}
			slices.Sort(took)
			t.Logf("%d revocations: p50 %v, p99 %v", len(took), took[len(took)/2], took[len(took)*99/100])
		})
	}
}

// P13: from the word to its return, beside 64 callers flat out; the p99 over the design's goal.
func BenchmarkP13(b *testing.B) {
	for name, c := range map[string]struct {
		slow bool
		goal time.Duration
	}{"fast": {false, 15 * time.Millisecond}, "slow": {true, 45 * time.Millisecond}} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				took = append(took, revokeRound(b, c.slow))
			}
			slices.Sort(took)
			p99 := took[len(took)*99/100]
			b.ReportMetric(float64(p99)/float64(c.goal), "ratio")
			b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// revokeRound revokes a run with 64 callers, and tells how long that took.
func revokeRound(t testing.TB, slow bool) time.Duration {
	type arrival struct {
		path    string
		written time.Time // by the kernel's stamp: inside the gateway's own write
		at      time.Time
	}
	var mu sync.Mutex
	var ledger []arrival
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		at, ok := written(q)
		if !ok && q.URL.Path != "/warm" {
			t.Errorf("%s: the kernel did not stamp it", q.URL.Path)
		}
		ledger = append(ledger, arrival{q.URL.Path, at, time.Now()})
		mu.Unlock()
		if slow {
			select {
			case <-time.After(time.Second):
			case <-q.Context().Done():
			}
		}
		io.WriteString(w, "ok")
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	if got := code(a.ask("call", call0(up.URL+"/warm", "POST"))); got != "confirmed" {
		t.Fatalf("warm-up: %s", got)
	}
	run := r.book.all()[0]

	var actions sync.Map // path -> action id
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				path := fmt.Sprintf("/%d/%d", i, n)
				res := a.ask("call", call0(up.URL+path, "POST"))
				switch {
				case res.Action != nil:
					actions.Store(path, res.Action.ID)
				case res.Error.Action != "":
					actions.Store(path, res.Error.Action)
				}
			}
		})
	}
	until(t, "the load", func() bool { mu.Lock(); defer mu.Unlock(); return len(ledger) > 32 })
	said := time.Now()
	out := op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run.id})
	returned := time.Now()
	run.mu.Lock()
	if n := len(run.held); n != 0 {
		t.Errorf("revoke returned with %d calls in the gate", n)
	}
	run.mu.Unlock()
	close(stop)
	callers.Wait()

	left := map[string]bool{}
	for _, x := range out.Left {
		left[x.ID] = true
		if x.State != api.Done || x.Outcome == "" {
			t.Errorf("%s was not classified before revoke returned: %+v", x.ID, x)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	late := 0
	for _, x := range ledger {
		if x.written.After(returned) {
			t.Errorf("%s was written %v after revoke had returned", x.path, x.written.Sub(returned))
		}
		if x.at.After(returned) {
			late++
			if id, _ := actions.Load(x.path); !left[fmt.Sprint(id)] {
				t.Errorf("%s arrived %v after revoke returned and is not in its list of %d", x.path, x.at.Sub(returned), len(left))
			}
		}
	}
	if got := code(a.ask("call", call0(up.URL+"/after", "POST"))); got != "run_revoked" {
		t.Errorf("after revoke: %s", got)
	}
	r.stop()
	// No intent of the run has a higher sequence than its revocation, and every call has its result before it.
	evs := events(t, r.dir, r.created.ReaderIdentity)
	at := slices.IndexFunc(evs, func(e event.Event) bool { return event.Type(e) == "run_revoked" })
	if at < 0 {
		t.Fatal("no run_revoked in the log")
	}
	for _, e := range evs[at:] {
		if k := event.Type(e); k == "tool_called" || k == "tool_finished" {
			t.Errorf("%s after run_revoked", k)
		}
	}
	if c, f := count(evs, "tool_called"), count(evs, "tool_finished"); c != f {
		t.Errorf("%d intents, %d results", c, f)
	}
	t.Logf("%d arrivals, %d in the list, %d after the return", len(ledger), len(left), late)
	return returned.Sub(said)
}

// I15: one use left, two calls at once: exactly one is delivered.
func TestLastUseOnce(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	a := r.agent()
	first := a.send("call", call0(up.URL+"/1", "POST"))
	c := r.card()
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run", Uses: 2})
	if got := code(<-first); got != "confirmed" {
		t.Fatal(got)
	}
	two := []<-chan api.Response{a.send("call", call0(up.URL+"/2", "POST")), a.send("call", call0(up.URL+"/3", "POST"))}
	c = r.card() // the loser asks
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: c.ID})
	got := []string{code(<-two[0]), code(<-two[1])}
	slices.Sort(got)
	if !slices.Equal(got, []string{"approval_denied", "confirmed"}) || len(up.paths()) != 2 {
		t.Fatalf("%v, upstream %v", got, up.paths())
	}
}

// I32: five first calls at once: one card, five answers.
func TestOneCardForMany(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	var waits []<-chan api.Response
	for i := range 5 {
		waits = append(waits, a.send("call", call0(fmt.Sprintf("%s/%d", up.URL, i), "GET")))
	}
	c := r.card()
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})
	for _, w := range waits {
		if got := code(<-w); got != "confirmed" {
			t.Errorf("got %s", got)
		}
	}
	r.stop()
	if n := count(events(t, r.dir, r.created.ReaderIdentity), "approval_requested"); n != 1 {
		t.Fatalf("%d cards", n)
	}
}

// A card is answered once, only by who saw it, and only while what it was bound to stands.
func TestCardAnswers(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	a := r.agent()
	refused := func(args api.ApproveArgs) string {
		_, err := r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(args)})
		if err == nil {
			return ""
		}
		return refusalOf(err).Code
	}
	first := a.send("call", call0(up.URL+"/1", "POST"))
	c := r.card()
	good := api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "use"}
	for name, bad := range map[string]api.ApproveArgs{
		"another card's digest": {ID: c.ID, CardDigest: "sha256:00", Scope: "use"},
		"no digest":             {ID: c.ID, Scope: "use"},
		"no scope":              {ID: c.ID, CardDigest: c.CardDigest},
		"uses of a single use":  {ID: c.ID, CardDigest: c.CardDigest, Scope: "use", Uses: 3},
		"a time gone by":        {ID: c.ID, CardDigest: c.CardDigest, Scope: "run", Until: time.Now().Add(-time.Minute)},
	} {
		if got := refused(bad); got != "invalid_request" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := refused(good); got != "" {
		t.Fatalf("the card itself: %s", got)
	}
	if got := refused(good); got != "not_found" {
		t.Errorf("a second answer: %q", got)
	}
	if got := code(<-first); got != "confirmed" {
		t.Fatal(got)
	}
	// "use" covers that plan alone: the same request again asks again.
	second := a.send("call", call0(up.URL+"/1", "POST"))
	c = r.card()
	run := r.book.all()[0]
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run.id})
	if got := code(<-second); got != "run_revoked" {
		t.Errorf("the card's call after revoke: %s", got)
	}
	if got := refused(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "use"}); got != "not_found" {
		t.Errorf("a card of a revoked run: %q", got)
	}
	if !slices.Equal(up.paths(), []string{"/1"}) {
		t.Errorf("upstream saw %v", up.paths())
	}
}

// A credential removed between the card and the send is not used.
func TestRemovedBeforeUse(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	first := a.send("call", call0(up.URL+"/1", "GET"))
	c := r.card()
	op[api.Ended](r, r.opCredentialRemove, api.NameArgs{Name: "ledger"})
	if _, err := r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})}); err == nil || refusalOf(err).Code != "not_found" {
		t.Errorf("a yes to a card whose credential is gone: %v", err)
	}
	if got := code(<-first); got != "rule_mismatch" || len(up.paths()) != 0 {
		t.Fatalf("%s, upstream %v", got, up.paths())
	}
}

// Lock with calls in flight: each is ended, classified and recorded before the key is gone.
func TestLockInFlight(t *testing.T) {
	arrived := make(chan struct{}, 1)
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		arrived <- struct{}{}
		<-q.Context().Done()
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	first := a.send("call", call0(up.URL+"/1", "POST"))
	<-arrived
	if s := op[api.Status](r, r.opLock, struct{}{}); s.Vault != "locked" {
		t.Fatalf("status %+v", s)
	}
	if got := code(<-first); got != "sent_unconfirmed" {
		t.Fatalf("in flight at lock: %s", got)
	}
	if got := code(a.ask("call", call0(up.URL+"/2", "POST"))); got != "vault_locked" {
		t.Fatalf("after lock: %s", got)
	}
	r.unlock()
	// The twin is blocked until somebody says what became of it; another body to the same place asks.
	twin := a.ask("call", call0(up.URL+"/1", "POST"))
	if got := code(twin); got != "outcome_unresolved" {
		t.Fatalf("twin after unlock: %s", got)
	}
	lost := op[[]api.Action](r, r.opActionList, api.ListArgs{})
	lost = slices.DeleteFunc(lost, func(x api.Action) bool { return x.Outcome != "sent_unconfirmed" })
	if len(lost) != 1 {
		t.Fatalf("unresolved: %+v", lost)
	}
	resolve := func(id, how string) string {
		_, err := r.opActionResolve(opRequest{ctx: ctx, who: "passphrase", args: encode(api.ResolveArgs{ID: id, Resolution: how})})
		if err == nil {
			return ""
		}
		return refusalOf(err).Code
	}
	for _, bad := range [][2]string{{lost[0].ID, "perhaps"}, {twin.Error.Action, "happened"}, {"act_x", "happened"}} {
		if got := resolve(bad[0], bad[1]); got != "invalid_request" && got != "not_found" {
			t.Errorf("resolve %v: %q", bad, got)
		}
	}
	if got := resolve(lost[0].ID, "did-not-happen"); got != "" {
		t.Fatalf("resolve: %q", got)
	}
	if got := resolve(lost[0].ID, "happened"); got != "invalid_request" {
		t.Errorf("resolve twice: %q", got)
	}
	again := a.send("call", call0(up.URL+"/1", "POST"))
	<-arrived // it may be asked for again
	op[api.Status](r, r.opLock, struct{}{})
	if got := code(<-again); got != "sent_unconfirmed" {
		t.Fatalf("again: %s", got)
	}
	r.stop()
	if n := count(events(t, r.dir, r.created.ReaderIdentity), "tool_resolved"); n != 1 {
		t.Errorf("%d resolutions recorded", n)
	}
	evs := kinds(events(t, r.dir, r.created.ReaderIdentity))
	if i, j := slices.Index(evs, "tool_finished"), slices.Index(evs, "vault_locked"); i < 0 || j < i {
		t.Fatalf("the result was not recorded before the lock: %v", evs)
	}
}

// The operator's text never carries an agent's control characters.
func TestCardShowsEscaped(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	a := r.agent()
	q := api.ActionRequest{Tool: api.ToolHTTP, Args: encode(api.HTTPArgs{URL: up.URL + "/1", Method: "POST",
		Body: "\x1b[2J\u202eeffect      read\r\ncard ap_FAKE\n"})}
	a.send("call", q)
	c := r.card()
	if strings.ContainsAny(c.Summary, "\x1b\u202e\r") {
		t.Fatalf("card: %q", c.Summary)
	}
	for line := range strings.SplitSeq(c.Summary, "\n") {
		if strings.HasPrefix(line, "card") || strings.HasPrefix(line, "effect") {
			t.Fatalf("the body made a line of the card: %q", c.Summary)
		}
	}
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: c.ID})
}

// Epoch and grant are revoked alone: what is under way by them ends, and nothing more is done by them.
func TestRevokeEpochAndGrant(t *testing.T) {
	arrived := make(chan struct{}, 8)
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/slow") {
			arrived <- struct{}{}
			<-q.Context().Done()
		}
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	a := r.agent()
	approved := func(path string) <-chan api.Response {
		t.Helper()
		ch := a.send("call", call0(up.URL+path, "POST"))
		c := r.card()
		op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})
		return ch
	}
	if got := code(<-approved("/1")); got != "confirmed" {
		t.Fatal(got)
	}
	run := r.book.all()[0]
	grants := op[[]api.Grant](r, r.opGrantList, struct{}{})
	if len(grants) != 1 || run.show().State != "active" {
		t.Fatalf("grants %+v, run %s", grants, run.show().State)
	}
	slow := a.send("call", call0(up.URL+"/slow", "POST"))
	<-arrived
	out := op[api.Revoked](r, r.opGrantRevoke, api.IDArgs{ID: grants[0].ID})
	if len(out.Left) != 1 || out.Left[0].Outcome != "sent_unconfirmed" || out.Run.State != "pending" {
		t.Fatalf("grant revoked: %+v", out)
	}
	if got := code(<-slow); got != "sent_unconfirmed" {
		t.Fatalf("under way: %s", got)
	}
	if got := code(<-approved("/2")); got != "confirmed" { // it asked again
		t.Fatal(got)
	}
	out = op[api.Revoked](r, r.opEpochRevoke, api.IDArgs{ID: run.show().Epochs[0].ID})
	if len(out.Left) != 0 || out.Run.Epochs[0].State != "ended" {
		t.Fatalf("epoch revoked: %+v", out)
	}
	for range 2 { // the same process stays refused, on a new connection too
		if got := code(a.ask("call", call0(up.URL+"/3", "POST"))); got != "epoch_ended" {
			t.Fatalf("after the epoch: %s", got)
		}
		a = r.agent()
	}
	for _, h := range []opHandler{r.opGrantRevoke, r.opEpochRevoke} {
		if _, err := h(opRequest{ctx: t.Context(), args: encode(api.IDArgs{ID: "gr_x"})}); refusalOf(err).Code != "not_found" {
			t.Errorf("unknown id: %v", err)
		}
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "grant_revoked") != 1 || count(evs, "epoch_ended") != 1 {
		t.Fatalf("log: %v", kinds(evs))
	}
}
