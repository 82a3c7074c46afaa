package gateway

import (
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
	records := 0
	for range overBudget {
		records += len(d.due(at, false))
	}
	if records != 100 {
		t.Fatalf("%d counted records in a minute, want one for each of 100 epochs", records)
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
