package console_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/console/browser"
)

// One proof opens a sitting: the tab's next card takes a yes without another, and the sitting ends with the tab. No other
// origin's page gets a word out of the console meanwhile.
func TestSittingEndsWithItsTab(t *testing.T) {
	b := browser.Start(t)
	s := newStand(t)
	b.Open(s.url())
	b.Reads("Nothing waits")
	b.Press("main", "Open a sitting")
	b.Type("dialog.proof", "Passphrase", passphrase)
	b.Keys("\r")
	b.Reads("Sitting until")
	agent := s.agent()
	for _, path := range []string{"/one", "/two"} {
		call := s.call(agent, "POST", path)
		b.Reads(path)
		b.Press("article.card", "Approve")
		if got := s.wait(call); got != "confirmed" {
			t.Fatalf("%s: %s", path, got)
		}
	}
	if got := s.arrivals(); !slices.Equal(got, []string{"POST /one", "POST /two"}) {
		t.Errorf("arrived: %v", got)
	}

	// The tab goes elsewhere: to another program's page on this machine.
	console := browser.Eval[string](b, `location.origin`)
	b.Open(s.up.URL + "/elsewhere")
	for _, try := range []string{
		`fetch(` + quoted(console+"/v1/op/vault/status") + `, {method: 'POST', body: '{}', headers: {Authorization: 'Bearer x'}}).then((r) => 'answered ' + r.status, () => 'nothing')`,
		`fetch(` + quoted(console+"/v1/op/vault/lock") + `, {method: 'POST', body: '{}', mode: 'no-cors'}).then((r) => r.type === 'opaque' ? 'nothing' : 'answered', () => 'nothing')`,
		`fetch(` + quoted(console+"/assets/app.js") + `).then((r) => 'answered ' + r.status, () => 'nothing')`,
		`new Promise((done) => { const f = document.createElement('iframe'); f.src = ` + quoted(console+"/pending") + `; f.onload = () => { let seen; try { seen = f.contentDocument } catch {} done(seen ? 'answered' : 'nothing') }; document.body.append(f) })`,
		`navigator.serviceWorker ? 'nothing' : 'nothing'`,
	} {
		if got := browser.Eval[string](b, try); got != "nothing" {
			t.Errorf("another origin's page: %s: %s", try, got)
		}
	}
	s.recorded("the sitting ended with its tab", func(ev event.Event) bool {
		e, ok := ev.(event.SittingClosed)
		return ok && e.Reason == "tab_gone"
	})
	s.stop()
	for _, ev := range s.log() {
		if e, ok := ev.(event.VaultLocked); ok && e.Reason == "operator" {
			t.Error("another origin's page locked the vault")
		}
	}
}

func quoted(s string) string { return "'" + s + "'" }

// log is what the gateway recorded, whose meaning must hold.
func (s *stand) log() (out []event.Event) {
	s.t.Helper()
	pub, err := os.ReadFile(filepath.Join(s.dir, "audit.pub"))
	if err != nil {
		s.t.Fatal(err)
	}
	var items []event.Item
	for r, err := range auditlog.Read(os.DirFS(filepath.Join(s.dir, "audit")), pub, s.created.ReaderIdentity) {
		if err != nil {
			s.t.Fatal(err)
		}
		ev, err := event.Decode(r.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		out, items = append(out, ev), append(items, event.Item{Seq: r.Seq, Time: r.Time, Event: ev})
	}
	if v := event.Check(slices.Values(items)); len(v.Breaches) > 0 {
		s.t.Errorf("breaches of meaning: %+v", v.Breaches)
	}
	return out
}

// recorded waits until the log has an event.
func (s *stand) recorded(what string, is func(event.Event) bool) {
	s.t.Helper()
	within(s.t, what, func() bool { return slices.ContainsFunc(s.log(), is) })
}
