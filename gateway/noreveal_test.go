package gateway

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/scrub"
	"sallyport/httpexec"
	"sallyport/sshexec/sshtest"
)

// canary is a credential and what of its value must never be seen.
type canary struct {
	args   api.CredentialArgs
	value  string
	secret []string
}

// canaries are values of every kind; whatever of one comes back anywhere was had back.
func canaries(t *testing.T) []canary {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "canary"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, leaf, leaf, ecKey.Public(), ecKey)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalPKCS8PrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	app := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}))
	pair := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})) + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: ecDER}))
	login, _, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	lines := func(pem string, n int) []string { return []string{strings.Split(pem, "\n")[n]} }
	http := func(kind string, c api.Carried, value string, secret ...string) canary {
		rules := api.HTTPRules{Allow: []string{"GET https://" + kind + ".example.com/**"}, Carried: c}
		if len(secret) == 0 {
			secret = []string{value}
		}
		return canary{api.CredentialArgs{Name: kind, Kind: kind, Rules: rules}, value, secret}
	}
	out := []canary{
		http("bearer", api.Carried{}, "canary-bearer-81f2"),
		http("basic", api.Carried{Username: "ann"}, "canary-basic-81f2"),
		http("header", api.Carried{Header: "X-Key"}, "canary-header-81f2"),
		http("query", api.Carried{Param: "key"}, "canary-query-81f2"),
		http("cookie", api.Carried{Param: "sid"}, "canary-cookie-81f2"),
		http("path", api.Carried{}, "canary-path-81f2"),
		http("sigv4", api.Carried{Region: "eu-west-1", Service: "s3"}, "AKIAIOSFODNN7EXAMPLE:canary-sigv4-81f2", "canary-sigv4-81f2"),
		http("oauth2", api.Carried{Minting: api.Minting{TokenURL: "https://oauth2.example.com/token", ClientID: "id", Grant: "refresh"}}, `{"clientSecret":"canary-client-81f2","refreshToken":"canary-refresh-81f2"}`, "canary-client-81f2", "canary-refresh-81f2"),
		http("github-app", api.Carried{Minting: api.Minting{AppID: "1", Installation: "2"}}, app, lines(app, 3)...),
		http("mtls", api.Carried{}, pair, strings.Split(pair, "\n")[len(strings.Split(pair, "\n"))-4]),
	}
	key := out[0]
	key.args, key.value, key.secret = api.CredentialArgs{Name: "login", Kind: "ssh-key"}, string(login), lines(string(login), 4)
	return append(out, key)
}

// raw posts to the operators' door and returns all that it answers.
func (r *rig) raw(path string, e api.Envelope) ([]byte, int) {
	r.t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(r.dir, "op.sock"))
	}}}
	res, err := c.Post("http://operator"+api.OperatorPrefix+path, "application/json", bytes.NewReader(append(encode(e), '\n')))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return b, res.StatusCode
}

// No value can be had back: not from any route of the operators' door whatever it is asked, not from the log when it is
// opened, not from the database or any other file.
func TestNoValueComesBack(t *testing.T) {
	r := newRig(t, "")
	r.init()
	set := scrub.New()
	kinds := map[string]bool{}
	for _, c := range canaries(t) {
		if _, err := r.add(c.args, c.value); err != nil {
			t.Fatalf("%s: %v", c.args.Kind, err)
		}
		kinds[c.args.Kind] = true
		for _, s := range c.secret {
			set.Add([]byte(s))
		}
	}
	for _, kind := range append(httpexec.Kinds(), "ssh-key") {
		if !kinds[kind] {
			t.Errorf("no canary of kind %s", kind)
		}
	}
	found := func(b []byte) bool {
		w := set.Writer(io.Discard)
		w.Write(b)
		hits, err := w.Close(true)
		return hits > 0 || err != nil
	}
	for _, planted := range []string{"xcanary-path-81f2x", base64.StdEncoding.EncodeToString([]byte("Bearer canary-bearer-81f2")), hex.EncodeToString([]byte("canary-refresh-81f2"))} {
		if !found([]byte(planted)) {
			t.Fatalf("the search does not find %q", planted)
		}
	}
	right := &api.Proof{Kind: "passphrase", Value: testPassphrase}
	answered := map[string]bool{}
	for _, route := range api.Routes {
		switch route.Path {
		case api.PathStop, api.PathLock, api.PathInit:
			continue
		}
		asks := []any{any(struct{}{})}
		for kind := range kinds {
			asks = append(asks, api.NameArgs{Name: kind}, api.IDArgs{ID: kind})
		}
		if strings.HasSuffix(route.Path, "/remove") || route.Path == api.PathRestore || route.Path == api.PathRekey {
			asks = asks[:1]
		}
		for _, args := range asks {
			b, status := r.raw(route.Path, api.Envelope{Proof: right, Args: encode(args)})
			answered[route.Path] = answered[route.Path] || status == http.StatusOK
			if found(b) {
				t.Errorf("%s %s gives a value back: %.200s", route.Path, encode(args), b)
			}
			if args == asks[0] && status == http.StatusOK {
				break // it takes no name
			}
		}
	}
	for _, path := range []string{api.PathCredentialList, api.PathCredentialShow, api.PathStatus, api.PathBackup, api.PathSlotList, api.PathCheckpoint} {
		if !answered[path] {
			t.Errorf("%s never answered: what it gives was not searched", path)
		}
	}
	// What changes a credential answers with what it is now, never with a value, the old one or the new.
	if _, err := r.rotate("bearer", "canary-rotated-81f2"); err != nil {
		t.Fatal(err)
	}
	set.Add([]byte("canary-rotated-81f2"))
	out, err := r.rebind("bearer", func(a *api.RebindArgs) { a.Account = "ann" })
	if err != nil || found(encode(out)) {
		t.Errorf("rebind: %+v %v", out, err)
	}
	r.stop()
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if found(event.Encode(e)) {
			t.Errorf("the log holds a value: %+v", e)
		}
	}
	n := 0
	err = filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		n++
		if err == nil && found(b) {
			err = fmt.Errorf("%s holds a value", path)
		}
		return err
	})
	if err != nil || n < 4 {
		t.Errorf("%d files: %v", n, err)
	}
}
