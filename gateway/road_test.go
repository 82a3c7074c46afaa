package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

func TestRoad(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	a := r.agent()
	if got := code(a.ask("call", call0(up.URL+"/x", "GET"))); got != "vault_absent" {
		t.Fatalf("before init: %s", got)
	}
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")

	first := a.send("call", call0(up.URL+"/x", "POST"))
	c := r.card()
	if !strings.Contains(c.Summary, "POST "+up.URL+"/x") || c.Effect != "write" {
		t.Fatalf("card: %+v", c)
	}
	if up.paths() != nil {
		t.Fatal("something left before the approval")
	}
	op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})
	res := <-first
	if code(res) != "confirmed" || !strings.Contains(string(res.Action.Result), "done") {
		t.Fatalf("answer: %+v", res)
	}
	if got := up.credentials(); got[0] != "Bearer "+testSecret {
		t.Fatalf("the upstream got %q", got)
	}
	// The grant covers the next one, quietly.
	if got := code(a.ask("call", call0(up.URL+"/y", "GET"))); got != "confirmed" {
		t.Fatalf("second call: %s", got)
	}
	if got := code(a.ask("status", api.StatusRequest{Action: res.Action.ID})); got != "confirmed" {
		t.Fatalf("status: %s", got)
	}
	for name, want := range map[string]string{
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"url":"http://x","nope":1}}}`:                                "invalid_request",
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"url":"http://x","url":"http://y"}}}`:                        "invalid_request",
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"url":"http://x","URL":"http://y"}}}`:                        "invalid_request",
		`{"id":"1","method":"call","params":{"tool":"http_request","args":null}}`:                                                       "invalid_request",
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"url":"http://x"},"executionEpoch":"e"}}`:                    "invalid_request",
		`{"id":"1","method":"call","params":{"tool":"rm_rf","args":{}}}`:                                                                "unknown_tool",
		`{"id":"1","method":"approval/grant","params":{}}`:                                                                              "unknown_method",
		`{"id":"1","method":"status","params":{"action":"act_00000000000000000000000000"}}`:                                             "action_unknown",
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"url":"` + up.URL + `/x","method":"DELETE"}}}`:               "rule_mismatch",
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"target":"nobody","path":"/x"}}}`:                            "target_unknown",
		`{"id":"1","method":"call","params":{"tool":"http_request","args":{"url":"` + up.URL + `/x","headers":{"Authorization":"x"}}}}`: "header_refused",
		`{"id":"1","method":"call","params":` + strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70) + `}`:                       "invalid_request",
		`{"id":"1"`: "invalid_request",
	} {
		ch := make(chan api.Response, 1)
		b := r.agent()
		b.mu.Lock()
		b.wait["1"], b.wait[""] = ch, ch
		b.mu.Unlock()
		b.conn.Write([]byte(name + "\n"))
		res := <-ch
		if code(res) != want || res.Error.Next == "" {
			t.Errorf("%.120s\n got %s, want %s (next %q)", name, code(res), want, res.Error.Next)
		}
	}
	if n := len(up.paths()); n != 2 {
		t.Fatalf("refused calls reached the upstream: %v", up.paths())
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "tool_called") != 2 || count(evs, "tool_finished") != 2 || count(evs, "approval_granted") != 1 || count(evs, "run_opened") != 1 {
		t.Fatalf("log: %v", kinds(evs))
	}
	if s := evs[0].(event.GatewayStarted); s.AbsentCalls != 1 {
		t.Fatalf("the call before init was not counted: %+v", s)
	}
	if n := count(evs, "authorization_denied"); n != 13 {
		t.Fatalf("%d denials recorded, want 13", n)
	}
}

func kinds(evs []event.Event) (out []string) {
	for _, e := range evs {
		out = append(out, event.Type(e))
	}
	return out
}

