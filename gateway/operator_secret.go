package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
	"sallyport/vault"
)

// name is what credentials and targets may be called: it goes into logs, tables and shells.
var name = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

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

func checkName(what, s string) error {
	if !name.MatchString(s) {
		return api.Fail("invalid_request", what+": 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit")
	}
	return nil
}

func checkConfirm(s string) (string, error) {
	switch s {
	case "":
		return "never", nil
	case "never", "click":
		return s, nil
	}
	return "", api.Fail("invalid_request", "confirm: never or click")
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

// entry checks rules and value of a new credential with the parsers that will read them, and returns both as kept.
func entry(a api.CredentialArgs, value []byte) (rules, kept []byte, err error) {
	switch {
	case isHTTP(a.Kind):
		h := a.Rules
		if a.PassphraseLength != 0 {
			return nil, nil, api.Fail("invalid_request", "passphraseLength: for ssh-key only")
		}
		spec := httpexec.Spec{Kind: a.Kind, Allow: h.Allow, AllowHeader: h.AllowHeader, AllowNetwork: h.AllowNetwork, AllowHTTP: h.AllowHTTP,
			Username: h.Username, Header: h.Header, Format: h.Format, CA: h.CA, Scrub: h.Scrub, IdempotencyHeader: h.IdempotencyHeader}
		rules = encode(spec)
		parsed, err := httpexec.ParseRules(rules)
		if err != nil {
			return nil, nil, api.Fail("invalid_request", err.Error())
		}
		for _, o := range parsed.Origins() {
			if privateOrigin(o, h.AllowNetwork) {
				return nil, nil, api.Fail("invalid_request", "allow: "+o+" is a private address, which every call would be refused; agree to it with --allow-network CIDR")
			}
		}
		if err := spec.Check(value); err != nil {
			return nil, nil, api.Fail("invalid_request", err.Error())
		}
		return rules, value, nil
	case a.Kind == "ssh-key":
		n := len(value) - a.PassphraseLength
		if a.PassphraseLength < 0 || n < 0 {
			return nil, nil, api.Fail("invalid_request", "passphraseLength: longer than the value")
		}
		key, err := sshexec.ParseKey(value[:n], value[n:])
		if err != nil {
			return nil, nil, api.Fail("invalid_request", err.Error())
		}
		if kept, err = key.Marshal(); err != nil {
			return nil, nil, err
		}
		return encode(sshKeyRules{Public: key.Public()}), kept, nil
	}
	return nil, nil, api.Fail("invalid_request", "kind: bearer, basic, header or ssh-key")
}

// privateOrigin tells an origin written as a private address that none of the networks holds. It spares people a card
// for what can't succeed; what is dialled is checked where it is dialled.
func privateOrigin(origin string, networks []string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	host := u.Hostname()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.IsPrivate() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
		return false
	}
	return !slices.ContainsFunc(networks, func(n string) bool {
		p, err := netip.ParsePrefix(n)
		return err == nil && p.Contains(addr)
	})
}

