package gateway

import (
	"context"
	"net/http"
	"testing"
	"time"

	"sallyport/authz"
	"sallyport/gateway/api"
)

// underWay is a rig with one call that its upstream holds, and its run.
func underWay(t *testing.T, change ...func(*Config)) (*rig, *run) {
	t.Helper()
	arrived := make(chan struct{}, 1)
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		arrived <- struct{}{}
		<-q.Context().Done()
	})
	r := newRig(t, "", change...)
	r.init()
	r.addBearer("up", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	go r.approveAll(ctx, "run")
	r.agent().send(api.MethodCall, call0(up.URL+"/slow", "POST"))
	<-arrived
	cancel()
	return r, r.book.all()[0]
}

func (r *run) holds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}

// What a revocation promises holds when it returns, also where another one of the same is still on its way.
func TestRevokedTwiceAtOnce(t *testing.T) {
	end := map[string]func(t *testing.T, r *rig, x *run) (any, error){
		"epoch": func(t *testing.T, r *rig, x *run) (any, error) {
			return r.opEpochRevoke(opRequest{ctx: t.Context(), who: "unproved", args: encode(api.IDArgs{ID: x.epochs[0].id})})
		},
		"run": func(t *testing.T, r *rig, x *run) (any, error) {
			return r.opRunRevoke(opRequest{ctx: t.Context(), who: "unproved", args: encode(api.IDArgs{ID: x.id})})
		},
		"contain": func(t *testing.T, r *rig, x *run) (any, error) {
			return r.opRunContain(opRequest{ctx: t.Context(), who: "unproved", args: encode(api.IDArgs{ID: x.id})})
		},
	}
	for name, second := range end {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, x := underWay(t, func(c *Config) { c.Grace = 3 * time.Second }) // the second must come while the first waits
			first := make(chan struct{})
			go func() {
				defer close(first)
				if name == "epoch" {
					r.endEpoch(context.Background(), x.epochs[0], "operator", word{operator: "test"})
				} else {
					r.revoke(context.Background(), x, word{operator: "unproved"})
				}
			}()
			until(t, "the first is on its way", func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				return x.state == authz.Revoked || x.epochs[0].state == authz.EpochEnded
			})
			out, err := second(t, r, x)
			if n := x.holds(); n != 0 || err != nil {
				t.Errorf("it returned %v with %d calls under way", err, n)
			}
			if v, ok := out.(api.Revoked); ok && len(v.Left) != 1 {
				t.Errorf("left %+v", v.Left)
			}
			<-first
			r.stop()
			evs := events(t, r.dir, r.created.ReaderIdentity)
			if n := count(evs, "run_revoked") + count(evs, "epoch_ended"); n != 1 {
				t.Errorf("recorded %d times: %v", n, kinds(evs))
			}
		})
	}
}

// A process that is gone leaves its call under way; revoking its epoch ends that too.
func TestRevokedAfterProcessGone(t *testing.T) {
	r, x := underWay(t)
	e := x.epochs[0]
	if _, err := r.endEpoch(t.Context(), e, processGone, word{}); err != nil || x.holds() != 1 {
		t.Fatalf("process gone: %v, %d calls", err, x.holds())
	}
	out := op[api.Revoked](r, r.opEpochRevoke, api.IDArgs{ID: e.id})
	if len(out.Left) != 1 || x.holds() != 0 {
		t.Fatalf("left %+v, %d calls under way", out.Left, x.holds())
	}
}

// A yes to one call is for that call: if its caller goes away before it is used, nothing can use it later than the card
// could have been answered.
func TestYesToOneCallEndsWithItsCard(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("up", "POST "+up.URL+"/**")
	a := r.agent()
	a.send(api.MethodCall, call0(up.URL+"/x", "POST"))
	card := r.card()
	r.authority.Lock()
	yes := make(chan error, 1)
	go func() {
		_, err := r.opApprovalGrant(opRequest{ctx: context.Background(), who: "passphrase",
			args: encode(api.ApproveArgs{ID: card.ID, CardDigest: card.CardDigest, Scope: "use"})})
		yes <- err
	}()
	until(t, "the card is taken", func() bool { return len(r.cards.list()) == 0 })
	a.conn.Close()
	act := r.acts.list("")[0].ID
	r.acts.mu.Lock()
	drop := r.acts.byID[act].drop
	r.acts.mu.Unlock()
	drop(callerGone)
	r.authority.Unlock()
	if err := <-yes; err != nil {
		t.Fatal(err)
	}
	until(t, "the call is dropped", func() bool { x, _ := r.acts.get(act); return x.State == api.Done })
	if x, _ := r.acts.get(act); x.Outcome != "denied" || len(up.paths()) != 0 {
		t.Skipf("the yes was used: %s", x.Outcome)
	}
	run := r.book.all()[0]
	run.mu.Lock()
	if len(run.grants) != 1 || !run.grants[0].Ends.Wall.Equal(card.ExpiresAt) {
		t.Errorf("grants %+v, and the card's end is %v", run.grants, card.ExpiresAt)
	}
	for _, x := range run.grants {
		x.Ends = now() // as if the card's time were over
	}
	run.mu.Unlock()
	b := r.agent()
	ch := b.send(api.MethodCall, call0(up.URL+"/x", "POST"))
	r.card() // it asks
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: r.card().ID})
	if got := code(<-ch); got != "approval_denied" || len(up.paths()) != 0 {
		t.Fatalf("%s, %v", got, up.paths())
	}
}

// One request has one digest, whether its target is named or spelled as a URL: else a write whose end nobody knows could
// be sent again under its other name.
func TestDigestOfOneRequest(t *testing.T) {
	r := newRig(t, "")
	r.init()
	r.addBearer("up", "POST https://api.example.com/**")
	digests := map[string][32]byte{}
	for name, a := range map[string]api.HTTPArgs{
		"url":        {URL: "https://api.example.com/v1/pay?a=1", Method: "POST", Body: "x"},
		"other url":  {URL: "HTTPS://API.example.com:443/v1/p%61y", Query: map[string]string{"a": "1"}, Method: "post", Body: "x"},
		"target":     {Target: "up", Path: "/v1/pay", Query: map[string]string{"a": "1"}, Method: "POST", Body: "x"},
		"credential": {URL: "https://api.example.com/v1/pay?a=1", Method: "POST", Body: "x", Credential: "up"},
	} {
		p := bind(parse(api.ActionRequest{Tool: api.ToolHTTP, Args: encode(a)}), r.targets())
		if !p.authz.Bound {
			t.Fatalf("%s: %s", name, p.detail)
		}
		digests[name] = p.digest
	}
	for name, d := range digests {
		if d != digests["url"] {
			t.Errorf("%s is another request", name)
		}
	}
}
