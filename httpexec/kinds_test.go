package httpexec

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// sendAs sends in under a spec for u's server with a value, and returns what came.
func sendAs(t testing.TB, c *Client, s Spec, value string, in Input, keep Keeper) (Result, string) {
	t.Helper()
	q := parse(t, in)
	if len(s.Allow) == 0 {
		s.Allow = []string{q.Method() + " " + q.Origin() + "/**"}
	}
	s.AllowNetwork = []string{"127.0.0.0/8"}
	if err := s.Check([]byte(value)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var body bytes.Buffer
	r, err := c.Do(ctx, ctx, q, match(t, rules(t, s), q), Injection{Credential: "cred", Version: 1, Secret: []byte(value), Keep: keep}, &body)
	if err != nil {
		t.Fatal(err)
	}
	return r, body.String()
}

// Each kind puts the value where it says, and finds it in an echo.
func TestKindsOnTheWire(t *testing.T) {
	var got *http.Request
	var uri string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, uri = r, r.RequestURI
		io.WriteString(w, r.RequestURI+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Key")+" "+r.Header.Get("Cookie"))
	}))
	t.Cleanup(srv.Close)
	for _, c := range []struct {
		spec       Spec
		value      string
		path, uri  string
		name, want string
	}{
		{Spec{Kind: "bearer"}, "tok-12345678", "/a?b=c", "/a?b=c", "Authorization", "Bearer tok-12345678"},
		{Spec{Kind: "header", Carry: Carry{Header: "X-Key", Format: "k=%s"}}, "key 12345678", "/a", "/a", "X-Key", "k=key 12345678"},
		{Spec{Kind: "query", Carry: Carry{Param: "api_key"}}, "k&y=12345678", "/a", "/a?api_key=k%26y%3D12345678", "Authorization", ""},
		{Spec{Kind: "query", Carry: Carry{Param: "api_key"}}, "key-12345678", "/a?b=c", "/a?b=c&api_key=key-12345678", "", ""},
		{Spec{Kind: "cookie", Carry: Carry{Param: "session"}}, "s-12345678", "/a", "/a", "Cookie", "session=s-12345678"},
		{Spec{Kind: "path"}, "s-12345678", "/a/b", "/s-12345678/a/b", "", ""},
		{Spec{Kind: "path"}, "s-12345678", "/", "/s-12345678", "", ""},
		{Spec{Kind: "path", Carry: Carry{Format: "bot%s"}}, "123:abcdefgh", "/sendMessage?x=1", "/bot123:abcdefgh/sendMessage?x=1", "", ""},
		{Spec{Kind: "path", Carry: Carry{Param: "1"}}, "T000/B000/XXXX", "/services", "/services/T000/B000/XXXX", "", ""},
		{Spec{Kind: "path", Carry: Carry{Param: "1"}}, "s-12345678", "/v1/items", "/v1/s-12345678/items", "", ""},
	} {
		r, body := sendAs(t, client(t), c.spec, c.value, Input{URL: srv.URL + c.path}, nil)
		if r.Outcome != Confirmed || uri != c.uri || c.name != "" && got.Header.Get(c.name) != c.want {
			t.Errorf("%+v: %+v, %q, %q", c.spec, r, uri, got.Header)
		}
		if r.Hits == 0 || strings.Contains(body, c.value) {
			t.Errorf("%+v: %d hits, shown %q", c.spec, r.Hits, body)
		}
	}
}

