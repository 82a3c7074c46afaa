package api

import "time"

// Slot is one key that opens the vault: kind passphrase, recovery or keychain.
type Slot struct {
	ID        string    `json:"id"` // 32 hex digits
	Kind      string    `json:"kind"`
	CreatedAt time.Time `json:"createdAt"`
}

// SlotArgs of slot/add. A new passphrase follows the envelope's line; the other kinds take no value.
type SlotArgs struct {
	Kind        string `json:"kind"`
	ValueLength int    `json:"valueLength,omitzero"`
	ValueDigest []byte `json:"valueDigest,omitempty"` // SHA-256(salt | value)
}

// PassphraseArgs of vault/passphrase; the new passphrase follows the envelope's line.
type PassphraseArgs struct {
	ValueLength int    `json:"valueLength"`
	ValueDigest []byte `json:"valueDigest"` // SHA-256(salt | value)
}

// AddedSlot answers slot/add and vault/passphrase. RecoveryIdentity is the only time that it is shown.
type AddedSlot struct {
	Slot             Slot   `json:"slot"`
	RecoveryIdentity string `json:"recoveryIdentity,omitempty"`
}
