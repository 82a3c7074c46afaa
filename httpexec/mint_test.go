package httpexec

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
)

// shelf is a keeper in memory; fail makes the next Keep fail.
type shelf struct {
	mu   sync.Mutex
	kept map[string][]byte
	fail bool
	n    int
}

func (s *shelf) Keep(_ context.Context, field string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail {
		return errors.New("disk full")
	}
	if s.kept == nil {
		s.kept = map[string][]byte{}
	}
	s.kept[field] = append([]byte(nil), value...)
	s.n++
	return nil
}

func (s *shelf) Kept(_ context.Context, field string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]byte(nil), s.kept[field]...), nil
}

func (s *shelf) token(t testing.TB) (m minted) {
	t.Helper()
	b, _ := s.Kept(t.Context(), fieldToken)
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// authority is a token endpoint and an API on one server; answer decides what the endpoint says.
type authority struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string // bodies the endpoint got
	auth   []string // and their Authorization
	called []string // Authorization the API got
	answer func(n int, w http.ResponseWriter)
	status int // of the API
}

func newAuthority(t testing.TB) *authority {
	a := &authority{status: 200}
	a.answer = func(n int, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"access-token-%d","token_type":"bearer","expires_in":3600,"refresh_token":"refresh-token-%d"}`, n, n)
	}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.URL.Path != "/api" {
			a.asked, a.auth = append(a.asked, string(b)), append(a.auth, r.Header.Get("Authorization"))
			a.answer(len(a.asked), w)
			return
		}
		a.called = append(a.called, r.Header.Get("Authorization"))
		w.WriteHeader(a.status)
		io.WriteString(w, "echo "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *authority) spec(grant string) Spec {
	return Spec{Kind: "oauth2", Allow: []string{"GET,POST " + a.URL + "/api"}, Carry: Carry{Minting: Minting{TokenURL: a.URL + "/token", ClientID: "me", Grant: grant, Scopes: []string{"read", "write"}}}}
}

func TestRefresh(t *testing.T) {
	a, keep, c := newAuthority(t), &shelf{}, client(t)
	spec := a.spec("refresh")
	value := `{"clientSecret":"client-secret","refreshToken":"refresh-token-0"}`
	call := func() (Result, string) {
		t.Helper()
		return sendAs(t, c, spec, value, Input{URL: a.URL + "/api"}, keep)
	}
	r, body := call()
	if r.Outcome != Confirmed || r.Hits != 1 || strings.Contains(body, "access-token") || a.called[0] != "Bearer access-token-1" {
		t.Fatalf("%+v %q %q", r, body, a.called)
	}
	if !strings.Contains(a.asked[0], "refresh_token=refresh-token-0") || !strings.HasPrefix(a.auth[0], "Basic ") || strings.Contains(a.asked[0], "client-secret") {
		t.Errorf("asked with %q %q", a.asked[0], a.auth[0])
	}
	if call(); len(a.asked) != 1 || keep.token(t).Refresh != "refresh-token-1" {
		t.Errorf("a token that serves was minted anew: %q", a.asked)
	}
	// One that ends soon is minted anew, with the refresh token that came last.
	m := keep.token(t)
	m.Expiry = time.Now().Add(early / 2)
	b, _ := json.Marshal(m)
	keep.Keep(t.Context(), fieldToken, b)
	if call(); len(a.asked) != 2 || !strings.Contains(a.asked[1], "refresh_token=refresh-token-1") || a.called[2] != "Bearer access-token-2" {
		t.Errorf("asked %q, called %q", a.asked, a.called)
	}
	// A token that the API refuses at once is not the reason; an older one is minted anew for the next call.
	a.status = 401
	if call(); len(a.asked) != 2 || keep.token(t).Access == "" {
		t.Errorf("refused at once: asked %q", a.asked)
	}
	m = keep.token(t)
	m.At = m.At.Add(-time.Minute)
	b, _ = json.Marshal(m)
	keep.Keep(t.Context(), fieldToken, b)
	n := len(a.called)
	if r, _ := call(); r.Code != 401 || len(a.called) != n+1 || len(a.asked) != 2 {
		t.Errorf("the refused call was sent again: %+v", r)
	}
	a.status = 200
	if r, _ := call(); r.Code != 200 || len(a.asked) != 3 {
		t.Errorf("after a refusal: %+v, asked %d", r, len(a.asked))
	}
	// Rules changed: an access token of another version is not used, the refresh token is.
	m = keep.token(t)
	m.Version = 9
	b, _ = json.Marshal(m)
	keep.Keep(t.Context(), fieldToken, b)
	if call(); len(a.asked) != 4 || !strings.Contains(a.asked[3], "refresh_token=refresh-token-3") {
		t.Errorf("asked %q", a.asked)
	}
}

// Where the client's secret goes is fixed: looking for a way would send a refresh token twice.
func TestTokenAuth(t *testing.T) {
	a := newAuthority(t)
	s := a.spec("refresh")
	s.TokenAuth = "body"
	if r, _ := sendAs(t, client(t), s, `{"clientSecret":"client-secret","refreshToken":"refresh-token-0"}`, Input{URL: a.URL + "/api"}, &shelf{}); r.Outcome != Confirmed {
		t.Fatalf("%+v", r)
	}
	if len(a.asked) != 1 || a.auth[0] != "" || !strings.Contains(a.asked[0], "client_secret=client-secret") || !strings.Contains(a.asked[0], "client_id=me") {
		t.Errorf("asked with %q %q", a.asked, a.auth)
	}
}

func TestSingleFlight(t *testing.T) {
	hostile(t, "H33", func(t *testing.T) {
		a, keep, c := newAuthority(t), &shelf{}, client(t)
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				if r, _ := sendAs(t, c, a.spec("refresh"), "refresh-token-0", Input{URL: a.URL + "/api"}, keep); r.Outcome != Confirmed {
					t.Errorf("%+v", r)
				}
			})
		}
		wg.Wait()
		if len(a.asked) != 1 || keep.n != 1 || len(a.called) != 32 {
			t.Errorf("%d refreshes, kept %d times, %d calls", len(a.asked), keep.n, len(a.called))
		}
	})
}

// Whatever goes wrong with the token, nothing was sent to the API, and no answer of the endpoint is shown.
func TestNoToken(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(n int, w http.ResponseWriter)
		fail   bool
		word   string
	}{
		"refused": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			io.WriteString(w, `{"error":"invalid_grant","error_description":"refresh-token-0 is spent"}`)
		}, false, "400 invalid_grant"},
		"no json": {func(_ int, w http.ResponseWriter) { io.WriteString(w, "<html>refresh-token-0") }, false, "no token"},
		"redirect": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(307)
		}, false, "307"},
		"no bearer": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"access_token":"access-token-1","token_type":"mac"}`)
		}, false, "bearer"},
		"short": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"access_token":"abc","token_type":"bearer"}`)
		}, false, "short"},
		"crlf": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"access_token":"access\r\nX: y","token_type":"bearer"}`)
		}, false, "can't be sent"},
		"not kept": {nil, true, "could not be kept"},
	} {
		a, keep := newAuthority(t), &shelf{fail: c.fail}
		if c.answer != nil {
			a.answer = c.answer
		}
		r, body := sendAs(t, client(t), a.spec("refresh"), "refresh-token-0", Input{URL: a.URL + "/api", Method: "POST"}, keep)
		if r.Outcome != NotSent || !strings.Contains(r.Detail, c.word) || len(a.called) != 0 || len(a.asked) != 1 || strings.Contains(r.Detail+body, "refresh-token") {
			t.Errorf("%s: %+v, asked %d, called %d", name, r, len(a.asked), len(a.called))
		}
	}
	dead := newAuthority(t)
	dead.Close()
	if r, _ := sendAs(t, client(t), dead.spec("refresh"), "refresh-token-0", Input{URL: dead.URL + "/api"}, &shelf{}); r.Outcome != NotSent || r.Reason != "dial_failed" {
		t.Errorf("no endpoint: %+v", r)
	}
	// The endpoint's address is held to what every address is.
	a := newAuthority(t)
	s := a.spec("refresh")
	s.TokenURL = "https://169.254.169.254/token"
	if r, _ := sendAs(t, client(t), s, "refresh-token-0", Input{URL: a.URL + "/api"}, &shelf{}); r.Outcome != Denied || r.Reason != "address_refused" {
		t.Errorf("metadata address: %+v", r)
	}
}

