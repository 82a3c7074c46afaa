package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// Everything at once: callers, yes, no, lock, unlock, a credential removed and added, an upstream that hangs up. However
// it falls out, no answer lies about the upstream's ledger, every intent has one result, and a call is sent once.
func TestStorm(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		switch rand.IntN(8) {
		case 0:
			panic(http.ErrAbortHandler) // no answer
		case 1:
			time.Sleep(3 * time.Millisecond)
		}
		io.WriteString(w, "ok "+q.Header.Get("Authorization"))
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(long(1500, 60000))*time.Millisecond)
	defer cancel()
	quiet := func(h opHandler, args any) {
		h(opRequest{ctx: context.WithoutCancel(ctx), args: encode(args), who: "passphrase", proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}})
	}
	var operators, callers sync.WaitGroup
	calm, end := context.WithCancel(t.Context())
	defer end()
	go r.approveAll(calm, "run") // to the end: a call whose card nobody answers waits for it
	operators.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(100*time.Millisecond + rand.N(300*time.Millisecond))
			quiet(r.opLock, struct{}{})
			quiet(r.opUnlock, struct{}{})
		}
	})
	operators.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(50*time.Millisecond + rand.N(250*time.Millisecond))
			quiet(r.opCredentialRemove, api.NameArgs{Name: "ledger"})
			quietAdd(r, "ledger", "POST "+up.URL+"/**")
		}
	})
	var mu sync.Mutex
	answers := map[string]api.Response{}
	agents := []*agent0{r.agent(), r.agent(), r.agent()}
	for i := range 24 {
		callers.Go(func() {
			a := agents[i%len(agents)]
			for n := 0; ctx.Err() == nil; n++ {
				path := fmt.Sprintf("/%d/%d", i, n)
				req := call0(up.URL+path, "POST")
				if n%3 == 0 {
					req.IdempotencyKey = path
				}
				res := a.ask(api.MethodCall, req)
				mu.Lock()
				answers[path] = res
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	operators.Wait()
	// Afterwards it works as before.
	quiet(r.opUnlock, struct{}{})
	quietAdd(r, "ledger", "POST "+up.URL+"/**")
	for n := 0; ; n++ {
		got := code(agents[0].ask(api.MethodCall, call0(fmt.Sprintf("%s/calm/%d", up.URL, n), "POST")))
		if got == "confirmed" {
			break
		}
		if got != "sent_unconfirmed" || n > 50 {
			t.Fatalf("after the storm: %s", got)
		}
	}
	ledger := map[string]int{}
	for _, p := range up.paths() {
		ledger[p]++
	}
	told := map[string]int{}
	for path, res := range answers {
		out := "denied"
		if res.Action != nil {
			out = res.Action.Outcome
			if strings.Contains(string(res.Action.Result), testSecret) {
				t.Errorf("%s: the secret came back", path)
			}
		}
		told[out]++
		switch n := ledger[path]; {
		case n > 1:
			t.Errorf("%s was sent %d times", path, n)
		case n == 1 && (out == "denied" || out == "not_sent"):
			t.Errorf("%s reached the upstream and was told as %s (%s)", path, out, code(res))
		case n == 0 && out == "confirmed":
			t.Errorf("%s was told as confirmed and never arrived", path)
		}
	}
	r.stop()
	called, ended := map[string]bool{}, map[string]int{}
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		switch e := e.(type) {
		case event.ToolCalled:
			called[e.Action] = true
		case event.ToolFinished:
			ended[e.Action]++
		}
	}
	for id := range called {
		if ended[id] != 1 {
			t.Errorf("%s has %d results", id, ended[id])
		}
	}
	t.Log(told, len(called), "intents")
}

// quietAdd is addBearer where the vault may be locked.
func quietAdd(r *rig, name, rule string) {
	salt := []byte("0123456789abcdef")
	sum := sha256.Sum256(append(salt[:16:16], testSecret...))
	r.opCredentialAdd(opRequest{ctx: context.Background(), who: "passphrase", salt: salt, value: []byte(testSecret), args: encode(api.CredentialArgs{
		Name: name, Kind: "bearer", ValueLength: len(testSecret), ValueDigest: sum[:],
		Rules: api.HTTPRules{Allow: []string{rule}, AllowHTTP: true, AllowNetwork: []string{"127.0.0.0/8"}},
	})})
}
