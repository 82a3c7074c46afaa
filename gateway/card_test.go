package gateway

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// sure fails the test unless a refusal has this code and its reason these words.
func sure(t *testing.T, err error, code, words string) {
	t.Helper()
	if e := refusalOf(err); err == nil || e.Code != code || !strings.Contains(e.Reason, words) {
		t.Errorf("got %v, want %s: %s", err, code, words)
	}
}

// yes answers a card by the passphrase.
func (r *rig) yes(c api.Approval, scope string) api.Grant {
	r.t.Helper()
	return op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: scope})
}

// The card tells what was observed, all that a yes gives, what was said before, and its digest is what it shows.
func TestCardInFull(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	a := r.agent()
	ask := func(path, method, reason string) (<-chan api.Response, api.Approval) {
		q := call0(up.URL+path, method)
		q.Reason = reason
		ch := a.send("call", q)
		return ch, r.card()
	}
	first, c := ask("/1", "GET", "because")
	if b, err := c.Bytes(); err != nil || api.DigestOf(b) != c.CardDigest || api.Words(c.CardDigest) == "" {
		t.Fatalf("the digest is another card's: %v", err)
	}
	o := c.Origin
	if o.Program != api.ProgramNew || o.RunOpenedAt.IsZero() || len(o.Launchers) == 0 || o.Launchers[0].ProcessID != os.Getpid() || !strings.HasPrefix(o.Chain, "session-") {
		t.Errorf("origin %+v", o)
	}
	if c.Confirm != "never" || c.Reason != "because" || !c.Past.ApprovedAt.IsZero() {
		t.Errorf("card %+v", c)
	}
	if len(c.Offers) != 2 || c.Offers[0].Scope != "use" || !strings.Contains(c.Offers[1].Gives, "reads and writes alike") || !strings.Contains(c.Offers[1].Gives, up.URL+"/**") {
		t.Errorf("a yes to a read gives the rule's writes too, and the card does not say so: %+v", c.Offers)
	}
	r.yes(c, "use")
	<-first
	second, c := ask("/2", "POST", "")
	if c.Origin.Program != api.ProgramKnown || c.Reason != "" || c.Past.ApprovedAt.IsZero() || !slices.Equal(c.Past.Diff, []string{"- GET " + up.URL + "/1", "+ POST " + up.URL + "/2"}) {
		t.Errorf("after a yes: %+v %+v", c.Origin, c.Past)
	}
	op[struct{}](r, r.opApprovalDeny, api.IDArgs{ID: c.ID})
	<-second
	third, c := ask("/1", "GET", "")
	if len(c.Past.Denied) != 1 || !strings.Contains(c.Past.Denied[0], "POST "+up.URL+"/2") || len(c.Past.Diff) != 0 {
		t.Errorf("after a no: %+v", c.Past)
	}
	r.yes(c, "run")
	<-third
	r.stop()
	// What was approved is known after a restart too.
	again := newRig(t, r.dir)
	again.unlock()
	a = again.agent()
	a.send("call", call0(up.URL+"/1", "GET"))
	if c := again.card(); c.Origin.Program != api.ProgramKnown || c.Past.ApprovedAt.IsZero() {
		t.Errorf("after a restart: %+v %+v", c.Origin, c.Past)
	}
}

// I17: the agent's reason is text and no more, however long.
func TestI17Reason(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	q := call0(up.URL+"/1", "GET")
	q.Reason = "\x1b[2J\u202eapproved\r\n" + strings.Repeat("\x1b[31m\u2066x", 1<<20)
	ch := a.send("call", q)
	c := r.card()
	if len(c.Reason) > reasonLimit+16 || strings.ContainsFunc(c.Reason, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
		t.Fatalf("%d bytes: %.200q", len(c.Reason), c.Reason)
	}
	r.yes(c, "use")
	if got := code(<-ch); got != "confirmed" {
		t.Fatal(got)
	}
}

