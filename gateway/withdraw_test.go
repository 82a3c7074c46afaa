package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// valueOf is a value as a request of the operators' door carries it.
func valueOf(ctx context.Context, value string, args func(length int, digest []byte) any) opRequest {
	salt := []byte("0123456789abcdef")
	sum := sha256.Sum256(append(salt[:16:16], value...))
	return opRequest{ctx: ctx, who: "passphrase", salt: salt, value: []byte(value), args: encode(args(len(value), sum[:]))}
}

// rotate gives a credential another value.
func (r *rig) rotate(name, value string) (api.Altered, error) {
	out, err := r.opCredentialRotate(valueOf(context.Background(), value, func(n int, digest []byte) any {
		return api.RotateArgs{Name: name, ValueLength: n, ValueDigest: digest}
	}))
	if err != nil {
		return api.Altered{}, err
	}
	return out.(api.Altered), nil
}

// rebind changes what it is given of a credential.
func (r *rig) rebind(name string, change func(*api.RebindArgs)) (api.Altered, error) {
	r.t.Helper()
	c := op[api.CredentialShown](r, r.opCredentialShow, api.NameArgs{Name: name})
	a := api.RebindArgs{Name: name, Version: c.Version, Account: c.Account, Confirm: c.Confirm, Principal: c.Principal, Rules: c.Settings}
	change(&a)
	out, err := r.opCredentialRebind(opRequest{ctx: r.t.Context(), who: "passphrase", args: encode(a)})
	if err != nil {
		return api.Altered{}, err
	}
	return out.(api.Altered), nil
}

func TestRotate(t *testing.T) {
	var mu sync.Mutex
	ports := map[string]string{} // path -> the client's port
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		ports[q.URL.Path] = q.RemoteAddr
		mu.Unlock()
	})
	r := newRig(t, "")
	r.init()
	was := r.addBearer("ledger", "POST "+up.URL+"/**")
	r.addBearer("other", "POST "+up.URL+"/other/**")
	if _, err := r.rebind("ledger", func(a *api.RebindArgs) { a.Rules.Allow = []string{"POST " + up.URL + "/*"} }); err != nil {
		t.Fatal(err)
	}
	a := r.agent()
	approved := func(path string) api.Approval {
		t.Helper()
		ch := a.send("call", call0(up.URL+path, "POST"))
		c := r.card()
		op[api.Grant](r, r.opApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})
		if got := code(<-ch); got != "confirmed" {
			t.Fatalf("%s: %s", path, got)
		}
		return c
	}
	approved("/1")
	approved("/other/1")
	if got := code(a.ask("call", call0(up.URL+"/2", "POST"))); got != "confirmed" {
		t.Fatalf("inside the grant: %s", got)
	}
	const value = "tok-rotated-77aa0c1d"
	out, err := r.rotate("ledger", value)
	if err != nil {
		t.Fatal(err)
	}
	if out.Credential.Version <= was.Version || len(out.Grants) != 1 || len(out.Left) != 0 || len(out.Changes) != 0 {
		t.Errorf("rotated: %+v", out)
	}
	if l := op[[]api.Grant](r, r.opGrantList, struct{}{}); len(l) != 1 || l[0].CredentialScope[0] != "other" {
		t.Errorf("grants that are left: %+v", l)
	}
	approved("/3") // asks anew
	if got := up.credentials(); got[len(got)-1] != "Bearer "+value || got[0] != "Bearer "+testSecret {
		t.Errorf("upstream saw %q", got)
	}
	if ports["/3"] == ports["/2"] {
		t.Error("the new value went over the old one's connection")
	}
	if ports["/1"] != ports["/2"] {
		t.Error("a connection is not kept at all")
	}
	for name, tt := range map[string]struct{ of, value, code string }{
		"unknown":       {"nobody", value, "not_found"},
		"empty":         {"ledger", "", "invalid_request"},
		"too short":     {"ledger", "tiny", "invalid_request"},
		"a line break":  {"ledger", "tok-77aa0c1d\n", "invalid_request"},
		"over the size": {"ledger", strings.Repeat("x", 1<<20+1), "invalid_request"},
	} {
		if _, err := r.rotate(tt.of, tt.value); err == nil || refusalOf(err).Code != tt.code {
			t.Errorf("%s: %v", name, err)
		} else if tt.value != "" && strings.Contains(err.Error(), tt.value) {
			t.Errorf("%s: the error holds the value", name)
		}
	}
	if l := op[[]api.Grant](r, r.opGrantList, struct{}{}); len(l) != 2 {
		t.Errorf("a refused rotation ended grants: %+v", l)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	i := slices.IndexFunc(evs, func(e event.Event) bool { return event.Type(e) == "credential_rotated" })
	if i < 1 || evs[i].(event.CredentialRotated).Version != out.Credential.Version {
		t.Fatalf("log: %v", kinds(evs))
	}
	if x, ok := evs[i-1].(event.GrantRevoked); !ok || x.Reason != "credential_rotated" || x.Grant != out.Grants[0] {
		t.Errorf("before it: %+v", evs[i-1])
	}
}

