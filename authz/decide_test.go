package authz

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	testRun   = "run_1"
	testEpoch = "ep_1"
)

func at(s int) Instant {
	return Instant{Wall: time.Unix(1_800_000_000+int64(s), 0), Boot: time.Hour + time.Duration(s)*time.Second}
}

// allowed passes every rung, each for one reason only: a supervised caller, a click credential, a counted grant.
func allowed() Facts {
	return Facts{
		Vault:    VaultReady,
		Run:      Active,
		Caller:   Caller{Identified: true, Same: true, Identity: Strong, Run: testRun, Epoch: testEpoch, State: Live},
		Approved: testEpoch,
		Catalog:  Catalog{Shown: "sha256:c2", Current: "sha256:c2", Contract: "sha256:k"},
		Request: Request{
			Bound: true, Tool: "http_request", Credential: "github", Target: "github", Digest: "sha256:d",
			Effect: Write, Confirm: ConfirmClick, Version: 3,
		},
		Grants: []Grant{{
			ID: "gr_1", Run: testRun, Epoch: testEpoch, Tools: []string{"http_request"}, Credentials: []string{"github"},
			Digest: "sha256:d", Contract: "sha256:k", Ends: at(60), Uses: 1, Counted: true, State: GrantLive, Version: 3,
		}},
		Approval: Approval{ID: "ap_1", Run: testRun, Epoch: testEpoch, Digest: "sha256:d", Version: 3, Ends: at(60), Reserved: true, Passkey: true},
		Load:     Load{InFlight: 127, RunLimit: 128, Total: 511, TotalLimit: 512, Asks: 31, AskLimit: 32},
		Now:      at(0),
	}
}

func TestAllowedIsAllowed(t *testing.T) {
	want := Decision{Verdict: Allow, Reason: ReasonGranted, Grant: "gr_1", Approval: "ap_1"}
	if got := Decide(allowed()); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	f := allowed()
	f.Request.Confirm = ConfirmNever
	want.Approval = ""
	if got := Decide(f); got != want {
		t.Fatalf("quiet inside a grant: got %+v, want %+v", got, want)
	}
}

func TestZeroIsDenied(t *testing.T) {
	for _, w := range []Walk{FullWalk, ControlWalk, 200} {
		if got := Decide(Facts{Walk: w}); got.Verdict != Deny || got.Reason != PeerUnidentified {
			t.Errorf("walk %d: got %+v", w, got)
		}
	}
	var d Decision
	if d.Verdict != Deny {
		t.Error("the zero decision is not a denial")
	}
}

// failing is one way not to pass a rung.
type failing struct {
	rung    int
	name    string
	reason  Reason
	verdict Verdict
	spoil   func(*Facts)
}

// first is the grant that a case spoils; where another case took it away there is none to spoil.
func first(f *Facts) *Grant {
	if len(f.Grants) == 0 {
		return new(Grant)
	}
	return &f.Grants[0]
}

