package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// A target that does not exist is asked for: the card says how to add it and takes no yes. Once the target is there the
// request has ended, and nothing was given by it.
func TestAccessToMissing(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "", func(c *Config) { c.ApprovalLife = 10 * time.Minute })
	r.init()
	a := r.agent()
	ch := a.send("call", access0("ledger", "to book \x1b[2J\u202e"+strings.Repeat("x", 2000)))
	c := r.card()
	if c.Tool != api.ToolAccess || c.Effect != "access" || c.Target != "ledger" || c.Credential != "" || len(c.Access)+len(c.Offers) != 0 ||
		!strings.Contains(c.Summary, "does not exist") || !strings.Contains(c.Missing, "sp secret add ledger") || !strings.Contains(c.Missing, "sp host add ledger") {
		t.Errorf("card %+v", c)
	}
	if !strings.HasPrefix(c.Reason, "to book ") || strings.ContainsAny(c.Reason, "\x1b\u202e") || len(c.Reason) > 600 {
		t.Errorf("reason %q", c.Reason)
	}
	for _, scope := range []string{"use", "run"} {
		_, err := r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: scope})})
		sure(t, err, "invalid_request", "sp secret add ledger")
	}
	r.addBearer("other", "GET "+up.URL+"/**") // ends nothing
	if l := r.cards.list(); len(l) != 1 || l[0].ID != c.ID {
		t.Errorf("cards %+v", l)
	}
	r.addBearer("ledger", "GET "+up.URL+"/**")
	res := <-ch
	var got api.Access
	if code(res) != "confirmed" || json.Unmarshal(res.Action.Result, &got) != nil || got.Added != "ledger" || got.Grant.ID != "" || strings.Contains(string(res.Action.Result), "grant") {
		t.Fatalf("answer %+v", res)
	}
	if x := a.ask("status", api.StatusRequest{Action: res.Action.ID}); code(x) != "confirmed" || !strings.Contains(string(x.Action.Result), `"added":"ledger"`) {
		t.Errorf("status: %+v", x)
	}
	again := a.send("call", access0("ledger", ""))
	if c := r.card(); c.Missing != "" || len(c.Offers) != 1 || c.Credential != "ledger" {
		t.Errorf("once it exists: %+v", c)
	} else {
		r.yes(c, "run")
	}
	if got := code(<-again); got != "confirmed" {
		t.Errorf("once it exists: %s", got)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "approval_requested") != 2 || count(evs, "grant_issued") != 1 || count(evs, "tool_called") != 0 || len(up.paths()) != 0 {
		t.Errorf("%d cards, %d grants", count(evs, "approval_requested"), count(evs, "grant_issued"))
	}
	for _, e := range evs {
		if x, ok := e.(event.ApprovalExpired); ok && (x.Approval != c.ID || x.Reason != "target_added") {
			t.Errorf("recorded %+v", x)
		}
	}
}

// A host ends it too. A login of the same name is none, and the card says that there is one.
func TestAccessToMissingHost(t *testing.T) {
	r, h := sshRig(t)
	a := r.agent()
	ch := a.send("call", access0("web", ""))
	c := r.card()
	if strings.Contains(c.Summary, "login") {
		t.Errorf("summary %q", c.Summary)
	}
	if _, err := r.addHost(h, []string{"echo", "*"}); err != nil {
		t.Fatal(err)
	}
	if got := code(<-ch); got != "confirmed" {
		t.Errorf("the host is there: %s", got)
	}
	ch = a.send("call", access0("deploy-key", ""))
	if c := r.card(); !strings.HasSuffix(c.Summary, "a login of this name does") || strings.Contains(c.Missing, "secret add") || !strings.Contains(c.Missing, "sp host add deploy-key") {
		t.Errorf("summary %q, %q", c.Summary, c.Missing) // adding a credential of that name fails
	}
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: r.card().ID})
	if got := code(<-ch); got != "approval_denied" {
		t.Errorf("denied: %s", got)
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}

// What no target can be called is nobody's question. A run whose requests were denied twice asks for nothing that does
// not exist; a revoked run's card goes, and so does every card when the vault is locked.
func TestAccessToMissingEnds(t *testing.T) {
	r := newRig(t, "", func(c *Config) { c.ApprovalLife = 10 * time.Minute })
	r.init()
	a := r.agent()
	for _, bad := range []string{"https://x.example/", "A", "a b", "../x", "ledger\u202e", "x\n", strings.Repeat("x", 65)} {
		if got := code(a.ask("call", access0(bad, ""))); got != "target_unknown" {
			t.Errorf("%q: %s", bad, got)
		}
	}
	for range 2 {
		ch := a.send("call", access0("ledger", ""))
		op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: r.card().ID})
		if got := code(<-ch); got != "approval_denied" {
			t.Errorf("denied: %s", got)
		}
	}
	if got := code(a.ask("call", access0("ledger", ""))); got != "run_denied" {
		t.Errorf("denied twice: %s", got)
	}
	b := r.agent() // the same run: it is denied as well
	if got := code(b.ask("call", access0("ledger", ""))); got != "run_denied" {
		t.Errorf("denied twice, on another connection: %s", got)
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)

	for want, end := range map[string]func(*rig){
		"run_revoked":  func(r *rig) { op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: r.book.all()[0].id}) },
		"vault_locked": func(r *rig) { op[api.Status](r, r.opLock, struct{}{}) },
	} {
		r := newRig(t, "", func(c *Config) { c.ApprovalLife = 10 * time.Minute })
		r.init()
		a := r.agent()
		shown := a.send("call", access0("ledger", ""))
		r.card()
		waits := a.send("call", access0("other", ""))
		r.until("both ask", func() bool { return asking(r) == 2 })
		end(r)
		for _, ch := range []<-chan api.Response{shown, waits} {
			if got := code(<-ch); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		if got := code(a.ask("call", access0("ledger", ""))); got != want || len(r.cards.list()) != 0 {
			t.Errorf("afterwards: %s, want %s", got, want)
		}
		r.stop()
		events(t, r.dir, r.created.ReaderIdentity)
	}
}

func asking(r *rig) int {
	r.cards.mu.Lock()
	defer r.cards.mu.Unlock()
	return r.cards.all
}

// One agent that asks for many names has one card, and the places of one behind it; muted, it has none.
func TestAccessToMissingMany(t *testing.T) {
	r := newRig(t, "", func(c *Config) { c.ApprovalLife = 10 * time.Minute })
	r.init()
	n := long(200, 1000)
	var answers []<-chan api.Response
	for i := 0; i < n; i += 100 {
		a := r.agent()
		for j := range 100 {
			answers = append(answers, a.send("call", access0(fmt.Sprintf("target-%d", i+j), "")))
		}
	}
	table := func() api.Table { return op[api.Table](r, r.opApprovalTable, struct{}{}) }
	until(t, "all asks are told of", func() bool {
		x := table()
		return len(x.Cards) == 1 && len(x.More) == 1 && x.More[0].Waiting == 32 && x.More[0].Refused == n-33
	})
	op[api.Chain](r, r.opApprovalMute, api.MuteArgs{Key: table().More[0].Key})
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: r.card().ID})
	got := map[string]int{}
	for _, ch := range answers {
		got[code(<-ch)]++
	}
	if got["approval_denied"] != 33 || got["rate_limited"] != n-33 {
		t.Errorf("%v", got)
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}