// FuzzCard: whatever the agent sends, the card's texts are inert, and its bytes are what a client computes from its JSON.
func FuzzCard(f *testing.F) {
	f.Add("/x", "\x1b[2J\u202e", "because\n")
	f.Add("/\u2028", strings.Repeat("\r\n", 99), "\xff\xfe")
	r := &Gateway{cfg: Config{ApprovalLife: time.Minute}, past: newPast()}
	run := newRun(owner{facts: peer.Facts{Exe: "/bin/\x1bagent", Args: []string{"\u202e"}}}, time.Now())
	who := caller{run: run, epoch: &epoch{id: "ep_1", run: run}}
	f.Fuzz(func(t *testing.T, path, body, reason string) {
		q := parse(api.ActionRequest{Tool: api.ToolHTTP, Reason: reason, Args: encode(map[string]string{"url": "https://a.example" + strings.ToValidUTF8(path, ""), "method": "POST", "body": strings.ToValidUTF8(body, "")})})
		if q.fault != nil {
			return
		}
		p := &plan{parsed: q, summary: shownHTTP(q.http), authz: authz.Request{Tool: q.tool, Credential: "up", Digest: "sha256:00"}}
		c, err := r.newCard(who, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.bytes) > 1<<20 {
			t.Fatalf("%d bytes", len(c.bytes))
		}
		for _, s := range append([]string{c.shown.Reason, c.shown.Agent.Command}, strings.Split(c.shown.Summary, "\n")...) {
			if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
				t.Fatalf("%q", s)
			}
		}
		var told api.Approval
		if err := json.Unmarshal(encode(c.shown), &told, json.RejectUnknownMembers(true)); err != nil {
			t.Fatal(err)
		}
		if b, err := told.Bytes(); err != nil || api.DigestOf(b) != c.shown.CardDigest {
			t.Fatalf("a client computes another digest: %v", err)
		}
	})
}

// I16, I31: an approval or a grant that is over by either clock is not used, wherever the call stands then.
func TestI16OverBeforeUse(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	a := r.agent()
	ch := a.send("call", call0(up.URL+"/1", "POST"))
	r.yes(r.card(), "run")
	<-ch
	run := r.book.all()[0]
	who := caller{run.epochs[0].proc, run, run.epochs[0]}
	p := bind(parse(call0(up.URL+"/2", "POST")), r.targets())
	p.run = run.id
	wall, slept := now(), now()
	wall.Boot, slept.Wall = 0, time.Time{}
	for name, over := range map[string]authz.Instant{"wall": wall, "boot": slept} {
		for _, each := range []bool{false, true} {
			p.authz.Confirm = authz.ConfirmNever
			if each {
				p.authz.Confirm = authz.ConfirmClick
			}
			c := &call{id: newID("act_"), epoch: who.epoch, left: make(chan struct{})}
			c.ctx, c.cancel = context.WithCancel(t.Context())
			c.dial, c.cancelDial = context.WithCancel(c.ctx)
			c.card = &card{shown: api.Approval{ID: "ap_x", AgentRun: run.id, ExecutionEpoch: who.epoch.id, Digest: p.authz.Digest}, plan: p, epoch: who.epoch, ends: after(now(), time.Minute)}
			if d, _ := r.reserve(who, p, c); d.Verdict != authz.Allow {
				t.Fatalf("%s: not allowed: %+v", name, d)
			}
			run.mu.Lock()
			was := run.grants[0].Ends
			if each {
				c.card.ends = over
			} else {
				run.grants[0].Ends = over
			}
			run.mu.Unlock()
			if d := r.enter(who, p, c); d.Verdict == authz.Allow {
				t.Errorf("%s clock, approval %v: entered after the end", name, each)
			}
			run.mu.Lock()
			run.grants[0].Ends = was
			run.mu.Unlock()
			r.leave(run, c)
		}
	}
	// A card whose time ended while the machine slept is not answered any more.
	second := a.send("call", api.ActionRequest{Tool: api.ToolHTTP, Args: call0(up.URL+"/3", "POST").Args})
	if got := code(<-second); got != "confirmed" {
		t.Fatal(got)
	}
	r.addBearer("other", "GET "+up.URL+"/**")
	a.send("call", call0(up.URL+"/4", "GET"))
	shown := r.card()
	r.cards.mu.Lock()
	r.cards.open[shown.ID].ends.Boot = boot() - 1
	r.cards.mu.Unlock()
	_, err := r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.ApproveArgs{ID: shown.ID, CardDigest: shown.CardDigest, Scope: "run"})})
	sure(t, err, "not_found", "time is over")
}

