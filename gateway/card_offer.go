package gateway

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/authz"
	"sallyport/gateway/api"
)

// What a yes gives is said in full on the card, so that the answer's proof is over it: not the shown call alone, but
// whatever the tool may do with the credential afterwards.

// givenRules is how many rules an offer names.
const givenRules = 24

const acceptWeak = "that this agent counts as identified, though its identity is weak: what is given here it may use like any other, its writes too"

// offers are the answers that a card takes.
func offers(t *targets, p *plan, weak bool) []api.Offer {
	once := api.Offer{Scope: "use", Gives: "this call, once"}
	all := api.Offer{Scope: "run", Gives: p.reach(t) + ", until the run ends"}
	switch {
	case p.authz.Confirm != authz.ConfirmNever:
		all.Gives += "; the credential still asks for each use"
	case p.authz.AlwaysAsk:
		all.Gives += "; a raw shell command still asks each time"
	}
	if !weak {
		return []api.Offer{once, all}
	}
	asWeak := []api.Offer{once, all}
	for i := range asWeak {
		asWeak[i].Accept = acceptWeak
	}
	if p.authz.Effect != authz.Read {
		return asWeak
	}
	all.Gives += "; reads only, each asked for again, because the agent's identity is weak"
	return append([]api.Offer{once, all}, asWeak[1])
}

// reach is all that the tool may do with the credential, not only this call.
func (p *plan) reach(t *targets) string {
	if onHost(p.tool) {
		return p.tool + " with " + p.authz.Credential + ": " + p.hosts(t)
	}
	s := fmt.Sprintf("every %s with %s that its rules allow, reads and writes alike", p.tool, p.authz.Credential)
	if t != nil && t.byName[p.authz.Credential] != nil {
		s += ": " + listed(t.byName[p.authz.Credential].rules.Strings())
	}
	return escape(s, shownWhole)
}

// hosts names every host that uses the credential, and what its rules allow there.
func (p *plan) hosts(t *targets) string {
	if t == nil {
		return "every command that the rules of its hosts allow"
	}
	var out []string
	for name, h := range t.hosts {
		if h.spec.Credential == p.authz.Credential {
			out = append(out, "on "+name+" every command that its rules allow: "+listed(h.rules.Strings()))
		}
	}
	slices.Sort(out)
	return escape(strings.Join(out, "; "), shownWhole)
}

func listed(rules []string) string {
	if len(rules) > givenRules {
		return strings.Join(rules[:givenRules], ", ") + fmt.Sprintf(" and %d more rules", len(rules)-givenRules)
	}
	return strings.Join(rules, ", ")
}
