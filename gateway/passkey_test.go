package gateway

import (
	"slices"
	"strings"
	"testing"

	"github.com/descope/virtualwebauthn"
	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

func withConsole(c *Config) { c.Console = ConsoleRequired }

// device is an authenticator that nobody here wrote, with one passkey, and the browser before it.
type device struct {
	t    *testing.T
	r    *rig
	rp   virtualwebauthn.RelyingParty
	auth virtualwebauthn.Authenticator
	cred virtualwebauthn.Credential
}

// ask sends one request through its route's proof, as the door would.
func (r *rig) ask1(path string, args any, p *api.Proof) (any, error) {
	i := slices.IndexFunc(api.Routes, func(x api.Route) bool { return x.Path == path })
	q := opRequest{ctx: r.t.Context(), args: encode(args), proof: p, who: unprovedWho}
	if err := r.prove(api.Routes[i], &q); err != nil {
		return nil, err
	}
	return r.handlers()[path](q)
}

func must[T any](t testing.TB, v any, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v.(T)
}

func byPassphrase() *api.Proof { return &api.Proof{Kind: "passphrase", Value: testPassphrase} }

// ticket begins an enrolment by the passphrase.
func (r *rig) ticket(name string) string {
	r.t.Helper()
	out, err := r.ask1(api.PathPasskeyAdd, api.PasskeyArgs{Name: name}, byPassphrase())
	e := must[api.Enrolment](r.t, out, err)
	if e.URL != r.consoleURL()+"passkey#"+e.Ticket || len(e.Ticket) != 43 {
		r.t.Errorf("%+v", e)
	}
	return e.Ticket
}

// registered is what the device answers to an opened ticket.
func (d *device) registered(ticket string) (a api.EnrolArgs, err error) {
	out, err := d.r.ask1(api.PathPasskeyOpen, api.TicketArgs{Ticket: ticket}, nil)
	if err != nil {
		return a, err
	}
	asked, err := virtualwebauthn.ParseAttestationOptions(string(out.(api.Creation).Options))
	if err != nil {
		d.t.Fatal(err)
	}
	d.auth = virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: []byte(asked.UserID)})
	d.cred = newPasskey()
	var made struct {
		ID       string           `json:"id"`
		Response api.Registration `json:"response"`
	}
	if err := json.Unmarshal([]byte(virtualwebauthn.CreateAttestationResponse(d.rp, d.auth, d.cred, *asked)), &made); err != nil {
		d.t.Fatal(err)
	}
	made.Response.CredentialID = made.ID
	return api.EnrolArgs{Ticket: ticket, Registration: made.Response}, nil
}

func newDevice(t *testing.T, r *rig) *device {
	return &device{t: t, r: r, rp: virtualwebauthn.RelyingParty{Name: "Sallyport", ID: api.RPID, Origin: r.consoleOrigin()}}
}

// newPasskey is a new P-256 passkey. The library writes coordinates without their leading zeros, which no authenticator does
// (RFC 9053, 7.1.1): about one key in 128 is not taken, and is drawn anew.
func newPasskey() virtualwebauthn.Credential {
	const whole = 77 // bytes of a COSE key with both coordinates in full
	for {
		if c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2); len(c.Key.AttestationData()) == whole {
			return c
		}
	}
}

// at moves the device before another gateway's console, which has another port.
func (d *device) at(r *rig) { d.r, d.rp.Origin = r, r.consoleOrigin() }

// enrol makes a device with a passkey of that name.
func (r *rig) enrol(t *testing.T, name string) (*device, api.Passkey) {
	t.Helper()
	d := newDevice(t, r)
	a, err := d.registered(r.ticket(name))
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.ask1(api.PathPasskeyEnrol, a, nil)
	return d, must[api.Passkey](t, out, err)
}