// A card is for the version it was laid for: it dies with it, and so does the call that waits.
func TestRotatedUnderACard(t *testing.T) {
	up := newUpstream(t, nil)
	for name, change := range map[string]func(*rig) error{
		"rotate": func(r *rig) error { _, err := r.rotate("ledger", "tok-rotated-77aa0c1d"); return err },
		"rebind": func(r *rig) error {
			_, err := r.rebind("ledger", func(a *api.RebindArgs) { a.Confirm = "click" })
			return err
		},
		"remove": func(r *rig) error {
			_, err := r.opCredentialRemove(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.NameArgs{Name: "ledger"})})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "")
			r.init()
			r.addBearer("ledger", "POST "+up.URL+"/**")
			first := r.agent().send("call", call0(up.URL+"/1", "POST"))
			c := r.card()
			if err := change(r); err != nil {
				t.Fatal(err)
			}
			res := <-first
			if code(res) != "rule_mismatch" || !strings.Contains(res.Error.Reason, "changed") || res.Error.Next != api.NextLater {
				t.Errorf("the call: %+v", res)
			}
			_, err := r.opApprovalGrant(opRequest{ctx: t.Context(), who: "passphrase", args: encode(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"})})
			if err == nil || refusalOf(err).Code != "not_found" {
				t.Errorf("a yes afterwards: %v", err)
			}
			if len(up.paths()) != 0 {
				t.Errorf("upstream saw %v", up.paths())
			}
			r.stop()
			if n := count(events(t, r.dir, r.created.ReaderIdentity), "approval_expired"); n != 1 {
				t.Errorf("%d expired cards recorded", n)
			}
		})
	}
}

// What had left with the old value may end by itself for a second after a rotation, and for the grace after a rebinding.
func TestRotateInFlight(t *testing.T) {
	arrived, gone := make(chan struct{}, 8), make(chan struct{})
	release := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-q.Context().Done():
			close(gone)
		}
	})
	r := newRig(t, "", func(c *Config) { c.Grace = 3 * time.Second }) // the answer of the first must be in time
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	first := a.send("call", call0(up.URL+"/1", "POST"))
	<-arrived
	go func() { // once the rotation waits for it: dials are ended first
		for !r.dialsEnded() {
			time.Sleep(time.Millisecond)
		}
		release <- struct{}{}
	}()
	out, err := r.rotate("ledger", "tok-rotated-77aa0c1d")
	if err != nil || len(out.Left) != 1 || out.Left[0].Outcome != "confirmed" {
		t.Errorf("rotated: %+v %v", out, err)
	}
	if got := code(<-first); got != "confirmed" {
		t.Errorf("in flight at a rotation: %s", got)
	}
	second := a.send("call", call0(up.URL+"/2", "POST"))
	<-arrived
	out, err = r.rebind("ledger", func(a *api.RebindArgs) { a.Account = "bob" })
	if err != nil || len(out.Left) != 1 || out.Left[0].Outcome != "sent_unconfirmed" || len(out.Changes) != 1 || out.Changes[0] != (api.Change{Setting: "account", Old: "", New: `"bob"`}) {
		t.Errorf("rebound: %+v %v", out, err)
	}
	if got := code(<-second); got != "sent_unconfirmed" {
		t.Errorf("in flight at a rebinding: %s", got)
	}
	<-gone
	cancel()
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}

// dialsEnded tells whether something that ends calls has begun with one that is held.
func (r *rig) dialsEnded() bool {
	for _, x := range r.book.all() {
		x.mu.Lock()
		for _, c := range x.held {
			if c.dial.Err() != nil {
				x.mu.Unlock()
				return true
			}
		}
		x.mu.Unlock()
	}
	return false
}

