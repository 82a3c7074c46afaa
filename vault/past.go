package vault

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// tablePast is the row with the DEKs of earlier generations: what they sealed
// outside the vault's rows (a log that is only appended to) stays readable to
// its owner. Its plaintext is, for each, the latest first,
//
//	generation (8, big endian) | DEK (32)
const tablePast = "past"

const (
	pastLength = 8 + 32
	maxPast    = 32 // the earliest are forgotten
)

// sealPast is the past row of k.
func (k *keys) sealPast(r Row) Row {
	m := newPages(len(k.past) * pastLength)
	defer m.wipe()
	b := m.b[:0]
	for _, p := range k.past {
		b = binary.BigEndian.AppendUint64(b, p.generation)
		b = append(b, p.dek()...)
	}
	return k.sealRow(r, b)
}

// openPast fills k.past from a past row.
func (k *keys) openPast(r Row) error {
	m := newPages(len(r.Data))
	defer m.wipe()
	b, err := k.unsealRow(r, m.b)
	if err != nil {
		return err
	}
	if len(b)%pastLength != 0 || len(b) > maxPast*pastLength {
		return errors.New("past has a wrong length")
	}
	for ; len(b) > 0; b = b[pastLength:] {
		k.past = append(k.past, newKeys(b[8:pastLength], k.vault, binary.BigEndian.Uint64(b)))
	}
	return nil
}

// copy returns keys with memory of their own, and their past.
func (k *keys) copy() *keys {
	c := newKeys(k.dek(), k.vault, k.generation)
	for _, p := range k.past {
		c.past = append(c.past, p.copy())
	}
	return c
}

// next are keys of a later generation that remember those of before: k, its
// past, and what others remember. dek nil: k's own.
func (k *keys) next(dek []byte, generation uint64, others ...*keys) *keys {
	if dek == nil {
		dek = k.dek()
	}
	n := newKeys(dek, k.vault, generation)
	for _, o := range append([]*keys{k}, others...) {
		for _, p := range append([]*keys{o}, o.past...) {
			same := func(q *keys) bool { return q.generation == p.generation && q.equal(p) }
			if p.vault == k.vault && !slices.ContainsFunc(n.past, same) {
				n.past = append(n.past, newKeys(p.dek(), p.vault, p.generation))
			}
		}
	}
	slices.SortStableFunc(n.past, func(a, b *keys) int { return cmp.Compare(b.generation, a.generation) })
	for _, p := range n.past[min(len(n.past), maxPast):] {
		p.wipe()
	}
	n.past = n.past[:min(len(n.past), maxPast)]
	return n
}
