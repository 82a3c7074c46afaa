package gateway

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/sshexec"
)

// What a yes gives is said in full on the card, so that the answer's proof is over it: not the shown call alone, but
// whatever the tool may do with the credential afterwards.

// givenRules is how many rules an offer names.
const givenRules = 24

const acceptWeak = "that this agent counts as identified, though its identity is weak: what is given here it may use like any other, its writes too"

// offers are the answers that a card takes.
func offers(t *targets, p *plan, weak bool) []api.Offer {
	if p.access != nil && p.access.missing {
		return nil
	}
	once := api.Offer{Scope: "use", Gives: "this call, once"}
	all := api.Offer{Scope: "run", Gives: p.reach(t) + ", until the run ends"}
	switch {
	case p.authz.Confirm != authz.ConfirmNever:
		all.Gives += "; the credential still asks for each use"
	case p.authz.AlwaysAsk:
		all.Gives += "; a raw shell command still asks each time"
	}
	if p.access != nil {
		if weak {
			all.Accept = acceptWeak
		}
		return []api.Offer{all} // nothing waits that one use could be for
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
	if p.access != nil {
		return p.given(t)
	}
	if p.relay != nil {
		return "every " + escape(p.tool, 256) + " of " + p.relay.server.label + ", as it is declared now, in this process of it alone"
	}
	if p.onHost() {
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
	what := "every command"
	switch p.tool {
	case api.ToolUpload:
		what = "every upload"
	case api.ToolDownload:
		what = "every download"
	case api.ToolGit:
		what = "every fetch and push"
	}
	if t == nil {
		return what + " that the rules of its hosts allow"
	}
	var out []string
	for name, h := range t.hosts {
		if h.spec.Credential == p.authz.Credential {
			out = append(out, "on "+name+" "+what+" that its rules allow: "+listed(rulesOf(p.tool, h.rules)))
		}
	}
	slices.Sort(out)
	return escape(strings.Join(out, "; "), shownWhole)
}

// rulesOf are those of a host's rules that the tool can use: a yes to one tool gives nothing to the others.
func rulesOf(tool string, r sshexec.Rules) (out []string) {
	for _, s := range r.Strings() {
		word, _, _ := strings.Cut(s, " ")
		file := map[string]string{"upload": api.ToolUpload, "download": api.ToolDownload}[word]
		switch {
		case file != "":
			if file == tool {
				out = append(out, s)
			}
		case strings.HasPrefix(s, "[") || s == "shell":
			if tool == api.ToolSSH || tool == api.ToolJob {
				out = append(out, s)
			}
		case tool == api.ToolGit: // repositories, and what holds a push
			out = append(out, s)
		}
	}
	return out
}

func listed(rules []string) string {
	if len(rules) > givenRules {
		return strings.Join(rules[:givenRules], ", ") + fmt.Sprintf(" and %d more rules", len(rules)-givenRules)
	}
	return strings.Join(rules, ", ")
}