func TestPlacesAreTheVaults(t *testing.T) {
	q := Spec{Kind: "query", Carry: Carry{Param: "api_key"}, Allow: []string{"GET https://a.example/**"}}
	for _, url := range []string{"https://a.example/x?api_key=1", "https://a.example/x?API_KEY=1", "https://a.example/x?api.key=1", "https://a.example/x?api_key%5B%5D=1"} {
		_, err := rules(t, q).Match(parse(t, Input{URL: url}))
		wantError(t, err, "rule_mismatch", "the vault sets it")
	}
	q.Allow = []string{"GET https://a.example/**?api_key=*"}
	if _, err := q.compile(); err == nil {
		t.Error("a rule of the injected key is taken")
	}
	p := Spec{Kind: "path", Carry: Carry{Param: "2"}, Allow: []string{"GET https://a.example/**"}}
	for path, ok := range map[string]bool{"/a/b": true, "/a/b/": true, "/a": false, "/a/": false, "/": false} {
		if _, err := rules(t, p).Match(parse(t, Input{URL: "https://a.example" + path})); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
	s := Spec{Kind: "sigv4", Carry: Carry{Region: "r", Service: "s3"}, Allow: []string{"GET https://a.example/**"}}
	for _, h := range []string{"X-Amz-Date", "x-amz-security-token", "X-Amz-Content-Sha256"} {
		s.AllowHeader = []string{h}
		if _, err := s.compile(); err == nil {
			t.Errorf("allowHeader %s taken", h)
		}
	}
}

func TestKindFaults(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	app := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}))
	appCarry := Carry{Minting: Minting{AppID: "1", Installation: "2"}}
	aws := Carry{Region: "us-east-1", Service: "s3"}
	refresh := Carry{Minting: Minting{TokenURL: "https://t.example/token", ClientID: "c", Grant: "refresh"}}
	for _, c := range []struct {
		kind  string
		carry Carry
		value string
		word  string // empty: taken
	}{
		{"sigv4", aws, "AKIDEXAMPLE:secretsecret", ""},
		{"sigv4", aws, "AKIDEXAMPLE:secretsecret:token", ""},
		{"sigv4", aws, `{"AccessKeyId":"AKID","SecretAccessKey":"secretsecret","SessionToken":"t","Expiration":"x"}`, ""},
		{"sigv4", aws, `{"Credentials":{"AccessKeyId":"AKID","SecretAccessKey":"secretsecret","SessionToken":"t"}}`, ""},
		{"sigv4", aws, "AKIDEXAMPLE", "ACCESSKEYID:SECRET"},
		{"sigv4", aws, "AKIDEXAMPLE:secret\nsecret", "ACCESSKEYID:SECRET"},
		{"sigv4", aws, "AKIDEXAMPLE:short", "8 bytes"},
		{"sigv4", Carry{Region: "us-east-1"}, "AKID:secretsecret", "service"},
		{"sigv4", Carry{Region: "us east", Service: "s3"}, "AKID:secretsecret", "region"},
		{"oauth2", refresh, "refresh-token", ""},
		{"oauth2", refresh, `{"clientSecret":"x","refreshToken":"refresh-token"}`, ""},
		{"oauth2", refresh, `{"clientSecret":"x"}`, "refresh token"},
		{"oauth2", refresh, `{"secret":"x"}`, "refresh token"},
		{"oauth2", refresh, "short", "8 bytes"},
		{"oauth2", Carry{Minting: Minting{TokenURL: "http://t.example/token", ClientID: "c", Grant: "refresh"}}, "refresh-token", "https"},
		{"oauth2", Carry{Minting: Minting{TokenURL: "https://u@t.example/token", ClientID: "c", Grant: "refresh"}}, "refresh-token", "tokenUrl"},
		{"oauth2", Carry{Minting: Minting{TokenURL: "https://t.example/token", ClientID: "c", Grant: "password"}}, "refresh-token", "grant"},
		{"oauth2", Carry{Minting: Minting{TokenURL: "https://t.example/token", Grant: "refresh"}}, "refresh-token", "clientId"},
		{"github-app", appCarry, app, ""},
		{"github-app", appCarry, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "private key"},
		{"github-app", Carry{Minting: Minting{AppID: "1", Installation: "x/../y"}}, app, "installation"},
		{"mtls", Carry{}, app, "certificate"},
		{"mtls", Carry{Header: "X"}, app, "header"},
		{"cookie", Carry{Param: "a b"}, "12345678", "cookie"},
		{"cookie", Carry{Param: "a"}, "1234;5678", "cookie"},
		{"query", Carry{}, "12345678", "param"},
		{"query", Carry{Param: "_method"}, "12345678", "method"},
		{"path", Carry{Param: "x"}, "12345678", "param"},
		{"path", Carry{Param: "01"}, "12345678", "param"},
		{"path", Carry{}, "../12345678", "path"},
		{"path", Carry{}, "/12345678", "path"},
		{"path", Carry{}, "1234/", "path"},
		{"path", Carry{}, "1234%2F5678", "path"},
		{"bearer", Carry{Param: "x"}, "12345678", "param"},
	} {
		s := Spec{Kind: c.kind, Carry: c.carry, Allow: []string{"GET https://a.example/**"}}
		err := s.Check([]byte(c.value))
		if (err == nil) != (c.word == "") || err != nil && !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s %+v: %v, want %q", c.kind, c.carry, err, c.word)
		}
		if err != nil && len(c.value) > 8 && strings.Contains(err.Error(), c.value) {
			t.Errorf("%s: the value is in the error", c.kind)
		}
	}
	for _, k := range Kinds() {
		if ValueFormat(k) == "" {
			t.Errorf("%s: nothing said of its value", k)
		}
	}
}

