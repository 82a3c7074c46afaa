package gateway

import (
	"context"
	"fmt"
	"slices"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/sshexec"
)

// hostDraft is a host as a plan makes it.
type hostDraft struct {
	name    string
	spec    hostSpec
	rules   sshexec.Rules
	had     *sshHost // nil: the host is new
	changed []api.Change
	prove   bool // its shell is not known: it is logged in to
}

// host takes one of the file's hosts into the plan.
func (d *draft) host(a api.HostArgs) error {
	if a.HostKey == "" {
		return api.Fail("invalid_request", "host_key: missing; a .pub line or known_hosts lines, as the host's owner gives them")
	}
	spec, err := hostSpecOf(a)
	if err != nil {
		return err
	}
	if err := d.loginKey(spec); err != nil {
		return err
	}
	if err := d.jump(a.Name, spec.Jump); err != nil {
		return err
	}
	if spec.HostKeys, err = pinned(a); err != nil {
		return err
	}
	h := hostDraft{name: a.Name, spec: spec, prove: true}
	var was []field
	if x, ok := d.snap.Host(a.Name); ok {
		if h.had, err = readHost(x); err != nil {
			return err
		}
		was = hostFields(h.had.spec)
		// The shell is the account's on that machine: it stands while those do.
		if o := h.had.spec; o.Address == spec.Address && o.User == spec.User && o.Credential == spec.Credential && o.Jump == spec.Jump && slices.Equal(o.HostKeys, spec.HostKeys) {
			h.prove, h.spec.Rules.Shell = false, o.Rules.Shell
		}
	}
	h.changed = differences("", was, hostFields(h.spec))
	if len(h.changed) == 0 {
		return nil
	}
	d.changes = append(d.changes, differences("hosts."+a.Name+".", was, hostFields(h.spec))...)
	if h.rules, err = hostRules(h.spec); err != nil {
		return err
	}
	d.hosts = append(d.hosts, h)
	return nil
}

// jump refuses a way that can't be gone: through a host that isn't stored, or back through the host itself.
func (d *draft) jump(name, via string) error {
	for hops := 1; via != ""; hops++ {
		if via == name || hops >= sshexec.MaxHops {
			return api.Fail("invalid_request", fmt.Sprintf("jump: the way to the host leads back to it, or has over %d hops", sshexec.MaxHops))
		}
		x, ok := d.snap.Host(via)
		if !ok {
			return api.Fail("not_found", "jump: there is no host "+escape(via, 64)+" yet; add it first, or apply it in a file of its own")
		}
		h, err := readHost(x)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(d.hosts, func(h hostDraft) bool { return h.name == via }); i >= 0 {
			h.spec = d.hosts[i].spec
		}
		via = h.spec.Jump
	}
	return nil
}

// loginKey refuses a credential that logs in nowhere; it is one of the vault or a new one of the file.
func (d *draft) loginKey(spec hostSpec) error {
	if own := d.own(spec.Credential); own != nil {
		return mayLogIn(own.meta, spec)
	}
	_, err := loginCredential(d.snap, spec)
	return err
}

// own is a credential that the file brings; nil: none of this name.
func (d *draft) own(name string) *newCredential {
	if i := slices.IndexFunc(d.added, func(c newCredential) bool { return c.meta.Name == name }); i >= 0 {
		return &d.added[i]
	}
	return nil
}

// logins lists the hosts that carrying the plan out logs in to.
func (d *draft) logins() []string {
	out := []string{}
	for _, h := range d.hosts {
		if h.prove {
			out = append(out, h.name)
		}
	}
	return out
}

// proveShells finds out the shells that are not known, with the keys of the vault or those that came with the file.
func (g *Gateway) proveShells(ctx context.Context, d *draft) (err error) {
	for i := range d.hosts {
		h := &d.hosts[i]
		if !h.prove {
			continue
		}
		one, cancel := context.WithTimeout(ctx, enrolLimit)
		h.spec.Rules.Shell, err = g.shellOf(one, h.name, h.spec, d.own(h.spec.Credential))
		cancel()
		if err == nil {
			h.rules, err = hostRules(h.spec)
		}
		if err != nil {
			return inFile("hosts."+h.name, err)
		}
	}
	return nil
}

// event is what the log is told of the host.
func (h *hostDraft) event(operator string) event.Event {
	s := shownHost(h.name, h.spec, h.rules)
	if h.had == nil {
		return event.TargetAdded{Target: h.name, Address: s.Address, Credential: s.Credential, HostKeys: s.HostKeys, Shell: s.Shell, Operator: operator}
	}
	return event.TargetChanged{Target: h.name, Address: s.Address, Credential: s.Credential, HostKeys: s.HostKeys, Shell: s.Shell,
		Changed: changedKeys(h.changed), Operator: operator}
}

// hostFields are what an apply file says of a host: all but its name, and its shell, which is found out.
func hostFields(s hostSpec) []field {
	var out []field
	for _, f := range fieldsOf(s) {
		if f.key != "rules" {
			out = append(out, f)
		}
	}
	for _, f := range fieldsOf(s.Rules) {
		if f.key != "shell" {
			out = append(out, f)
		}
	}
	return slices.DeleteFunc(out, func(f field) bool { return f.value == "[]" || f.value == "false" || f.value == `""` })
}