// Callers flat out while the value is changed again and again: once rotate has returned, no request by an older value
// arrives but those that it listed.
func TestRotateStorm(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(t.Context(), "run") // to the end: a call whose card nobody answers waits for it
	var wait sync.WaitGroup
	agents := []*agent0{r.agent(), r.agent()}
	for i := range 8 {
		wait.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				res := agents[i%2].ask("call", call0(fmt.Sprintf("%s/%d/%d", up.URL, i, n), "POST"))
				if got := code(res); got == "internal" {
					t.Errorf("answer: %+v", res)
				}
			}
		})
	}
	type turn struct {
		arrivals int // when it had returned
		left     []string
	}
	value := func(n int) string { return fmt.Sprintf("tok-rotation-%06d", n) }
	var turns []turn
	for n := range long(10, 200) {
		before := len(up.paths())
		for len(up.paths()) < before+5 && ctx.Err() == nil { // some go through in between
			time.Sleep(time.Millisecond)
		}
		out, err := r.rotate("ledger", value(n))
		if err != nil {
			t.Fatal(err)
		}
		x := turn{arrivals: len(up.paths())}
		for _, l := range out.Left {
			x.left = append(x.left, l.ID)
		}
		turns = append(turns, x)
	}
	cancel()
	wait.Wait()
	seen := up.credentials()
	for n, x := range turns {
		late := 0
		for _, got := range seen[x.arrivals:] {
			if n == 0 && got == "Bearer "+testSecret || n > 0 && got == "Bearer "+value(n-1) {
				late++
			}
		}
		if late > len(x.left) {
			t.Errorf("rotation %d: %d requests by the old value arrived after it returned, it listed %d", n, late, len(x.left))
		}
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	if n := count(evs, "credential_rotated"); n != len(turns) {
		t.Errorf("%d of %d recorded", n, len(turns))
	}
}

// Each setting of a rule has one name, in what is typed, kept and shown.
func TestRebind(t *testing.T) {
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET https://api.example.com/**")
	for name, tt := range map[string]struct {
		change func(*api.RebindArgs)
		code   string
	}{
		"nothing":        {func(*api.RebindArgs) {}, "invalid_request"},
		"stale":          {func(a *api.RebindArgs) { a.Version++; a.Account = "x" }, "changed_meanwhile"},
		"no rules":       {func(a *api.RebindArgs) { a.Rules.Allow = nil }, "invalid_request"},
		"a bad rule":     {func(a *api.RebindArgs) { a.Rules.Allow = []string{"GET nowhere"} }, "invalid_request"},
		"other's field":  {func(a *api.RebindArgs) { a.Rules.Username = "bob" }, "invalid_request"},
		"unknown mode":   {func(a *api.RebindArgs) { a.Confirm = "always" }, "invalid_request"},
		"private origin": {func(a *api.RebindArgs) { a.Rules.Allow = []string{"GET https://10.0.0.1/**"} }, "invalid_request"},
	} {
		if _, err := r.rebind("ledger", tt.change); err == nil || refusalOf(err).Code != tt.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	out, err := r.rebind("ledger", func(a *api.RebindArgs) {
		a.Rules.Allow, a.Rules.AllowHTTP, a.Rules.Scrub, a.Confirm = []string{"GET https://api.example.com/v1/*"}, false, "off", "click"
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Change{{Setting: "confirm", Old: `"never"`, New: `"click"`}, {Setting: "allow", Old: `["GET https://api.example.com/**"]`, New: `["GET https://api.example.com/v1/*"]`},
		{Setting: "scrub", New: `"off"`}, {Setting: "allow_http", Old: "true"}}
	if !slices.Equal(out.Changes, want) {
		t.Errorf("changes: %+v", out.Changes)
	}
	if c := op[[]api.Credential](r, r.opCredentialList, struct{}{}); len(c) != 1 || c[0].Scrub != "off" || c[0].Confirm != "click" || c[0].Version != out.Credential.Version {
		t.Errorf("now: %+v", c)
	}
	r.stop()
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if x, ok := e.(event.CredentialRebound); ok && strings.Join(x.Changed, " ") != "confirm allow scrub allow_http" {
			t.Errorf("recorded: %+v", x)
		}
	}
}
