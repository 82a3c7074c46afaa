package vault

import "io"

// Swap is what Store.Swap is asked for. Its functions are called once each, in
// this order, but Reseal once for each box.
type Swap struct {
	From  io.Reader // what Copy wrote, of this database or another; nil: a copy of the present one
	Limit int64     // of From, in bytes

	// Edit is given the copy's rows and counter, and returns all the rows and
	// the counter that the new database is to have.
	Edit func(rows []Row, base uint64) (next []Row, counter uint64, err error)
	// Reseal returns a box of Vault.Seal as the new database is to hold it. An
	// error: none of the vault's keys opens it; it is kept as it is.
	Reseal func(use string, ad, box []byte) ([]byte, error)
	// Verify is given what the new database holds, read back from its file.
	Verify func(rows []Row, base uint64) error
	Also   []byte // an outbox batch for the new database; nil: none
}

// move reseals every entry of in under k, at a counter. Ids and versions stay,
// and so do the slots, which the caller may replace before rows are made.
func (in *interior) move(k *keys, counter uint64) (*interior, error) {
	next := newInterior(k)
	next.manifest = manifest{counter: counter, generation: k.generation}
	next.manifestID = in.manifestID
	next.verifier = Row{ID: in.verifier.ID, Table: tableVerifier}
	next.slots = in.slots
	next.past = Row{ID: in.past.ID, Table: tablePast, Version: counter}
	if in.past.ID == "" {
		next.past.ID = newID().String()
	}
	for t, entries := range in.entries {
		for name, h := range entries {
			r, err := h.reseal(in.keys, k)
			if err != nil {
				return nil, err
			}
			next.entries[t][name] = held{r, &spare{}}
		}
	}
	next.credentials, next.hosts, next.settings = in.credentials, in.hosts, in.settings
	return next, nil
}

// reseal returns the row's label and value under another key.
func (h held) reseal(from, to *keys) (Row, error) {
	label, err := from.label(h.Row)
	if err != nil {
		return Row{}, err
	}
	var value []byte
	if _, box, err := split(h.Data); err != nil {
		return Row{}, err
	} else if len(box) > 0 {
		m := newPages(len(h.Data))
		defer m.wipe()
		if value, err = from.value(h.Row, m.b); err != nil {
			return Row{}, err
		}
	}
	return to.sealEntry(Row{ID: h.ID, Table: h.Table, Version: h.Version}, label, value), nil
}

// rows seals what describes a moved interior (past, verifier, manifest) and
// returns all of its rows.
func (next *interior) rows() ([]Row, error) {
	var err error
	if next.verifier, err = next.sealRoster(next.verifier.ID); err != nil {
		return nil, err
	}
	next.past = next.keys.sealPast(next.past)
	rows := append(next.slotRows(), next.verifier, next.past)
	for _, entries := range next.entries {
		for _, h := range entries {
			rows = append(rows, h.Row)
		}
	}
	for _, r := range rows {
		next.manifest.add(next.keys, r)
	}
	return append(rows, next.sealManifest()), nil
}
