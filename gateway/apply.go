package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/vault"
)

// An apply file says how credentials, hosts and settings shall be. What differs from the vault is the plan; it is made
// again from the vault that stands when it is carried out, and carried out whole or not at all.

// opPlan says what a file would change. It changes nothing and needs no proof, as the listings need none.
func (g *Gateway) opPlan(r opRequest) (any, error) {
	var a api.PlanArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	file, err := r.checked(a.ValueLength, a.ValueDigest)
	if err != nil {
		return nil, err
	}
	d, err := g.drawFile(file)
	if err != nil {
		return nil, err
	}
	return api.Plan{Changes: d.changes, Values: d.wanted(), Logins: d.logins(), Ends: g.grantsNaming(d.touches), Digest: d.digest()}, nil
}

// drawFile makes the plan of a file against the vault as it stands.
func (g *Gateway) drawFile(file []byte) (*draft, error) {
	snap, err := g.contents()
	if err != nil {
		return nil, err
	}
	was, err := readSettings(snap)
	if err != nil {
		return nil, err
	}
	f, err := parseApply(file, was)
	if err != nil {
		return nil, err
	}
	return drawUp(f, was, snap)
}

// opApply carries a plan out.
func (g *Gateway) opApply(r opRequest) (any, error) {
	var a api.ApplyArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	all, err := r.checked(a.ValueLength, a.ValueDigest)
	if err != nil {
		return nil, err
	}
	if a.FileLength < 0 || a.FileLength > len(all) {
		return nil, api.Fail("invalid_request", "fileLength: longer than what follows")
	}
	d, err := g.drawFile(all[:a.FileLength])
	switch {
	case err != nil:
		return nil, err
	case d.digest() != a.Plan:
		return nil, api.Fail("changed_meanwhile", "the file would change something else by now than what was shown")
	case len(d.changes) == 0 && len(all) == a.FileLength:
		return api.Applied{Changes: d.changes, Ended: api.Ended{Grants: []string{}, Left: []api.Action{}}}, nil
	}
	if err := d.fillIn(all[a.FileLength:], a.Values); err != nil {
		return nil, err
	}
	if err := g.proveShells(r.ctx, d); err != nil {
		return nil, err
	}
	ended, err := g.alter(r.ctx, func(*vault.Snapshot) (alteration, error) {
		now, err := g.drawFile(all[:a.FileLength]) // asking the hosts took its time
		if err != nil || now.digest() != a.Plan {
			return alteration{}, errors.Join(err, api.Fail("changed_meanwhile", ""))
		}
		d.snap = now.snap
		evs, err := g.prepareSettings(r.ctx, d.was, d.next, r.who)
		return alteration{
			credentials: d.names(), grace: g.cfg.Grace, reason: "settings_applied",
			evs:   append(evs, d.events(r.who)...),
			write: func(ctx context.Context, also []byte) error { return g.vault.Apply(ctx, also, d.edit) },
		}, err
	})
	if err != nil {
		return nil, err
	}
	g.obey(d.next)
	return api.Applied{Changes: d.changes, Ended: ended}, nil
}

// draft is a plan with all that carrying it out needs.
type draft struct {
	snap      *vault.Snapshot
	was, next settings
	added     []newCredential
	rebound   []reboundCredential
	hosts     []hostDraft
	changes   []api.Change
}

// newCredential is one that the vault lacks. value comes with the request that carries the plan out.
type newCredential struct {
	meta  vault.Meta
	value []byte
}

type reboundCredential struct {
	meta    vault.Meta
	changed []api.Change
}

// drawUp compares what a file says with what stands.
func drawUp(f *applyFile, was settings, snap *vault.Snapshot) (*draft, error) {
	d := &draft{snap: snap, was: was, next: f.settings, changes: changed(was, f.settings)}
	for _, c := range f.credentials {
		if err := d.credential(c); err != nil {
			return nil, inFile("credentials."+c.Name, err)
		}
	}
	for _, h := range f.hosts {
		if err := d.host(h); err != nil {
			return nil, inFile("hosts."+h.Name, err)
		}
	}
	return d, nil
}