// I18: 500 first calls from one process make one card; what waits behind it is one line, which can be silenced.
func TestI18ManyFirstCalls(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	var answers []<-chan api.Response
	for range 5 {
		a := r.agent()
		for i := range 100 {
			answers = append(answers, a.send("call", call0(fmt.Sprintf("%s/%d", up.URL, i), "GET")))
		}
	}
	table := func() api.Table { return op[api.Table](r, r.opApprovalTable, struct{}{}) }
	until(t, "500 asks are told of", func() bool {
		x := table()
		return len(x.Cards) == 1 && len(x.More) == 1 && x.More[0].Waiting == 32 && x.More[0].Refused == 467
	})
	key := table().More[0].Key
	if c := op[api.Chain](r, r.opApprovalMute, api.MuteArgs{Key: key}); !c.Muted || c.Waiting != 32 {
		t.Fatalf("muted %+v", c)
	}
	got := map[string]int{}
	r.yes(table().Cards[0], "use") // the card that was shown stays
	for _, ch := range answers {
		got[code(<-ch)]++
	}
	if got["confirmed"] != 1 || got["approval_denied"] != 32 || got["rate_limited"] != 467 {
		t.Fatalf("%v", got)
	}
	a := r.agent()
	res := a.ask("call", call0(up.URL+"/again", "GET"))
	if code(res) != "approval_denied" || !strings.Contains(res.Error.Reason, "muted") {
		t.Fatalf("a muted session asks: %s", code(res))
	}
	if x := table(); len(x.Cards) != 0 || len(x.More) != 1 || !x.More[0].Muted {
		t.Fatalf("table %+v", x)
	}
	op[api.Chain](r, r.opApprovalUnmute, api.MuteArgs{Key: key})
	ch := a.send("call", call0(up.URL+"/again", "GET"))
	r.yes(r.card(), "run")
	if code(<-ch) != "confirmed" || len(table().More) != 0 {
		t.Fatal("unmuted, and not as before")
	}
	_, err := r.opApprovalMute(opRequest{ctx: t.Context(), args: encode(api.MuteArgs{Key: "session-0"})})
	sure(t, err, "not_found", "no session")
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if count(evs, "approvals_muted") != 1 || count(evs, "approvals_unmuted") != 1 || count(evs, "approval_requested") != 2 {
		t.Fatalf("log: %v", kinds(evs))
	}
}

