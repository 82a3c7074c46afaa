package gateway

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/gateway/api"
	"sallyport/vault"
)

// Results and files go after a day, rows after thirty, an unresolved write never; the operator may say otherwise.
func TestRetention(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/lost":
			c, _, _ := http.NewResponseController(w).Hijack()
			c.Close()
		case "/long":
			io.WriteString(w, strings.Repeat("x", 2<<20))
		default:
			io.WriteString(w, "done")
		}
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	a := r.agent()
	keyed := call0(up.URL+"/keyed", "POST")
	keyed.IdempotencyKey = "k1"
	done := a.ask("call", keyed).Action
	long := a.ask("call", call0(up.URL+"/long", "GET")).Action
	lost := a.ask("call", call0(up.URL+"/lost", "POST")).Action
	file := filepath.Join(r.cfg.Home.Files(), long.ID)
	if err := r.flushActions(ctx); err != nil {
		t.Fatal(err)
	}
	start := now().Wall
	look := func() (result, hasFile, row, unresolved bool) {
		t.Helper()
		x, ok := r.find(ctx, done.ID)
		_, err := os.Stat(file)
		_, lostThere := r.find(ctx, lost.ID)
		_, rowThere, rerr := r.db.ActionByID(ctx, done.ID)
		if rerr != nil {
			t.Fatal(rerr)
		}
		return ok && len(x.Result) > 0, !errors.Is(err, fs.ErrNotExist), rowThere, lostThere
	}
	sweepAt := func(after time.Duration) {
		t.Helper()
		if err := os.Chtimes(file, start, start); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := r.sweep(ctx, start.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	sweepAt(23 * time.Hour)
	if result, f, row, open := look(); !result || !f || !row || !open {
		t.Errorf("after 23 hours: result %t file %t row %t unresolved %t", result, f, row, open)
	}
	sweepAt(25 * time.Hour)
	if result, f, row, open := look(); result || f || !row || !open {
		t.Errorf("after 25 hours: result %t file %t row %t unresolved %t", result, f, row, open)
	}
	if res := a.ask("call", keyed); code(res) != "result_lost" || res.Error.Action != done.ID {
		t.Errorf("the key's result is gone: %+v", res.Error)
	}
	if got := code(a.ask(api.MethodFile, api.FileRequest{Action: long.ID})); got != "result_lost" {
		t.Errorf("the file is gone: %s", got)
	}
	if x := a.ask(api.MethodStatus, api.StatusRequest{Action: done.ID}).Action; x == nil || x.Outcome != "confirmed" || len(x.Result) != 0 {
		t.Errorf("what is left of it: %+v", x)
	}
	sweepAt(31 * 24 * time.Hour)
	if _, _, row, open := look(); row || !open {
		t.Errorf("after 31 days: row %t unresolved %t", row, open)
	}
	if got := code(a.ask("call", call0(up.URL+"/lost", "POST"))); got != "outcome_unresolved" {
		t.Errorf("the twin of an unresolved write after 31 days: %s", got)
	}

	// The setting is checked, shown and followed.
	for _, bad := range []string{`{results = "1m"}`, `{rows = "1h"}`, `{files = "x"}`, `{results = "99999999h"}`} {
		if _, code := r.apply("[settings]\nretention = "+bad, false); code != "invalid_request" {
			t.Errorf("retention = %s was taken", bad)
		}
	}
	if _, code := r.apply("[settings.retention]\nrows = \"72h\"\n", false); code != "" {
		t.Fatal(code)
	}
	s, err := readSettings(r.vault.Snapshot())
	if err != nil || s.Retention.String() != `{results = "24h", files = "24h", rows = "72h"}` {
		t.Errorf("retention %s, %v", s.Retention, err)
	}
	op[api.Status](r, r.opLock, struct{}{})
	if err := r.sweep(ctx, start.Add(10_000*time.Hour)); err != nil || r.vault.State() != vault.Locked {
		t.Errorf("a sweep while locked: %v", err)
	}
}

// Idempotency keys outlive the gateway, also for a client that was heard before the vault was opened.
func TestKeysOutliveARestart(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "POST "+up.URL+"/**")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.approveAll(ctx, "run")
	keyed := call0(up.URL+"/once", "POST")
	keyed.IdempotencyKey = "k1"
	first := r.agent().ask("call", keyed)
	if code(first) != "confirmed" {
		t.Fatal(code(first))
	}
	crashed := snapshot(t, r.dir) // perhaps before the row is written: then only the log has it
	if err := r.flushActions(ctx); err != nil {
		t.Fatal(err)
	}
	written := snapshot(t, r.dir)
	for _, dir := range []string{crashed, written} {
		for _, heard := range []bool{false, true} {
			again := newRig(t, snapshot(t, dir))
			a := again.agent()
			if heard {
				if got := code(a.ask("call", keyed)); got != "vault_locked" {
					t.Fatal(got)
				}
			}
			again.unlock()
			go again.approveAll(ctx, "run")
			res := a.ask("call", keyed)
			if got := code(res); got != "confirmed" && got != "result_lost" {
				t.Errorf("the same key after a restart (heard %t): %s", heard, got)
			}
			if dir == written && (res.Action == nil || res.Action.ID != first.Action.ID) {
				t.Errorf("the kept result is not shown: %+v %+v", res.Action, res.Error)
			}
			other := call0(up.URL+"/other", "POST")
			other.IdempotencyKey = "k1"
			if got := code(a.ask("call", other)); got != "idempotency_mismatch" {
				t.Errorf("the key for another request: %s", got)
			}
			again.stop()
		}
	}
	if got := up.paths(); len(got) != 1 {
		t.Errorf("the upstream saw %v", got)
	}
}

