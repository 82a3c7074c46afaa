package vault

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
)

const tableManifest = "manifest"

// manifest is what must hold over all other rows.
type manifest struct {
	counter    uint64
	generation uint64
	rows       uint64
	sum        sum
}

// sum is a number modulo 2^256, least word first.
type sum [4]uint64

func (s sum) plus(o sum) (r sum) {
	var c uint64
	for i := range s {
		r[i], c = bits.Add64(s[i], o[i], c)
	}
	return r
}

func (s sum) minus(o sum) (r sum) {
	var b uint64
	for i := range s {
		r[i], b = bits.Sub64(s[i], o[i], b)
	}
	return r
}

// element is a row's share of the sum.
func (k *keys) element(r Row) (s sum) {
	d := sha256.Sum256(r.Data)
	m := k.mac("manifest", []byte(r.Table), []byte(r.ID), number(r.Version), d[:])
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(m[8*i:])
	}
	return s
}

func (m *manifest) add(k *keys, r Row) {
	m.rows++
	m.sum = m.sum.plus(k.element(r))
}

func (m *manifest) remove(k *keys, r Row) {
	m.rows--
	m.sum = m.sum.minus(k.element(r))
}

func (m manifest) bytes() []byte {
	b := make([]byte, 0, 56)
	for _, n := range append([]uint64{m.counter, m.generation, m.rows}, m.sum[:]...) {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func parseManifest(b []byte) (m manifest, err error) {
	if len(b) != 56 {
		return manifest{}, errors.New("manifest has a wrong length")
	}
	w := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return manifest{w(0), w(1), w(2), sum{w(3), w(4), w(5), w(6)}}, nil
}

func (k *keys) manifest(r Row) (manifest, error) {
	b, err := k.unsealRow(r, nil)
	if err != nil {
		return manifest{}, err
	}
	return parseManifest(b)
}

// sealManifest is the manifest row of in's counter.
func (in *interior) sealManifest() Row {
	r := Row{ID: in.manifestID, Table: tableManifest, Version: in.manifest.counter}
	return in.keys.sealRow(r, in.manifest.bytes())
}
