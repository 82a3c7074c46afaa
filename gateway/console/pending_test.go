package console_test

import (
	"errors"
	"slices"
	"testing"

	"sallyport/gateway/api"
	"sallyport/gateway/console/browser"
)

func asError(err error, to **api.Error) bool { return errors.As(err, to) }

// A card is answered in a real browser: yes with the passphrase, no by the keyboard alone.
func TestPendingInBrowser(t *testing.T) {
	b := browser.Start(t)
	s := newStand(t)
	b.Open(s.url())
	b.Reads("Nothing waits")
	b.Gallery("pending-empty")
	agent := s.agent()

	call := s.call(agent, "POST", "/issues/7/close")
	b.Reads("/issues/7/close", "to close what was fixed", "staging robot")
	b.Until("Deny has the keyboard", `document.activeElement?.textContent === 'Deny'`)
	b.Gallery("pending-card")
	b.Press("article.card", "Approve")
	b.Type("dialog.proof", "Passphrase", passphrase)
	b.Gallery("proof")
	b.Keys("\r")
	if got := s.wait(call); got != "confirmed" {
		t.Fatalf("approved: %s", got)
	}
	if got := s.arrivals(); !slices.Equal(got, []string{"POST /issues/7/close"}) {
		t.Fatalf("arrived: %v", got)
	}
	b.Reads("Approved.", "Nothing waits")

	call = s.call(agent, "DELETE", "/issues/8")
	b.Reads("/issues/8")
	b.Until("Deny has the keyboard", `document.activeElement?.textContent === 'Deny'`)
	b.Keys(" ")
	if got := s.wait(call); got != "approval_denied" {
		t.Fatalf("denied: %s", got)
	}
	if got := s.arrivals(); len(got) != 1 {
		t.Fatalf("arrived after no: %v", got)
	}
	if c := b.Complaints(); len(c) > 0 {
		t.Errorf("the page complained: %q", c)
	}
}

// An agent asks for a target that does not exist: the page says how to add it and offers no yes.
func TestPendingMissing(t *testing.T) {
	b := browser.Start(t)
	s := newStand(t)
	b.Open(s.url())
	b.Reads("Nothing waits")
	agent, done := s.agent(), make(chan answered, 1)
	go func() {
		a, err := agent.Act(t.Context(), api.ActionRequest{Tool: api.ToolAccess, Args: []byte(`{"target":"web","reason":"to look at its logs"}`)})
		done <- answered{a, err}
	}()
	b.Reads("access to web, a target that does not exist", "to look at its logs", "sp host add web")
	b.Until("there is no yes", `!!document.querySelector('article.card button.no') && !document.querySelector('article.card button.yes, article.card fieldset')`)
	b.Press("article.card", "Deny")
	if got := s.wait(done); got != "approval_denied" {
		t.Fatalf("denied: %s", got)
	}
	b.Reads("Nothing waits")
	if c := b.Complaints(); len(c) > 0 {
		t.Errorf("the page complained: %q", c)
	}
}
