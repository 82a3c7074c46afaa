package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// door posts to the operators' door over its socket and returns the code it answers, empty for none.
func (r *rig) door(path string, e api.Envelope, value string) string {
	r.t.Helper()
	return r.post(path, append(append(encode(e), '\n'), value...))
}

func (r *rig) post(path string, body []byte) string {
	r.t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(r.dir, "op.sock"))
	}}}
	res, err := c.Post("http://operator"+api.OperatorPrefix+path, "application/json", bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if res.StatusCode == http.StatusOK {
		return ""
	}
	var e api.Error
	if err := json.Unmarshal(b, &e); err != nil {
		r.t.Fatalf("%s: %d %s", path, res.StatusCode, b)
	}
	if want := api.Lookup(e.Code).Status; res.StatusCode != want {
		r.t.Errorf("%s: status %d for %s, want %d", path, res.StatusCode, e.Code, want)
	}
	return e.Code
}

func TestOperatorDoor(t *testing.T) {
	r := newRig(t, "")
	right := &api.Proof{Kind: "passphrase", Value: testPassphrase}
	wrong := &api.Proof{Kind: "passphrase", Value: "not the passphrase"}
	empty := jsontext.Value("{}")
	for _, route := range api.Routes {
		if r.handlers()[route.Path] == nil {
			t.Fatalf("%s has no handler", route.Path)
		}
	}
	steps := []struct {
		name, path string
		e          api.Envelope
		value      string
		want       string
	}{
		{"status before init", api.PathStatus, api.Envelope{}, "", ""},
		{"listing before init", api.PathCredentialList, api.Envelope{}, "", "vault_absent"},
		{"init without proof", api.PathInit, api.Envelope{}, "", "proof_required"},
		{"init with a short one", api.PathInit, api.Envelope{Proof: &api.Proof{Kind: "passphrase", Value: "short"}}, "", "proof_required"},
		{"init", api.PathInit, api.Envelope{Proof: right}, "", ""},
		{"init again", api.PathInit, api.Envelope{Proof: right}, "", "exists"},
		{"remove without proof", api.PathCredentialRemove, api.Envelope{Args: encode(api.NameArgs{Name: "x"})}, "", "proof_required"},
		{"remove, wrong proof", api.PathCredentialRemove, api.Envelope{Proof: wrong, Args: encode(api.NameArgs{Name: "x"})}, "", "proof_wrong"},
		{"remove what isn't there", api.PathCredentialRemove, api.Envelope{Proof: right, Args: encode(api.NameArgs{Name: "x"})}, "", "not_found"},
		{"a value where none is taken", api.PathStatus, api.Envelope{}, "value", "invalid_request"},
		{"unknown field", api.PathRunShow, api.Envelope{Args: jsontext.Value(`{"id":"run_x","all":true}`)}, "", "invalid_request"},
		{"unknown run", api.PathRunRevoke, api.Envelope{Args: encode(api.IDArgs{ID: "run_x"})}, "", "not_found"},
		{"another value than args speak of", api.PathCredentialAdd, api.Envelope{Proof: right, Salt: make([]byte, 16),
			Args: encode(api.CredentialArgs{Name: "x", Kind: "bearer", ValueLength: 20, ValueDigest: make([]byte, 32)})}, "a value of 20 letters", "invalid_request"},
		{"lock", api.PathLock, api.Envelope{}, "", ""},
		{"listing while locked", api.PathCredentialList, api.Envelope{}, "", "vault_locked"},
		{"remove while locked", api.PathCredentialRemove, api.Envelope{Proof: right, Args: encode(api.NameArgs{Name: "x"})}, "", "vault_locked"},
		{"unlock, wrong", api.PathUnlock, api.Envelope{Proof: wrong, Args: empty}, "", "proof_wrong"},
		{"unlock", api.PathUnlock, api.Envelope{Proof: right}, "", ""},
		{"no such verb", "vault/reveal", api.Envelope{}, "", "unknown_method"},
	}
	for _, s := range steps {
		if got := r.door(s.path, s.e, s.value); got != s.want {
			t.Errorf("%s: %q, want %q", s.name, got, s.want)
		}
	}
	for name, body := range map[string]string{
		"not JSON": "{", "two documents": "{}{}", "twice a key": `{"args":{},"args":{}}`, "null": `{"args":null}`, "unknown field": `{"token":"x"}`, "nothing": "",
	} {
		if got := r.post(api.PathRunShow, []byte(body+"\n")); got != "invalid_request" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := r.post(api.PathCredentialAdd, bytes.Repeat([]byte("x"), api.FrameLimit+1)); got != "frame_too_large" {
		t.Errorf("a body over the limit: %q", got)
	}
	// Guessing is bounded, and losing authority is not: lock still works then.
	for range 5 {
		r.door(api.PathCredentialRemove, api.Envelope{Proof: wrong, Args: encode(api.NameArgs{Name: "x"})}, "")
	}
	if got := r.door(api.PathCredentialRemove, api.Envelope{Proof: right, Args: encode(api.NameArgs{Name: "x"})}, ""); got != "rate_limited" {
		t.Errorf("after five wrong ones: %q", got)
	}
	if got := r.door(api.PathLock, api.Envelope{}, ""); got != "" {
		t.Errorf("lock: %q", got)
	}
}

// L1, I33: once this process is an agent's run, every operator verb is refused to it, and recorded.
func TestOperatorDoorKeepsAgentsOut(t *testing.T) {
	r := newRig(t, "")
	r.init()
	if got := r.door(api.PathStatus, api.Envelope{}, ""); got != "" {
		t.Fatalf("before: %q", got)
	}
	if got := code(r.agent().ask("call", call0("http://127.0.0.1:1/x", "GET"))); got != "rule_mismatch" {
		t.Fatalf("call: %s", got)
	}
	for _, route := range api.Routes {
		if got := r.door(route.Path, api.Envelope{Proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}}, ""); got != "operator_refused" {
			t.Errorf("%s from an agent's process: %q", route.Path, got)
		}
	}
	r.stop()
	n := 0
	for _, ev := range events(t, r.dir, r.created.ReaderIdentity) {
		switch e := ev.(type) {
		case event.OperatorRefused:
			n++
		case event.AuthorizationDenied: // what is too much for records of its own is counted
			if e.Reason == "operator_refused" {
				n += e.Count
			}
		}
	}
	if n != len(api.Routes) {
		t.Errorf("%d recorded or counted, want %d", n, len(api.Routes))
	}
}
