package console_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/gateway/client"
	"sallyport/gateway/console/browser"
)

// The admin at two in the morning: a run whose calls fly is revoked in the browser, its next call's denial arrives live, its
// incident record is copied, and it is contained with the steps shown.
func TestRevokeAndIncidentInBrowser(t *testing.T) {
	b := browser.Start(t)
	s := newStand(t)
	b.Open(s.url())
	b.Reads("Nothing waits")
	agent := s.agent()
	s.grantRun(b, agent)

	slow := s.call(agent, "POST", "/slow/deploy")
	b.Press("nav", "Activity")
	b.Reads("/slow/deploy", "running", "/issues/1")
	b.Gallery("activity")
	flying := make(chan string)
	stop := make(chan struct{})
	go func() { // calls, one after the other, until one is refused
		last := ""
		for {
			select {
			case <-stop:
				flying <- last
				return
			default:
			}
			if last = s.wait(s.call(agent, "GET", "/poll")); last != "confirmed" {
				flying <- last
				return
			}
			time.Sleep(5 * time.Millisecond) // the page's lists are of the last hundreds
		}
	}()
	b.Reads("/poll")
	b.Press("nav", "Runs")
	b.Reads(filepath.Base(os.Args[0]), "active")
	b.Gallery("runs")
	b.Press("tr[data-run]", "Revoke")
	b.Reads("had left before", "revoked")
	select {
	case last := <-flying:
		if last != "run_revoked" && last != "cancelled" && last != "not_sent" {
			t.Errorf("the calls ended with %s", last)
		}
	case <-time.After(browser.Patience):
		close(stop)
		t.Fatal("the calls flew on")
	}
	if got := s.wait(slow); got != "sent_unconfirmed" {
		t.Errorf("the slow write: %s", got)
	}

	b.Press("nav", "Activity")
	b.Reads("/poll")
	before := len(s.arrivals())
	if got := s.wait(s.call(agent, "DELETE", "/after-the-revocation")); got != "run_revoked" {
		t.Errorf("after: %s", got)
	}
	b.Reads("denied: run revoked") // without a reload
	if n := len(s.arrivals()); n != before {
		t.Errorf("%d requests arrived after the revocation", n-before)
	}
	b.Press("nav", "Runs")
	b.Until("a row", `document.querySelector('tr[data-run]')`)
	b.Press("tr[data-run]", browser.Eval[string](b, `document.querySelector('tr[data-run]').dataset.run`))
	b.Reads("Authority revoked", "Timeline", "run revoked")
	b.Press("main", "Incident record")
	b.Reads("Follow-up required", "Last attempted action time")
	b.Gallery("run")
	browser.Eval[bool](b, `(window.copied = '', navigator.clipboard.writeText = async (t) => { window.copied = t }, true)`)
	b.Press("section.record", "Copy")
	b.Reads("The incident record is copied.")
	record := browser.Eval[string](b, `window.copied`)
	for _, label := range []string{"Observed at", "Client process PID and command", "MCP server PID and command", "Parent PID and process group", "Session identifier",
		"Authorization state: revoked", "Last successful action time", "Last attempted action time", "Action target and operation", "Result or remote job identifier",
		"Revocation time and operator", "Termination signal and exit result", "Follow-up required", "/slow/deploy", "run_revoked"} {
		if !strings.Contains(record, label) {
			t.Errorf("the copied record lacks %q:\n%s", label, record)
		}
	}
	b.Press("main", "Contain")
	b.Reads("containment started", "denial proved", "containment finished")
	b.Gallery("contain")
	if c := b.Complaints(); len(c) > 0 {
		t.Errorf("the page complained: %q", c)
	}
}

