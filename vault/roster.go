package vault

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

const tableVerifier = "verifier"

// roster is the verifier row's plaintext: the slots that are genuine.
type roster struct {
	Vault string   `json:"vault"`
	Slots []listed `json:"slots"`
}

// listed is one slot. Recipient lets a new DEK be sealed to it; a passphrase
// slot has none.
type listed struct {
	ID        string    `json:"id"`
	Digest    []byte    `json:"digest"` // SHA-256 of the slot's file
	Kind      SlotKind  `json:"kind"`
	Created   time.Time `json:"created"`
	Recipient string    `json:"recipient,omitzero"`
}

// slot is a genuine slot and its row.
type slot struct {
	listed
	row Row
}

func (l listed) is(r Row) bool {
	d := sha256.Sum256(r.Data)
	return r.Table == tableSlot && l.ID == r.ID && slices.Equal(l.Digest, d[:])
}

// sealRoster is the verifier row of in's slots.
func (in *interior) sealRoster(id string) (Row, error) {
	o := roster{Vault: in.keys.vault.String()}
	for _, s := range in.slots {
		o.Slots = append(o.Slots, s.listed)
	}
	b, err := json.Marshal(o, json.Deterministic(true))
	if err != nil {
		return Row{}, fmt.Errorf("list slots: %w", err)
	}
	return in.keys.sealRow(Row{ID: id, Table: tableVerifier, Version: in.manifest.counter}, b), nil
}

// roster opens a verifier row.
func (k *keys) roster(r Row) ([]listed, error) {
	b, err := k.unsealRow(r, nil)
	if err != nil {
		return nil, err
	}
	var o roster
	if err := json.Unmarshal(b, &o, json.RejectUnknownMembers(true)); err != nil || o.Vault != k.vault.String() {
		return nil, errors.New("verifier has a wrong form")
	}
	return o.Slots, nil
}

// setSlots makes next's slots the genuine ones and returns the verifier row
// that says so.
func (next *interior) setSlots(slots []slot) (Row, error) {
	was := next.verifier
	next.slots = slots
	r, err := next.sealRoster(was.ID)
	if err != nil {
		return Row{}, err
	}
	next.manifest.remove(next.keys, was)
	next.manifest.add(next.keys, r)
	next.verifier = r
	return r, nil
}

// settle sets k to the latest generation that these rows open at and returns
// the slots listed there. ok: k is these rows' DEK. A spoilt verifier is a
// matter for audit, not a wrong key: slots is then nil and any is true.
func (k *keys) settle(rows []Row) (slots []listed, anySlot, ok bool) {
	var at uint64
	for _, r := range rows {
		g, is := generationOf(r)
		if !is || g < at || r.Table != tableVerifier && r.Table != tableManifest {
			continue
		}
		try := *k
		try.generation = g
		if _, err := try.unsealRow(r, nil); err != nil {
			continue
		}
		if g > at {
			at, slots, anySlot, ok = g, nil, true, true
		}
		if r.Table == tableVerifier {
			if s, err := try.roster(r); err == nil {
				slots, anySlot = s, false
			}
		}
	}
	if ok {
		k.generation = at
	}
	return slots, anySlot, ok
}

// belongs says whether k, found in slot, is these rows' DEK, and slot one of
// theirs: a slot that was removed and put back opens nothing. It sets k's
// generation.
func belongs(rows []Row, k *keys, s Row) bool {
	slots, anySlot, ok := k.settle(rows)
	return ok && (anySlot || slices.ContainsFunc(slots, func(l listed) bool { return l.is(s) }))
}
