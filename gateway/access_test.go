package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
)

func access0(target, reason string) api.ActionRequest {
	return api.ActionRequest{Tool: api.ToolAccess, Args: encode(api.AccessArgs{Target: target, Reason: reason})}
}

// A yes gives the target's tools with its credential, to this run and epoch, and nothing is sent for it; what was given
// then serves calls without another question, and asking again shows what is held.
func TestAccessGranted(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	a := r.agent()
	ch := a.send("call", access0("ledger", "to book \x1b[2J"))
	c := r.card()
	if c.Tool != api.ToolAccess || c.Effect != "access" || c.Credential != "ledger" || c.Target != "ledger" || !slices.Equal(c.Access, []string{api.ToolHTTP}) ||
		!strings.HasPrefix(c.Reason, "to book ") || strings.Contains(c.Reason, "\x1b") || !strings.Contains(c.Summary, up.URL) || len(c.Gaps) != 0 {
		t.Errorf("card %+v", c)
	}
	if len(c.Offers) != 1 || c.Offers[0].Scope != "run" || !strings.Contains(c.Offers[0].Gives, "reads and writes alike") || !strings.Contains(c.Offers[0].Gives, up.URL+"/**") {
		t.Errorf("offers %+v", c.Offers)
	}
	answer := func(x api.ApproveArgs) error {
		_, err := r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(x)})
		return err
	}
	sure(t, answer(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "use"}), "invalid_request", "scope")
	sure(t, answer(api.ApproveArgs{ID: c.ID, CardDigest: "sha256:0", Scope: "run"}), "invalid_request", "cardDigest")
	g := op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run", Uses: 2})
	res := <-ch
	var got api.Access
	if code(res) != "confirmed" || json.Unmarshal(res.Action.Result, &got) != nil || got.Grant.ID != g.ID || got.Grant.ExpiresWhen != "2 uses" ||
		!slices.Equal(g.ToolScope, []string{api.ToolHTTP}) || !slices.Equal(g.CredentialScope, []string{"ledger"}) {
		t.Fatalf("answer %+v, grant %+v", res, got)
	}
	if x := a.ask("status", api.StatusRequest{Action: res.Action.ID}); code(x) != "confirmed" || len(x.Action.Result) == 0 {
		t.Errorf("status: %+v", x)
	}
	if len(up.paths()) != 0 {
		t.Fatalf("a request for access was sent: %v", up.paths())
	}
	if again := a.ask("call", access0("ledger", "")); code(again) != "confirmed" || json.Unmarshal(again.Action.Result, &got) != nil || got.Grant.ID != g.ID {
		t.Errorf("asked again: %+v", again)
	}
	for _, method := range []string{"GET", "POST"} {
		if got := code(a.ask("call", call0(up.URL+"/1", method))); got != "confirmed" {
			t.Errorf("%s inside the grant: %s", method, got)
		}
	}
	third := a.send("call", call0(up.URL+"/1", "GET"))
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: r.card().ID})
	if got := code(<-third); got != "approval_denied" {
		t.Errorf("the grant is used up: %s", got)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "tool_called") != 2 || count(evs, "grant_issued") != 1 {
		t.Errorf("%d calls, %d grants", count(evs, "tool_called"), count(evs, "grant_issued"))
	}
	for _, e := range evs {
		if x, ok := e.(event.ApprovalRequested); ok && x.Approval == c.ID && (x.Tool != api.ToolAccess || x.Digest != c.Digest || x.CardDigest != c.CardDigest) {
			t.Errorf("recorded %+v", x)
		}
	}
}

