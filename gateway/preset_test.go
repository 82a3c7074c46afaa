package gateway

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/presets"
	"sallyport/httpexec"
)

// Every preset is complete: rules that parse, of one host and no other, over TLS, and a probe that only reads.
func TestPresets(t *testing.T) {
	all, err := presets.All()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range all {
		names[p.Name] = true
		for _, at := range []string{p.Site, "svc.example.org:8443"} {
			args := api.CredentialArgs{Name: p.Name, Preset: p.Name, Site: at}
			if at == "" {
				if _, err := fill(args); err == nil || !strings.Contains(err.Error(), "--site") {
					t.Errorf("%s without a site: %v", p.Name, err)
				}
				continue
			}
			if p.Kind == "basic" {
				args.Rules.Username = "ann@example.org"
			}
			a, err := fill(args)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			r, err := compiledRules(a)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if o := r.Origins(); len(o) != 1 || o[0] != "https://"+at || a.Kind != p.Kind || p.About == "" || p.Value == "" {
				t.Errorf("%s: %q, %+v", p.Name, o, a)
			}
			q, _, err := r.Probe()
			if err != nil || q.Effect() != "read" {
				t.Errorf("%s: probe %q: %v", p.Name, a.Rules.Probe, err)
			}
			for _, rule := range r.Strings() {
				if strings.Contains(rule, "DELETE") || strings.Contains(rule, "*.") {
					t.Errorf("%s: a preset gives neither DELETE nor a wildcard host: %s", p.Name, rule)
				}
			}
		}
	}
	for _, want := range strings.Fields("github gitlab stripe slack openai anthropic aws cloudflare jira sentry datadog") {
		if !names[want] {
			t.Errorf("no preset %s", want)
		}
	}
}

// Slack posts a message by GET too: a call that changes something must not pass for a read.
func TestSlackReadsByName(t *testing.T) {
	a, err := fill(api.CredentialArgs{Preset: "slack"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := compiledRules(a)
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]bool{"GET chat.postMessage": false, "GET conversations.archive": false, "POST chat.postMessage": true, "GET conversations.history": true} {
		method, name, _ := strings.Cut(line, " ")
		q, err := httpexec.ParseRequest(httpexec.Input{URL: "https://slack.com/api/" + name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Match(q); (err == nil) != want {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestFill(t *testing.T) {
	own := []string{"GET http://127.0.0.1:9/x"}
	a, err := fill(api.CredentialArgs{Preset: "github", Rules: api.HTTPRules{Allow: own}, Confirm: "click"})
	if err != nil || len(a.Rules.Allow) != 1 || a.Rules.Probe != "" || a.Kind != "bearer" || a.Confirm != "click" {
		t.Errorf("own rules beside a preset: %+v %v", a, err)
	}
	if a, err = fill(api.CredentialArgs{Preset: "stripe"}); err != nil || a.Confirm != "click" || a.Rules.IdempotencyHeader != "Idempotency-Key" {
		t.Errorf("stripe: %+v %v", a, err)
	}
	if a, err = fill(api.CredentialArgs{Preset: "aws", Rules: api.HTTPRules{Allow: []string{"GET,PUT https://b.s3.eu-west-1.amazonaws.com/b/**"},
		Carried: api.Carried{Region: "eu-west-1", Service: "s3"}}}); err != nil || a.Rules.Service != "s3" || a.Rules.Probe != "" {
		t.Errorf("aws for s3: %+v %v", a, err)
	}
	for _, bad := range []api.CredentialArgs{
		{Preset: "nobody"}, {Site: "a.example"}, {Preset: "github", Kind: "basic"}, {Preset: "github", Site: "a/b"},
		{Preset: "github", Site: `a"b`}, {Preset: "github", Site: "*.example.org"}, {Preset: "github", Site: "user@a.example"},
		{Preset: "github", Rules: api.HTTPRules{Probe: "POST /user"}},
	} {
		a, err := fill(bad)
		if err == nil {
			_, err = compiledRules(a)
		}
		if err == nil {
			t.Errorf("%+v taken", bad)
		}
	}
}

// addKind stores a credential of any kind, its value as given.
func (r *rig) addKind(a api.CredentialArgs, value string) error {
	r.t.Helper()
	salt := []byte("0123456789abcdef")
	sum := sha256.Sum256(append(salt[:16:16], value...))
	a.ValueLength, a.ValueDigest = len(value), sum[:]
	a.Rules.AllowNetwork = append(a.Rules.AllowNetwork, "127.0.0.0/8")
	_, err := r.opCredentialAdd(opRequest{ctx: r.t.Context(), who: "passphrase", salt: salt, value: []byte(value), args: encode(a)})
	return err
}

func TestSecretTest(t *testing.T) {
	var status atomic.Int64
	status.Store(200)
	stall := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, req *http.Request) {
		code := int(status.Load())
		if code == 0 {
			close(stall)
			<-req.Context().Done()
			return
		}
		w.WriteHeader(code)
		w.Write([]byte("your key is " + req.Header.Get("Authorization")))
	})
	r := newRig(t, "")
	r.init()
	if err := r.addKind(api.CredentialArgs{Name: "gh", Preset: "github", Rules: api.HTTPRules{Allow: []string{"GET " + up.URL + "/**"}}}, testSecret); err != nil {
		t.Fatal(err)
	}
	r.addBearer("plain", "GET "+up.URL+"/plain/**")
	got := op[api.Tested](r, r.opCredentialTest, api.NameArgs{Name: "gh"})
	if !got.Works || got.Status != 200 || strings.Contains(string(encode(got)), testSecret) || up.paths()[0] != "/user" || up.credentials()[0] != "Bearer "+testSecret {
		t.Fatalf("%+v, upstream %q", got, up.paths())
	}
	status.Store(401)
	if got = op[api.Tested](r, r.opCredentialTest, api.NameArgs{Name: "gh"}); got.Works || got.Outcome != "confirmed" || got.Status != 401 {
		t.Fatalf("refused: %+v", got)
	}
	for name, want := range map[string]string{"plain": "invalid_request", "nobody": "not_found"} {
		if _, err := r.opCredentialTest(opRequest{ctx: t.Context(), args: encode(api.NameArgs{Name: name})}); err == nil || err.(*api.Error).Code != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A lock does not wait for a host that does not answer, and nothing is lent after it.
	status.Store(0)
	answered := make(chan api.Tested, 1)
	go func() {
		out, err := r.opCredentialTest(opRequest{ctx: context.Background(), who: "unproved", args: encode(api.NameArgs{Name: "gh"})})
		if err != nil {
			t.Error(err)
		}
		x, _ := out.(api.Tested)
		answered <- x
	}()
	<-stall
	op[api.Status](r, r.opLock, struct{}{})
	if got := <-answered; got.Works || got.Outcome != "sent_unconfirmed" {
		t.Errorf("locked in the middle: %+v", got)
	}
	if _, err := r.opCredentialTest(opRequest{ctx: t.Context(), args: encode(api.NameArgs{Name: "gh"})}); err == nil || err.(*api.Error).Code != "vault_locked" {
		t.Errorf("while locked: %v", err)
	}
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	var told []string
	for _, e := range evs {
		if x, ok := e.(event.CredentialTested); ok {
			told = append(told, x.Outcome)
		}
	}
	if strings.Join(told, ",") != ",confirmed,,confirmed,,sent_unconfirmed" {
		t.Errorf("recorded: %q", told)
	}
}
