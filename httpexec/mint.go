package httpexec

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"sallyport/gateway/scrub"
)

// Keeper holds what was minted during calls of one credential. Keep is durable on return, before what it was given is
// used; it is called also when the call's context has ended, since a refresh token may be gone at the other end by then.
// Kept returns nil where there is nothing. A field is "token" or "capture" and a JSON pointer.
type Keeper interface {
	Keep(ctx context.Context, field string, value []byte) error
	Kept(ctx context.Context, field string) ([]byte, error)
}

// fieldToken is where oauth2 and github-app keep theirs.
const fieldToken = "token"

// minted is the field's document.
type minted struct {
	Access  string    `json:"accessToken,omitempty"`
	Refresh string    `json:"refreshToken,omitempty"` // oauth2's grant refresh: the one to use next
	Expiry  time.Time `json:"expiry,omitzero"`        // zero: the server did not say
	At      time.Time `json:"at"`
	Version uint64    `json:"version"` // of the credential: an access token of another one is not used
}

const (
	early    = time.Minute      // a token that ends within is minted anew
	youngest = 10 * time.Second // a token refused at this age is not minted anew: something else is wrong
)

func (m minted) serves(version uint64, now time.Time) bool {
	return m.Access != "" && m.Version == version && (m.Expiry.IsZero() || now.Add(early).Before(m.Expiry))
}

// mints tells the kinds whose value is only what tokens are made with.
func (s Spec) mints() bool { return s.Kind == "oauth2" || s.Kind == "github-app" }

// token returns a token that serves, from the keeper or minted now. One call of a credential mints; others wait for it.
func (c *Client) token(ctx, dial context.Context, r *Rules, in Injection) (minted, *failure) {
	read := func() (m minted, f *failure) {
		b, err := in.Keep.Kept(ctx, fieldToken)
		if err == nil && b != nil {
			err = json.Unmarshal(b, &m)
			clear(b)
		}
		if err != nil {
			return minted{}, unminted("the kept token can't be read")
		}
		return m, nil
	}
	m, f := read()
	if f != nil || m.serves(in.Version, time.Now()) {
		return m, f
	}
	done, f := c.single(ctx, dial, in.Credential)
	if f != nil {
		return m, f
	}
	defer done()
	if m, f = read(); f != nil || m.serves(in.Version, time.Now()) {
		return m, f
	}
	// What is minted belongs to who starts now: a token endpoint is spoken to once, whatever it answers.
	e := &endpoint{c: c, ctx: ctx, dial: dial, rules: r}
	next, err := r.mintOne(context.WithValue(ctx, oauth2.HTTPClient, e.client()), e, in, m)
	switch {
	case e.failed != nil:
		return m, e.failed
	case err != nil:
		return m, unminted(err.Error())
	}
	next.At, next.Version = time.Now(), in.Version
	if err := in.keep(ctx, next); err != nil {
		return m, unminted("a new token could not be kept, so it is not used")
	}
	return next, nil
}

func unminted(why string) *failure {
	return &failure{NotSent, NotSent.String(), "no token to call with: " + why}
}

func (in Injection) keep(ctx context.Context, m minted) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	defer clear(b)
	return in.Keep.Keep(context.WithoutCancel(ctx), fieldToken, b)
}

// refused notes that the host refused a token: the next call mints another. Nothing is sent again by itself.
func (in Injection) refused(ctx context.Context, m minted) error {
	if time.Since(m.At) < youngest {
		return nil
	}
	m.Access, m.Expiry = "", time.Time{}
	return in.keep(ctx, m)
}

// single lets one call of a credential in at a time.
func (c *Client) single(ctx, dial context.Context, credential string) (done func(), f *failure) {
	for {
		c.mintMu.Lock()
		busy := c.minting[credential]
		if busy == nil {
			mine := make(chan struct{})
			c.minting[credential] = mine
			c.mintMu.Unlock()
			return func() {
				c.mintMu.Lock()
				delete(c.minting, credential)
				c.mintMu.Unlock()
				close(mine)
			}, nil
		}
		c.mintMu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		case <-dial.Done():
		}
		if f := stopped(ctx, dial); f != nil {
			return nil, f
		}
	}
}

func (r *Rules) mintOne(ctx context.Context, e *endpoint, in Injection, had minted) (minted, error) {
	if r.spec.Kind == "github-app" {
		return r.mintInstallation(ctx, e, in.Secret)
	}
	v, err := r.spec.parseOAuth(in.Secret)
	if err != nil {
		return minted{}, err
	}
	// The style is fixed: looking for one would send a refresh token twice.
	style := oauth2.AuthStyleInHeader
	if v.ClientSecret == "" {
		style = oauth2.AuthStyleInParams
	}
	var t *oauth2.Token
	if r.spec.Grant == "client-credentials" {
		cfg := clientcredentials.Config{ClientID: r.spec.ClientID, ClientSecret: v.ClientSecret, TokenURL: r.mint.String(), Scopes: r.spec.Scopes, AuthStyle: style}
		t, err = cfg.Token(ctx)
	} else {
		if had.Refresh != "" {
			v.RefreshToken = had.Refresh
		}
		cfg := oauth2.Config{ClientID: r.spec.ClientID, ClientSecret: v.ClientSecret, Scopes: r.spec.Scopes, Endpoint: oauth2.Endpoint{TokenURL: r.mint.String(), AuthStyle: style}}
		t, err = cfg.TokenSource(ctx, &oauth2.Token{RefreshToken: v.RefreshToken}).Token()
	}
	if err != nil {
		return minted{}, oauthFault(err)
	}
	if t.Type() != "Bearer" {
		return minted{}, errors.New("the token endpoint gave a token that is no bearer token")
	}
	m := minted{Access: t.AccessToken, Expiry: t.Expiry}
	if r.spec.Grant == "refresh" {
		m.Refresh = t.RefreshToken
	}
	return m, m.check()
}

