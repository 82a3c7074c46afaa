package gateway

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
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
	if err := checkName("name", a.Name); err != nil {
		return nil, err
	}
	confirm, err := checkConfirm(a.Confirm)
	if err != nil {
		return nil, err
	}
	value, err := r.checked(a.ValueLength, a.ValueDigest)
	if err != nil {
		return nil, err
	}
	m := vault.Meta{Name: a.Name, Kind: a.Kind, Confirm: confirm, Account: escape(a.Account, 128)}
	if m.Rules, value, err = entry(a, value); err != nil {
		return nil, err
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	m.Version = snap.Counter + 1 // a row's version is the vault's next change, and the authority lock keeps others from it
	evs := []event.Event{event.CredentialAdded{Credential: m.Name, Kind: m.Kind, Version: m.Version, Operator: r.who}}
	err = g.changeVault(r.ctx, evs, func(ctx context.Context, also []byte) error {
		m, err = g.vault.AddCredential(ctx, m, value, also)
		return err
	})
	if err != nil {
		return nil, err
	}
	return shownCredential(m), nil
}

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
	var k sshKeyRules
	if json.Unmarshal(m.Rules, &k) == nil {
		c.Rules = []string{k.Public}
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

func (g *Gateway) opCredentialRemove(r opRequest) (any, error) {
	var a api.NameArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	for _, h := range snap.Hosts() {
		if x, err := readHost(h); err == nil && x.spec.Credential == a.Name {
			return nil, api.Fail("in_use", fmt.Sprintf("host %s uses this credential; remove the host first", h.Name))
		}
	}
	return struct{}{}, g.drop(r, vault.Credentials, a.Name, event.CredentialRemoved{Credential: a.Name, Operator: r.who})
}

// drop removes one vault row and what was pooled with it. g.authority must be held.
func (g *Gateway) drop(r opRequest, t vault.Table, name string, ev event.Event) error {
	err := g.changeVault(r.ctx, []event.Event{ev}, func(ctx context.Context, also []byte) error { return g.vault.Drop(ctx, t, name, also) })
	if err != nil {
		return err
	}
	g.http.Drop(func(k httpexec.PoolKey) bool { return t == vault.Credentials && k.Credential == name })
	g.ssh.Drop(func(k sshexec.PoolKey) bool { return t == vault.Hosts && k.Target == name })
	return nil
}
