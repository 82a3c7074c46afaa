package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
	"sallyport/vault"
)

// targets is one vault snapshot with its rules compiled: made once per generation, so a call costs no scan.
type targets struct {
	snap   *vault.Snapshot
	exact  map[string][]*httpCredential // by origin
	wild   []*httpCredential            // those with a rule for *.host
	byName map[string]*httpCredential
	hosts  map[string]*sshHost
}

type httpCredential struct {
	meta  vault.Meta
	rules httpexec.Rules
}

// hostSpec is an SSH host as the vault keeps it, sealed.
type hostSpec struct {
	Address      string           `json:"address"`
	User         string           `json:"user"`
	Credential   string           `json:"credential"`
	HostKeys     []string         `json:"hostKeys"`
	AllowNetwork []string         `json:"allowNetwork"`
	Confirm      string           `json:"confirm"`
	Jump         string           `json:"jump,omitempty"`   // another host, through which it is reached
	Prompt       string           `json:"prompt,omitempty"` // what asks for the password; empty: sshexec.DefaultPrompt
	Rules        sshexec.RuleSpec `json:"rules"`
}

type sshHost struct {
	spec    hostSpec
	rules   sshexec.Rules
	version uint64
}

func (h *sshHost) target(name string) sshexec.Target {
	return sshexec.Target{Name: name, Address: h.spec.Address, User: h.spec.User, HostKeys: h.spec.HostKeys,
		AllowNetwork: h.spec.AllowNetwork, Shell: h.spec.Rules.Shell}
}

// isHTTP tells the kinds whose rules httpexec reads.
func isHTTP(kind string) bool { return httpexec.ValueFormat(kind) != "" }

// targets returns the compiled snapshot, nil while the vault is closed. A credential whose rules can't be read allows nothing.
func (g *Gateway) targets() *targets {
	if !g.open.Load() {
		return nil
	}
	snap := g.vault.Snapshot()
	if snap == nil {
		return nil
	}
	if t := g.compiled.Load(); t != nil && t.snap == snap {
		return t
	}
	t := &targets{snap: snap, exact: map[string][]*httpCredential{}, byName: map[string]*httpCredential{}, hosts: map[string]*sshHost{}}
	for _, m := range snap.Credentials() {
		if !isHTTP(m.Kind) {
			continue
		}
		rules, err := httpexec.ParseRules(m.Rules)
		if err != nil {
			g.complain("read the rules of credential "+m.Name, err)
			continue
		}
		t.add(&httpCredential{m, rules})
	}
	for _, h := range snap.Hosts() {
		if x, err := readHost(h); err != nil {
			g.complain("read host "+h.Name, err)
		} else {
			t.hosts[h.Name] = x
		}
	}
	g.compiled.Store(t)
	return t
}

func (t *targets) add(c *httpCredential) {
	t.byName[c.meta.Name] = c
	wild := false
	for _, o := range c.rules.Origins() {
		if strings.Contains(o, "*") {
			wild = true
		} else {
			t.exact[o] = append(t.exact[o], c)
		}
	}
	if wild {
		t.wild = append(t.wild, c)
	}
}

// at lists the credentials whose rules may speak of an origin.
func (t *targets) at(origin string) []*httpCredential {
	out := slices.Clone(t.exact[origin])
	for _, c := range t.wild {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// origin is the one a target's name stands for; why says what is wrong instead.
func (t *targets) origin(name string) (origin, why string) {
	c := t.byName[name]
	if c == nil {
		return "", "no HTTP target of this name"
	}
	o := c.rules.Origins()
	if len(o) != 1 || strings.Contains(o[0], "*") {
		return "", fmt.Sprintf("target %s stands for more than one origin; give the url", name)
	}
	return o[0], ""
}

func (t *targets) known(name string) bool {
	_, ok := t.snap.Credential(name)
	return ok
}

// list shows what a run may ask for.
func (t *targets) list() []api.Target {
	out := []api.Target{}
	for name, c := range t.byName {
		x := api.Target{Name: name, Kind: "http", Methods: c.rules.Strings(), Confirm: c.meta.Confirm}
		x.Origin, _ = t.origin(name)
		out = append(out, x)
	}
	for name, h := range t.hosts {
		confirm := h.spec.Confirm
		if m, ok := t.snap.Credential(h.spec.Credential); ok {
			confirm = stricter(m.Confirm, confirm)
		}
		out = append(out, api.Target{Name: name, Kind: "ssh", Host: h.spec.Address, Methods: h.rules.Strings(), Confirm: confirm})
	}
	slices.SortFunc(out, func(a, b api.Target) int { return strings.Compare(a.Name+a.Kind, b.Name+b.Kind) })
	return out
}

func readHost(h vault.Host) (*sshHost, error) {
	x := &sshHost{version: h.Version}
	if err := json.Unmarshal(h.Data, &x.spec, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	var err error
	x.rules, err = sshexec.ParseRules(encode(x.spec.Rules))
	return x, err
}