// sign is the device's answer for a request; spoil changes the device before.
func (d *device) sign(path string, args any, spoil func(*device)) *api.Proof {
	d.t.Helper()
	challenge, err := api.Challenge(path, encode(args))
	if err != nil {
		d.t.Fatal(err)
	}
	x := *d
	if spoil != nil {
		spoil(&x)
	}
	var got struct {
		ID       string        `json:"id"`
		Response api.Assertion `json:"response"`
	}
	answer := virtualwebauthn.CreateAssertionResponse(x.rp, x.auth, x.cred, virtualwebauthn.AssertionOptions{Challenge: challenge[:], RelyingPartyID: api.RPID})
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		d.t.Fatal(err)
	}
	got.Response.CredentialID = got.ID
	return &api.Proof{Kind: passkeyProof, Value: string(encode(got.Response))}
}

// fresh is args with a nonce of now.
func (r *rig) fresh(args any) map[string]any {
	r.t.Helper()
	out, err := r.ask1(api.PathProofChallenge, struct{}{}, nil)
	f := must[api.Fresh](r.t, out, err)
	all := map[string]any{"nonce": f.Nonce}
	if err := json.Unmarshal(encode(args), &all); err != nil {
		r.t.Fatal(err)
	}
	return all
}

func yesTo(c api.Approval) api.ApproveArgs {
	return api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "use"}
}

// wantsPasskey stores a credential that wants a passkey for each use.
func (r *rig) wantsPasskey(name string, rules ...string) {
	r.t.Helper()
	r.addBearer(name, rules...)
	if _, err := r.rebind(name, func(a *api.RebindArgs) { a.Confirm = "passkey" }); err != nil {
		r.t.Fatal(err)
	}
}

// A credential that wants a passkey is answered by one and by nothing else, each time; what was signed is in the log, and
// verifies there without the vault.
func TestPasskeyApproves(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "", withConsole)
	r.init()
	r.wantsPasskey("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	if got := code(<-a.send("call", call0(up.URL+"/0", "GET"))); got != "not_authorized" {
		t.Fatalf("without any passkey: %s", got)
	}
	d, key := r.enrol(t, "laptop")
	if key.Algorithm != "ES256" || key.AddedBy != "passphrase" || key.Name != "laptop" || !strings.HasPrefix(key.ID, "pk_") {
		t.Errorf("%+v", key)
	}
	p := me(t)
	s := r.sit(p)
	var last *api.Proof
	for i, scope := range []string{"run", "use"} {
		ch := a.send("call", call0(up.URL+"/1", "GET"))
		c := r.card()
		yes := api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: scope}
		_, err := r.ask1(api.PathApprovalGrant, yes, byPassphrase())
		sure(t, err, "proof_required", "a passphrase is none")
		_, err = r.opApprovalGrant(opRequest{ctx: t.Context(), who: sittingProof, sitting: s.ID, proc: p, args: encode(yes)})
		sure(t, err, "proof_required", "a sitting is none")
		for name, x := range map[string]struct {
			proof *api.Proof
			why   string
		}{
			"not verified":       {d.sign(api.PathApprovalGrant, yes, func(d *device) { d.auth.Options.UserNotVerified = true }), "who was there"},
			"nobody there":       {d.sign(api.PathApprovalGrant, yes, func(d *device) { d.auth.Options.UserNotPresent = true }), "who was there"},
			"another origin":     {d.sign(api.PathApprovalGrant, yes, func(d *device) { d.rp.Origin = "http://localhost:1" }), "origin"},
			"another party":      {d.sign(api.PathApprovalGrant, yes, func(d *device) { d.rp.ID = "evil.example" }), ""},
			"a key of its own":   {d.sign(api.PathApprovalGrant, yes, func(d *device) { d.cred = newPasskey() }), "not enrolled"},
			"another verb":       {d.sign(api.PathApprovalDeny, yes, nil), "challenge"},
			"another scope":      {d.sign(api.PathApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "other"}, nil), "challenge"},
			"of the card before": {last, ""},
		} {
			if x.proof == nil {
				continue
			}
			_, err := r.ask1(api.PathApprovalGrant, yes, x.proof)
			if e := refusalOf(err); err == nil || e.Code != "proof_wrong" || !strings.Contains(e.Reason, x.why) {
				t.Errorf("%s: %v", name, err)
			}
		}
		proof := d.sign(api.PathApprovalGrant, yes, nil)
		out, err := r.ask1(api.PathApprovalGrant, yes, proof)
		if g := must[api.Grant](t, out, err); g.Operator != "passkey:"+key.ID {
			t.Errorf("%+v", g)
		}
		if got := code(<-ch); got != "confirmed" {
			t.Fatalf("call %d: %s", i, got)
		}
		_, err = r.ask1(api.PathApprovalGrant, yes, proof)
		sure(t, err, "not_found", "")
		last = proof
	}
	if n := len(up.paths()); n != 2 {
		t.Errorf("%d calls arrived", n)
	}
	r.stop()
	signed := 0
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) { // which checks every signature
		if e, ok := e.(event.ApprovalGranted); ok && e.Proof == "passkey" && len(e.Assertion.Signature) > 0 {
			signed++
		}
	}
	if signed != 2 {
		t.Errorf("%d signed approvals in the log", signed)
	}
}

