// Package vault keeps credentials sealed and lends a plaintext for the length
// of one callback. There is no way to read a secret other than [Vault.With].
//
// # Keys
//
// The DEK is 32 random bytes, made once. It lies only inside slots: each slot
// row is one age file, either to one scrypt passphrase or to one hybrid
// post-quantum recipient, whose plaintext is
//
//	"spslot1\n" | DEK (32) | vault id (16) | slot id (16) | generation (8, big endian)
//
// A slot is believed only if it names its own row and its DEK opens the
// verifier row. Every other key is HKDF-SHA256(DEK, salt = vault id,
// info = "sallyport/vault/1/" + use), one for each use.
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
// The verifier row lists the genuine slots: vault id, then for each slot its id
// and the SHA-256 of its file.
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
// # Memory
//
// The DEK and every lent value lie in page-aligned memory of their own, locked
// and kept out of core dumps where the system allows, and cleared after use.
// Names, rules and hosts lie in ordinary memory while the vault is ready. This
// is best effort: age, HKDF and the ciphers make copies on the Go heap that
// nobody can wipe, and a passphrase passes through a string.
package vault
