package main_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// recorder is a service that counts what arrives.
type recorder struct {
	n   atomic.Int64
	web *httptest.Server
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{}
	r.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.n.Add(1)
		w.Write([]byte("ok"))
	}))
	t.Cleanup(r.web.Close)
	return r
}

func (r *recorder) addr() string { return strings.TrimPrefix(r.web.URL, "http://") }
func (r *recorder) count() int64 { return r.n.Load() }

// addBearer adds a credential for a service on loopback.
func (w *world) addBearer(t *testing.T, name, addr string) {
	t.Helper()
	w.sp([]byte("tok-77aa0c51f2e94b"), "secret", "add", name, "--kind", "bearer", "--allow-network", "127.0.0.0/8", "--allow", "GET,POST http://"+addr+"/**")
}

// approveAny approves the next card of a tool with a credential, whoever asks.
func (h *host) approveAny(tool, credential string) {
	h.t.Helper()
	h.until("a card of "+tool+" with "+credential, func() bool {
		var cards []api.Approval
		if h.w.operator(api.PathApprovalList, struct{}{}, &cards) != nil {
			return false
		}
		i := slices.IndexFunc(cards, func(c api.Approval) bool { return c.Tool == tool && c.Credential == credential })
		return i >= 0 && h.w.operator(api.PathApprovalGrant, api.ApproveArgs{ID: cards[i].ID, CardDigest: cards[i].CardDigest, Scope: "run"}, nil) == nil
	})
}

// pastGrace lets the time pass in which a server's own call still counts as part of its tool's.
func (h *host) pastGrace() { time.Sleep(2200 * time.Millisecond) }