// credential takes one of the file's credentials into the plan.
func (d *draft) credential(c api.CredentialArgs) error {
	prefix := "credentials." + c.Name + "."
	had, ok := d.snap.Credential(c.Name)
	if ok && c.Kind != "" && c.Kind != had.Kind {
		return api.Fail("invalid_request", fmt.Sprintf("kind: it is %s in the vault; remove it there first, or use another name", had.Kind))
	}
	c, err := fill(c)
	if err != nil {
		return err
	}
	m, err := unvalued(c)
	if err != nil {
		return err
	}
	if !ok {
		said, err := credentialFields(m)
		d.added = append(d.added, newCredential{meta: m})
		d.changes = append(d.changes, differences(prefix, nil, said)...)
		return err
	}
	keptPublic(had, &m)
	differ, err := credentialChanges(prefix, had, m)
	if err == nil && len(differ) > 0 {
		names, _ := credentialChanges("", had, m)
		d.rebound = append(d.rebound, reboundCredential{m, names})
		d.changes = append(d.changes, differ...)
	}
	return err
}

// wanted lists the values that carrying the plan out needs.
func (d *draft) wanted() []api.Wanted {
	out := []api.Wanted{}
	for _, c := range d.added {
		out = append(out, api.Wanted{Name: c.meta.Name, Kind: c.meta.Kind})
	}
	return out
}

// fillIn gives the new credentials their values, each checked by its kind's parser: all of them, and no others.
func (d *draft) fillIn(bytes []byte, given []api.GivenValue) error {
	values := map[string]api.GivenValue{}
	parts := map[string][]byte{}
	for _, v := range given {
		if _, twice := values[v.Name]; twice || v.Length < 0 || v.Length > len(bytes) {
			return api.Fail("invalid_request", "values: lengths that don't add up, or a name twice")
		}
		values[v.Name], parts[v.Name], bytes = v, bytes[:v.Length], bytes[v.Length:]
	}
	if len(bytes) > 0 {
		return api.Fail("invalid_request", "values: lengths that don't add up")
	}
	for i := range d.added {
		c := &d.added[i]
		v, ok := values[c.meta.Name]
		if !ok {
			return api.Fail("invalid_request", "credentials."+c.meta.Name+": it is new, and its value was not given")
		}
		delete(values, c.meta.Name)
		var err error
		if c.meta, c.value, err = valued(c.meta, parts[c.meta.Name], v.PassphraseLength); err != nil {
			return inFile("credentials."+c.meta.Name, err)
		}
	}
	for name := range values {
		return api.Fail("invalid_request", "values: "+escape(name, 64)+" is no new credential of the file")
	}
	return nil
}

// names are the credentials whose grants end by the plan.
func (d *draft) names() []string {
	var out []string
	for _, c := range d.rebound {
		out = append(out, c.meta.Name)
	}
	for _, h := range d.hosts {
		out = append(out, h.spec.Credential)
		if h.had != nil {
			out = append(out, h.had.spec.Credential)
		}
	}
	return out
}

func (d *draft) touches(credential string) bool { return slices.Contains(d.names(), credential) }

// digest names the plan: what it changes, and what it wants.
func (d *draft) digest() string {
	sum := sha256.Sum256(encode(struct {
		Changes []api.Change
		Values  []api.Wanted
	}{d.changes, d.wanted()}))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// events are what the log is told besides the settings.
func (d *draft) events(operator string) []event.Event {
	version := nextVersion(d.snap)
	var evs []event.Event
	for _, c := range d.added {
		evs = append(evs, event.CredentialAdded{Credential: c.meta.Name, Kind: c.meta.Kind, Version: version, Operator: operator})
	}
	for _, c := range d.rebound {
		evs = append(evs, event.CredentialRebound{Credential: c.meta.Name, Version: version, Changed: changedKeys(c.changed), Operator: operator})
	}
	for _, h := range d.hosts {
		evs = append(evs, h.event(operator))
	}
	return evs
}

// edit writes the plan: in one transaction, or none of it.
func (d *draft) edit(e *vault.Edit) error {
	for _, c := range d.added {
		if _, err := e.AddCredential(c.meta, c.value); err != nil {
			return err
		}
	}
	for _, c := range d.rebound {
		c.meta.Version = 0
		if _, err := e.Rebind(c.meta); err != nil {
			return err
		}
	}
	for _, h := range d.hosts {
		write := e.AddHost
		if h.had != nil {
			write = e.SetHost
		}
		if _, err := write(vault.Host{Name: h.name, Data: encode(h.spec)}); err != nil {
			return err
		}
	}
	if len(changed(d.was, d.next)) == 0 {
		return nil
	}
	return e.SetSetting(settingsName, encode(d.next))
}
