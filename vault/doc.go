// Package vault keeps credentials sealed and lends a plaintext for the length
// of one callback. There is no way to read a secret other than [Vault.With].
//
// # Keys
//
// The DEK is 32 random bytes, made at creation and at each rekey. It lies only
// inside slots (and, once replaced, in the sealed row of past keys): each slot
// row is one age file, either to one scrypt passphrase or to one hybrid
// post-quantum recipient, whose plaintext is
//
//	"spslot1\n" | DEK (32) | vault id (16) | slot id (16) | generation (8, big endian)
//
// where generation is the one the slot was made in. A slot is believed only if
// it names its own row, its DEK opens the verifier row, and that row lists it
// with the SHA-256 of its file: a slot that was removed and is put back opens
// nothing. Kinds of slot are passphrase, recovery and keychain; one that is not
// a keychain's always remains. Every other key is HKDF-SHA256(DEK, salt = vault
// id, info = "sallyport/vault/1/" + use), one for each use.
//
// # Generations
//
// [Vault.Rekey] makes a new DEK, [Vault.Restore] keeps the backup's; both raise
// the generation and seal every row anew, in a new database that takes the
// place of the old one in one step. The past row holds the DEKs and generations
// of before (at most 32), so that boxes of [Vault.Seal] outside the database,
// such as in a log that is only appended to, stay readable to their owner. A
// rekey thus makes a stolen DEK worthless against what is written from then on
// and against the new database as a whole; what was sealed under it elsewhere
// stays as exposed as it was.
//
// # Rows
//
// A box is a random 24-byte nonce followed by XChaCha20-Poly1305. The
// additional data of a row's column is, each field preceded by its length as
// four bytes big endian:
//
//	format, vault id, table, row id, column, schema, version, generation
//
// so a box opens at its own place only. A credential, host or internal row is
//
//	uvarint length of label box | label box | value box (empty for a host)
//
// and a column's plaintext is its length (4 bytes, big endian), itself, and
// zeros up to a multiple of 64. Row ids are random. A row's version is the
// counter of the change that wrote it, so a name dropped and added again never
// has an old version.
//
// The verifier, manifest and past rows have one column, and in front of its box
// the generation (8 bytes, big endian) in the clear; at another the box does not
// open. The verifier row lists the genuine slots, as JSON: vault id, then for
// each slot its id, the SHA-256 of its file, kind, time of creation and, if it
// has one, recipient.
//
// # Manifest
//
// The manifest row is sealed in the same transaction as every change:
//
//	counter (8) | generation (8) | number of rows (8) | sum (32)
//
// sum is the addition modulo 2^256 of HMAC-SHA256 over (table, row id, version,
// SHA-256 of data) of every row but the manifest's own: a keyed multiset hash
// (MSet-Add-Hash, Clarke et al., ASIACRYPT 2003), so one change costs one
// addition. At unlock rows that do not authenticate are set aside as forged;
// the manifest must then hold over exactly the others, else the vault is
// quarantined. Putting back the whole file, counter and all, is not visible
// here: whoever keeps a lower bound of [Snapshot.Counter] elsewhere tells.
//
// # Backups
//
// A backup is an age file of the database, every row in it still sealed. Its
// header holds the vault's slots and the file key sealed under the DEK, so that
// every key of the vault opens the backup too, and no passphrase is needed to
// make one; besides, one stanza for each recovery and keychain recipient, so
// that the age command opens it with such an identity. What a backup holds is
// believed only if the whole stream is authentic, the database sound and of
// this schema, and its rows match their manifest.
//
// # Memory
//
// The DEK and every lent value lie in page-aligned memory of their own, locked
// and kept out of core dumps where the system allows, and cleared after use.
// Names, rules and hosts lie in ordinary memory while the vault is ready. This
// is best effort: age, HKDF and the ciphers make copies on the Go heap that
// nobody can wipe, and a passphrase passes through a string.
package vault
