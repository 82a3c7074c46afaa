package client_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
)

func findXDG(t *testing.T, base, run string) home.Home {
	t.Helper()
	h, err := home.Find(func(name string) string {
		return map[string]string{
			"HOME": base, "XDG_RUNTIME_DIR": run,
			"XDG_DATA_HOME": filepath.Join(base, "data"), "XDG_CONFIG_HOME": filepath.Join(base, "config"),
		}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve opens the operators' door of h, in dir.
func serve(t *testing.T, h home.Home, dir string, handler http.HandlerFunc) {
	t.Helper()
	addr := filepath.Join(dir, "operator.sock")
	l, err := net.Listen("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	if err := h.PublishOperator(addr); err != nil {
		t.Fatal(err)
	}
}

func TestDo(t *testing.T) {
	h, dir := place(t)
	secret := []byte("s3cr3t\nwith a line\x00\xff")
	serve(t, h, dir, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		line, value, _ := bytes.Cut(body, []byte("\n"))
		var e api.Envelope
		if err := json.Unmarshal(line, &e, json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("the first line is no envelope: %v", err)
		}
		var args api.CredentialArgs
		if err := json.Unmarshal(e.Args, &args); err != nil {
			t.Error(err)
		}
		sum := sha256.Sum256(append(bytes.Clone(e.Salt), value...))
		switch {
		case r.Method != http.MethodPost || r.URL.Path != "/v1/op/credential/add":
			t.Errorf("%s %s", r.Method, r.URL.Path)
		case !bytes.Equal(value, secret) || args.ValueLength != len(secret) || len(e.Salt) != 16:
			t.Errorf("value of %d bytes, said %d, salt of %d", len(value), args.ValueLength, len(e.Salt))
		case !bytes.Equal(args.ValueDigest, sum[:]):
			t.Error("the digest is not the salted value's")
		case e.Proof == nil || e.Proof.Value != "pass" || e.Proof.Kind != "passphrase":
			t.Error("the proof did not arrive")
		}
		fmt.Fprint(w, `{"name":"gh","kind":"bearer","account":"","confirm":"never","scrub":"on","version":3,"rules":[]}`)
	})
	c := client.Operator(h)
	defer c.Close()
	v := client.Salt(secret)
	args := api.CredentialArgs{Name: "gh", Kind: "bearer", ValueLength: v.Len(), ValueDigest: v.Digest()}
	var out api.Credential
	if err := c.Do(within(t), api.PathCredentialAdd, &api.Proof{Kind: "passphrase", Value: "pass"}, args, v, &out); err != nil {
		t.Fatal(err)
	}
	if out.Version != 3 {
		t.Errorf("answer %+v", out)
	}
	if again := client.Salt(secret); bytes.Equal(again.Digest(), v.Digest()) {
		t.Error("two salts are equal: the digest would give the value away")
	}
	if s := fmt.Sprintf("%v %+v %#v %s", v, v, v, v); strings.Contains(s, "s3cr3t") || strings.Contains(s, "115") {
		t.Errorf("a print shows the value: %s", s)
	}
}

// Without a value the body is the envelope's line alone.
func TestDoWithoutValue(t *testing.T) {
	h, dir := place(t)
	serve(t, h, dir, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != "{}\n" {
			t.Errorf("body %q", body)
		}
		fmt.Fprint(w, `{}`)
	})
	c := client.Operator(h)
	defer c.Close()
	if err := c.Do(within(t), api.PathLock, nil, nil, nil, nil); err != nil {
		t.Error(err)
	}
}

func TestDoRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		status       int
		answer, code string
	}{
		"the table's":    {423, `{"error":"vault_locked","reason":"r","retry":"t","next":"ask_operator"}`, "vault_locked"},
		"no document":    {500, `oops`, "internal"},
		"unknown field":  {403, `{"error":"operator_refused","reason":"r","next":"n","x":1}`, "internal"},
		"redirect":       {302, ``, "internal"},
		"200 but no doc": {200, `oops`, "internal"},
		"200 with more":  {200, `{"vault":"ready","pid":1,"surprise":true}`, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := place(t)
			var asked atomic.Int32
			serve(t, h, dir, func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Location", "/v1/op/vault/lock")
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.answer)
			})
			c := client.Operator(h)
			defer c.Close()
			var s api.Status
			want(t, c.Do(within(t), api.PathStatus, nil, nil, nil, &s), tt.code)
			if asked.Load() != 1 {
				t.Errorf("asked %d times", asked.Load())
			}
		})
	}
}