func failures() []failing {
	grant := func(name string, f func(*Grant)) failing {
		return failing{8, name, NotAuthorized, Ask, func(x *Facts) { f(first(x)) }}
	}
	approval := func(name string, f func(*Approval)) failing {
		return failing{9, name, NotAuthorized, Ask, func(x *Facts) { f(&x.Approval) }}
	}
	use := func(name string, f func(*Facts)) failing {
		return failing{9, name, NotAuthorized, Ask, func(x *Facts) {
			x.Request.Confirm, x.Approval = ConfirmNever, Approval{}
			f(x)
		}}
	}
	return []failing{
		{0, "does not parse", InvalidRequest, Deny, func(f *Facts) { f.Request.Fault = InvalidRequest }},
		{0, "no such tool", UnknownTool, Deny, func(f *Facts) { f.Request.Fault = UnknownTool }},
		{1, "unidentified", PeerUnidentified, Deny, func(f *Facts) { f.Caller.Identified = false }},
		{1, "identity unknown", PeerUnidentified, Deny, func(f *Facts) { f.Caller.Identity = IdentityUnknown }},
		{1, "identity invalid", PeerUnidentified, Deny, func(f *Facts) { f.Caller.Identity = 77 }},
		{1, "no run", PeerUnidentified, Deny, func(f *Facts) { f.Caller.Run, first(f).Run, f.Approval.Run = "", "", "" }},
		{1, "another program now", PeerReplaced, Deny, func(f *Facts) { f.Caller.Same = false }},
		{2, "revoked", RunRevoked, Deny, func(f *Facts) { f.Run = Revoked }},
		{2, "orphaned", RunOrphaned, Deny, func(f *Facts) { f.Run = Orphaned }},
		{2, "denied", RunDenied, Deny, func(f *Facts) { f.Run = Denied }},
		{2, "ended", RunEnded, Deny, func(f *Facts) { f.Run = Ended }},
		{2, "no state", PeerUnidentified, Deny, func(f *Facts) { f.Run = 0 }},
		{2, "no known state", PeerUnidentified, Deny, func(f *Facts) { f.Run = Ended + 1 }},
		{3, "no vault", ReasonVaultAbsent, Deny, func(f *Facts) { f.Vault = VaultAbsent }},
		{3, "locked", ReasonVaultLocked, Deny, func(f *Facts) { f.Vault = VaultLocked }},
		{3, "quarantined", ReasonVaultQuarantined, Deny, func(f *Facts) { f.Vault = VaultQuarantined }},
		{3, "no known state", ReasonVaultQuarantined, Deny, func(f *Facts) { f.Vault = 77 }},
		{4, "no epoch", ReasonEpochEnded, Deny, func(f *Facts) { f.Caller.Epoch, first(f).Epoch, f.Approval.Epoch = "", "", "" }},
		{4, "epoch ended", ReasonEpochEnded, Deny, func(f *Facts) { f.Caller.State = EpochEnded }},
		{4, "no state", ReasonEpochEnded, Deny, func(f *Facts) { f.Caller.State = 0 }},
		{4, "replaced", AuthorizationStale, Deny, func(f *Facts) { f.Caller.State, f.Approved = IdentityPending, "ep_0" }},
		{4, "replaced, catalog known", AuthorizationStale, Deny, func(f *Facts) { f.Caller.State, f.Approved = CatalogReady, "ep_0" }},
		{4, "another epoch is approved", AuthorizationStale, Deny, func(f *Facts) { first(f).Epoch, f.Approved = "ep_0", "ep_0" }},
		{4, "never approved", NotAuthorized, Deny, func(f *Facts) { f.Caller.State, f.Approved = CatalogReady, "" }},
		{4, "no process of the server", ServerDown, Deny, func(f *Facts) { f.Caller.Down = true }},
		{4, "no process, and another epoch meant", ServerDown, Deny, func(f *Facts) { f.Caller.Down, f.Caller.Meant = true, "ep_0" }},
		{4, "another epoch meant", AuthorizationStale, Deny, func(f *Facts) { f.Caller.Meant = "ep_0" }},
		{4, "not what was planned", IdentityUnstable, Deny, func(f *Facts) { f.Caller.Unstable = true }},
		{4, "suspended before anybody approved it", ServerSuspended, Deny, func(f *Facts) { f.Caller.Suspended, f.Caller.State = true, CatalogReady }},
		{8, "the server's own call outside of one", NoCallInFlight, Deny, func(f *Facts) { f.Caller.Idle = true }},
		{4, "program exchanged on disk", ServerSuspended, Deny, func(f *Facts) { f.Caller.Suspended = true }},
		{4, "catalog not refetched", CatalogStale, Deny, func(f *Facts) { f.Catalog.Shown = "sha256:c1" }},
		{5, "no rule", RuleMismatch, Deny, func(f *Facts) { f.Request.Bound = false }},
		{5, "no target", TargetUnknown, Deny, func(f *Facts) { f.Request.Bound, f.Request.Unbound = false, TargetUnknown }},
		{5, "bound and not", HeaderRefused, Deny, func(f *Facts) { f.Request.Unbound = HeaderRefused }},
		{5, "no tool", RuleMismatch, Deny, func(f *Facts) { f.Request.Tool, first(f).Tools = "", []string{""} }},
		{5, "no digest", RuleMismatch, Deny, func(f *Facts) { f.Request.Digest, first(f).Digest, f.Approval.Digest = "", "", "" }},
		{6, "write unresolved", OutcomeUnresolved, Deny, func(f *Facts) { f.Request.Unresolved = true }},
		{6, "effect unknown, unresolved", OutcomeUnresolved, Deny, func(f *Facts) { f.Request.Unresolved, f.Request.Effect = true, EffectUnknown }},
		{7, "rate", RateLimited, Deny, func(f *Facts) { f.Load.RateLimited = true }},
		{7, "run full", Busy, Deny, func(f *Facts) { f.Load.InFlight = 128 }},
		{7, "gateway full", Busy, Deny, func(f *Facts) { f.Load.Total = 512 }},
		{7, "no limits set", Busy, Deny, func(f *Facts) { f.Load = Load{AskLimit: 32} }},
		{8, "no grant", NotAuthorized, Ask, func(f *Facts) { f.Grants = nil }},
		{8, "run not active", NotAuthorized, Ask, func(f *Facts) { f.Run = Pending }},
		{8, "too many cards", RateLimited, Deny, func(f *Facts) { f.Grants, f.Load.Asks = nil, 32 }},
		{8, "contract changed", NotAuthorized, Ask, func(f *Facts) { f.Catalog.Contract = "sha256:k2" }},
		grant("void", func(g *Grant) { g.State = GrantVoid }),
		grant("state unknown", func(g *Grant) { g.State = 77 }),
		grant("no id", func(g *Grant) { g.ID = "" }),
		grant("another run's", func(g *Grant) { g.Run = "run_2" }),
		grant("another tool", func(g *Grant) { g.Tools = []string{"ssh_exec"} }),
		grant("no tool", func(g *Grant) { g.Tools = nil }),
		grant("another credential", func(g *Grant) { g.Credentials = []string{"gitlab"} }),
		grant("an older credential", func(g *Grant) { g.Version = 2 }),
		grant("no version", func(g *Grant) { g.Version = 0 }),
		grant("another plan", func(g *Grant) { g.Digest = "sha256:e" }),
		grant("spent", func(g *Grant) { g.Uses = 0 }),
		grant("overspent", func(g *Grant) { g.Uses = -1 }),
		grant("over now", func(g *Grant) { g.Ends = at(0) }),
		grant("over on one clock", func(g *Grant) { g.Ends.Boot = time.Second }),
		{9, "click, no approval", NotAuthorized, Ask, func(f *Facts) { f.Approval = Approval{} }},
		{9, "confirm unset", NotAuthorized, Ask, func(f *Facts) { f.Request.Confirm, f.Approval = ConfirmAlways, Approval{} }},
		{9, "confirm unknown", NotAuthorized, Ask, func(f *Facts) { f.Request.Confirm, f.Approval = 77, Approval{} }},
		{9, "passkey wanted", NotAuthorized, Ask, func(f *Facts) { f.Request.Confirm, f.Approval.Passkey = ConfirmPasskey, false }},
		{9, "too many cards", RateLimited, Deny, func(f *Facts) { f.Approval, f.Load.Asks = Approval{}, 32 }},
		use("raw shell", func(f *Facts) { f.Request.AlwaysAsk = true }),
		use("same effect unresolved", func(f *Facts) { f.Request.UnresolvedEffect = true }),
		{8, "weak, a write", NotAuthorized, Ask, func(f *Facts) { f.Caller.Identity = Weak }},
		approval("not reserved", func(a *Approval) { a.Reserved = false }),
		approval("no id", func(a *Approval) { a.ID = "" }),
		approval("another run's", func(a *Approval) { a.Run = "run_2" }),
		approval("another epoch's", func(a *Approval) { a.Epoch = "ep_0" }),
		approval("another plan", func(a *Approval) { a.Digest = "sha256:e" }),
		approval("an older credential", func(a *Approval) { a.Version = 2 }),
		approval("over now", func(a *Approval) { a.Ends = at(0) }),
		{10, "log down", AuditUnavailable, Deny, func(f *Facts) { f.Request.AuditDown = true }},
	}
}

