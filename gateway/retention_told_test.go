package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/gateway/api"
	"sallyport/gateway/store"
)

// What the log was told is let go of after thirty days, too, but for a run with an unresolved write, and a page or record
// does not show it any more.
func TestRetentionOfTold(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/lost" {
			c, _, _ := http.NewResponseController(w).Hijack()
			c.Close()
		}
	})
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET,POST "+up.URL+"/**")
	a := r.agent()
	ch := a.send("call", call0(up.URL+"/once", "GET"))
	r.yes(r.card(), "run")
	if got := code(<-ch); got != "confirmed" {
		t.Fatal(got)
	}
	start := now().Wall
	const other, later = "run_other", "run_later"
	if err := r.db.Change(t.Context(), func(tx *store.Tx) error {
		return tx.Told([]store.Told{{Run: other, Seq: 1, At: start, Body: []byte(`{"type":"run_ended"}`)},
			{Run: "", Seq: 2, At: start, Body: []byte(`{"type":"gateway_started"}`)},
			{Run: later, Seq: 3, At: start.Add(48 * time.Hour), Body: []byte(`{"type":"run_ended"}`)}})
	}); err != nil {
		t.Fatal(err)
	}
	look := func(after time.Duration) (calls int, told map[string]int) {
		t.Helper()
		if err := r.flushActions(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.flushTold(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.sweep(t.Context(), start.Add(after)); err != nil {
			t.Fatal(err)
		}
		told = map[string]int{}
		for _, run := range []string{other, later} {
			rows, _, err := r.db.Told(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range rows {
				if x.Run == run {
					told[run]++
				}
			}
		}
		return len(op[api.ActivityPage](r, r.opActivityList, api.ActivityArgs{}).Rows), told
	}
	if calls, told := look(29 * 24 * time.Hour); calls != 1 || told[other] != 1 || told[later] != 1 {
		t.Errorf("after 29 days: %d calls, %v", calls, told)
	}
	if calls, told := look(31 * 24 * time.Hour); calls != 0 || told[other] != 0 || told[later] != 1 {
		t.Errorf("after 31 days: %d calls, %v", calls, told)
	}
	if got := code(a.ask("call", call0(up.URL+"/lost", "POST"))); got != "sent_unconfirmed" {
		t.Fatal(got)
	}
	if calls, told := look(40 * 24 * time.Hour); calls != 1 || told[later] != 0 {
		t.Errorf("the run of an unresolved write after 40 days: %d calls, %v", calls, told)
	}

	// A record says that something may be missing, and from when on it is whole.
	if got := r.forgotten(start, start.Add(29*24*time.Hour)); got != "" {
		t.Error(got)
	}
	want := "rows from before " + start.Add(24*time.Hour).UTC().Format(time.DateOnly)
	if got := r.forgotten(start, start.Add(31*24*time.Hour)); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
