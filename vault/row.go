package vault

import (
	"encoding/binary"
	"errors"
)

const (
	columnLabel = "label"
	columnValue = "value"
	columnOnly  = "row" // rows of one column: verifier, manifest, past

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

// padded is the length of a column's plaintext: the true one is hidden up to
// padTo.
func padded(n int) int { return (4 + n + padTo - 1) / padTo * padTo }

// sealColumn uses buf, zeros of at least padded(len(plain)), for the plaintext.
func (k *keys) sealColumn(p place, plain, buf []byte) []byte {
	b := buf[:padded(len(plain))]
	binary.BigEndian.PutUint32(b, uint32(len(plain)))
	copy(b[4:], plain)
	return k.seal(p.use(), k.placeAD(p), b)
}

// unsealColumn puts the plaintext into dst if its capacity suffices for the
// box's length, else into new memory.
func (k *keys) unsealColumn(p place, box, dst []byte) ([]byte, error) {
	b, err := k.unseal(p.use(), k.placeAD(p), box, dst[:0])
	if err != nil {
		return nil, err
	}
	if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, errors.New("column has a wrong length")
	}
	n := int(binary.BigEndian.Uint32(b))
	return b[4 : 4+n : 4+n], nil
}

// sealRow makes a row of one column, in front of which stands the generation.
func (k *keys) sealRow(r Row, plain []byte) Row {
	m := newPages(padded(len(plain)))
	defer m.wipe()
	r.Data = append(number(k.generation), k.sealColumn(place{r.Table, r.ID, columnOnly, r.Version}, plain, m.b)...)
	return r
}

// unsealRow opens a row of one column, into dst if it is large enough.
func (k *keys) unsealRow(r Row, dst []byte) ([]byte, error) {
	g, ok := generationOf(r)
	if !ok || g != k.generation {
		return nil, errUnsealed
	}
	return k.unsealColumn(place{r.Table, r.ID, columnOnly, r.Version}, r.Data[8:], dst)
}

// generationOf is what a row of one column says of itself; true only if it
// opens at that generation.
func generationOf(r Row) (uint64, bool) {
	if len(r.Data) < 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(r.Data), true
}

// sealEntry makes a row of label and value. A nil value has no box.
func (k *keys) sealEntry(r Row, label, value []byte) Row {
	l := k.sealColumn(place{r.Table, r.ID, columnLabel, r.Version}, label, make([]byte, padded(len(label))))
	r.Data = append(binary.AppendUvarint(nil, uint64(len(l))), l...)
	if value != nil {
		m := newPages(padded(len(value)))
		defer m.wipe()
		r.Data = append(r.Data, k.sealColumn(place{r.Table, r.ID, columnValue, r.Version}, value, m.b)...)
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

// label opens the label of an entry row; what it holds is no secret.
func (k *keys) label(r Row) ([]byte, error) {
	box, _, err := split(r.Data)
	if err != nil {
		return nil, err
	}
	return k.unsealColumn(place{r.Table, r.ID, columnLabel, r.Version}, box, nil)
}

// value opens the value of an entry row into dst, which must hold len(r.Data).
func (k *keys) value(r Row, dst []byte) ([]byte, error) {
	_, box, err := split(r.Data)
	if err != nil {
		return nil, err
	}
	return k.unsealColumn(place{r.Table, r.ID, columnValue, r.Version}, box, dst)
}
