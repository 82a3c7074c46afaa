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

	maxScryptTries   = 4 // inserted slots must not cost an hour of scrypt
	maxIdentityTries = 32

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

func parseID(s string) (i id, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(i) {
		return id{}, fmt.Errorf("id of %d characters: %w", len(s), ErrInvalid)
	}
	return id(b), nil
}

// sealSlot makes the slot row that hands k to whoever opens it as r. It has no
// version yet.
func sealSlot(k *keys, slot id, r age.Recipient) (Row, error) {
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
	return Row{ID: slot.String(), Table: tableSlot, Data: file.Bytes()}, nil
}

// scryptRecipient is a passphrase slot's.
func scryptRecipient(k Key, workFactor int) (age.Recipient, error) {
	if !k.isPassphrase() {
		return nil, fmt.Errorf("key must be a passphrase: %w", ErrInvalid)
	}
	if workFactor < 1 || workFactor > maxWorkFactor {
		return nil, fmt.Errorf("work factor %d: %w", workFactor, ErrInvalid)
	}
	r, err := age.NewScryptRecipient(string(k.material().passphrase))
	if err != nil {
		return nil, err
	}
	r.SetWorkFactor(workFactor)
	return r, nil
}

// unsealSlot opens one slot row; the generation is the one the slot was made
// in. ErrWrongKey: it is sealed to another key. Any
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
// keys that accept says belong to this vault, with the slot they lay in. It
// works without a scrypt run on slots that demand more than maxWorkFactor.
func openSlot(rows []Row, k Key, accept func(*keys, Row) bool) (*keys, Row, error) {
	i, err := k.identity()
	if err != nil {
		return nil, Row{}, err
	}
	tries := maxIdentityTries
	if k.isPassphrase() {
		tries = maxScryptTries
	}
	var slots []Row
	for _, r := range rows {
		if r.Table == tableSlot && len(r.Data) <= maxSlotSize && isScrypt(r) == k.isPassphrase() {
			slots = append(slots, r)
		}
	}
	slices.SortFunc(slots, func(a, b Row) int { return cmp.Compare(a.Version, b.Version) })
	var odd error
	for _, r := range slots[:min(len(slots), tries)] {
		got, err := unsealSlot(r, i)
		switch {
		case errors.Is(err, ErrWrongKey):
		case err != nil:
			odd = fmt.Errorf("open slot %s: %w", r.ID, err)
		case !accept(got, r):
			got.wipe()
			odd = fmt.Errorf("open slot %s: it is not a slot of this vault", r.ID)
		default:
			return got, r, nil
		}
	}
	if odd != nil {
		return nil, Row{}, fmt.Errorf("%w (%w)", ErrWrongKey, odd)
	}
	return nil, Row{}, ErrWrongKey
}

func isScrypt(r Row) bool { return bytes.HasPrefix(r.Data, []byte(scryptHead)) }
