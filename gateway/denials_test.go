package gateway

import (
	"context"
	"testing"
	"time"

	"sallyport/auditlog/event"
)

func TestDenialsAreCounted(t *testing.T) {
	d := newDenials()
	ev := event.AuthorizationDenied{Reason: "rule_mismatch"}
	ev.Epoch = "ep_A"
	at := time.Hour
	singles := 0
	for range 10_000 {
		if d.admit("ep_A", ev, at, 600) {
			singles++
		}
	}
	if singles != singleDenials {
		t.Fatalf("%d records of their own, want %d", singles, singleDenials)
	}
	if !d.admit("ep_B", ev, at, 600) {
		t.Fatal("another epoch's denial was folded")
	}
	other := ev
	other.Reason = "header_refused"
	d.admit("ep_A", other, at, 600)
	due := d.due(at, false)
	if len(due) != 1 || due[0].Count != 10_000-singleDenials+1 || due[0].Detail != "codes: rule_mismatch header_refused" {
		t.Fatalf("counted: %+v", due)
	}
	if again := d.due(at, false); len(again) != 0 {
		t.Fatalf("told twice: %+v", again)
	}
	// A minute later the epoch's denials are single again.
	if !d.admit("ep_A", ev, at+denialMinute, 600) {
		t.Fatal("still folded after the minute")
	}
}

// A day's denials have a budget: past it one epoch more does not add a record of its own.
func TestDenialsHaveABudget(t *testing.T) {
	d := newDenials()
	ev := event.AuthorizationDenied{Reason: "rule_mismatch"}
	at := time.Hour
	d.admit("warm", ev, at, denialBudget)
	for i := range 100 {
		if d.admit(string(rune('a'+i)), ev, at, 600) {
			t.Fatal("over the budget a denial was a record of its own")
		}
	}
	records, told := 0, 0
	for range overBudget {
		for _, ev := range d.due(at, false) {
			records, told = records+1, told+ev.Count
		}
	}
	if records != 1 || told != 100 {
		t.Fatalf("%d records tell of %d refusals in a minute, want one that tells of 100", records, told)
	}
	if !d.admit("next day", ev, at+denialDay, 600) {
		t.Fatal("a new day has a new budget")
	}
	// The table itself is bounded.
	for i := range 3 * denialKeys {
		d.admit(time.Duration(i).String(), ev, at+denialDay, 600)
	}
	if len(d.by) > denialKeys+1 {
		t.Fatalf("%d windows", len(d.by))
	}
}

// A21: one epoch's flood of refused calls is counted, bounded in the log, and does not keep another call from its way.
func TestDenialFlood(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/ok")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.approveAll(ctx, "run")
	a, began := r.agent(), boot()
	total := long(3000, 600_000)
	for n := 0; n < total; {
		var wait []<-chan struct{}
		for range min(100, total-n) {
			ch, done := a.send("call", call0(up.URL+"/refused", "GET")), make(chan struct{})
			go func() {
				if got := code(<-ch); got != "rule_mismatch" {
					t.Errorf("got %s", got)
				}
				close(done)
			}()
			wait = append(wait, done)
			n++
		}
		if got := code(a.ask("call", call0(up.URL+"/ok", "GET"))); got != "confirmed" {
			t.Fatalf("in the middle of the flood: %s", got)
		}
		for _, w := range wait {
			<-w
		}
	}
	r.stop()
	single, counted, sum := 0, 0, 0
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		d, ok := e.(event.AuthorizationDenied)
		switch {
		case !ok:
		case d.Count == 0:
			single++
			sum++
		default:
			counted++
			sum += d.Count
		}
	}
	// Sixty a minute and one a second: far fewer records than refusals, however long this took.
	if took := int((boot() - began) / time.Second); sum != total || single > singleDenials*(took/60+1) || counted > took+2 {
		t.Fatalf("%d denials told as %d single and %d counted records, %d in all", total, single, counted, sum)
	}
}