// A call that ends while it waits for a token, or while the endpoint stalls, has sent nothing to the API.
func TestTokenEndsWithItsCall(t *testing.T) {
	asked := make(chan struct{}, 1)
	srv := serveRaw(t, func(_ *rawServer, _ int, c net.Conn) {
		asked <- struct{}{}
		io.Copy(io.Discard, c)
	})
	s := Spec{Kind: "oauth2", Allow: []string{"GET " + srv.url + "/api"}, AllowNetwork: []string{"127.0.0.0/8"}, Carry: Carry{Minting: Minting{TokenURL: srv.url + "/token", ClientID: "me", Grant: "client-credentials"}}}
	q := parse(t, Input{URL: srv.url + "/api"})
	m := match(t, rules(t, s), q)
	c := client(t)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan Result, 2)
	for range 2 {
		go func() {
			r, err := c.Do(ctx, ctx, q, m, Injection{Credential: "cred", Version: 1, Secret: []byte("client-secret"), Keep: &shelf{}}, io.Discard)
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	<-asked
	cancel()
	for range 2 {
		if r := <-results; r.Outcome != NotSent {
			t.Errorf("%+v", r)
		}
	}
}

func TestGitHubApp(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	value := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	a, keep, c := newAuthority(t), &shelf{}, client(t)
	a.answer = func(n int, w http.ResponseWriter) {
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"token":"ghs_installation%d","expires_at":%q,"permissions":{}}`, n, time.Now().Add(time.Hour).Format(time.RFC3339))
	}
	s := Spec{Kind: "github-app", Allow: []string{"GET " + a.URL + "/api"}, Carry: Carry{Minting: Minting{TokenURL: a.URL, AppID: "12345", Installation: "678"}}}
	for range 2 {
		if r, body := sendAs(t, c, s, value, Input{URL: a.URL + "/api"}, keep); r.Code != 200 || r.Hits != 1 || strings.Contains(body, "ghs_") {
			t.Fatalf("%+v %q", r, body)
		}
	}
	if len(a.asked) != 1 || a.called[1] != "Bearer ghs_installation1" {
		t.Errorf("asked %d, called %q", len(a.asked), a.called)
	}
	claims := jwt.RegisteredClaims{}
	_, err = jwt.ParseWithClaims(strings.TrimPrefix(a.auth[0], "Bearer "), &claims, func(*jwt.Token) (any, error) { return &key.PublicKey, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer("12345"), jwt.WithExpirationRequired())
	if err != nil || time.Until(claims.ExpiresAt.Time) > 10*time.Minute {
		t.Errorf("the app's word: %v, %+v", err, claims)
	}
}

func TestCapture(t *testing.T) {
	hostile(t, "H31", func(t *testing.T) {
		spec := bearer()
		spec.Capture = []string{"/access_token", "/data/0/key"}
		send := func(answer string, keep *shelf) (Result, string) {
			srv := serveRaw(t, answering(answer))
			return sendAs(t, client(t), spec, secret, Input{URL: srv.url + "/token", Method: "POST"}, keep)
		}
		keep := &shelf{}
		doc := `{"n":12345678901234567890.10,"access_token":"minted-token-1","z":"minted-token-1 again","data":[{"key":"minted-key-22","access_token":"stays here"}],"a":[1,2]}`
		r, body := send(length(doc), keep)
		want := `{"n":12345678901234567890.10,"access_token":"captured:cred:/access_token","z":"[redacted] again","data":[{"key":"captured:cred:/data/0/key","access_token":"stays here"}],"a":[1,2]}`
		if body != want || !r.Complete || r.Hits != 1 || string(keep.kept["capture/access_token"]) != "minted-token-1" || string(keep.kept["capture/data/0/key"]) != "minted-key-22" {
			t.Errorf("%+v\n got %s\nwant %s\nkept %q", r, body, want, keep.kept)
		}
		for _, name := range allCodings {
			if _, body := send(coding(name, coded(t, name, doc)), &shelf{}); body != want {
				t.Errorf("%s: %q", name, body)
			}
		}
		// A header may hold it too.
		if r, _ := send(strings.Replace(length(doc), "Content-Length", "X-Token: minted-token-1\r\nContent-Length", 1), &shelf{}); r.Headers["X-Token"] != "[redacted]" {
			t.Errorf("%+v", r.Headers)
		}
		// Nothing there to capture: the answer is as it is.
		for _, doc := range []string{`{"access_token":null}`, `{"error":"x"}`, `[]`, `"access_token"`} {
			if r, body := send(length(doc), &shelf{}); body != doc || !r.Complete {
				t.Errorf("%s: %+v %q", doc, r, body)
			}
		}
		if r, body := send("HTTP/1.1 400 Bad\r\nContent-Length: 9\r\n\r\nnot json!", &shelf{}); body != "not json!" || r.Code != 400 {
			t.Errorf("%+v %q", r, body)
		}
		// What can't be kept or searched is not shown.
		for name, c := range map[string]struct {
			answer string
			keep   *shelf
		}{
			"disk full": {length(doc), &shelf{fail: true}},
			"no json":   {length("access_token=minted-token-1"), &shelf{}},
			"a number":  {length(`{"access_token":12345678901}`), &shelf{}},
			"an object": {length(`{"access_token":{"v":"minted-token-1"}}`), &shelf{}},
			"short":     {length(`{"access_token":"abc"}`), &shelf{}},
			"twice":     {length(`{"access_token":"minted-token-1","access_token":"minted-token-2"}`), &shelf{}},
			"cut":       {"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + doc, &shelf{}},
			"long":      {length(`{"x":"` + strings.Repeat("x", 1<<20) + `","access_token":"minted-token-1"}`), &shelf{}},
		} {
			if r, body := send(c.answer, c.keep); !r.Withheld || body != "" || r.Outcome != Confirmed {
				t.Errorf("%s: %+v %.100q", name, r, body)
			}
		}
	})
	for _, bad := range []string{"", "/", "access_token", "/a~2", "/a\nb"} {
		s := bearer("GET https://a.example/")
		s.Capture = []string{bad}
		if _, err := s.compile(); err == nil {
			t.Errorf("pointer %q taken", bad)
		}
	}
}

// A host that refuses an old token while a newer one is kept takes nothing from the newer: its refresh token is spent
// nowhere else.
func TestRefusedOldToken(t *testing.T) {
	keep := &shelf{}
	old := minted{Access: "access-token-1", Refresh: "refresh-token-1", At: time.Now().Add(-time.Hour), Version: 1}
	newer := minted{Access: "access-token-2", Refresh: "refresh-token-2", At: time.Now().Add(-time.Minute), Version: 1}
	in := Injection{Credential: "c", Version: 1, Keep: keep}
	if err := in.keep(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	c := client(t)
	if err := c.refused(t.Context(), in, old); err != nil {
		t.Fatal(err)
	}
	if m := keep.token(t); m.Access != newer.Access || m.Refresh != newer.Refresh {
		t.Errorf("the newer token became %+v", m)
	}
	if err := c.refused(t.Context(), in, newer); err != nil {
		t.Fatal(err)
	}
	if m := keep.token(t); m.Access != "" || m.Refresh != newer.Refresh {
		t.Errorf("the refused token became %+v", m)
	}
}
