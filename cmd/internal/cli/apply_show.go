package cli

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/gateway/api"
)

// showPlan shows what a file changes: by credential and host, then the settings.
func (a *app) showPlan(p api.Plan, dry bool) {
	if len(p.Changes) == 0 {
		fmt.Fprintln(a.out, "nothing to change: all is as the file says")
		return
	}
	for _, g := range grouped(p.Changes) {
		a.showGroup(g)
	}
	for _, w := range p.Values {
		fmt.Fprintf(a.out, "wants the value of %s\n", escape(w.Name))
	}
	for _, h := range p.Logins {
		fmt.Fprintf(a.out, "logs in to %s once\n", escape(h))
	}
	for _, g := range p.Ends {
		fmt.Fprintf(a.out, "ends grant %s\n", escape(g))
	}
	if dry {
		fmt.Fprintln(a.out, "nothing was changed")
	}
}

// changeGroup is what changes of one credential, one host, or one setting.
type changeGroup struct {
	name    string
	changes []api.Change // Setting: the key alone
}

// grouped takes "credentials.NAME.KEY" apart; a name may hold dots, a key holds none.
func grouped(changes []api.Change) []changeGroup {
	var out []changeGroup
	for _, c := range changes {
		name, key := c.Setting, ""
		if strings.HasPrefix(c.Setting, "credentials.") || strings.HasPrefix(c.Setting, "hosts.") {
			i := strings.LastIndexByte(c.Setting, '.')
			name, key = c.Setting[:i], c.Setting[i+1:]
		}
		c.Setting = key
		if n := len(out); n > 0 && out[n-1].name == name {
			out[n-1].changes = append(out[n-1].changes, c)
			continue
		}
		out = append(out, changeGroup{name, []api.Change{c}})
	}
	return out
}

func (a *app) showGroup(g changeGroup) {
	if g.changes[0].Setting == "" {
		c := g.changes[0]
		fmt.Fprintf(a.out, "set %s\n  from %s\n  to   %s\n", escape(g.name), escape(c.Old), escape(c.New))
		return
	}
	if slices.ContainsFunc(g.changes, func(c api.Change) bool { return c.Old != "" || c.New == "" }) || !fresh(g.changes) {
		fmt.Fprintf(a.out, "change %s\n", escape(g.name))
		a.showDiffering(g.changes)
		return
	}
	fmt.Fprintf(a.out, "add %s\n", escape(g.name))
	for _, c := range g.changes {
		fmt.Fprintf(a.out, "  %s = %s\n", escape(c.Setting), escape(c.New))
	}
}

// fresh tells what was not there from what only gets more: a credential always has a kind, a host an address.
func fresh(changes []api.Change) bool {
	return slices.ContainsFunc(changes, func(c api.Change) bool { return c.Setting == "kind" || c.Setting == "address" })
}
