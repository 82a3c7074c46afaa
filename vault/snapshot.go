package vault

import (
	"cmp"
	"maps"
	"slices"
)

// Table is a class of entries that have a name.
type Table string

const (
	Credentials Table = "credential"
	Hosts       Table = "host"
	Settings    Table = "setting"  // what decides authority and is no credential; one document each
	Internal    Table = "internal" // secrets of the gateway itself: never listed, lent only
)

// Meta is a credential without its value: what may be shown.
type Meta struct {
	Name    string // 1 to 128 bytes of UTF-8 without control characters
	Kind    string // the injection, in the executor's terms
	Confirm string // the confirm mode
	Account string // the label people know the account by
	Rules   []byte // opaque: the executor of Kind parses it
	Version uint64 // the vault's counter when it was written; set by the vault
}

// Host is a target. Data is opaque.
type Host struct {
	Name    string
	Data    []byte
	Version uint64
}

// Snapshot is the metadata of one moment. It never changes, and callers must
// not change the slices it gives.
type Snapshot struct {
	Generation  uint64 // raised by Rekey and Restore
	Counter     uint64 // changes so far; never lower, so a lower one means a rollback
	credentials map[string]Meta
	hosts       map[string]Host
	settings    map[string][]byte
	metas       []Meta
	targets     []Host
}

// Credential returns the named credential.
func (s *Snapshot) Credential(name string) (Meta, bool) {
	m, ok := s.credentials[name]
	return m, ok
}

// Host returns the named host.
func (s *Snapshot) Host(name string) (Host, bool) {
	h, ok := s.hosts[name]
	return h, ok
}

// Credentials returns all credentials by name.
func (s *Snapshot) Credentials() []Meta { return s.metas }

// Setting returns the named document.
func (s *Snapshot) Setting(name string) ([]byte, bool) {
	b, ok := s.settings[name]
	return b, ok
}

// Hosts returns all hosts by name.
func (s *Snapshot) Hosts() []Host { return s.targets }

// interior is a ready vault. It is never changed once published; a change makes
// a new one that shares the keys.
type interior struct {
	keys        *keys
	manifest    manifest
	manifestID  string
	verifier    Row
	past        Row    // without an id: none yet
	slots       []slot // the genuine ones
	entries     map[Table]map[string]held
	credentials map[string]Meta
	hosts       map[string]Host
	settings    map[string][]byte
}

// held is a stored row and the memory its value is lent in.
type held struct {
	Row
	spare *spare // shared by all interiors that hold the row
}

func newInterior(k *keys) *interior {
	return &interior{
		keys:        k,
		entries:     map[Table]map[string]held{Credentials: {}, Hosts: {}, Settings: {}, Internal: {}},
		credentials: map[string]Meta{},
		hosts:       map[string]Host{},
		settings:    map[string][]byte{},
	}
}

// clone copies everything a change may touch.
func (in *interior) clone() *interior {
	out := *in
	out.entries = make(map[Table]map[string]held, len(in.entries))
	for t, e := range in.entries {
		out.entries[t] = maps.Clone(e)
	}
	out.credentials = maps.Clone(in.credentials)
	out.hosts = maps.Clone(in.hosts)
	out.settings = maps.Clone(in.settings)
	out.slots = slices.Clone(in.slots)
	return &out
}

// slotRows are what Check opens.
func (in *interior) slotRows() []Row {
	rows := make([]Row, len(in.slots))
	for i, s := range in.slots {
		rows[i] = s.row
	}
	return rows
}

// wipe is for a vault that closes.
func (in *interior) wipe() {
	in.keys.wipe()
	for _, entries := range in.entries {
		for _, h := range entries {
			h.spare.close()
		}
	}
}

func (in *interior) snapshot() *Snapshot {
	s := &Snapshot{
		Generation:  in.manifest.generation,
		Counter:     in.manifest.counter,
		credentials: in.credentials,
		hosts:       in.hosts,
		settings:    in.settings,
		metas:       slices.Collect(maps.Values(in.credentials)),
		targets:     slices.Collect(maps.Values(in.hosts)),
	}
	slices.SortFunc(s.metas, func(a, b Meta) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.targets, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	return s
}