// The signature is over the bytes that arrive: the host signs what it got and compares.
func TestSigV4(t *testing.T) {
	creds := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG", SessionToken: "session/token+1"}
	for _, service := range []string{"s3", "execute-api"} {
		var signature string
		srv := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
			defer c.Close()
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			sum := sha256.Sum256(body)
			got := r.Header.Get("Authorization")
			at, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
			again := &http.Request{Method: r.Method, Host: r.Host, URL: r.URL, Header: http.Header{}, ContentLength: r.ContentLength}
			signed, _, _ := strings.Cut(got[strings.Index(got, "SignedHeaders=")+14:], ",")
			for _, n := range strings.Split(signed, ";") {
				if n != "host" && n != "content-length" {
					again.Header[http.CanonicalHeaderKey(n)] = r.Header.Values(n)
				}
			}
			if service == "s3" {
				again.URL = &url.URL{Host: r.Host, Opaque: "//" + r.Host + s3Path(r.URL.EscapedPath()), RawQuery: r.URL.RawQuery}
			}
			err = v4.NewSigner().SignHTTP(context.Background(), creds, again, hex.EncodeToString(sum[:]), service, "eu-west-1", at, func(o *v4.SignerOptions) {
				o.DisableURIPathEscaping = service == "s3"
			})
			verdict := "good"
			if want := again.Header.Get("Authorization"); err != nil || want != got || r.Header.Get("X-Amz-Security-Token") != creds.SessionToken {
				verdict = "got " + got + "\nwant " + want
			}
			_, signature, _ = strings.Cut(got, "Signature=")
			io.WriteString(c, length(verdict+" "+signature+" "+creds.SessionToken))
		})
		s := Spec{Kind: "sigv4", Carry: Carry{Region: "eu-west-1", Service: service}, AllowHeader: []string{"X-Amz-Meta-A"},
			Allow: []string{"GET,PUT " + srv.url + "/**", "GET,PUT " + srv.url + "/bucket/{raw}"}}
		for _, in := range []Input{
			{URL: srv.url + "/"},
			{URL: srv.url + "/bucket/a%20b/c+d/%C3%A9~(1)?list-type=2&prefix=a%2Fb&x&y=a+b"},
			{URL: srv.url + "/bucket/a%2Fb"},
			{URL: srv.url + "/bucket/k", Method: "PUT", Body: []byte("hello"), Headers: map[string]string{"Content-Type": "text/plain", "X-Amz-Meta-A": "a  b"}},
		} {
			r, body := sendAs(t, client(t), s, creds.AccessKeyID+":"+creds.SecretAccessKey+":"+creds.SessionToken, in, nil)
			if r.Outcome != Confirmed || !strings.HasPrefix(body, "good [redacted] [redacted]") || r.Hits != 2 || strings.Contains(body, signature) {
				t.Errorf("%s %s: %+v\n%s", service, in.URL, r, body)
			}
		}
	}
}

// certificate makes one for a name, signed by its parent or by itself; pem holds it and its key.
func certificate(t testing.TB, name string, ends time.Time, parent *tls.Certificate) (tls.Certificate, string) {
	t.Helper()
	return issue(t, name, nil, ends, parent)
}