// check: a minted token is held to what a bearer credential's value is.
func (m minted) check() error {
	if len(m.Access) < minSecret || (Spec{Kind: "bearer"}).checkValue([]byte(m.Access)) != nil {
		return errors.New("the token endpoint gave a token that can't be sent, or is too short to be masked")
	}
	return nil
}

// oauthFault says in safe words why no token came: the library's error holds the endpoint's whole answer.
func oauthFault(err error) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || e.Response == nil {
		return errors.New("the token endpoint's answer is no token")
	}
	word := ""
	if e.ErrorCode != "" && len(e.ErrorCode) <= 40 && strings.Trim(e.ErrorCode, "abcdefghijklmnopqrstuvwxyz_") == "" {
		word = " " + e.ErrorCode
	}
	return fmt.Errorf("the token endpoint answered %d%s", e.Response.StatusCode, word)
}

// mintInstallation trades the app's signed word for an installation token (GitHub's REST API,
// "Generating an installation access token for a GitHub App").
func (r *Rules) mintInstallation(ctx context.Context, e *endpoint, key []byte) (minted, error) {
	k, err := parseAppKey(key)
	if err != nil {
		return minted{}, err
	}
	now := time.Now()
	claims := jwt.RegisteredClaims{Issuer: r.spec.AppID, IssuedAt: jwt.NewNumericDate(now.Add(-time.Minute)), ExpiresAt: jwt.NewNumericDate(now.Add(9 * time.Minute))}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(k)
	if err != nil {
		return minted{}, errors.New("the app's key does not sign")
	}
	req, err := http.NewRequestWithContext(ctx, "POST", r.mint.String()+"/app/installations/"+r.spec.Installation+"/access_tokens", nil)
	if err != nil {
		return minted{}, errors.New("tokenUrl is not usable")
	}
	req.Header.Set("Authorization", "Bearer "+signed)
	req.Header.Set("Accept", "application/vnd.github+json")
	resp, err := e.RoundTrip(req)
	if err != nil {
		return minted{}, err
	}
	var doc struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil || resp.StatusCode != http.StatusCreated:
		return minted{}, errors.New("the token endpoint answered " + strconv.Itoa(resp.StatusCode))
	case json.Unmarshal(body, &doc) != nil:
		return minted{}, errors.New("the token endpoint's answer is no token")
	}
	m := minted{Access: doc.Token, Expiry: doc.Expires}
	return m, m.check()
}

// endpoint is the way to a token endpoint: one request, to a checked address, by the exchange that every call uses.
type endpoint struct {
	c         *Client
	ctx, dial context.Context
	rules     *Rules
	used      bool
	failed    *failure // why there is no answer
}

func (e *endpoint) client() *http.Client {
	return &http.Client{Transport: e, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

var errEndpoint = errors.New("token endpoint not reached")

func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	if e.used {
		return nil, errEndpoint // nothing is sent twice
	}
	e.used = true
	o, err := originOf(req.URL)
	if err != nil {
		return nil, err
	}
	cn, f := e.c.connect(e.ctx, e.dial, o, e.rules, nil)
	if f != nil {
		e.failed = &failure{f.outcome, f.reason, "token endpoint: " + f.detail}
		return nil, errEndpoint
	}
	defer cn.close()
	out := req.Clone(e.ctx)
	out.Header.Set("User-Agent", e.c.o.UserAgent)
	out.Header.Set("Accept-Encoding", "identity")
	var body bytes.Buffer
	x := exchange{conn: cn, req: out, set: scrub.New(), limit: e.c.o.BodyLimit, body: &body}
	r, _, err := x.run(e.ctx, e.dial)
	if err != nil || r.Outcome != Confirmed || !r.Complete {
		detail := r.Detail
		if r.Code != 0 && r.Outcome != Confirmed {
			detail = "it answered " + strconv.Itoa(r.Code)
		}
		e.failed = unminted("token endpoint: " + detail)
		return nil, errEndpoint
	}
	h := http.Header{}
	for k, v := range r.Headers {
		h.Set(k, v)
	}
	return &http.Response{StatusCode: r.Code, Status: r.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(&body), ContentLength: int64(body.Len()), Request: req}, nil
}

func originOf(u *url.URL) (origin, error) { return parseOrigin(u.Scheme, u.Host, false) }

// clientCert is what mtls shows in the handshake; nil for every other kind.
func (r *Rules) clientCert(value []byte) (*tls.Certificate, error) {
	if r.spec.Kind != "mtls" {
		return nil, nil
	}
	c, err := parsePair(value)
	if err != nil {
		return nil, err
	}
	return &c, nil
}