func TestLockedRefusesEverything(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	op[api.Status](r, r.opLock, struct{}{})
	a := r.agent()
	for method, params := range map[string]any{
		"call": call0(up.URL+"/x", "GET"), "status": api.StatusRequest{Action: "act_x"}, "targets": struct{}{}, "session": struct{}{},
	} {
		if got := code(a.ask(method, params)); got != "vault_locked" {
			t.Errorf("%s while locked: %s", method, got)
		}
	}
	ssh := api.ActionRequest{Tool: api.ToolSSH, Args: encode(api.SSHArgs{Target: "web", Argv: []string{"id"}})}
	if got := code(a.ask("call", ssh)); got != "vault_locked" {
		t.Errorf("ssh_exec while locked: %s", got)
	}
	r.unlock()
	if got := code(a.ask("targets", struct{}{})); got != "result" {
		t.Errorf("after unlock: %s", got)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if n := count(evs, "authorization_denied"); n != 5 {
		t.Fatalf("%d denials recorded, want 5: %v", n, kinds(evs))
	}
	if len(up.paths()) != 0 {
		t.Fatal("a locked vault let something out")
	}
}

// M05 and 04: a caller that goes away takes back what was not sent.
func TestGoneBeforeApproval(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	a := r.agent()
	a.send("call", call0(up.URL+"/x", "POST"))
	r.card()
	a.conn.Close()
	for len(r.cards.list()) > 0 {
	}
	r.stop()
	if len(up.paths()) != 0 {
		t.Fatal("a call nobody waited for was sent")
	}
	if evs := events(t, r.dir, r.created.ReaderIdentity); count(evs, "tool_called") != 0 || count(evs, "approval_expired") != 1 {
		t.Fatalf("log: %v", kinds(evs))
	}
}

func TestIdempotencyKey(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	q := call0(up.URL+"/x", "POST")
	q.IdempotencyKey = "k1"
	first := a.ask("call", q)
	second := a.ask("call", q)
	if code(first) != "confirmed" || code(second) != "confirmed" || first.Action.ID != second.Action.ID {
		t.Fatalf("the same key: %s %s", code(first), code(second))
	}
	other := call0(up.URL+"/y", "POST")
	other.IdempotencyKey = "k1"
	if got := code(a.ask("call", other)); got != "idempotency_mismatch" {
		t.Fatalf("the key for another request: %s", got)
	}
	if got := up.paths(); !slices.Equal(got, []string{"/x"}) {
		t.Fatalf("upstream saw %v", got)
	}
	// After a revocation the old result is not shown.
	run := r.book.all()[0]
	op[api.Revoked](r, r.opRunRevoke, api.IDArgs{ID: run.id})
	if got := code(a.ask("call", q)); got != "run_revoked" {
		t.Fatalf("replay after revoke: %s", got)
	}
	if got := code(a.ask("status", api.StatusRequest{Action: first.Action.ID})); got != "run_revoked" {
		t.Fatalf("status after revoke: %s", got)
	}
}

// The recovery identity opens the vault in the passphrase's place, and is no proof for anything else.
func TestUnlockWithRecovery(t *testing.T) {
	r := newRig(t, "")
	r.init()
	op[api.Status](r, r.opLock, struct{}{})
	try := func(value string) string {
		_, err := r.opUnlock(opRequest{ctx: t.Context(), who: "recovery", proof: &api.Proof{Kind: "recovery", Value: value}})
		if err == nil {
			return ""
		}
		return refusalOf(err).Code
	}
	if got := try(r.created.ReaderIdentity); got != "proof_wrong" {
		t.Errorf("the reader's identity: %q", got)
	}
	if got := try(testPassphrase); got != "proof_wrong" {
		t.Errorf("the passphrase as an identity: %q", got)
	}
	if got := try(r.created.RecoveryIdentity); got != "" {
		t.Errorf("recovery: %q", got)
	}
	if got := r.status().Vault; got != "ready" {
		t.Errorf("vault %s", got)
	}
}
