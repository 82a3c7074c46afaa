package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/presets"
	"sallyport/vault"
)

// An import takes values out of a file that people keep secrets in. None is taken without rules: from a binding that the
// operator wrote, or from the preset that knows the value's name.

// opInspect says what a file would give. It stores nothing, and needs no proof.
func (g *Gateway) opInspect(r opRequest) (any, error) {
	_, x, err := g.inspect(r)
	if err != nil {
		return nil, err
	}
	return x.plan(), nil
}

// opImport stores what inspect showed.
func (g *Gateway) opImport(r opRequest) (any, error) {
	a, x, err := g.inspect(r)
	if err != nil {
		return nil, err
	}
	plan := x.plan()
	switch {
	case plan.Digest != a.Plan:
		return nil, api.Fail("changed_meanwhile", "the file would give something else by now than what was shown")
	case len(x.added) == 0:
		return plan, nil
	}
	_, err = g.alter(r.ctx, func(snap *vault.Snapshot) (alteration, error) {
		var evs []event.Event
		for i := range x.added {
			m := &x.added[i].meta
			if _, taken := snap.Credential(m.Name); taken {
				return alteration{}, api.Fail("changed_meanwhile", "")
			}
			m.Version = nextVersion(snap)
			evs = append(evs, event.CredentialAdded{Credential: m.Name, Kind: m.Kind, Version: m.Version, Operator: r.who})
		}
		return alteration{evs: evs, write: func(ctx context.Context, also []byte) error {
			return g.vault.Apply(ctx, also, (&draft{added: x.added}).edit)
		}}, nil
	})
	if err != nil {
		return nil, err
	}
	return x.plan(), nil
}

// imported is what came of a file.
type imported struct {
	added   []newCredential
	taken   []api.Taken // of the same order; their credentials are filled in when asked for
	refused []api.Refused
}

// plan shows it; what names it leaves versions out, which are known only once it is stored.
func (x *imported) plan() api.ImportPlan {
	p := api.ImportPlan{Taken: []api.Taken{}, Refused: slices.Clone(x.refused)}
	h := sha256.New()
	for i, t := range x.taken {
		t.Credential = shownCredential(x.added[i].meta)
		p.Taken = append(p.Taken, t)
		t.Credential.Version = 0
		h.Write(encode(t))
		h.Write([]byte("\n"))
	}
	if p.Refused == nil {
		p.Refused = []api.Refused{}
	}
	slices.SortStableFunc(p.Refused, func(a, b api.Refused) int { return a.Line - b.Line })
	p.Digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return p
}

// inspect reads file and bindings and brings them together.
func (g *Gateway) inspect(r opRequest) (a api.ImportArgs, x *imported, err error) {
	if fault := decode(r.args, &a); fault != nil {
		return a, nil, fault
	}
	snap, err := g.contents()
	if err != nil {
		return a, nil, err
	}
	all, err := r.checked(a.ValueLength, a.ValueDigest)
	if err != nil {
		return a, nil, err
	}
	if a.FileLength < 0 || a.FileLength > len(all) {
		return a, nil, api.Fail("invalid_request", "fileLength: longer than what follows")
	}
	file := all[:a.FileLength]
	if bytes.IndexByte(file, 0) >= 0 {
		return a, nil, api.Fail("invalid_request", "the file is no text (it holds NUL bytes)")
	}
	var s source
	switch a.Format {
	case "env":
		s = readEnv(file).joinAWS()
	case "netrc":
		s = readNetrc(file)
	default:
		return a, nil, api.Fail("invalid_request", "format: env or netrc")
	}
	b, err := readBindings(all[a.FileLength:])
	if err != nil {
		return a, nil, err
	}
	x = &imported{refused: s.refused}
	return a, x, x.bind(s, b, snap)
}

// binding is what a credential made of one value of the file shall be.
type binding struct {
	from string
	args api.CredentialArgs
}