// A weak caller asks for each read; its writes want a grant that was given to it as weak, which also spares it the asking.
func TestWeak(t *testing.T) {
	for _, e := range []Effect{EffectUnknown, Read, Write, Destructive} {
		for _, given := range []bool{false, true} {
			for _, yes := range []bool{false, true} {
				f := allowed()
				f.Caller.Identity, f.Request.Confirm, f.Request.Effect = Weak, ConfirmNever, e
				f.Grants[0].Weak = given
				if !yes {
					f.Approval = Approval{}
				}
				want := Ask
				if given || e == Read && yes {
					want = Allow
				}
				if got := Decide(f); got.Verdict != want || (got.Approval != "") != (want == Allow && !given) {
					t.Errorf("%s, given as weak %v, approved %v: %+v", e, given, yes, got)
				}
				f.Caller.Identity = Contained
				if got := Decide(f); got.Verdict != Allow || got.Approval != "" {
					t.Errorf("%s, contained: %+v", e, got)
				}
			}
		}
	}
	// What the credential itself asks for, it asks of a grant given as weak too.
	f := allowed()
	f.Caller.Identity, f.Grants[0].Weak, f.Approval = Weak, true, Approval{}
	if got := Decide(f); got.Verdict != Ask {
		t.Errorf("click: %+v", got)
	}
}

