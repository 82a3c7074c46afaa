package api

import "time"

// Paths of what opens the vault, and of the vault as a whole. Each comment names args -> answer.
const (
	PathPassphrase = "vault/passphrase" // PassphraseArgs + value -> AddedSlot
	PathRekey      = "vault/rekey"      // {} -> Rekeyed; every grant ends
	PathBackup     = "vault/backup"     // {} -> the file
	PathRestore    = "vault/restore"    // RestoreArgs + file -> Restored
	PathSlotList   = "slot/list"        // {} -> []Slot
	PathSlotAdd    = "slot/add"         // SlotArgs + value -> AddedSlot
	PathSlotRemove = "slot/remove"      // IDArgs -> {}
)

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

// Rekeyed answers vault/rekey. Resealed counts what lay sealed beside the vault's own rows; Unreadable, what no key opens.
type Rekeyed struct {
	Generation uint64 `json:"generation"`
	Resealed   int    `json:"resealed"`
	Unreadable int    `json:"unreadable"`
}

// RestoreArgs of vault/restore; the backup follows the envelope's line. The proof opens the vault that is there, if one
// is; where the backup opens with another key, that one is the first of the envelope's keys.
type RestoreArgs struct {
	FileLength int64  `json:"fileLength"`
	FileDigest []byte `json:"fileDigest"` // SHA-256
}

// Restored answers vault/restore. NewLog: there was no log of this vault, one has begun. Passed counts records of the log
// that no key of the restored vault opens: what they tell is known to the log's readers alone.
type Restored struct {
	VaultID    string `json:"vaultId"`
	Generation uint64 `json:"generation"`
	NewLog     bool   `json:"newLog,omitzero"`
	Passed     int    `json:"passed,omitzero"`
}
