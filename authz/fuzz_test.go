package authz

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// chooser turns bytes into choices; when they are used up the first choice is taken.
type chooser []byte

func (c *chooser) pick(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := (*c)[0]
	*c = (*c)[1:]
	return int(b) % n
}

func choose[T any](c *chooser, of ...T) T { return of[c.pick(len(of))] }

// facts are near the allowed ones: each choice's first value is that of allowed.
func (c *chooser) facts() Facts {
	f := allowed()
	f.Walk = choose(c, FullWalk, FullWalk, ControlWalk, WrapperWalk, 9)
	f.Vault = choose(c, VaultReady, VaultReady, VaultAbsent, VaultLocked, VaultQuarantined, 9)
	f.Run = choose(c, Active, Active, Pending, Orphaned, Denied, Revoked, Ended, 0, 9)
	f.Caller = Caller{
		Identified: choose(c, true, true, false), Same: choose(c, true, true, false),
		Identity: choose(c, Strong, Weak, Contained, IdentityUnknown, 9),
		Run:      choose(c, testRun, testRun, ""), Epoch: choose(c, testEpoch, testEpoch, "ep_2", ""),
		State: choose(c, Live, Live, IdentityPending, CatalogReady, EpochEnded, 0, 9), Suspended: choose(c, false, false, true),
	}
	f.Approved = choose(c, testEpoch, "", "ep_2")
	f.Catalog = Catalog{choose(c, "c", "c", "d"), choose(c, "c", "c", ""), choose(c, "sha256:k", "sha256:k", "")}
	q := &f.Request
	q.Fault, q.Unbound = choose(c, "", "", UnknownTool), choose(c, "", "", RuleMismatch)
	q.Bound, q.Tool = choose(c, true, true, false), choose(c, "http_request", "http_request", "ssh_exec", "")
	q.Credential, q.Digest = choose(c, "github", "github", "gitlab", ""), choose(c, "sha256:d", "sha256:d", "sha256:e", "")
	q.Effect, q.Confirm = choose(c, Read, Write, Destructive, EffectUnknown, 9), choose(c, ConfirmNever, ConfirmClick, ConfirmPasskey, ConfirmAlways, 9)
	q.AlwaysAsk, q.Unresolved, q.UnresolvedEffect = choose(c, false, false, true), choose(c, false, false, true), choose(c, false, false, true)
	q.Version, q.AuditDown = choose[uint64](c, 3, 3, 4, 0), choose(c, false, false, true)
	f.Grants = f.Grants[:0]
	for i := range choose(c, 1, 0, 2, 3) {
		f.Grants = append(f.Grants, Grant{
			ID: choose(c, []string{"gr_1", "gr_2", "gr_3"}[i], ""), Run: choose(c, testRun, "run_2", ""), Epoch: choose(c, testEpoch, "ep_2", ""),
			Tools:       choose(c, []string{"http_request"}, []string{"ssh_exec", "http_request"}, nil, []string{""}),
			Credentials: choose(c, []string{"github"}, []string{"gitlab"}, nil, []string{""}),
			Digest:      choose(c, "", "sha256:d", "sha256:e"), Contract: choose(c, "sha256:k", ""),
			Ends: choose(c, at(1), Instant{}, at(0), at(-9)), Uses: choose(c, 1, 0, -1), Counted: choose(c, false, true),
			State: choose(c, GrantLive, GrantLive, GrantVoid, 9), Version: choose[uint64](c, 3, 0, 4),
			Weak: choose(c, false, true),
		})
	}
	f.Approval = Approval{
		ID: choose(c, "ap_1", ""), Run: choose(c, testRun, "run_2", ""), Epoch: choose(c, testEpoch, "ep_2", ""),
		Digest: choose(c, "sha256:d", "sha256:e", ""), Version: choose[uint64](c, 3, 4, 0), Ends: choose(c, at(1), Instant{}, at(0)),
		Reserved: choose(c, true, false), Passkey: choose(c, true, false),
	}
	f.Load.InFlight, f.Load.Total = choose(c, 0, 127, 128, 999), choose(c, 0, 511, 512)
	f.Load.Asks, f.Load.AskLimit = choose(c, 0, 31, 32), choose(c, 32, 0)
	f.Load.RateLimited = choose(c, false, false, true)
	f.Now = choose(c, at(0), at(0), at(5), Instant{})
	q.Access, q.Reopens = choose(c, nil, nil, []string{"http_request"}, []string{"http_request", "ssh_exec"}), choose(c, false, true)
	return f
}