// serverCertificate is one for a host's name.
func serverCertificate(t testing.TB, host string, parent *tls.Certificate) (tls.Certificate, string) {
	t.Helper()
	return issue(t, host, []string{host}, time.Now().Add(time.Hour), parent)
}

func issue(t testing.TB, name string, hosts []string, ends time.Time, parent *tls.Certificate) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: ends.Add(-time.Hour), NotAfter: ends,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: parent == nil, DNSNames: hosts}
	by, signer := tmpl, any(key)
	if parent != nil {
		by, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, by, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	pk8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := x509.ParseCertificate(der)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk8}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, text
}

func TestClientCertificate(t *testing.T) {
	ca, _ := certificate(t, "ca", time.Now().Add(time.Hour), nil)
	_, good := certificate(t, "agent 7", time.Now().Add(time.Hour), &ca)
	_, stranger := certificate(t, "stranger", time.Now().Add(time.Hour), nil)
	_, old := certificate(t, "old", time.Now().Add(-time.Minute), &ca)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	srv.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
	srv.Config.ErrorLog = quiet()
	srv.StartTLS()
	t.Cleanup(srv.Close)
	s := Spec{Kind: "mtls", Trust: Trust{CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))}}
	if r, body := sendAs(t, client(t), s, good, Input{URL: srv.URL + "/x"}, nil); r.Outcome != Confirmed || body != "agent 7" {
		t.Errorf("%+v %q", r, body)
	}
	// With TLS 1.3 the host refuses a certificate only after the request was written.
	if r, _ := sendAs(t, client(t), s, stranger, Input{URL: srv.URL + "/x"}, nil); r.Outcome == Confirmed {
		t.Errorf("a stranger's certificate: %+v", r)
	}
	if err := (Spec{Kind: "mtls", Allow: []string{"GET https://a.example/"}}).Check([]byte(old)); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("an old certificate: %v", err)
	}
}

func TestPins(t *testing.T) {
	url, ca := tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	block, _ := pem.Decode([]byte(ca))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	good := "sha256/" + base64.StdEncoding.EncodeToString(sum[:])
	other := "sha256/" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, c := range []struct {
		pins []string
		ok   bool
	}{{nil, true}, {[]string{good}, true}, {[]string{other, good}, true}, {[]string{other}, false}} {
		r, _ := sendAs(t, client(t), Spec{Kind: "bearer", Trust: Trust{CA: ca, Pins: c.pins}}, "tok-12345678", Input{URL: url + "/x"}, nil)
		if (r.Outcome == Confirmed) != c.ok || !c.ok && (r.Outcome != NotSent || !strings.Contains(r.Detail, "pin")) {
			t.Errorf("%q: %+v", c.pins, r)
		}
	}
	// A pin does not stand for a chain that is not trusted.
	if r, _ := sendAs(t, client(t), Spec{Kind: "bearer", Trust: Trust{Pins: []string{good}}}, "tok-12345678", Input{URL: url + "/x"}, nil); r.Outcome != NotSent {
		t.Errorf("pinned and not trusted: %+v", r)
	}
	for _, bad := range []string{good[:20], "sha1/x", good + "=", "sha256/AAAA"} {
		if _, err := (Spec{Kind: "bearer", Allow: []string{"GET https://a.example/"}, Trust: Trust{Pins: []string{bad}}}).compile(); err == nil {
			t.Errorf("%s taken", bad)
		}
	}
}

// A value for the path is sent in canonical form: what an answer repeats is that one too.
func TestPathIsMaskedAsSent(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI+" "+r.URL.Path) }))
	defer srv.Close()
	spec := Spec{Kind: "path", Allow: []string{"GET " + srv.URL + "/**"}}
	r, body := sendAs(t, client(t), spec, "s%65cret%2dvalue-17", Input{URL: srv.URL + "/getMe"}, nil)
	if r.Outcome != Confirmed || strings.Contains(body, "value-17") {
		t.Errorf("%+v %q", r, body)
	}
}
