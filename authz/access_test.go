package authz

import "testing"

// asks is a request for two tools, in an active run whose one grant gives the first of them.
func asks() Facts {
	f := allowed()
	f.Request.Tool, f.Request.Effect, f.Request.Access = "request_access", EffectAccess, []string{"http_request", "ssh_exec"}
	f.Grants[0].Digest, f.Grants[0].Tools = "", []string{"http_request"}
	f.Approval = Approval{}
	return f
}

// A request for access is answered by a grant that gives all of it, and asked for otherwise; it takes no approval of one use.
func TestAccess(t *testing.T) {
	f := asks()
	if d := Decide(f); d.Verdict != Ask || d.Reason != NotAuthorized {
		t.Errorf("half of it given: %+v", d)
	}
	f.Grants[0].Tools = append(f.Grants[0].Tools, "ssh_exec")
	f.Request.Confirm, f.Request.AuditDown = ConfirmClick, true
	if d := Decide(f); d != (Decision{Verdict: Allow, Reason: ReasonGranted, Grant: "gr_1"}) {
		t.Errorf("all of it given: %+v", d)
	}
	for what, spoil := range map[string]func(*Grant){
		"another credential":  func(g *Grant) { g.Credentials = []string{"gitlab"} },
		"another version":     func(g *Grant) { g.Version++ },
		"another epoch":       func(g *Grant) { g.Epoch = "ep_2" },
		"for this plan alone": func(g *Grant) { g.Digest = f.Request.Digest },
		"used up":             func(g *Grant) { g.Counted, g.Uses = true, 0 },
		"void":                func(g *Grant) { g.State = GrantVoid },
		"the tool of asking":  func(g *Grant) { g.Tools = []string{"request_access"} },
	} {
		x := f
		x.Grants = append([]Grant(nil), f.Grants...)
		spoil(&x.Grants[0])
		if d := Decide(x); d.Verdict != Ask {
			t.Errorf("%s: %+v", what, d)
		}
	}
}

// Of all calls only a request for access passes a denied run's rung, if its turn has come; no other state lets it pass.
func TestAccessReopens(t *testing.T) {
	f := asks()
	f.Run = Denied
	if d := Decide(f); d.Reason != RunDenied {
		t.Errorf("asked before the run was denied: %+v", d)
	}
	f.Request.Reopens = true
	if d := Decide(f); d.Verdict != Ask {
		t.Errorf("its turn: %+v", d)
	}
	f.Grants[0].Tools = f.Request.Access
	if d := Decide(f); d.Verdict != Ask {
		t.Errorf("a denied run has no live grant: %+v", d)
	}
	f.Load.RateLimited = true
	if d := Decide(f); d.Reason != RateLimited {
		t.Errorf("too early: %+v", d)
	}
	f.Load.RateLimited, f.Request.Access = false, nil
	if d := Decide(f); d.Reason != RunDenied {
		t.Errorf("no request for access: %+v", d)
	}
	f.Request.Access = []string{"http_request"}
	for state, want := range map[RunState]Reason{Revoked: RunRevoked, Orphaned: RunOrphaned, Ended: RunEnded, 0: PeerUnidentified} {
		f.Run = state
		if d := Decide(f); d.Verdict != Deny || d.Reason != want {
			t.Errorf("%s: %+v", state, d)
		}
	}
}
