package httpexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

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
	if v.ClientSecret == "" || r.spec.TokenAuth == "body" {
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