// Access to a host gives the tools that its rules know, no other.
func TestAccessHost(t *testing.T) {
	r, h := sshRig(t)
	if _, err := r.addHost(h, []string{"echo", "*"}); err != nil {
		t.Fatal(err)
	}
	a, before := r.agent(), len(h.Commands()) // adding it tried its shell
	ch := a.send("call", access0("web", ""))
	c := r.card()
	if !slices.Equal(c.Access, []string{api.ToolJob, api.ToolSSH}) || !strings.Contains(c.Offers[0].Gives, `["echo","*"]`) || !strings.Contains(c.Offers[0].Gives, api.ToolJob) {
		t.Errorf("card %v %+v", c.Access, c.Offers)
	}
	g := r.yes(c, "run")
	if code(<-ch) != "confirmed" || !slices.Equal(g.ToolScope, c.Access) || len(h.Commands()) != before {
		t.Errorf("grant %+v, commands %v", g, h.Commands()[before:])
	}
	res := a.ask("call", api.ActionRequest{Tool: api.ToolSSH, Args: encode(api.SSHArgs{Target: "web", Argv: []string{"echo", "x"}})})
	if code(res) != "confirmed" {
		t.Errorf("inside the grant: %s", code(res))
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}

// A no, a card that runs out, an unknown target and malformed requests give nothing.
func TestAccessRefused(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "", func(c *Config) { c.ApprovalLife = time.Second })
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	if got := code(a.ask("call", access0("ledger", ""))); got != "approval_timeout" {
		t.Errorf("nobody answered: %s", got)
	}
	if got := code(a.ask("call", access0("nowhere", "it is missing"))); got != "approval_timeout" {
		t.Errorf("nobody added it: %s", got)
	}
	keyed := access0("ledger", "")
	keyed.IdempotencyKey = "k"
	for _, q := range []api.ActionRequest{keyed, access0("", "why"), {Tool: api.ToolAccess, Args: []byte(`{"target":"ledger","tools":["git"]}`)}, {Tool: api.ToolAccess, Args: []byte(`[]`)}} {
		if got := code(a.ask("call", q)); got != "invalid_request" {
			t.Errorf("%s: %s", q.Args, got)
		}
	}
	if l := r.cards.list(); len(l) != 0 {
		t.Errorf("cards %+v", l)
	}
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: r.book.all()[0].id})
	if got := code(a.ask("call", access0("ledger", ""))); got != "run_revoked" {
		t.Errorf("after revoke: %s", got)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "grant_issued") != 0 || count(evs, "tool_called") != 0 || count(evs, "authorization_denied") != 7 || len(up.paths()) != 0 {
		t.Errorf("grants %d, calls %d, denials %d", count(evs, "grant_issued"), count(evs, "tool_called"), count(evs, "authorization_denied"))
	}
}

// A denied run may ask for access, once a minute, and for nothing else; a yes makes it active.
func TestAccessOfDeniedRun(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "", func(c *Config) { c.ApprovalLife = time.Minute })
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	no := func(q api.ActionRequest) {
		t.Helper()
		ch := a.send("call", q)
		op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: r.card().ID})
		if got := code(<-ch); got != "approval_denied" {
			t.Fatal(got)
		}
	}
	no(access0("ledger", ""))
	no(call0(up.URL+"/1", "GET"))
	x := r.book.all()[0]
	if x.stands() != authz.Denied {
		t.Fatalf("the run is %s", x.stands())
	}
	no(access0("ledger", "please"))
	x.mu.Lock()
	if x.plea == 0 {
		t.Error("when it asked is not noted")
	}
	x.plea = boot() // however long the machine took
	x.mu.Unlock()
	if got := code(a.ask("call", access0("ledger", "please"))); got != "rate_limited" {
		t.Errorf("within the minute: %s", got)
	}
	if got := code(a.ask("call", call0(up.URL+"/1", "GET"))); got != "run_denied" || x.stands() != authz.Denied {
		t.Errorf("a call of a denied run: %s", got)
	}
	x.mu.Lock()
	x.plea -= pleaEvery // as if the minute were over
	x.mu.Unlock()
	ch := a.send("call", access0("ledger", "please"))
	r.yes(r.card(), "run")
	if got := code(<-ch); got != "confirmed" || x.stands() != authz.Active {
		t.Fatalf("after a yes: %s, %s", got, x.stands())
	}
	if got := code(a.ask("call", call0(up.URL+"/1", "GET"))); got != "confirmed" {
		t.Errorf("inside the grant: %s", got)
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}

// What is asked for is bound to the target's rules and credential as the card showed them.
func TestAccessIsBound(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	r.addBearer("other", "GET "+up.URL+"/other/**")
	sum := func(target string) [32]byte {
		return bind(parseWith(access0(target, ""), nil), r.targets()).digest
	}
	if sum("ledger") == sum("other") || sum("ledger") == sum("nowhere") {
		t.Error("digests do not tell targets apart")
	}
	before := sum("ledger")
	if again := sum("ledger"); again != before {
		t.Error("one request has two digests")
	}
	a := r.agent()
	ch := a.send("call", access0("ledger", ""))
	c := r.card()
	if _, err := r.rotate("ledger", "another-secret-value"); err != nil {
		t.Fatal(err)
	}
	if sum("ledger") == before {
		t.Error("the digest does not tell versions apart")
	}
	_, err := r.opApprovalGrant(opRequest{ctx: context.Background(), who: "passphrase", args: encode(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})})
	if err == nil {
		t.Error("a card of the credential's last version was answered with yes")
	}
	if got := code(<-ch); got != "rule_mismatch" {
		t.Errorf("bound to what is gone: %s", got)
	}
}