// An earlier epoch's approval is no hindrance to a call that this epoch's own grant covers.
func TestOwnGrantIsNotStale(t *testing.T) {
	f := allowed()
	f.Approved = "ep_0"
	if got := Decide(f); got.Verdict != Allow {
		t.Errorf("got %+v", got)
	}
}

// A read may be repeated while an identical call has no known outcome: it changes nothing.
func TestReadPassesUnresolved(t *testing.T) {
	f := allowed()
	f.Request.Unresolved, f.Request.Effect = true, Read
	if got := Decide(f); got.Verdict != Allow {
		t.Errorf("got %+v", got)
	}
}

// Each rung refuses alone, with its own code and nothing that could be taken for permission.
func TestEachRung(t *testing.T) {
	rungs := map[int]bool{}
	for _, c := range failures() {
		f := allowed()
		c.spoil(&f)
		got := Decide(f)
		if got.Verdict != c.verdict || got.Reason != c.reason || got.Grant != "" || got.Approval != "" {
			t.Errorf("rung %d, %s: got %+v, want %s %s", c.rung, c.name, got, c.verdict, c.reason)
		}
		stale := got.Reason == AuthorizationStale
		if (got.ApprovedEpoch == "ep_0" && got.CurrentEpoch == testEpoch) != stale || (got.ApprovedEpoch != "") != stale {
			t.Errorf("rung %d, %s: epochs %q and %q", c.rung, c.name, got.ApprovedEpoch, got.CurrentEpoch)
		}
		rungs[c.rung] = true
	}
	for i := range 11 {
		if !rungs[i] {
			t.Errorf("rung %d has no case", i)
		}
	}
}

// Of two failures the lower rung is told: I34, a locked vault does not hide that the run is revoked.
func TestLowerRungWins(t *testing.T) {
	for _, a := range failures() {
		for _, b := range failures() {
			if a.rung >= b.rung || a.rung >= 8 {
				continue
			}
			f := allowed()
			b.spoil(&f)
			a.spoil(&f)
			if got := Decide(f); got.Reason != a.reason {
				t.Errorf("%d %s and %d %s: got %s, want %s", a.rung, a.name, b.rung, b.name, got.Reason, a.reason)
			}
		}
	}
}