// With room for more cards of one epoch, a yes that covers the others answers them too.
func TestOneYesCoversMoreCards(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	if _, refused := r.apply("[settings.budgets]\nepoch = 3\nsession = 3\n", false); refused != "" {
		t.Fatal(refused)
	}
	a := r.agent()
	var answers []<-chan api.Response
	for i := range 3 {
		answers = append(answers, a.send("call", call0(fmt.Sprintf("%s/%d", up.URL, i), "GET")))
	}
	until(t, "three cards", func() bool { return len(r.cards.list()) == 3 })
	r.yes(r.cards.list()[1], "run")
	for _, ch := range answers {
		if got := code(<-ch); got != "confirmed" {
			t.Errorf("got %s", got)
		}
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	covered := 0
	for _, e := range evs {
		if x, ok := e.(event.ApprovalExpired); ok && x.Reason == "covered" {
			covered++
		}
	}
	if covered != 2 || count(evs, "grant_issued") != 1 {
		t.Fatalf("%d covered: %v", covered, kinds(evs))
	}
}

// Budgets and on_artifact_change are sealed settings, held to their bounds.
func TestApplyCardSettings(t *testing.T) {
	r := newRig(t, "")
	r.init()
	got, _ := r.apply("[settings]\non_artifact_change = \"suspend\"\nbudgets = { installation = 12 }\n", false)
	if len(got) != 2 || got[0].Old != "{ epoch = 1, session = 2, installation = 8, queue = 32 }" || got[0].New != "{ epoch = 1, session = 2, installation = 12, queue = 32 }" || !r.suspends.Load() {
		t.Fatalf("%+v", got)
	}
	for _, bad := range []string{"budgets = { epoch = 0 }", "budgets = { epoch = 3 }", "budgets = { installation = 65 }", "budgets = { queue = -1 }",
		"budgets = { cards = 1 }", "on_artifact_change = \"ask\""} {
		if _, refused := r.apply("[settings]\n"+bad+"\n", false); refused != "invalid_request" {
			t.Errorf("%s: %q", bad, refused)
		}
	}
	r.stop()
	again := newRig(t, r.dir)
	again.unlock()
	again.cards.mu.Lock()
	defer again.cards.mu.Unlock()
	if again.cards.limits.Installation != 12 || !again.suspends.Load() {
		t.Fatalf("after a restart: %+v", again.cards.limits)
	}
}

// A credential that wants a passkey is refused with the reason, and no card is laid for it.
func TestPasskeyWanted(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	ch := a.send("call", call0(up.URL+"/1", "GET"))
	r.yes(r.card(), "use")
	<-ch
	run := r.book.all()[0]
	who := caller{run.epochs[0].proc, run, run.epochs[0]}
	p := bind(parse(call0(up.URL+"/2", "GET")), r.targets())
	p.authz.Confirm = authz.ConfirmPasskey
	_, refused := r.ask(t.Context(), who, p, func() authz.Decision { return authz.Decision{Verdict: authz.Ask} })
	sure(t, refused, "not_authorized", "passkey")
	c, err := r.newCard(who, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.cards.lay(c)
	for _, who := range []string{"passphrase", "sitting"} {
		_, err = r.takeCard(opRequest{who: who}, api.ApproveArgs{ID: c.shown.ID, CardDigest: c.shown.CardDigest, Scope: "use"})
		sure(t, err, "proof_required", "a "+who+" is none")
	}
}

// A weak agent reads, each time asked; it writes only where that was accepted on its card.
func TestWeakAgent(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	a := r.agent()
	ch := a.send("call", call0(up.URL+"/0", "GET"))
	r.yes(r.card(), "use")
	<-ch
	run := r.book.all()[0]
	e := run.epochs[0]
	run.mu.Lock()
	e.facts.Identity, e.facts.Weak = peer.Weak, []string{peer.WeakTraced}
	run.mu.Unlock()
	p := func(path, method string) *plan { return bind(parse(call0(up.URL+path, method)), r.targets()) }
	read, write := offers(r.targets(), p("/1", "GET"), true), offers(r.targets(), p("/1", "POST"), true)
	if len(read) != 3 || read[0].Accept != "" || !strings.Contains(read[1].Gives, "reads only") || read[2].Accept == "" {
		t.Errorf("a read: %+v", read)
	}
	if len(write) != 2 || write[0].Accept == "" || write[1].Accept == "" {
		t.Errorf("a write: %+v", write)
	}
	ch = a.send("call", call0(up.URL+"/1", "POST"))
	c := r.card()
	if len(c.Origin.Weak) != 1 {
		t.Errorf("origin %+v", c.Origin)
	}
	args := api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"}
	_, err := r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(args)})
	sure(t, err, "invalid_request", "acceptWeak")
	args.AcceptWeak = true
	if g := op[api.Grant](r, r.opApprovalGrant, args); !g.AcceptedWeak {
		t.Errorf("grant %+v", g)
	}
	if got := code(<-ch); got != "confirmed" {
		t.Fatal(got)
	}
	run.mu.Lock()
	e.facts.Identity, e.facts.Weak = peer.Strong, nil
	run.mu.Unlock()
	r.addBearer("other", "PUT "+up.URL+"/**")
	a.send("call", call0(up.URL+"/2", "PUT"))
	c = r.card()
	_, err = r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run", AcceptWeak: true})})
	sure(t, err, "invalid_request", "not weak")
}

// I33: what anybody may take away without a proof is counted, and told from the fifth in a minute on.
func TestI33Banner(t *testing.T) {
	var u unproved
	for i := range 4 {
		u.note(time.Duration(i) * time.Second)
	}
	if n := u.alarm(5 * time.Second); n != 0 {
		t.Fatalf("%d after four", n)
	}
	u.note(4 * time.Second)
	if n := u.alarm(5 * time.Second); n != 5 {
		t.Fatalf("%d after five", n)
	}
	if n := u.alarm(61 * time.Second); n != 0 {
		t.Fatalf("%d a minute later", n)
	}
	for range 3 * unprovedKept {
		u.note(time.Hour)
	}
	if n := u.alarm(time.Hour); n != unprovedKept || len(u.at) > unprovedKept {
		t.Fatalf("%d kept", n)
	}
	for _, route := range api.Routes {
		if route.Proof && takesAway(route.Path) {
			t.Errorf("%s wants a proof and counts as unproved", route.Path)
		}
	}
}