// For what answers no card a request must hold a nonce, which proves one request, and none after a restart.
func TestPasskeySignsOtherRequests(t *testing.T) {
	r := newRig(t, "", withConsole)
	r.init()
	r.addBearer("ledger", "GET https://ledger.example/**")
	d, key := r.enrol(t, "laptop")
	gone := api.NameArgs{Name: "ledger"}
	_, err := r.ask1(api.PathCredentialRemove, gone, d.sign(api.PathCredentialRemove, gone, nil))
	sure(t, err, "proof_required", "nonce")
	made := map[string]any{"name": "ledger", "nonce": "AAAAAAAAAAAAAAAAAAAAAA"}
	_, err = r.ask1(api.PathCredentialRemove, made, d.sign(api.PathCredentialRemove, made, nil))
	sure(t, err, "proof_wrong", "over")
	args := r.fresh(gone)
	other := r.fresh(api.NameArgs{Name: "other"})
	_, err = r.ask1(api.PathCredentialRemove, args, d.sign(api.PathCredentialRemove, other, nil)) // I13
	sure(t, err, "proof_wrong", "challenge")
	proof := d.sign(api.PathCredentialRemove, args, nil)
	if _, err := r.ask1(api.PathCredentialRemove, args, proof); err != nil {
		t.Fatal(err)
	}
	r.addBearer("ledger", "GET https://ledger.example/**")
	_, err = r.ask1(api.PathCredentialRemove, args, proof) // I14, replayed
	sure(t, err, "proof_wrong", "over")
	args = r.fresh(gone)
	proof = d.sign(api.PathCredentialRemove, args, nil)
	r.stop()
	again := newRig(t, r.dir, withConsole)
	_, err = again.ask1(api.PathCredentialRemove, args, proof)
	sure(t, err, "vault_locked", "")
	again.unlock()
	_, err = again.ask1(api.PathCredentialRemove, args, proof)
	sure(t, err, "proof_wrong", "origin")
	d.at(again)
	_, err = again.ask1(api.PathCredentialRemove, args, d.sign(api.PathCredentialRemove, args, nil))
	sure(t, err, "proof_wrong", "over")
	_, err = again.ask1(api.PathPasskeyAdd, again.fresh(api.PasskeyArgs{Name: "phone"}), nil)
	sure(t, err, "proof_required", "")
	args = again.fresh(api.PasskeyArgs{Name: "phone"})
	second, err := again.ask1(api.PathPasskeyAdd, args, d.sign(api.PathPasskeyAdd, args, nil))
	phone := newDevice(t, again)
	made2, err := phone.registered(must[api.Enrolment](t, second, err).Ticket)
	if err != nil {
		t.Fatal(err)
	}
	out, err := again.ask1(api.PathPasskeyEnrol, made2, nil)
	if k := must[api.Passkey](t, out, err); k.AddedBy != "passkey:"+key.ID {
		t.Errorf("%+v", k)
	}
	again.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}

