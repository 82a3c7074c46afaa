package vault

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"filippo.io/age"
)

const (
	tableSlot = "slot"

	maxWorkFactor = 20      // log2 N, in reading and writing: 1 GiB and a few seconds
	maxSlotSize   = 8 << 10 // a hybrid slot has about 2 KiB
	maxSlotTries  = 4       // of the key's kind: inserted slots must not cost an hour of scrypt

	slotMagic  = "spslot1\n"
	slotLength = len(slotMagic) + 32 + 16 + 16 + 8
	scryptHead = "age-encryption.org/v1\n-> scrypt "
)

type id [16]byte

func newID() (i id) {
	_, _ = rand.Read(i[:]) // never fails: the program ends instead
	return i
}

func (i id) String() string { return hex.EncodeToString(i[:]) }

// sealSlot makes the slot row that hands k to whoever opens it as r.
func sealSlot(k *keys, r age.Recipient, version uint64) (Row, error) {
	slot := newID()
	plain := newPages(slotLength)
	defer plain.wipe()
	b := append(plain.b[:0], slotMagic...)
	b = append(b, k.dek()...)
	b = append(b, k.vault[:]...)
	b = append(b, slot[:]...)
	b = binary.BigEndian.AppendUint64(b, k.generation)

	var file bytes.Buffer
	w, err := age.Encrypt(&file, r)
	if err != nil {
		return Row{}, fmt.Errorf("seal slot: %w", err)
	}
	if _, err := w.Write(b); err != nil {
		return Row{}, fmt.Errorf("seal slot: %w", err)
	}
	if err := w.Close(); err != nil {
		return Row{}, fmt.Errorf("seal slot: %w", err)
	}
	return Row{ID: slot.String(), Table: tableSlot, Version: version, Data: file.Bytes()}, nil
}

// unsealSlot opens one slot row. ErrWrongKey: it is sealed to another key. Any
// other error is about the slot itself.
func unsealSlot(r Row, i age.Identity) (*keys, error) {
	src, err := age.Decrypt(bytes.NewReader(r.Data), i)
	if errors.Is(err, age.ErrIncorrectIdentity) {
		return nil, ErrWrongKey
	}
	if err != nil {
		return nil, err
	}
	plain := newPages(slotLength)
	defer plain.wipe()
	b := plain.b[:slotLength]
	if _, err := io.ReadFull(src, b); err != nil {
		return nil, err
	}
	if n, err := src.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, errors.New("slot is too long")
	}
	rest, ok := bytes.CutPrefix(b, []byte(slotMagic))
	if !ok {
		return nil, errors.New("slot has another format")
	}
	if id(rest[48:64]).String() != r.ID {
		return nil, errors.New("slot belongs to another row")
	}
	return newKeys(rest[:32], id(rest[32:48]), binary.BigEndian.Uint64(rest[64:])), nil
}

// openSlot tries k on the slots among rows of its kind and returns the first
// keys that accept says belong to this vault. It works without a scrypt run on
// slots that demand more than maxWorkFactor.
func openSlot(rows []Row, k Key, accept func(*keys) bool) (*keys, error) {
	i, err := k.identity()
	if err != nil {
		return nil, err
	}
	slots := make([]Row, 0, maxSlotTries)
	for _, r := range rows {
		scrypt := bytes.HasPrefix(r.Data, []byte(scryptHead))
		if r.Table == tableSlot && len(r.Data) <= maxSlotSize && scrypt == k.isPassphrase() {
			slots = append(slots, r)
		}
	}
	slices.SortFunc(slots, func(a, b Row) int { return cmp.Compare(a.Version, b.Version) })
	var odd error
	for _, r := range slots[:min(len(slots), maxSlotTries)] {
		got, err := unsealSlot(r, i)
		switch {
		case errors.Is(err, ErrWrongKey):
		case err != nil:
			odd = fmt.Errorf("open slot %s: %w", r.ID, err)
		case !accept(got):
			got.wipe()
			odd = fmt.Errorf("open slot %s: its key does not open this vault", r.ID)
		default:
			return got, nil
		}
	}
	if odd != nil {
		return nil, fmt.Errorf("%w (%w)", ErrWrongKey, odd)
	}
	return nil, ErrWrongKey
}
