package gateway

import (
	"fmt"
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/console/browser"
	"sallyport/gateway/store"
)

// Rows of the fluid console's acceptance.
const (
	manyRuns = 500
	manyRows = 100_000
)

// seedMany writes rows as the gateway does: runs of earlier starts, their calls with what came of them, and every tenth a
// denial.
func (r *rig) seedMany(runs, rows int) {
	r.t.Helper()
	ids := make([]string, runs)
	start := now().Wall.Add(-time.Duration(rows) * time.Second / 10)
	for from := 0; from < max(runs, rows); from += 5000 {
		err := r.db.Change(r.t.Context(), func(tx *store.Tx) error {
			for i := from; i < min(from+5000, runs); i++ {
				ids[i] = newID("run_")
				box, err := r.vault.Seal(store.UseRun, []byte(ids[i]), encode(storedRun{Agent: api.Agent{ProcessID: 1000 + i, Command: fmt.Sprintf("agent-%d --work", i), Identity: "strong"}}))
				if err == nil {
					err = tx.PutRun(store.Run{ID: ids[i], State: "ended", Opened: start, Changed: start, Sealed: box})
				}
				if err != nil {
					return err
				}
			}
			var told []store.Told
			for i := from; i < min(from+5000, rows); i++ {
				c := event.Call{Action: newID("act_"), Run: ids[i%runs], Epoch: "ep_1", Tool: "http_request", Credential: "github", Target: "https://api.github.com",
					Operation: fmt.Sprintf("GET /repos/o/r/issues/%d", i)}
				ev := event.Event(event.ToolCalled{Call: c, Decision: "granted", Grant: "gr_1"})
				if i%10 == 0 {
					ev = event.AuthorizationDenied{Call: c, Method: "call", Reason: "run_revoked"}
				}
				row, err := r.toldRow(toldEvent{uint64(i + 1), start.Add(time.Duration(i) * 100 * time.Millisecond), event.Encode(ev)}, c.Run, false)
				if err != nil {
					return err
				}
				told = append(told, row)
			}
			return tx.Told(told)
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// Pages answer whole and in order, whatever their size and filter, and a row that was changed is told and not shown.
func TestActivityPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.init()
	r.seedMany(20, 3000)
	all := func(a api.ActivityArgs) (n int, first, last api.ActivityRow) {
		t.Helper()
		seen := map[uint64]bool{}
		for page := 0; ; page++ {
			p := op[api.ActivityPage](r, r.opActivityList, a)
			for _, x := range p.Rows {
				if seen[x.Seq] || n > 0 && x.Seq >= last.Seq {
					t.Fatalf("%+v: record %d after %d", a, x.Seq, last.Seq)
				}
				if seen[x.Seq] = true; n == 0 {
					first = x
				}
				n, last = n+1, x
			}
			if a.Before = p.Next; p.Next == "" {
				return n, first, last
			}
			if len(p.Rows) > max(a.Limit, 1) && a.Limit != 0 || page > 3000 {
				t.Fatalf("%+v: %d rows, page %d", a, len(p.Rows), page)
			}
		}
	}
	for _, c := range []struct {
		args api.ActivityArgs
		want int
	}{
		{api.ActivityArgs{}, 3000}, {api.ActivityArgs{Limit: 7}, 3000}, {api.ActivityArgs{Class: "denied"}, 300}, {api.ActivityArgs{Class: "call", Limit: 33}, 2700},
		{api.ActivityArgs{Search: "ISSUES/299"}, 11}, {api.ActivityArgs{Search: "nowhere"}, 0}, {api.ActivityArgs{Outcome: "running"}, 2700}, {api.ActivityArgs{Outcome: "confirmed"}, 0},
	} {
		if n, first, last := all(c.args); n != c.want {
			t.Errorf("%+v: %d rows, want %d (%d to %d)", c.args, n, c.want, first.Seq, last.Seq)
		}
	}
	run := op[[]api.Run](r, r.opRunList, struct{}{})[0].ID
	if n, _, _ := all(api.ActivityArgs{AgentRun: run, Limit: 50}); n != 150 {
		t.Errorf("of one run: %d", n)
	}
	lines := op[api.Timeline](r, r.opRunTimeline, api.TimelineArgs{ID: run, Limit: 100})
	if len(lines.Lines) != 100 || lines.Next == "" || lines.Lines[0].Seq < lines.Lines[99].Seq {
		t.Errorf("timeline: %d lines, next %q", len(lines.Lines), lines.Next)
	}
	rate := op[api.Rate](r, r.opActivityRate, api.RateArgs{Seconds: 60, Steps: 60})
	calls, denied := 0, 0
	for i := range rate.Calls {
		calls, denied = calls+rate.Calls[i], denied+rate.Denied[i]
	}
	if calls != 2700 || denied != 300 {
		t.Errorf("chart: %d calls, %d denials", calls, denied)
	}
	for _, bad := range []api.ActivityArgs{{Class: "all"}, {Limit: 201}, {Limit: -1}, {Before: "x"}, {Before: "1"}, {Before: "0.1"}, {Before: "1.-1"}} {
		if _, err := r.opActivityList(opRequest{ctx: t.Context(), args: encode(bad), who: unprovedWho}); refusalOf(err).Code != "invalid_request" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	// A denial that another hand files under calls is not shown as one.
	if err := r.db.Change(t.Context(), func(tx *store.Tx) error {
		row, err := r.toldRow(toldEvent{9999, now().Wall, event.Encode(event.AuthorizationDenied{Call: event.Call{Run: run}, Reason: "run_revoked"})}, run, false)
		row.Class = store.ToldCall
		if err != nil {
			return err
		}
		return tx.Told([]store.Told{row})
	}); err != nil {
		t.Fatal(err)
	}
	if p := op[api.ActivityPage](r, r.opActivityList, api.ActivityArgs{Limit: 5}); p.Hidden != 1 || p.Rows[0].Seq == 9999 {
		t.Errorf("a changed row: %+v", p)
	}
	op[api.Status](r, r.opLock, struct{}{})
	if _, err := r.opActivityList(opRequest{ctx: t.Context(), args: encode(api.ActivityArgs{}), who: unprovedWho}); refusalOf(err).Code != "vault_locked" {
		t.Errorf("while locked: %v", err)
	}
}

// 500 runs and 100 000 rows stay fluid: never more than 200 rows in the page, one request a page and none a row. Times are
// printed, not judged.
func TestManyRowsInBrowser(t *testing.T) {
	b := browser.Start(t)
	r := newRig(t, "", func(c *Config) { c.Console = ConsoleRequired })
	r.init()
	rows := long(manyRows/20, manyRows)
	r.seedMany(manyRuns, rows)
	b.Open(op[api.ConsoleOpened](r, r.opConsoleOpen, struct{}{}).URL)
	b.Reads("Nothing waits")
	browser.Eval[bool](b, `(window.sent = 0, window.realFetch = fetch, window.fetch = (...a) => { window.sent++; return window.realFetch(...a) }, true)`)
	count := func(what string) {
		t.Helper()
		if n := browser.Eval[int](b, `document.querySelectorAll('tr, .timeline li').length`); n > 200 {
			t.Errorf("%s: %d rows in the page", what, n)
		}
	}
	timed := func(what, until string, act func()) {
		t.Helper()
		before := browser.Eval[int](b, `window.sent`)
		began := time.Now()
		act()
		b.Until(what, until)
		t.Logf("%s, of %d rows and %d runs: %v, %d requests", what, rows, manyRuns, time.Since(began).Round(time.Millisecond), browser.Eval[int](b, `window.sent`)-before)
		count(what)
	}
	timed("activity's first paint", `document.querySelectorAll('tr[data-seq]').length === 100`, func() { b.Press("nav", "Activity") })
	timed("activity's older page", `document.querySelector('[data-key=newest]')`, func() { b.Press(".pager", "Older") })
	timed("activity, denials alone", `document.querySelectorAll('tr.refused').length === 100`, func() { b.Press(".filters", "Denied") })
	b.Press(".filters", "All")
	timed("activity, the oldest row by its words", `document.querySelectorAll('tr[data-seq]').length >= 1 && document.querySelector('tr[data-seq="2"]') && !document.querySelector('.looked').textContent`, func() {
		browser.Eval[bool](b, `(document.querySelector('input[type=search]').focus(), true)`)
		b.Keys("/issues/1\"")
	})
	timed("runs' first paint", `document.querySelectorAll('tr[data-run]').length === 100`, func() { b.Press("nav", "Runs") })
	timed("runs by their words", `document.querySelectorAll('tr[data-run]').length === 1`, func() {
		browser.Eval[bool](b, `(document.querySelector('input[type=search]').focus(), true)`)
		b.Keys("agent-417 ")
	})
	timed("one run's first paint", `document.querySelector('.timeline li')`, func() {
		b.Press("tr[data-run]", browser.Eval[string](b, `document.querySelector('tr[data-run]').dataset.run`))
	})
	if c := b.Complaints(); len(c) > 0 {
		t.Errorf("the page complained: %q", c)
	}
}