// What opens a slot of the vault never takes a passkey.
func TestSlotsTakeNoPasskey(t *testing.T) {
	r := newRig(t, "", withConsole)
	r.init()
	d, _ := r.enrol(t, "laptop")
	for _, path := range []string{api.PathInit, api.PathUnlock, api.PathRelease, api.PathPassphrase, api.PathSlotAdd, api.PathSlotRemove, api.PathRekey, api.PathRestore} {
		args := r.fresh(struct{}{})
		if out, err := r.ask1(path, args, d.sign(path, args, nil)); err == nil {
			t.Errorf("%s: %v", path, out)
		}
	}
	op[api.Status](r, r.opLock, struct{}{})
	for _, args := range []any{struct{}{}, map[string]any{"nonce": "AAAAAAAAAAAAAAAAAAAAAA"}} {
		if _, err := r.ask1(api.PathUnlock, args, d.sign(api.PathUnlock, args, nil)); err == nil || r.open.Load() {
			t.Fatal("a passkey opened the vault")
		}
	}
}

// A link opens one page once; what it makes is a passkey only while the vault stays open.
func TestEnrolmentTicket(t *testing.T) {
	r := newRig(t, "", withConsole)
	r.init()
	_, err := r.ask1(api.PathPasskeyAdd, api.PasskeyArgs{Name: "laptop"}, nil)
	sure(t, err, "proof_required", "")
	for _, name := range []string{" x", "a\nb", strings.Repeat("x", 65), "\u202e"} {
		_, err := r.ask1(api.PathPasskeyAdd, api.PasskeyArgs{Name: name}, byPassphrase())
		sure(t, err, "invalid_request", "name")
	}
	d := newDevice(t, r)
	for _, ticket := range []string{"", "x", strings.Repeat("A", 43)} {
		_, err = d.registered(ticket)
		sure(t, err, "not_found", "")
	}
	ticket := r.ticket("laptop")
	a, err := d.registered(ticket)
	if err != nil {
		t.Fatal(err)
	}
	_, err = newDevice(t, r).registered(ticket)
	sure(t, err, "not_found", "opened before")
	unopened := r.ticket("phone")
	b := a
	b.Ticket = unopened
	_, err = r.ask1(api.PathPasskeyEnrol, b, nil)
	sure(t, err, "not_found", "")
	stale := r.ticket("third")
	if _, err := d.registered(stale); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ask1(api.PathPasskeyEnrol, a, nil); err != nil {
		t.Fatal(err)
	}
	_, err = r.ask1(api.PathPasskeyEnrol, a, nil)
	sure(t, err, "not_found", "over")
	a.Ticket = stale
	_, err = r.ask1(api.PathPasskeyEnrol, a, nil) // answers another challenge
	sure(t, err, "proof_wrong", "challenge")
	for range enrolmentLimit - 1 {
		r.ticket("more")
	}
	_, err = r.ask1(api.PathPasskeyAdd, api.PasskeyArgs{Name: "one too many"}, byPassphrase())
	sure(t, err, "rate_limited", "")
	op[api.Status](r, r.opLock, struct{}{})
	r.unlock()
	_, err = d.registered(unopened)
	sure(t, err, "not_found", "")
	_, err = r.ask1(api.PathPasskeyAdd, api.PasskeyArgs{Name: "laptop"}, byPassphrase())
	sure(t, err, "exists", "")
	without := newRig(t, "")
	without.init()
	_, err = without.ask1(api.PathPasskeyAdd, api.PasskeyArgs{Name: "laptop"}, byPassphrase())
	sure(t, err, "invalid_request", "no console")
}

