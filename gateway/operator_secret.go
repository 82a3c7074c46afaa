package gateway

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/vault"
)

// ready refuses while the vault is closed.
func (g *Gateway) ready() error {
	_, err := g.contents()
	return err
}

// contents is the vault's snapshot, while it is open.
func (g *Gateway) contents() (*vault.Snapshot, error) {
	if snap := g.vault.Snapshot(); snap != nil && g.open.Load() {
		return snap, nil
	}
	s := g.vaultState()
	if s == authz.VaultReady {
		s = authz.VaultLocked // between the two looks
	}
	return nil, api.Fail("vault_"+s.String(), "")
}

func (g *Gateway) opCredentialAdd(r opRequest) (any, error) {
	var a api.CredentialArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if err := g.ready(); err != nil {
		return nil, err
	}
	a, err := fill(a)
	if err != nil {
		return nil, err
	}
	value, err := r.checked(a.ValueLength, a.ValueDigest)
	if err != nil {
		return nil, err
	}
	m, value, err := entry(a, value)
	if err != nil {
		return nil, err
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	m.Version = nextVersion(snap)
	evs := []event.Event{event.CredentialAdded{Credential: m.Name, Kind: m.Kind, Version: m.Version, Operator: r.who}}
	err = g.changeVault(r.ctx, evs, func(ctx context.Context, also []byte) error {
		_, err := g.vault.AddCredential(ctx, m, value, also)
		return err
	})
	g.targetsAdded()
	if err != nil {
		return nil, err
	}
	return shownCredential(m), nil
}

// nextVersion is what the next change gives every row that it writes. g.authority keeps others from it.
func nextVersion(s *vault.Snapshot) uint64 { return s.Counter + 1 }

// shownCredential is what may be shown: never a value.
func shownCredential(m vault.Meta) api.Credential {
	c := api.Credential{Name: m.Name, Kind: m.Kind, Account: m.Account, Confirm: m.Confirm, Scrub: "on", Version: m.Version, Rules: []string{}}
	if isHTTP(m.Kind) {
		var spec httpexec.Spec
		if json.Unmarshal(m.Rules, &spec) == nil && spec.Scrub != "" {
			c.Scrub = spec.Scrub
		}
		if rules, err := httpexec.ParseRules(m.Rules); err == nil {
			c.Rules = rules.Strings()
		}
		return c
	}
	k := readLoginRules(m)
	if k.Public != "" {
		c.Rules = append(c.Rules, k.Public)
	}
	if k.Principal != "" {
		c.Rules = append(c.Rules, "principal "+k.Principal)
	}
	return c
}

func (g *Gateway) opCredentialList(r opRequest) (any, error) {
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	out := []api.Credential{}
	for _, m := range snap.Credentials() {
		out = append(out, shownCredential(m))
	}
	return out, nil
}

func (g *Gateway) opCredentialShow(r opRequest) (any, error) {
	var a api.NameArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	m, ok := snap.Credential(a.Name)
	if !ok {
		return nil, noCredential(a.Name)
	}
	out := api.CredentialShown{Credential: shownCredential(m), Hosts: hostsWith(snap, a.Name), Grants: g.grantsNaming(is(a.Name))}
	if logsIn(m.Kind) {
		out.Principal = readLoginRules(m).Principal
	}
	out.Settings, err = typedRules(m)
	return out, err
}

func noCredential(name string) error {
	return api.Fail("not_found", "there is no credential "+escape(name, 64))
}

// is matches one name.
func is(name string) func(string) bool { return func(s string) bool { return s == name } }

// hostsWith lists the hosts that log in with a credential.
func hostsWith(snap *vault.Snapshot, credential string) []string {
	out := []string{}
	for _, h := range snap.Hosts() {
		if x, err := readHost(h); err == nil && x.spec.Credential == credential {
			out = append(out, h.Name)
		}
	}
	return out
}

func (g *Gateway) opCredentialRemove(r opRequest) (any, error) {
	var a api.NameArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	return answer(g.alter(r.ctx, func(snap *vault.Snapshot) (alteration, error) {
		if _, ok := snap.Credential(a.Name); !ok {
			return alteration{}, noCredential(a.Name)
		}
		if hosts := hostsWith(snap, a.Name); len(hosts) > 0 {
			return alteration{}, api.Fail("in_use", fmt.Sprintf("host %s uses this credential; remove the host first", hosts[0]))
		}
		return alteration{
			credentials: []string{a.Name}, grace: g.cfg.Grace, reason: "credential_removed",
			evs: []event.Event{event.CredentialRemoved{Credential: a.Name, Operator: r.who}},
			write: func(ctx context.Context, also []byte) error {
				return g.vault.Drop(ctx, vault.Credentials, a.Name, also)
			},
		}, nil
	}))
}

// answer is what an alteration tells, or why there was none.
func answer(out api.Ended, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

// opCredentialRotate gives a credential another value.
func (g *Gateway) opCredentialRotate(r opRequest) (any, error) {
	var a api.RotateArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	value, err := r.checked(a.ValueLength, a.ValueDigest)
	if err != nil {
		return nil, err
	}
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	was, ok := snap.Credential(a.Name)
	if !ok {
		return nil, noCredential(a.Name)
	}
	next, kept, err := valued(was, value, a.PassphraseLength) // a key's passphrase takes its time: before the lock
	if err != nil {
		return nil, err
	}
	ended, err := g.alter(r.ctx, func(snap *vault.Snapshot) (alteration, error) {
		if now, ok := snap.Credential(a.Name); !ok || now.Version != was.Version {
			return alteration{}, api.Fail("changed_meanwhile", "")
		}
		next.Version = nextVersion(snap)
		return alteration{
			credentials: []string{a.Name}, grace: max(rotationGrace, g.cfg.Grace), reason: "credential_rotated",
			evs: []event.Event{event.CredentialRotated{Credential: a.Name, Version: next.Version, Operator: r.who}},
			write: func(ctx context.Context, also []byte) error {
				return g.vault.Apply(ctx, also, func(e *vault.Edit) error { return replaceValue(e, next, kept) })
			},
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return altered(was, next, ended)
}

// replaceValue writes a credential's new value and what stands beside it.
func replaceValue(e *vault.Edit, m vault.Meta, value []byte) error {
	_, err := e.Rotate(m.Name, value)
	if err == nil {
		m.Version = 0 // the one that Rotate gave
		_, err = e.Rebind(m)
	}
	return err
}

// opCredentialRebind gives a credential other rules, confirm mode or account; its value stays.
func (g *Gateway) opCredentialRebind(r opRequest) (any, error) {
	var a api.RebindArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	var was, next vault.Meta
	ended, err := g.alter(r.ctx, func(snap *vault.Snapshot) (alteration, error) {
		var ok bool
		if was, ok = snap.Credential(a.Name); !ok {
			return alteration{}, noCredential(a.Name)
		}
		if was.Version != a.Version {
			return alteration{}, api.Fail("changed_meanwhile", "")
		}
		var err error
		if next, err = rebound(was, a); err != nil {
			return alteration{}, err
		}
		changes, err := credentialChanges("", was, next)
		if err == nil && len(changes) == 0 {
			err = api.Fail("invalid_request", "nothing differs: the credential is so already")
		}
		next.Version = nextVersion(snap)
		return alteration{
			credentials: []string{a.Name}, grace: g.cfg.Grace, reason: "credential_rebound",
			evs: []event.Event{event.CredentialRebound{Credential: a.Name, Version: next.Version, Changed: changedKeys(changes), Operator: r.who}},
			write: func(ctx context.Context, also []byte) error {
				m := next
				m.Version = was.Version
				_, err := g.vault.Rebind(ctx, m, also)
				return err
			},
		}, err
	})
	if err != nil {
		return nil, err
	}
	return altered(was, next, ended)
}

// rebound is a credential with other bindings; a key's public half stays with its value.
func rebound(was vault.Meta, a api.RebindArgs) (vault.Meta, error) {
	next, err := unvalued(api.CredentialArgs{Name: was.Name, Kind: was.Kind, Account: a.Account, Confirm: a.Confirm, Principal: a.Principal, Rules: a.Rules})
	keptPublic(was, &next)
	return next, err
}

// credentialChanges lists what two states of a credential differ in, under a prefix.
func credentialChanges(prefix string, was, next vault.Meta) ([]api.Change, error) {
	a, err := credentialFields(was)
	if err != nil {
		return nil, err
	}
	b, err := credentialFields(next)
	return differences(prefix, a, b), err
}

func altered(was, next vault.Meta, ended api.Ended) (any, error) {
	changes, err := credentialChanges("", was, next)
	return api.Altered{Credential: shownCredential(next), Changes: changes, Ended: ended}, err
}