// WrapperWalk is rungs 0 to 2 and 7.
func TestWrapperWalk(t *testing.T) {
	for _, c := range failures() {
		f := allowed()
		c.spoil(&f)
		f.Walk = WrapperWalk
		got := Decide(f)
		if c.rung <= 2 || c.rung == 7 {
			if got.Verdict != Deny || got.Reason != c.reason {
				t.Errorf("rung %d, %s: got %+v", c.rung, c.name, got)
			}
		} else if got != (Decision{Verdict: Allow, Reason: ReasonGranted}) {
			t.Errorf("rung %d, %s: got %+v", c.rung, c.name, got)
		}
	}
}

// ControlWalk is rungs 0 to 3 and 7: the rest do not stop it, these do.
func TestControlWalk(t *testing.T) {
	for _, c := range failures() {
		f := allowed()
		c.spoil(&f)
		f.Walk = ControlWalk
		got := Decide(f)
		if c.rung <= 3 || c.rung == 7 {
			if got.Verdict != Deny || got.Reason != c.reason {
				t.Errorf("rung %d, %s: got %+v", c.rung, c.name, got)
			}
		} else if got != (Decision{Verdict: Allow, Reason: ReasonGranted}) {
			t.Errorf("rung %d, %s: got %+v", c.rung, c.name, got)
		}
		f.Walk = 77
		if got := Decide(f); got.Verdict == Allow {
			t.Errorf("rung %d, %s: allowed on an unknown walk", c.rung, c.name)
		}
	}
}

// No single fact that is forgotten allows anything more. The exceptions are facts whose zero is itself a statement.
func TestForgottenFact(t *testing.T) {
	stated := []string{
		"Walk", "Request.Fault", "Request.Unbound", "Request.AlwaysAsk", "Request.Unresolved", "Request.UnresolvedEffect",
		"Request.AuditDown", "Load.RateLimited", // zero already
		"Approved",                         // an unsupervised caller
		"Request.Target", "Request.Effect", // judged by binding; unknown counts as destructive
		"Request.Confirm",                                                                                                           // always asks; the approval stands
		"Grants[0].Digest",                                                                                                          // any request in scope
		"Grants[0].Counted",                                                                                                         // uncounted
		"Grants[0].Ends", "Grants[0].Ends.Wall", "Grants[0].Ends.Boot", "Approval.Ends", "Approval.Ends.Wall", "Approval.Ends.Boot", // no end
		"Load.InFlight", "Load.Total", "Load.Asks", // nothing going on
		"Approval.Passkey", // a click is enough
		"Caller.Suspended", // it is not
		"Caller.Meant",     // the caller's own epoch
		"Caller.Down", "Caller.Unstable", "Caller.Idle",
		"Grants[0].Weak",                    // the caller is strong
		"Load.AskLimit",                     // nothing is asked
		"Request.Access", "Request.Reopens", // a call like any other
	}
	paths := map[string]bool{}
	var walk func(path string, get func(*Facts) reflect.Value)
	walk = func(path string, get func(*Facts) reflect.Value) {
		f := allowed()
		v := get(&f)
		if path != "" {
			paths[path] = true
			v.SetZero()
			if d := Decide(f); (d.Verdict == Allow) != slices.Contains(stated, path) {
				t.Errorf("without %s: %+v", path, d)
			}
		}
		f = allowed()
		v = get(&f)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					walk(strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), func(f *Facts) reflect.Value { return get(f).Field(i) })
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(path+"["+string(rune('0'+i))+"]", func(f *Facts) reflect.Value { return get(f).Index(i) })
			}
		}
	}
	walk("", func(f *Facts) reflect.Value { return reflect.ValueOf(f).Elem() })
	for _, p := range stated {
		if !paths[p] {
			t.Errorf("%s is listed and is no fact", p)
		}
	}
}