// grantRun lets the agent's run do what it likes with the one credential, by a card that the browser answers.
func (s *stand) grantRun(b *browser.Tab, agent *client.Client) {
	s.t.Helper()
	first := s.call(agent, "GET", "/issues/1")
	b.Until("the offer for the run", `document.querySelectorAll('.card .offer input').length === 2`)
	browser.Eval[bool](b, `(document.querySelectorAll('.card .offer input')[1].click(), true)`)
	b.Press("article.card", "Approve")
	b.Type("dialog.proof", "Passphrase", passphrase)
	b.Keys("\r")
	if got := s.wait(first); got != "confirmed" {
		s.t.Fatalf("first call: %s", got)
	}
	b.Reads("Approved.")
}

// Every page in both widths and both schemes, and what can be done there: add, change, rotate, read the log.
func TestPagesInBrowser(t *testing.T) {
	b := browser.Start(t)
	s := newStand(t)
	b.Open(s.url())
	b.Reads("Nothing waits")
	b.Press("nav", "Credentials")
	b.Reads("staging robot", "GET,POST,DELETE")
	b.Press("main", "Add a credential")
	b.Type("dialog.wide", "Name", "second")
	b.Type("dialog.wide", "May be used for", "GET https://api.example.com/**")
	b.Type("dialog.wide", "Value", "tok-never-shown-again")
	b.Gallery("credential-add")
	b.Press("dialog.wide", "Add")
	b.Type("dialog.proof", "Passphrase", passphrase)
	b.Keys("\r")
	b.Reads("second is in the vault.", "https://api.example.com/**")
	b.Press("article[aria-label=second]", "Rotate")
	b.Type("dialog.wide", "New value", "tok-another")
	b.Press("dialog.wide", "Rotate")
	b.Type("dialog.proof", "Passphrase", "wrong horse")
	b.Keys("\r")
	b.Reads("the proof is wrong")
	b.Press("dialog.wide", "Rotate")
	b.Type("dialog.proof", "Passphrase", passphrase)
	b.Keys("\r")
	b.Reads("second is rotated; 0 grants ended.")
	b.Gallery("credentials")
	if browser.Eval[bool](b, `document.documentElement.outerHTML.includes('tok-')`) {
		t.Error("a value is on the page")
	}

	b.Press("nav", "Hosts")
	b.Reads("No host yet")
	b.Press("main", "Add a host")
	b.Reads("There is no SSH credential yet")
	b.Gallery("host-add")
	b.Press("dialog.wide", "Cancel")
	b.Gallery("hosts-empty")
	s.addHost("build")
	b.Reads("deploy@127.0.0.1:", "systemctl")
	b.Gallery("hosts")

	b.Press("nav", "Log")
	b.Reads("Every frame, chain link and signature holds", "the vault has seen record")
	b.Press("main", "Checkpoint")
	b.Until("a checkpoint", `document.querySelector('.note pre')?.textContent.includes('— ')`)
	b.Type("section.reader", "Reader's identity", s.created.ReaderIdentity)
	b.Keys("\r")
	b.Reads("What the log says", "credential rotated", "vault created")
	b.Gallery("log")
	if browser.Eval[bool](b, `document.documentElement.outerHTML.includes('AGE-SECRET-KEY-1')`) {
		t.Error("the identity is on the page")
	}
	b.Press("main", "Forget the identity")
	b.Type("section.reader", "Reader's identity", "AGE-SECRET-KEY-WRONG")
	b.Keys("\r")
	b.Reads("can't be read with this identity")

	b.Press("nav", "Settings")
	b.Reads("on_artifact_change", "passphrase")
	b.Gallery("settings")
	b.Press("main", "Lock the vault")
	b.Reads("The vault is locked")
	b.Press("nav", "Pending")
	b.Press("header", "Unlock")
	b.Type("dialog.proof", "Passphrase", passphrase)
	b.Keys("\r")
	b.Reads("vault ready")
	if c := b.Complaints(); len(c) > 0 {
		t.Errorf("the page complained: %q", c)
	}
	browser.Eval[bool](b, `(location.reload(), true)`)
	b.Reads("This tab has no session")
	b.Gallery("ended")
}