// readBindings reads a TOML of [credentials.NAME] tables, as in an apply file, each with the name that its value has in the
// file: from = "GITHUB_TOKEN".
func readBindings(b []byte) ([]binding, error) {
	var doc struct {
		Credentials map[string]map[string]any `toml:"credentials"`
	}
	_, unknown, err := decodeTOML(b, &doc, "credentials")
	if err != nil {
		return nil, api.Fail("invalid_request", "the bindings are no TOML that import knows: "+tomlFault(err))
	}
	if unknown != "" {
		return nil, api.Fail("invalid_request", fmt.Sprintf("bindings: unknown key %q; they have [credentials.NAME] alone", escape(unknown, 96)))
	}
	var out []binding
	for _, name := range slices.Sorted(maps.Keys(doc.Credentials)) {
		table := doc.Credentials[name]
		from, ok := table["from"].(string)
		delete(table, "from")
		c, err := readCredential(name, table)
		if err == nil && (!ok || from == "") {
			err = api.Fail("invalid_request", "from: missing; the name that its value has in the file")
		}
		if err != nil {
			return nil, inFile("bindings: credentials."+name, err)
		}
		out = append(out, binding{from, c})
	}
	return out, nil
}

// bind takes each value that a binding or a preset names, and says of every other why it is left. What is wrong with a
// binding is the operator's to mend; what is wrong with a value leaves that value out.
func (x *imported) bind(s source, written []binding, snap *vault.Snapshot) error {
	known, err := knownSources()
	if err != nil {
		return err
	}
	byFrom := map[string]binding{}
	for _, b := range written {
		if _, twice := byFrom[b.from]; twice {
			return api.Fail("invalid_request", "bindings: two are from "+escape(b.from, 64))
		}
		if !slices.ContainsFunc(s.values, func(v sourced) bool { return v.from == b.from }) {
			return api.Fail("invalid_request", "bindings: credentials."+b.args.Name+": the file has no value under "+escape(b.from, 64)+" that could be taken")
		}
		byFrom[b.from] = b
	}
	names := map[string]bool{}
	for _, v := range s.values {
		b, mine := byFrom[v.from]
		preset, usual := known[v.from]
		switch {
		case mine:
		case usual:
			b = preset
		default:
			x.refuse(v, "nothing says what it may be used for; bind it, with --bind")
			continue
		}
		if err := x.take(v, b, mine, names, snap); err != nil {
			return err
		}
	}
	return nil
}

func (x *imported) refuse(v sourced, reason string) {
	x.refused = append(x.refused, api.Refused{From: escape(v.from, 64), Line: v.line, Reason: reason})
}

// take makes a credential of a value. written: the binding is the operator's own.
func (x *imported) take(v sourced, b binding, written bool, names map[string]bool, snap *vault.Snapshot) error {
	c := b.args
	if c.Kind == "basic" && c.Rules.Username == "" {
		c.Rules.Username = v.login
	}
	filled, err := fill(c)
	if err == nil && filled.Kind == "basic" && filled.Rules.Username == "" {
		filled.Rules.Username = v.login
	}
	var m vault.Meta
	if err == nil {
		m, err = unvalued(filled)
	}
	if err != nil {
		if written {
			return inFile("bindings: credentials."+c.Name, err)
		}
		x.refuse(v, refusalOf(err).Reason)
		return nil
	}
	switch _, there := snap.Credential(m.Name); {
	case there:
		x.refuse(v, "there is a credential "+m.Name+" already; `sp secret rotate "+m.Name+"` changes its value, --bind gives this one another name")
		return nil
	case names[m.Name]:
		x.refuse(v, "another value of the file became "+m.Name+"; --bind gives this one another name")
		return nil
	}
	m, value, err := valued(m, v.value, 0)
	if err != nil {
		x.refuse(v, strings.TrimPrefix(refusalOf(err).Reason, "value: "))
		return nil
	}
	names[m.Name] = true
	x.added = append(x.added, newCredential{m, value})
	x.taken = append(x.taken, api.Taken{From: escape(v.from, 64), Line: v.line, Preset: c.Preset})
	return nil
}

// knownSources are the presets by the names that their values have in files.
func knownSources() (map[string]binding, error) {
	all, err := presets.All()
	if err != nil {
		return nil, err
	}
	out := map[string]binding{}
	for _, p := range all {
		for _, from := range p.Sources {
			out[from] = binding{from, api.CredentialArgs{Name: p.Name, Preset: p.Name}}
		}
	}
	return out, nil
}