// A command whose answer got lost was sent once and is told as what it is.
func TestDoNoAnswer(t *testing.T) {
	h, dir := place(t)
	var asked atomic.Int32
	serve(t, h, dir, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		io.ReadAll(r.Body)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})
	c := client.Operator(h)
	defer c.Close()
	for range 2 { // also on the second: no stale connection is tried first
		err := c.Do(within(t), api.PathRunRevoke, nil, api.IDArgs{ID: "run_1"}, nil, nil)
		want(t, err, "gateway_unreachable")
		if !strings.Contains(err.Error(), "may have done it") {
			t.Errorf("it reads as if nothing had been sent: %v", err)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("2 commands were sent %d times", asked.Load())
	}
}

func TestOperatorNotThere(t *testing.T) {
	h, dir := place(t)
	c := client.Operator(h)
	defer c.Close()
	plain := api.Lookup("gateway_unreachable").Reason
	reason := func() string {
		err := c.Do(within(t), api.PathStatus, nil, nil, nil, nil)
		want(t, err, "gateway_unreachable")
		var e *api.Error
		errors.As(err, &e)
		return e.Reason
	}
	if r := reason(); r != plain {
		t.Errorf("no address: %q", r)
	}
	if err := h.PublishOperator("@sallyport-nobody-" + rand.Text()); err != nil {
		t.Fatal(err)
	}
	if r := reason(); r != plain {
		t.Errorf("dead address: %q", r)
	}
	if err := os.Chmod(filepath.Join(dir, "operator.addr"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := reason(); r == plain {
		t.Error("an address that others can read was used without a word")
	}
}

// Anybody can bind an abstract name once the gateway is gone: the uid decides.
func TestOperatorIsAnothers(t *testing.T) {
	h, _ := place(t)
	addr := "@sallyport-test-" + rand.Text()
	quiet := stranger(t, addr)
	if err := h.PublishOperator(addr); err != nil {
		t.Fatal(err)
	}
	c := client.Operator(h)
	defer c.Close()
	err := c.Do(within(t), api.PathUnlock, &api.Proof{Kind: "passphrase", Value: "pass"}, nil, nil, nil)
	want(t, err, "gateway_unreachable")
	if said := quiet(); said != "" || !strings.Contains(err.Error(), "uid 65534") {
		t.Errorf("the stranger heard %q; %v", said, err)
	}
}

// No error repeats the proof, not even one about it.
func TestProofStaysOut(t *testing.T) {
	h, _ := place(t)
	c := client.Operator(h)
	defer c.Close()
	err := c.Do(within(t), api.PathUnlock, &api.Proof{Kind: "passphrase", Value: "hunter2\xff"}, nil, nil, nil)
	want(t, err, "invalid_request")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows the proof: %v", err)
	}
}

type inProcess func(*http.Request) (*http.Response, error)

func (f inProcess) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOver(t *testing.T) {
	c := client.Over(inProcess(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != "/v1/op/vault/status" {
			t.Errorf("path %s", r.URL.Path)
		}
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"vault":"ready","pid":7}`))}, nil
	}))
	var s api.Status
	if err := c.Do(within(t), api.PathStatus, nil, nil, nil, &s); err != nil || s.PID != 7 {
		t.Errorf("%+v %v", s, err)
	}
	_, err := c.Session(within(t))
	want(t, err, "unknown_method")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
