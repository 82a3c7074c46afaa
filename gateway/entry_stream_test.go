package gateway

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
	"sallyport/vault"
)

// hangUp sends the beginning of a request and goes away.
func (r *rig) hangUp(path string, claimed int, body string) {
	r.t.Helper()
	c, err := net.Dial("unix", filepath.Join(r.dir, "op.sock"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST %s%s HTTP/1.1\r\nHost: operator\r\nContent-Length: %d\r\n\r\n%s", api.OperatorPrefix, path, claimed, body)
	if err := c.(*net.UnixConn).CloseWrite(); err != nil {
		r.t.Fatal(err)
	}
	io.Copy(io.Discard, c) // until the gateway is done with it
}

// files lists the home's files, but for what grows by itself.
func (r *rig) files() string {
	var out []string
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".seg") && !strings.Contains(path, "vault.db-") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// V16: whatever is wrong with the stream of a command that takes a value or a file, it is refused with a code, and nothing
// of it is stored, half or whole.
func TestV16Streams(t *testing.T) {
	r := newRig(t, "")
	right := &api.Proof{Kind: "passphrase", Value: testPassphrase}
	salt := make([]byte, 16)
	const secret = "tok-5f2b9c71e04d4a6b"
	// init takes no value at all.
	for name, tt := range map[string]struct {
		e     api.Envelope
		value string
		want  string
	}{
		"a value":    {api.Envelope{Proof: right}, secret, "invalid_request"},
		"args":       {api.Envelope{Proof: right, Args: jsontext.Value(`{"force":true}`)}, "", "invalid_request"},
		"no proof":   {api.Envelope{}, "", "proof_required"},
		"oversized":  {api.Envelope{Proof: right}, strings.Repeat("x", api.FrameLimit), "frame_too_large"},
		"a long key": {api.Envelope{Proof: &api.Proof{Kind: "passphrase", Value: strings.Repeat("x", 1<<20)}}, "", "invalid_request"},
	} {
		if got := r.door(api.PathInit, tt.e, tt.value); got != tt.want {
			t.Errorf("init, %s: %q, want %q", name, got, tt.want)
		}
		if s := r.vault.State(); s != vault.Absent {
			t.Fatalf("init, %s: the vault is %v", name, s)
		}
	}
	r.hangUp(api.PathInit, 500, string(encode(api.Envelope{Proof: right})))
	if s := r.vault.State(); s != vault.Absent {
		t.Fatalf("init cut short: the vault is %v", s)
	}
	if got := r.door(api.PathInit, api.Envelope{Proof: right}, ""); got != "" {
		t.Fatalf("init: %q", got)
	}
	r.addBearer("ledger", "GET https://api.example.com/**")
	counter, before := r.vault.Snapshot().Counter, r.files()
	check := func(what string) {
		t.Helper()
		if s := r.vault.Snapshot(); s == nil || s.Counter != counter {
			t.Fatalf("%s: the vault was changed", what)
		}
		if now := r.files(); now != before {
			t.Fatalf("%s: files\n%s\nbefore\n%s", what, now, before)
		}
	}
	rules := `"kind":"bearer","rules":{"allow":["GET https://a.example/**"]}`
	args := map[string]string{ // for a value of 20 bytes
		api.PathCredentialAdd:    `{"name":"x",` + rules + `,"valueLength":20,"valueDigest":"%s"}`,
		api.PathCredentialRotate: `{"name":"ledger","valueLength":20,"valueDigest":"%s"}`,
		api.PathApply:            `{"plan":"x","fileLength":20,"valueLength":20,"valueDigest":"%s"}`,
		api.PathPlan:             `{"valueLength":20,"valueDigest":"%s"}`,
		api.PathInspect:          `{"format":"env","fileLength":20,"valueLength":20,"valueDigest":"%s"}`,
		api.PathImport:           `{"format":"env","fileLength":20,"valueLength":20,"valueDigest":"%s"}`,
		api.PathAuditRead:        `{"valueLength":20,"valueDigest":"%s"}`,
	}
	for _, route := range api.Routes {
		if route.Value && args[route.Path] == "" && !strings.HasPrefix(route.Path, "slot/") && !strings.HasPrefix(route.Path, "vault/") {
			t.Errorf("%s takes a value and is not tried here", route.Path)
		}
	}
	wrong := "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for path, text := range args {
		good := jsontext.Value(fmt.Sprintf(text, wrong))
		e := api.Envelope{Proof: right, Args: good, Salt: salt}
		for name, tt := range map[string]struct {
			e     api.Envelope
			value string
			want  string
		}{
			"another value":   {e, secret, "invalid_request"},
			"no value":        {e, "", "invalid_request"},
			"no salt":         {api.Envelope{Proof: right, Args: good}, secret, "invalid_request"},
			"a short salt":    {api.Envelope{Proof: right, Args: good, Salt: salt[:15]}, secret, "invalid_request"},
			"a negative size": {api.Envelope{Proof: right, Args: jsontext.Value(strings.ReplaceAll(string(good), "20", "-20")), Salt: salt}, secret, "invalid_request"},
			"a size of 1e99":  {api.Envelope{Proof: right, Args: jsontext.Value(strings.ReplaceAll(string(good), "20", "1e99")), Salt: salt}, secret, "invalid_request"},
			"unknown field":   {api.Envelope{Proof: right, Args: jsontext.Value(`{"more":1,` + string(good[1:])), Salt: salt}, secret, "invalid_request"},
			"twice a field":   {api.Envelope{Proof: right, Args: jsontext.Value(`{"valueLength":20,"VALUELENGTH":20}`), Salt: salt}, secret, "invalid_request"},
			"over a value's":  {e, strings.Repeat("x", api.ValueLimit+1), "invalid_request"},
			"over a frame's":  {e, strings.Repeat("x", api.FrameLimit), "frame_too_large"},
		} {
			if got := r.door(path, tt.e, tt.value); got != tt.want {
				t.Errorf("%s, %s: %q, want %q", path, name, got, tt.want)
			}
			check(path + ", " + name)
		}
		for name, body := range map[string][]byte{
			"nothing": nil, "no line": []byte("{"), "binary": {0xff, 0xfe, 0, '\n'}, "deep": append(bytes.Repeat([]byte(`{"args":`), 100), '\n'),
			"null": []byte("null\n"), "an array": []byte("[]\n"), "no proof": []byte("{\"args\":{}}\n" + secret), "two": append(append(encode(e), encode(e)...), '\n'),
		} {
			if got := r.post(path, body); got != "invalid_request" && got != "proof_required" && (path != api.PathAuditRead || got != "proof_wrong") { // that one is proved by the identity itself
				t.Errorf("%s, %s: %q", path, name, got)
			}
			check(path + ", " + name)
		}
		r.hangUp(path, 4096, string(encode(e))+"\n"+secret)
		check(path + ", cut short")
	}
	// A backup that is none, too long or cut short.
	for name, body := range map[string]struct {
		claimed int
		file    string
		code    string
	}{
		"garbage":   {20, secret, "invalid_request"},
		"too short": {200, secret, "invalid_request"},
		"too long":  {4, secret, "invalid_request"},
		"negative":  {-1, secret, "invalid_request"},
	} {
		got := r.door(api.PathRestore, api.Envelope{Proof: right, Args: encode(api.RestoreArgs{FileLength: int64(body.claimed), FileDigest: make([]byte, 32)})}, body.file)
		if got != body.code {
			t.Errorf("restore, %s: %q, want %q", name, got, body.code)
		}
		check("restore, " + name)
	}
	r.hangUp(api.PathRestore, 1<<20, string(encode(api.Envelope{Proof: right, Args: encode(api.RestoreArgs{FileLength: 1 << 20, FileDigest: make([]byte, 32)})}))+"\n"+secret)
	check("restore, cut short")
	if c := op[[]api.Credential](r, r.opCredentialList, struct{}{}); len(c) != 1 {
		t.Errorf("credentials: %+v", c)
	}
}
