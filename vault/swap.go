package vault

import (
	"bytes"
	"crypto/subtle"
	"fmt"
	"io"
	"slices"
)

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
	// Also returns the outbox batch for the new database, nil: none. It comes
	// after Edit, before Reseal.
	Also func() ([]byte, error)
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

// same says whether two interiors hold the same entries and slots.
func same(a, b *interior) error {
	for t, entries := range a.entries {
		if len(entries) != len(b.entries[t]) {
			return fmt.Errorf("%d entries of %s, not %d", len(b.entries[t]), t, len(entries))
		}
		for name, h := range entries {
			o := b.entries[t][name]
			if o.ID != h.ID || o.Version != h.Version || !h.alike(a.keys, o, b.keys) {
				return fmt.Errorf("row %s differs", h.ID)
			}
		}
	}
	if len(a.slots) != len(b.slots) {
		return fmt.Errorf("%d slots, not %d", len(b.slots), len(a.slots))
	}
	for i := range a.slots {
		if !slices.ContainsFunc(b.slots, func(s slot) bool { return s.is(a.slots[i].row) }) {
			return fmt.Errorf("slot %s differs", a.slots[i].ID)
		}
	}
	return nil
}

// alike compares label and value of two rows, each under its own key.
func (h held) alike(k *keys, o held, ok *keys) bool {
	a, err := k.label(h.Row)
	if err != nil {
		return false
	}
	b, err := ok.label(o.Row)
	if err != nil || !bytes.Equal(a, b) {
		return false
	}
	_, x, err := split(h.Data)
	if err != nil {
		return false
	}
	_, y, err := split(o.Data)
	if err != nil || len(x) == 0 || len(y) == 0 {
		return err == nil && len(x) == len(y)
	}
	m, n := newPages(len(h.Data)), newPages(len(o.Data))
	defer m.wipe()
	defer n.wipe()
	if a, err = k.value(h.Row, m.b); err != nil {
		return false
	}
	b, err = ok.value(o.Row, n.b)
	return err == nil && subtle.ConstantTimeCompare(a, b) == 1
}

// verify opens rows with each of these keys, checks all of them, and compares
// them with what they were made from.
func (in *interior) verify(rows []Row, base uint64, with []Key) error {
	for _, k := range with {
		got, _, err := openSlot(rows, k, func(k *keys, s Row) bool { return belongs(rows, k, s) })
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		defer got.wipe()
		read, forged, err := audit(rows, base, got)
		if err == nil && len(forged) > 0 {
			err = fmt.Errorf("%d rows do not open", len(forged))
		}
		if err == nil {
			err = same(in, read)
		}
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	return nil
}
