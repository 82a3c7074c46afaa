package console_test

import (
	"testing"

	"sallyport/gateway/console/browser"
)

// axe-core finds nothing serious on any page, light or dark, with data on it.
func TestAxeFindsNothingSerious(t *testing.T) {
	source := browser.AxeSource(t)
	b := browser.Start(t)
	s := newStand(t)
	b.Open(s.url())
	b.Reads("Nothing waits")
	check := func(page string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			b.Screen(1280, 900, scheme)
			b.Until("no animation", `document.getAnimations().length === 0`)
			for _, finding := range b.Axe(source) {
				t.Errorf("%s, %s: %s", page, scheme, finding)
			}
		}
	}
	agent := s.agent()
	s.grantRun(b, agent)
	card := s.call(agent, "POST", "/issues/1")
	s.wait(card)
	_ = s.call(agent, "POST", "/slow/one")
	b.Press("nav", "Activity")
	b.Reads("running", "confirmed")
	check("activity")
	b.Press("nav", "Runs")
	b.Reads("active")
	check("runs")
	b.Until("a row", `document.querySelector('tr[data-run]')`)
	b.Press("tr[data-run]", browser.Eval[string](b, `document.querySelector('tr[data-run]').dataset.run`))
	b.Reads("Timeline", "Under way")
	b.Press("main", "Incident record")
	b.Reads("Follow-up required")
	check("run")
	b.Press("main", "Contain")
	b.Reads("containment finished")
	check("containment")
	b.Press("nav", "Credentials")
	b.Reads("staging robot")
	check("credentials")
	b.Press("main", "Add a credential")
	b.Reads("May be used for")
	check("adding a credential")
	b.Press("dialog.wide", "Cancel")
	b.Press("nav", "Hosts")
	b.Reads("No host yet")
	check("hosts")
	b.Press("nav", "Log")
	b.Reads("Every frame")
	check("log")
	b.Press("nav", "Settings")
	b.Reads("on_artifact_change")
	check("settings")
	b.Press("main", "Open a sitting")
	b.Reads("Passphrase")
	check("proof")
}

// A card has nothing serious either.
func TestAxeOnCard(t *testing.T) {
	source := browser.AxeSource(t)
	b := browser.Start(t)
	s := newStand(t)
	b.Open(s.url())
	b.Reads("Nothing waits")
	_ = s.call(s.agent(), "DELETE", "/issues/1")
	b.Until("a card that can be answered", `document.activeElement?.textContent === 'Deny'`)
	b.Until("no animation", `document.getAnimations().length === 0`)
	for _, scheme := range []string{"light", "dark"} {
		b.Screen(1280, 900, scheme)
		for _, finding := range b.Axe(source) {
			t.Errorf("card, %s: %s", scheme, finding)
		}
	}
	browser.Eval[bool](b, `(document.querySelector('main').append(document.createElement('button')), true)`)
	if len(b.Axe(source)) == 0 {
		t.Error("a button without a name is not found")
	}
}
