package vault

import (
	"encoding/binary"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	columnLabel = "label"
	columnValue = "value"
	columnOnly  = "row" // rows of one column: verifier, manifest

	padTo = 64
)

// place is where a box lives: what its additional data says.
type place struct {
	table, id, column string
	version           uint64
}

func (p place) use() string { return "row/" + p.table + "/" + p.column }

func (k *keys) placeAD(p place) []byte {
	return fields([]byte(format), k.vault[:], []byte(p.table), []byte(p.id), []byte(p.column),
		number(schema), number(p.version), number(k.generation))
}

// sealColumn hides the length of plain up to padTo.
func (k *keys) sealColumn(p place, plain []byte) []byte {
	padded := newPages(4 + len(plain) + padTo)
	defer padded.wipe()
	n := (4 + len(plain) + padTo - 1) / padTo * padTo
	b := padded.b[:n]
	binary.BigEndian.PutUint32(b, uint32(len(plain)))
	copy(b[4:], plain)
	return k.seal(p.use(), k.placeAD(p), b)
}

// unsealColumn returns the plaintext inside memory of its own; the caller
// wipes it.
func (k *keys) unsealColumn(p place, box []byte) (*pages, []byte, error) {
	m := newPages(max(len(box)-chacha20poly1305.NonceSizeX-chacha20poly1305.Overhead, 0))
	b, err := k.unseal(p.use(), k.placeAD(p), box, m.b[:0])
	if err != nil {
		m.wipe()
		return nil, nil, err
	}
	if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
		m.wipe()
		return nil, nil, errors.New("column has a wrong length")
	}
	n := int(binary.BigEndian.Uint32(b))
	return m, b[4 : 4+n : 4+n], nil
}

// sealRow makes a row of one column.
func (k *keys) sealRow(r Row, plain []byte) Row {
	r.Data = k.sealColumn(place{r.Table, r.ID, columnOnly, r.Version}, plain)
	return r
}

// unsealRow opens a row of one column; what it holds is no secret.
func (k *keys) unsealRow(r Row) ([]byte, error) {
	m, b, err := k.unsealColumn(place{r.Table, r.ID, columnOnly, r.Version}, r.Data)
	if err != nil {
		return nil, err
	}
	defer m.wipe()
	return append([]byte(nil), b...), nil
}

// sealEntry makes a row of label and value. A nil value has no box.
func (k *keys) sealEntry(r Row, label, value []byte) Row {
	l := k.sealColumn(place{r.Table, r.ID, columnLabel, r.Version}, label)
	r.Data = append(binary.AppendUvarint(nil, uint64(len(l))), l...)
	if value != nil {
		r.Data = append(r.Data, k.sealColumn(place{r.Table, r.ID, columnValue, r.Version}, value)...)
	}
	return r
}

// split parts an entry's data into its two boxes.
func split(data []byte) (label, value []byte, err error) {
	n, used := binary.Uvarint(data)
	if used <= 0 || n > uint64(len(data)-used) {
		return nil, nil, errors.New("entry has a wrong length")
	}
	return data[used : used+int(n)], data[used+int(n):], nil
}

// label opens the label of an entry row.
func (k *keys) label(r Row) ([]byte, error) {
	l, _, err := split(r.Data)
	if err != nil {
		return nil, err
	}
	m, b, err := k.unsealColumn(place{r.Table, r.ID, columnLabel, r.Version}, l)
	if err != nil {
		return nil, err
	}
	defer m.wipe()
	return append([]byte(nil), b...), nil
}

// value opens the value of an entry row; the caller wipes the memory.
func (k *keys) value(r Row) (*pages, []byte, error) {
	_, box, err := split(r.Data)
	if err != nil {
		return nil, nil, err
	}
	return k.unsealColumn(place{r.Table, r.ID, columnValue, r.Version}, box)
}
