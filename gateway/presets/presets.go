// Package presets holds what is known of well-known services, as data files: origin, rules, how the credential is sent,
// and a read that shows whether it works. A preset is only a way to type less: what it fills in is stored and shown like
// anything an operator types.
package presets

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/go-json-experiment/json"
)

//go:embed data/*.toml
var files embed.FS

// Preset is one file. In Rules, "{site}" stands for the service's host.
type Preset struct {
	Name    string         `toml:"-"`
	About   string         `toml:"about"`
	Value   string         `toml:"value"` // what the value is and where one gets it
	Kind    string         `toml:"kind"`
	Site    string         `toml:"site"` // the usual host; empty: it must be said
	Confirm string         `toml:"confirm"`
	Sources []string       `toml:"sources"` // names its value has in env files, and its machines in a netrc
	Rules   map[string]any `toml:"rules"`   // keys as a credential's rules have them in JSON
}

// All returns every preset, by name.
func All() ([]Preset, error) {
	entries, err := files.ReadDir("data")
	if err != nil {
		return nil, fmt.Errorf("read presets: %w", err)
	}
	var out []Preset
	for _, e := range entries {
		p, err := read(e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Find returns one; ok is false where there is none of this name.
func Find(name string) (p Preset, ok bool, err error) {
	all, err := All()
	if err != nil {
		return Preset{}, false, err
	}
	for _, p := range all {
		if p.Name == name {
			return p, true, nil
		}
	}
	return Preset{}, false, nil
}

func read(file string) (Preset, error) {
	p := Preset{Name: strings.TrimSuffix(file, ".toml")}
	b, err := files.ReadFile(path.Join("data", file))
	if err != nil {
		return Preset{}, fmt.Errorf("read preset: %w", err)
	}
	md, err := toml.Decode(string(b), &p)
	if err != nil {
		return Preset{}, fmt.Errorf("read preset %s: %w", p.Name, err)
	}
	if un := md.Undecoded(); len(un) > 0 {
		return Preset{}, fmt.Errorf("read preset %s: unknown key %s", p.Name, un[0])
	}
	return p, nil
}

// At is the rules as JSON, for a site.
func (p Preset) At(site string) ([]byte, error) {
	b, err := json.Marshal(p.Rules, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("preset %s: %w", p.Name, err)
	}
	quoted, err := json.Marshal(site)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	return []byte(strings.ReplaceAll(string(b), "{site}", strings.Trim(string(quoted), `"`))), nil
}