// check says what must hold of any decision, in words of its own: the ladder is not walked here.
func check(t *testing.T, f Facts) Decision {
	t.Helper()
	d := Decide(f)
	if again := Decide(f); again != d {
		t.Fatalf("two answers: %+v, %+v", d, again)
	}
	must := func(ok bool, what string) {
		t.Helper()
		if !ok {
			t.Fatalf("%s: %+v for %+v", what, d, f)
		}
	}
	stale := d.Reason == AuthorizationStale
	must((d.ApprovedEpoch != "") == stale && (!stale || d.CurrentEpoch == f.Caller.Epoch), "epochs are told with authorization_stale alone")
	q := f.Request
	switch d.Verdict {
	case Deny:
		must(d.Grant == "" && d.Approval == "", "a denial names no authority")
		must(slices.Contains(Reasons(), d.Reason), "a denial has a code")
	case Ask:
		must(d.Reason == NotAuthorized && d.Grant == "" && d.Approval == "", "a question names no authority")
		must(f.Load.Asks < f.Load.AskLimit && f.Walk != ControlWalk && f.Walk != WrapperWalk, "a question has its place")
	case Allow:
		must(d.Reason == ReasonGranted, "allowed means granted")
	default:
		must(false, "a verdict is one of three")
	}
	if d.Verdict == Deny {
		return d
	}
	must(q.Fault == "" && f.Caller.Identified && f.Caller.Same && f.Caller.Run != "", "the caller is known")
	must(f.Run == Pending || f.Run == Active || f.Run == Denied && len(q.Access) > 0 && q.Reopens, "the run is open, or asks to be")
	must(f.Vault == VaultReady || f.Walk == WrapperWalk, "the vault is ready")
	must(!f.Load.RateLimited && f.Load.InFlight < f.Load.RunLimit && f.Load.Total < f.Load.TotalLimit, "there is room")
	if f.Walk == ControlWalk || f.Walk == WrapperWalk {
		must(d.Grant == "" && d.Approval == "", "a listing uses no authority")
		return d
	}
	must(f.Caller.Epoch != "" && f.Caller.State == Live && !f.Caller.Suspended && !f.Caller.Down && !f.Caller.Unstable && !f.Caller.Idle && (f.Caller.Meant == "" || f.Caller.Meant == f.Caller.Epoch) && f.Catalog.Shown == f.Catalog.Current, "the epoch is current")
	must(q.Bound && q.Unbound == "" && q.Tool != "" && q.Digest != "", "the request is bound")
	must(!q.Unresolved || q.Effect == Read, "no such write is unresolved")
	if d.Verdict == Ask {
		return d
	}
	if len(q.Access) > 0 {
		must(f.Run == Active && d.Approval == "", "what is given already is shown, and uses no approval")
		for _, tool := range q.Access {
			must(slices.ContainsFunc(f.Grants, func(g Grant) bool {
				return g.State == GrantLive && g.ID != "" && g.Run == f.Caller.Run && g.Epoch == f.Caller.Epoch && slices.Contains(g.Tools, tool) &&
					slices.Contains(g.Credentials, q.Credential) && g.Version == q.Version && g.Digest == "" && !(g.Counted && g.Uses < 1)
			}), "a live grant gives each tool")
		}
		return d
	}
	must(!q.AuditDown && f.Run == Active, "the log is up and the run active")
	weak, accepted := f.Caller.Identity == Weak, false
	must(slices.ContainsFunc(f.Grants, func(g Grant) bool {
		accepted = g.Weak
		over := g.Ends != Instant{} && (f.Now == Instant{} || !f.Now.Wall.Before(g.Ends.Wall) || f.Now.Boot >= g.Ends.Boot)
		return g.ID == d.Grant && g.ID != "" && g.State == GrantLive && g.Run == f.Caller.Run && g.Epoch == f.Caller.Epoch &&
			slices.Contains(g.Tools, q.Tool) && slices.Contains(g.Credentials, q.Credential) &&
			(g.Digest == "" || g.Digest == q.Digest) && g.Version == q.Version &&
			g.Contract == f.Catalog.Contract && (!weak || g.Weak || q.Effect == Read) && !(g.Counted && g.Uses < 1) && !over
	}), "a live grant of this run and epoch covers the call")
	loud := q.Confirm != ConfirmNever || q.AlwaysAsk || q.UnresolvedEffect || weak && !accepted
	must((d.Approval != "") == loud, "an approval is named where one is needed, and only there")
	if loud {
		a := f.Approval
		over := a.Ends != Instant{} && (f.Now == Instant{} || !f.Now.Wall.Before(a.Ends.Wall) || f.Now.Boot >= a.Ends.Boot)
		must(d.Approval == a.ID && a.Reserved && !over && a.Run == f.Caller.Run && a.Epoch == f.Caller.Epoch &&
			a.Digest == q.Digest && a.Version == q.Version && (q.Confirm != ConfirmPasskey || a.Passkey), "the approval is for this call")
	}
	return d
}

// Random facts near the allowed ones reach all three verdicts, and each answer holds.
func TestRandomFacts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	verdicts, reasons := map[Verdict]int{}, map[Reason]int{}
	for range 100_000 {
		c := make(chooser, 120)
		for i := range c {
			if r.IntN(6) == 0 {
				c[i] = byte(r.Uint32())
			}
		}
		d := check(t, c.facts())
		verdicts[d.Verdict]++
		reasons[d.Reason]++
	}
	if verdicts[Deny] < 1000 || verdicts[Ask] < 1000 || verdicts[Allow] < 1000 {
		t.Errorf("the facts are lopsided: %v", verdicts)
	}
	for _, want := range []Reason{ReasonGranted, NotAuthorized, AuthorizationStale, CatalogStale, OutcomeUnresolved, AuditUnavailable, RateLimited, Busy} {
		if reasons[want] == 0 {
			t.Errorf("%s was never reached", want)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add([]byte{})
	f.Add(slices.Repeat([]byte{1}, 120))
	f.Add([]byte{0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := chooser(b)
		facts := c.facts()
		kept := facts
		kept.Grants = slices.Clone(facts.Grants)
		check(t, facts)
		if !reflect.DeepEqual(facts, kept) {
			t.Fatalf("the facts were changed: %+v", facts)
		}
	})
}
