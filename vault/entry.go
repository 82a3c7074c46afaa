package vault

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

const (
	maxName  = 128
	maxValue = 64 << 10  // a secret
	maxLabel = 256 << 10 // a credential's or host's metadata, as JSON
)

// entry is what a row says about a name: the plaintext of its label column.
// Rules is a credential's, Data a host's or a setting's.
type entry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind,omitzero"`
	Confirm string `json:"confirm,omitzero"`
	Account string `json:"account,omitzero"`
	Rules   []byte `json:"rules,omitzero"`
	Data    []byte `json:"data,omitzero"`
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("name of %d bytes: %w", len(name), ErrInvalid)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("name with control character: %w", ErrInvalid)
		}
	}
	return nil
}

// put seals e and value as a new row of t and enters it in next, whose counter
// is already the new one.
func (next *interior) put(t Table, e entry, value []byte) (Row, error) {
	if err := checkName(e.Name); err != nil {
		return Row{}, err
	}
	if _, ok := next.entries[t][e.Name]; ok {
		return Row{}, ErrExists
	}
	if t != Hosts && t != Settings && len(value) == 0 || len(value) > maxValue {
		return Row{}, fmt.Errorf("value of %d bytes: %w", len(value), ErrInvalid)
	}
	label, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return Row{}, fmt.Errorf("label: %w", ErrInvalid) // a string that isn't UTF-8
	}
	if len(label) > maxLabel {
		return Row{}, fmt.Errorf("metadata of %d bytes: %w", len(label), ErrInvalid)
	}
	r := next.keys.sealEntry(Row{ID: newID().String(), Table: string(t), Version: next.manifest.counter}, label, value)
	next.enter(t, e, r)
	next.manifest.add(next.keys, r)
	return r, nil
}

// enter makes r known under the name in e.
func (next *interior) enter(t Table, e entry, r Row) {
	next.entries[t][e.Name] = held{r, &spare{}}
	switch t {
	case Credentials:
		next.credentials[e.Name] = Meta{Name: e.Name, Kind: e.Kind, Confirm: e.Confirm, Account: e.Account,
			Rules: bytes.Clone(e.Rules), Version: r.Version}
	case Hosts:
		next.hosts[e.Name] = Host{Name: e.Name, Data: bytes.Clone(e.Data), Version: r.Version}
	case Settings:
		next.settings[e.Name] = bytes.Clone(e.Data)
	}
}

// drop forgets a name and returns what was held under it.
func (next *interior) drop(t Table, name string) (held, error) {
	r, ok := next.entries[t][name]
	if !ok {
		return held{}, ErrUnknown
	}
	delete(next.entries[t], name)
	switch t {
	case Credentials:
		delete(next.credentials, name)
	case Hosts:
		delete(next.hosts, name)
	case Settings:
		delete(next.settings, name)
	}
	next.manifest.remove(next.keys, r.Row)
	return r, nil
}

// load enters a stored row. False: nobody with the DEK wrote it.
func (next *interior) load(r Row) (ok bool, err error) {
	t := Table(r.Table)
	if _, known := next.entries[t]; !known {
		return false, nil
	}
	b, err := next.keys.label(r)
	if err != nil {
		return false, nil
	}
	var e entry
	if err := json.Unmarshal(b, &e, json.RejectUnknownMembers(true)); err != nil {
		return false, fmt.Errorf("label of row %s is not of this format", r.ID)
	}
	if _, twice := next.entries[t][e.Name]; twice {
		return false, fmt.Errorf("row %s repeats a name", r.ID)
	}
	next.enter(t, e, r)
	return true, nil
}