// sshKeyRules is what an ssh-key keeps beside its value: the public half, to be shown.
type sshKeyRules struct {
	Public string `json:"public"`
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

func (g *Gateway) opTargetAdd(r opRequest) (any, error) {
	var a api.HostArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	for what, s := range map[string]string{"name": a.Name, "credential": a.Credential} {
		if err := checkName(what, s); err != nil {
			return nil, err
		}
	}
	confirm, err := checkConfirm(a.Confirm)
	if err != nil {
		return nil, err
	}
	m, ok := snap.Credential(a.Credential)
	switch {
	case !ok:
		return nil, api.Fail("not_found", "there is no credential "+a.Credential+"; add it first with `sp secret add`")
	case m.Kind != "ssh-key":
		return nil, api.Fail("invalid_request", "credential: "+a.Credential+" is no ssh-key")
	}
	if _, taken := snap.Host(a.Name); taken {
		return nil, api.Fail("exists", "")
	}
	ctx, cancel := context.WithTimeout(r.ctx, enrolLimit)
	defer cancel()
	spec := hostSpec{Address: a.Address, User: a.User, Credential: a.Credential, AllowNetwork: a.AllowNetwork, Confirm: confirm}
	spec.Rules = sshexec.RuleSpec{AllowArgv: a.AllowArgv, AllowShell: a.AllowShell}
	if spec.HostKeys, err = hostKeys(ctx, a); err != nil {
		return nil, err
	}
	if spec.Rules.Shell, err = g.proveShell(ctx, a.Name, m, spec); err != nil {
		return nil, err
	}
	rules, err := sshexec.ParseRules(encode(spec.Rules))
	if err != nil {
		return nil, api.Fail("invalid_request", err.Error())
	}
	shown := shownHost(a.Name, spec, rules)
	g.authority.Lock()
	defer g.authority.Unlock()
	if snap, err = g.contents(); err != nil { // asking the host took its time
		return nil, err
	}
	if now, ok := snap.Credential(a.Credential); !ok || now.Version != m.Version {
		return nil, api.Fail("not_found", "credential "+a.Credential+" was removed meanwhile")
	}
	evs := []event.Event{event.TargetAdded{Target: a.Name, Address: a.Address, Credential: a.Credential, HostKeys: shown.HostKeys, Shell: shown.Shell, Operator: r.who}}
	return shown, g.changeVault(r.ctx, evs, func(ctx context.Context, also []byte) error {
		_, err := g.vault.AddHost(ctx, vault.Host{Name: a.Name, Data: encode(spec)}, also)
		return err
	})
}

// enrolLimit bounds asking a host for its keys and proving its shell.
const enrolLimit = 15 * time.Second

// hostKeys are the pins: from the operator's file, or all that the host offers now.
func hostKeys(ctx context.Context, a api.HostArgs) ([]string, error) {
	if a.Enrol == (a.HostKey != "") {
		return nil, api.Fail("invalid_request", "give hostKey, or enrol, and not both")
	}
	if a.Enrol {
		keys, err := sshexec.Enrol(ctx, a.Address, a.AllowNetwork)
		if err != nil {
			return nil, enrolFault(err)
		}
		return keys, nil
	}
	keys, err := sshexec.ParseHostKeys([]byte(a.HostKey), a.Address)
	if err != nil {
		return nil, api.Fail("invalid_request", "hostKey: "+err.Error())
	}
	return keys, nil
}

// enrolFault is why a host's keys could not be asked for.
func enrolFault(err error) error {
	if _, ok := errors.AsType[*sshexec.RequestError](err); ok {
		return requestFault(err)
	}
	return dialFault(err)
}

// proveShell logs in once and sends awkward bytes round: only a shell that brings them back unchanged may be given
// quoted arguments.
func (g *Gateway) proveShell(ctx context.Context, target string, m vault.Meta, spec hostSpec) (shell string, err error) {
	err = g.vault.With(ctx, vault.Ref{Name: m.Name, Version: m.Version}, func(s vault.Secret) error {
		t := sshexec.Target{Name: target, Address: spec.Address, User: spec.User, HostKeys: spec.HostKeys, AllowNetwork: spec.AllowNetwork, Shell: "exact"}
		conn, err := g.ssh.Dial(ctx, t, sshexec.Auth{Key: s.Bytes(), Version: m.Version, Run: enrolling})
		if err != nil {
			return err
		}
		defer g.ssh.Put(conn)
		shell, err = conn.ProveShell(ctx)
		return err
	})
	g.ssh.Drop(func(k sshexec.PoolKey) bool { return k.Run == enrolling })
	if err != nil {
		return "", dialFault(err)
	}
	return shell, nil
}

// enrolling stands where a run's id does in the pool's key: no run's call gets this connection.
const enrolling = "enrolling"

func shownHost(name string, spec hostSpec, rules sshexec.Rules) api.Host {
	h := api.Host{Name: name, Address: spec.Address, User: spec.User, Credential: spec.Credential, HostKeys: []string{}, Shell: spec.Rules.Shell, Rules: rules.Strings()}
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

func (g *Gateway) opTargetRemove(r opRequest) (any, error) {
	var a api.NameArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	g.authority.Lock()
	defer g.authority.Unlock()
	if err := g.ready(); err != nil {
		return nil, err
	}
	return struct{}{}, g.drop(r, vault.Hosts, a.Name, event.TargetRemoved{Target: a.Name, Operator: r.who})
}
