package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-oauth2/oauth2/v4"
	oauth2errors "github.com/go-oauth2/oauth2/v4/errors"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/models"
	oauthserver "github.com/go-oauth2/oauth2/v4/server"
	"github.com/go-oauth2/oauth2/v4/store"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/vault"
)

// oauthService is an API behind tokens of an authorization server that nobody here wrote (go-oauth2: it has the grant
// refresh with rotation, runs in a test's process and keeps its tokens in memory).
type oauthService struct {
	*httptest.Server
	manager *manage.Manager
	minted  atomic.Int64 // tokens given
	refused atomic.Int64 // of the token endpoint
	expire  sync.Map     // access tokens that the API no longer takes
	access  sync.Map     // those it was called with
}

func newOAuth(t testing.TB) *oauthService {
	t.Helper()
	o := &oauthService{manager: manage.NewDefaultManager()}
	o.manager.MustTokenStorage(store.NewMemoryTokenStore())
	clients := store.NewClientStore()
	if err := clients.Set("client-1", &models.Client{ID: "client-1", Secret: "client-secret-1"}); err != nil {
		t.Fatal(err)
	}
	o.manager.MapClientStorage(clients)
	o.manager.SetPasswordTokenCfg(&manage.Config{AccessTokenExp: time.Second, RefreshTokenExp: time.Hour, IsGenerateRefresh: true})
	o.manager.SetRefreshTokenCfg(&manage.RefreshingConfig{AccessTokenExp: time.Hour, RefreshTokenExp: time.Hour, IsGenerateRefresh: true, IsRemoveAccess: true, IsRemoveRefreshing: true})
	o.manager.SetClientTokenCfg(&manage.Config{AccessTokenExp: time.Hour})
	srv := oauthserver.NewDefaultServer(o.manager)
	srv.SetClientInfoHandler(oauthserver.ClientBasicHandler)
	srv.SetInternalErrorHandler(func(error) *oauth2errors.Response { return nil })
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		srv.HandleTokenRequest(rec, r)
		if rec.Code == 200 {
			o.minted.Add(1)
		} else {
			o.refused.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	})
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		info, err := srv.ValidationBearerToken(r)
		if err == nil {
			o.access.Store(info.GetAccess(), true)
			_, gone := o.expire.Load(info.GetAccess())
			if gone {
				err = oauth2errors.ErrInvalidAccessToken
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		json.NewEncoder(w).Encode(map[string]bool{"ok": true}) // no echo: ten of them would end the grant
	})
	o.Server = httptest.NewServer(mux)
	t.Cleanup(o.Close)
	return o
}

// refreshToken is one as an operator would have got it, by a login elsewhere.
func (o *oauthService) refreshToken(t testing.TB) string {
	t.Helper()
	info, err := o.manager.GenerateAccessToken(context.Background(), oauth2.PasswordCredentials,
		&oauth2.TokenGenerateRequest{ClientID: "client-1", ClientSecret: "client-secret-1", UserID: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return info.GetRefresh()
}

func (r *rig) addOAuth(o *oauthService, name, grant, value string) {
	r.t.Helper()
	err := r.addKind(api.CredentialArgs{Name: name, Kind: "oauth2", Rules: api.HTTPRules{Allow: []string{"GET,POST " + o.URL + "/api/**"},
		Carried: api.Carried{Minting: api.Minting{TokenURL: o.URL + "/token", ClientID: "client-1", Grant: grant}}}}, value)
	if err != nil {
		r.t.Fatal(err)
	}
}

// H33: 32 calls at once with an expired token and a refresh token that is good for one use: one refresh. Killed after it
// and started again, the gateway uses the new token, and then the new refresh token.
func TestH33RefreshOnce(t *testing.T) {
	o := newOAuth(t)
	r := newRig(t, "")
	r.init()
	r.addOAuth(o, "svc", "refresh", `{"clientSecret":"client-secret-1","refreshToken":"`+o.refreshToken(t)+`"}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	if got := code(a.ask("session", struct{}{})); got != "result" {
		t.Fatal(got)
	}
	var answers []<-chan api.Response
	for range 32 {
		answers = append(answers, a.send("call", call0(o.URL+"/api/x", "GET")))
	}
	for _, ch := range answers {
		if res := <-ch; code(res) != "confirmed" {
			t.Fatalf("%s, %+v", code(res), res.Action)
		}
	}
	if o.minted.Load() != 1 || o.refused.Load() != 0 {
		t.Fatalf("%d refreshes, %d refused", o.minted.Load(), o.refused.Load())
	}
	// A crash: the home as it is on disk now, and nothing else.
	dir := snapshot(t, r.dir)
	created := r.created
	r.stop()

	r = newRig(t, dir)
	r.created = created
	r.unlock()
	go r.approveAll(ctx, "run")
	a = r.agent()
	if got := code(a.ask("call", call0(o.URL+"/api/y", "GET"))); got != "confirmed" || o.minted.Load() != 1 {
		t.Fatalf("after the restart: %s, %d refreshes", got, o.minted.Load())
	}
	r.stop()
	evs := events(t, dir, created.ReaderIdentity)
	if count(evs, "token_kept") != 1 {
		t.Fatalf("log: %v", kinds(evs))
	}
	for _, e := range evs {
		if k, ok := e.(event.TokenKept); ok && (k.Credential != "svc" || k.Field != "token" || k.Run == "" || k.Action == "") {
			t.Errorf("%+v", k)
		}
	}
}

// Client credentials: what was minted is kept beside the credential, and goes with it. A client that is refused sends nothing.
func TestClientCredentials(t *testing.T) {
	o := newOAuth(t)
	r := newRig(t, "")
	r.init()
	r.addOAuth(o, "svc", "client-credentials", "client-secret-1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a := r.agent()
	status := func() int {
		t.Helper()
		res := a.ask("call", call0(o.URL+"/api/x", "GET"))
		if code(res) != "confirmed" {
			t.Fatal(code(res))
		}
		var x api.HTTPResult
		if err := json.Unmarshal(res.Action.Result, &x); err != nil {
			t.Fatal(err)
		}
		return x.Status
	}
	if status() != 200 || o.minted.Load() != 1 {
		t.Fatalf("%d minted", o.minted.Load())
	}
	// Rotated: what was minted with the old value is gone with it.
	if b, err := (keeper{g: r.Gateway, of: vault.Ref{Name: "svc"}}).Kept(ctx, "token"); err != nil || b == nil {
		t.Fatalf("nothing kept: %v", err)
	}
	op[api.Ended](r, r.opCredentialRemove, api.NameArgs{Name: "svc"})
	if b, err := (keeper{g: r.Gateway, of: vault.Ref{Name: "svc"}}).Kept(ctx, "token"); err != nil || b != nil {
		t.Fatalf("kept after the credential went: %q, %v", b, err)
	}
	r.addOAuth(o, "bad", "client-credentials", "another secret")
	res := a.ask("call", call0(o.URL+"/api/x", "GET"))
	if code(res) != "not_sent" || res.Action.Outcome != "not_sent" {
		t.Fatalf("a client that is refused: %s %+v", code(res), res.Action)
	}
}