// The operator's word on an unknown write is recorded and shown; a key of a write that did not happen, or that may be
// sent again, is free, that of one which happened is not.
func TestResolveThreeWays(t *testing.T) {
	for how, want := range map[string]string{"happened": "sent_unconfirmed", "did-not-happen": "confirmed", "replay": "confirmed"} {
		t.Run(how, func(t *testing.T) {
			var mu sync.Mutex
			var keys []string
			up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				keys = append(keys, q.Header.Get("Idempotency-Key"))
				if len(keys) == 1 { // the first one's answer is lost
					c, _, _ := http.NewResponseController(w).Hijack()
					c.Close()
				}
			})
			r := newRig(t, "")
			r.init()
			r.addIdempotent("ledger", up.URL)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go r.approveAll(ctx, "run")
			a := r.agent()
			keyed := call0(up.URL+"/once", "POST")
			keyed.IdempotencyKey = "k1"
			first := a.ask("call", keyed)
			if code(first) != "sent_unconfirmed" {
				t.Fatal(code(first))
			}
			twin := a.ask("call", call0(up.URL+"/once", "POST"))
			if code(twin) != "outcome_unresolved" || !strings.Contains(twin.Error.Reason, first.Action.ID) {
				t.Errorf("the twin: %+v", twin.Error)
			}
			x := op[api.Action](r, r.opActionResolve, api.ResolveArgs{ID: first.Action.ID, Resolution: how})
			if x.Resolution != how || x.Outcome != "sent_unconfirmed" {
				t.Errorf("resolved: %+v", x)
			}
			if x := op[api.Action](r, r.opActionShow, api.IDArgs{ID: first.Action.ID}); x.Resolution != how {
				t.Errorf("shown: %+v", x)
			}
			if got := code(a.ask("call", keyed)); got != want {
				t.Errorf("the same key: %s, want %s", got, want)
			}
			mu.Lock()
			if want == "confirmed" && (len(keys) != 2 || keys[0] == "" || keys[0] != keys[1]) {
				t.Errorf("the service was given the keys %q", keys)
			}
			if want != "confirmed" && len(keys) != 1 {
				t.Errorf("the service was asked %d times", len(keys))
			}
			mu.Unlock()
			if got := code(a.ask("call", call0(up.URL+"/once", "POST"))); got != "confirmed" {
				t.Errorf("the same write without the key: %s", got)
			}
			r.stop()
			if n := count(events(t, r.dir, r.created.ReaderIdentity), "tool_resolved"); n != 1 {
				t.Errorf("%d resolutions recorded", n)
			}
		})
	}
}
