package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/sshexec"
	"sallyport/vault"
)

func (g *Gateway) opTargetAdd(r opRequest) (any, error) {
	var a api.HostArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	spec, err := hostSpecOf(a)
	if err != nil {
		return nil, err
	}
	m, err := loginCredential(snap, spec)
	if err != nil {
		return nil, err
	}
	if _, taken := snap.Host(a.Name); taken {
		return nil, api.Fail("exists", "")
	}
	ctx, cancel := context.WithTimeout(r.ctx, enrolLimit)
	defer cancel()
	if err := g.meet(ctx, a, &spec); err != nil {
		return nil, err
	}
	rules, err := hostRules(spec)
	if err != nil {
		return nil, err
	}
	shown := shownHost(a.Name, spec, rules)
	_, err = g.alter(r.ctx, func(snap *vault.Snapshot) (alteration, error) {
		if now, ok := snap.Credential(a.Credential); !ok || now.Version != m.Version { // asking the host took its time
			return alteration{}, api.Fail("changed_meanwhile", "credential "+a.Credential+" was changed meanwhile")
		}
		if _, taken := snap.Host(a.Name); taken {
			return alteration{}, api.Fail("exists", "")
		}
		return alteration{
			credentials: []string{a.Credential}, grace: g.cfg.Grace, reason: "target_added",
			evs: []event.Event{event.TargetAdded{Target: a.Name, Address: a.Address, Credential: a.Credential, HostKeys: shown.HostKeys, Shell: shown.Shell, Operator: r.who}},
			write: func(ctx context.Context, also []byte) error {
				_, err := g.vault.AddHost(ctx, vault.Host{Name: a.Name, Data: encode(spec)}, also)
				return err
			},
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return shown, nil
}

// hostSpecOf checks what an operator says of a host and returns it as kept, but for its keys and its shell.
func hostSpecOf(a api.HostArgs) (spec hostSpec, err error) {
	for _, f := range []field{{"name", a.Name}, {"credential", a.Credential}} {
		if err := checkName(f.key, f.value); err != nil {
			return spec, err
		}
	}
	spec = hostSpec{Address: a.Address, User: a.User, Credential: a.Credential, AllowNetwork: a.AllowNetwork}
	spec.Jump, spec.Prompt = a.Jump, a.Prompt
	spec.Rules = sshexec.RuleSpec{AllowArgv: a.AllowArgv, AllowShell: a.AllowShell, AllowUpload: a.AllowUpload, AllowDownload: a.AllowDownload,
		AllowGit: a.AllowGit, GitRules: a.GitRules}
	if err := sshexec.ParsePrompt(a.Prompt); err != nil {
		return spec, requestFault(err)
	}
	spec.Confirm, err = checkConfirm(a.Confirm)
	return spec, err
}

// loginCredential is the credential that a host logs in with.
func loginCredential(snap *vault.Snapshot, spec hostSpec) (vault.Meta, error) {
	m, ok := snap.Credential(spec.Credential)
	if !ok {
		return m, api.Fail("not_found", "there is no credential "+escape(spec.Credential, 64)+"; add it first with `sp secret add`")
	}
	return m, mayLogIn(m, spec)
}

func mayLogIn(m vault.Meta, spec hostSpec) error {
	switch {
	case !logsIn(m.Kind):
		return api.Fail("invalid_request", "credential: "+m.Name+" is no ssh-key, ssh-password or ssh-ca")
	case m.Kind == "ssh-password" && len(spec.Rules.AllowGit) > 0:
		return api.Fail("invalid_request", "allowGit: git's bytes can't be searched for a password that the host knows; use an ssh-key or ssh-ca")
	}
	return nil
}

// hostRules compiles a host's rules.
func hostRules(spec hostSpec) (sshexec.Rules, error) {
	rules, err := sshexec.ParseRules(encode(spec.Rules))
	if err != nil {
		return rules, api.Fail("invalid_request", err.Error())
	}
	return rules, nil
}

// enrolLimit bounds asking a host for its keys and proving its shell.
const enrolLimit = 15 * time.Second

// pinned are the host keys of the operator's file.
func pinned(a api.HostArgs) ([]string, error) {
	keys, err := sshexec.ParseHostKeys([]byte(a.HostKey), a.Address)
	if err != nil {
		return nil, api.Fail("invalid_request", "hostKey: "+err.Error())
	}
	return keys, nil
}

// meet finds a new host's keys (the operator's, or all that it offers now) and its shell.
func (g *Gateway) meet(ctx context.Context, a api.HostArgs, spec *hostSpec) (err error) {
	if a.Enrol == (a.HostKey != "") {
		return api.Fail("invalid_request", "give hostKey, or enrol, and not both")
	}
	if !a.Enrol {
		spec.HostKeys, err = pinned(a)
	} else {
		err = g.approach(ctx, a.Name, *spec, nil, func(t sshexec.Target, auth sshexec.Auth) (err error) {
			if spec.HostKeys, err = sshexec.Enrol(ctx, t, auth); err != nil {
				return enrolFault(err)
			}
			return nil
		})
	}
	if err == nil {
		spec.Rules.Shell, err = g.shellOf(ctx, a.Name, *spec, nil)
	}
	return err
}

// enrolFault is why a host's keys could not be asked for.
func enrolFault(err error) error {
	if _, ok := errors.AsType[*sshexec.RequestError](err); ok {
		return requestFault(err)
	}
	return dialFault(err)
}

// shellOf logs in once and sends awkward bytes round: only a shell that brings them back unchanged may be given quoted
// arguments.
func (g *Gateway) shellOf(ctx context.Context, name string, spec hostSpec, own *newCredential) (shell string, err error) {
	err = g.approach(ctx, name, spec, own, func(t sshexec.Target, auth sshexec.Auth) error {
		conn, err := g.ssh.Dial(ctx, t, auth)
		if err != nil {
			return dialFault(err)
		}
		defer g.ssh.Put(conn)
		if shell, err = conn.ProveShell(ctx); err != nil {
			return dialFault(err)
		}
		return nil
	})
	return shell, err
}

// approach lends what logs in to a host that is not stored yet. own is its credential where that is not stored either.
func (g *Gateway) approach(ctx context.Context, name string, spec hostSpec, own *newCredential, use func(sshexec.Target, sshexec.Auth) error) error {
	t := g.targets()
	if t == nil {
		return g.ready()
	}
	var meta *vault.Meta
	if own != nil {
		meta = &own.meta
	}
	w, _, why := t.wayTo(name, &sshHost{spec: spec}, meta)
	if why != "" {
		return api.Fail("invalid_request", "jump: "+why)
	}
	w.target.Shell = "exact"
	defer g.ssh.Drop(func(k sshexec.PoolKey) bool { return k.Run == enrolling })
	action := newID("act_")
	if own == nil {
		return g.lent(ctx, w.logins, action, enrolling, func(a *sshexec.Auth, _ [][]byte) error { return use(w.target, *a) })
	}
	return g.lent(ctx, w.logins[1:], action, enrolling, func(via *sshexec.Auth, _ [][]byte) error {
		return use(w.target, w.logins[0].auth(own.value, action, enrolling, via))
	})
}

// enrolling stands where a run's id does in the pool's key: no run's call gets this connection.
const enrolling = "enrolling"

func shownHost(name string, spec hostSpec, rules sshexec.Rules) api.Host {
	h := api.Host{Name: name, Jump: spec.Jump, Address: spec.Address, User: spec.User, Credential: spec.Credential, HostKeys: []string{}, Shell: spec.Rules.Shell, Rules: rules.Strings()}
	for _, k := range spec.HostKeys {
		kind, _, _ := strings.Cut(k, " ")
		if f, err := sshexec.Fingerprint(k); err == nil {
			h.HostKeys = append(h.HostKeys, f+" "+kind)
		}
	}
	return h
}

func (g *Gateway) opTargetList(r opRequest) (any, error) {
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	out := []api.Host{}
	for _, h := range snap.Hosts() {
		x, err := readHost(h)
		if err != nil {
			return nil, err
		}
		out = append(out, shownHost(h.Name, x.spec, x.rules))
	}
	return out, nil
}

func (g *Gateway) opTargetShow(r opRequest) (any, error) {
	var a api.NameArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	h, ok := snap.Host(a.Name)
	if !ok {
		return nil, noHost(a.Name)
	}
	x, err := readHost(h)
	if err != nil {
		return nil, err
	}
	s := x.spec
	return api.HostShown{Host: shownHost(h.Name, s, x.rules), Confirm: s.Confirm, AllowNetwork: s.AllowNetwork, AllowArgv: s.Rules.AllowArgv,
		AllowShell: s.Rules.AllowShell, Files: api.Files{AllowUpload: s.Rules.AllowUpload, AllowDownload: s.Rules.AllowDownload, AllowGit: s.Rules.AllowGit, GitRules: s.Rules.GitRules},
		PinnedKeys: s.HostKeys, Prompt: s.Prompt, Grants: g.grantsNaming(is(s.Credential))}, nil
}

func noHost(name string) error { return api.Fail("not_found", "there is no host "+escape(name, 64)) }

func (g *Gateway) opTargetRemove(r opRequest) (any, error) {
	var a api.NameArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	return answer(g.alter(r.ctx, func(snap *vault.Snapshot) (alteration, error) {
		h, ok := snap.Host(a.Name)
		if !ok {
			return alteration{}, noHost(a.Name)
		}
		for _, other := range snap.Hosts() {
			if x, err := readHost(other); err == nil && x.spec.Jump == a.Name {
				return alteration{}, api.Fail("in_use", "host "+other.Name+" is reached through it; remove that one first")
			}
		}
		var credential string
		if x, err := readHost(h); err == nil { // one that can't be read can still be removed
			credential = x.spec.Credential
		}
		return alteration{
			credentials: []string{credential}, grace: g.cfg.Grace, reason: "target_removed",
			evs:   []event.Event{event.TargetRemoved{Target: a.Name, Operator: r.who}},
			write: func(ctx context.Context, also []byte) error { return g.vault.Drop(ctx, vault.Hosts, a.Name, also) },
		}, nil
	}))
}