// Counters are kept, also over a restart: a copy that lags behind is refused, and recorded. A removed passkey signs nothing
// more, and the sittings it opened end.
func TestPasskeyCounterAndEnd(t *testing.T) {
	r := newRig(t, "", withConsole)
	r.init()
	reader := r.created.ReaderIdentity
	d, key := r.enrol(t, "laptop")
	use := func(counter uint32) error {
		args := d.r.fresh(api.NameArgs{Name: "none"})
		_, err := d.r.ask1(api.PathCredentialRemove, args, d.sign(api.PathCredentialRemove, args, func(d *device) { d.cred.Counter = counter }))
		return err
	}
	sure(t, use(7), "not_found", "")
	sure(t, use(7), "proof_wrong", "counter")
	r.stop()
	r = newRig(t, r.dir, withConsole)
	d.at(r)
	r.unlock()
	sure(t, use(6), "proof_wrong", "counter")
	sure(t, use(8), "not_found", "")
	p := me(t)
	s, err := r.openSitting(opRequest{ctx: t.Context(), who: passkeyProof + ":" + key.ID, proc: p})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.ask1(api.PathPasskeyRemove, api.IDArgs{ID: "pk_none"}, byPassphrase())
	sure(t, err, "not_found", "")
	if _, err := r.ask1(api.PathPasskeyRemove, api.IDArgs{ID: key.ID}, byPassphrase()); err != nil {
		t.Fatal(err)
	}
	if r.sittings.stands(s.ID) {
		t.Error("the sitting of a removed passkey stands")
	}
	sure(t, use(9), "proof_wrong", "not enrolled")
	if l := op[[]api.Passkey](r, r.opPasskeyList, struct{}{}); len(l) != 0 {
		t.Errorf("%+v", l)
	}
	r.stop()
	refused, evs := 0, events(t, r.dir, reader)
	for _, e := range evs {
		if e, ok := e.(event.OperatorRefused); ok && strings.Contains(e.Reason, key.ID) {
			refused++
		}
	}
	if refused != 2 || count(evs, "passkey_added") != 1 || count(evs, "passkey_removed") != 1 {
		t.Errorf("%d refusals of a copy in the log", refused)
	}
}

// A backup brings back a passkey that was removed since, or comes to a machine whose log never heard of it: the log is
// told, so that what it signs verifies there.
func TestRestoreTellsPasskeys(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "", withConsole)
	r.init()
	r.wantsPasskey("ledger", "GET "+up.URL+"/**")
	d, key := r.enrol(t, "laptop")
	b := r.backup()
	if _, err := r.ask1(api.PathPasskeyRemove, api.IDArgs{ID: key.ID}, byPassphrase()); err != nil {
		t.Fatal(err)
	}
	reader := r.created.ReaderIdentity
	approve := func(r *rig) {
		t.Helper()
		d.at(r)
		ch := r.agent().send("call", call0(up.URL+"/1", "GET"))
		yes := yesTo(r.card())
		if _, err := r.ask1(api.PathApprovalGrant, yes, d.sign(api.PathApprovalGrant, yes, nil)); err != nil {
			t.Fatal(err)
		}
		if got := code(<-ch); got != "confirmed" {
			t.Fatal(got)
		}
	}
	r.restore(restored(t, b, "passphrase", testPassphrase))
	r.unlock()
	approve(r)
	r.stop()
	if n := count(events(t, r.dir, reader), "passkey_added"); n != 2 {
		t.Errorf("told %d times", n)
	}
	other := newRig(t, "", withConsole)
	other.restore(restored(t, b, "passphrase", testPassphrase))
	other.unlock()
	approve(other)
	op[api.Status](other, other.opLock, struct{}{})
	other.unlock()
	other.stop()
	if n := count(events(t, other.dir, reader), "passkey_added"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// A passkey that was removed leaves nothing behind that it had begun: no enrolment, no sitting.
func TestRemovedPasskeyBeginsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", withConsole)
	r.init()
	d, lost := r.enrol(t, "lost")
	args := r.fresh(api.PasskeyArgs{Name: "theirs"})
	out, err := r.ask1(api.PathPasskeyAdd, args, d.sign(api.PathPasskeyAdd, args, nil))
	begun, err2 := newDevice(t, r).registered(must[api.Enrolment](t, out, err).Ticket)
	if err2 != nil {
		t.Fatal(err2)
	}
	if _, err := r.ask1(api.PathPasskeyRemove, api.IDArgs{ID: lost.ID}, byPassphrase()); err != nil {
		t.Fatal(err)
	}
	_, err = r.ask1(api.PathPasskeyEnrol, begun, nil)
	sure(t, err, "operator_refused", "removed")
	// Its proof was checked before it was removed, and the sitting is opened after.
	own := &tab{id: "tab_1", gone: make(chan struct{})}
	if s, err := r.openSitting(opRequest{ctx: t.Context(), who: passkeyProof + ":" + lost.ID, tab: own}); err == nil {
		t.Errorf("a removed passkey opened %+v", s)
	}
	if s, err := r.openSitting(opRequest{ctx: t.Context(), who: "passphrase", tab: own}); err != nil {
		t.Errorf("by the passphrase: %+v, %v", s, err)
	}
}