// Of several grants the one that leaves least behind is named.
func TestNarrowestGrantIsSpent(t *testing.T) {
	wide, counted, once := allowed().Grants[0], allowed().Grants[0], allowed().Grants[0]
	wide.ID, wide.Digest, wide.Counted, wide.Uses = "gr_wide", "", false, 0
	counted.ID, counted.Digest = "gr_counted", ""
	once.ID = "gr_once"
	other := wide
	other.ID = "gr_other"
	for _, c := range []struct {
		want   string
		grants []Grant
	}{
		{"gr_once", []Grant{wide, counted, once}},
		{"gr_once", []Grant{once, wide, counted}},
		{"gr_counted", []Grant{wide, counted}},
		{"gr_wide", []Grant{wide}},
		{"gr_wide", []Grant{wide, other}},
		{"gr_other", []Grant{other, wide}},
	} {
		f := allowed()
		f.Grants = c.grants
		if got := Decide(f); got.Verdict != Allow || got.Grant != c.want {
			t.Errorf("got %+v, want %s", got, c.want)
		}
	}
	// Of two alike a weak caller takes the one it need not ask for again.
	weak := wide
	weak.ID, weak.Weak = "gr_weak", true
	for id, want := range map[Identity]string{Weak: "gr_weak", Strong: "gr_wide"} {
		f := allowed()
		f.Caller.Identity, f.Request.Effect, f.Grants = id, Read, []Grant{wide, weak}
		if got := Decide(f); got.Grant != want {
			t.Errorf("%s: %+v, want %s", id, got, want)
		}
	}
	// Case I15: one use left; after it is taken the second call asks.
	f := allowed()
	f.Grants = []Grant{counted}
	f.Grants[0].Uses--
	if got := Decide(f); got.Verdict != Ask {
		t.Errorf("second call on one use: %+v", got)
	}
}

func TestPast(t *testing.T) {
	now := at(0)
	for _, c := range []struct {
		name     string
		now, end Instant
		want     bool
	}{
		{"no end", now, Instant{}, false},
		{"no end, no clock", Instant{}, Instant{}, false},
		{"later", now, at(1), false},
		{"now", now, at(0), true},
		{"before", now, at(-1), true},
		{"wall over, boot not", now, Instant{now.Wall, now.Boot + 1}, true},
		{"boot over, wall not", now, Instant{now.Wall.Add(1), now.Boot}, true},
		{"wall set back, boot over", Instant{now.Wall.Add(-time.Hour), now.Boot + 2*time.Second}, at(1), true},
		{"wall alone, later", now, Instant{Wall: now.Wall.Add(1)}, false},
		{"boot alone, later", now, Instant{Boot: now.Boot + 1}, false},
		{"no clock", Instant{}, at(1), true},
		{"no wall", Instant{Boot: now.Boot}, at(1), true},
		{"no boot", Instant{Wall: now.Wall}, at(1), true},
		{"negative end", now, Instant{Boot: -1}, true},
	} {
		if got := c.now.Past(c.end); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Deny.String(), "deny"}, {Allow.String(), "allow"}, {Verdict(9).String(), "invalid"},
		{VaultState(0).String(), "absent"}, {VaultQuarantined.String(), "quarantined"},
		{Weak.String(), "weak"}, {Identity(0).String(), "unknown"}, {Contained.String(), "contained"},
		{Read.String(), "read"}, {Destructive.String(), "destructive"}, {GrantLive.String(), "live"},
		{CatalogReady.String(), "catalog-ready"}, {Confirm(0).String(), "always"}, {RunState(0).String(), "invalid"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	seen := map[Reason]bool{ReasonGranted: true}
	for _, r := range Reasons() {
		if seen[r] || r == "" {
			t.Errorf("%q is listed twice", r)
		}
		seen[r] = true
	}
}
