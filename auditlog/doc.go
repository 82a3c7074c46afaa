// Package auditlog keeps the audit log: frames, chain, commits. It knows bytes, not events.
//
// This comment is the format. The package example walks a log by it with nothing but the standard library, and
// testdata/vectors holds small logs with the verdict that every implementation must give. The format may still change:
// tree, key ratchet, identity countersignatures and preallocated space are to come. Kind, subject, own and the order
// of writes will not.
//
// # Folder
//
//	audit.pub                  who may sign and who may read; signed by the log identity
//	audit/00000001.seg …       segments, numbered from 1 without a gap, eight digits at least; never changed once written past
//	audit/signer               the recovery key, for the writer alone
//	audit.abandoned.1 …        older logs that Create moved aside
//
// audit.pub is a signed note (golang.org/x/mod/sumdb/note, Ed25519) whose key name is the log's origin:
//
//	auditlog public key 1
//	origin ORIGIN
//	identity BASE64 of the Ed25519 key
//	recovery BASE64 of the Ed25519 key
//	serial N
//	recipient AGE-RECIPIENT          once for each
//
// Exactly these lines, one signature, by the identity. It vouches for nothing by itself: a verifier needs the file, or
// the fingerprint ("sha256:" and the hex SHA-256 of the identity key), from elsewhere.
//
// # Frames
//
// A segment is a run of frames. Integers are big endian.
//
//	u32 length | u8 type | body       length counts the body, 1 to 1 MiB
//
//	HEADER 1   first frame of a segment, followed by a COMMIT
//	BATCH  2   16 random bytes; begins a batch
//	RECORD 3   one or more in a batch
//	COMMIT 4   ends a batch
//
// HEADER and its COMMIT, or BATCH, RECORDs and COMMIT, are one batch: one write and one fdatasync, at most 4 MiB.
// Records have sequence numbers from 1, batches have commit numbers from 1, both over all segments and without a gap.
//
// HEADER:
//
//	8 bytes "auditlg" 0x01 | u8 n, origin | u64 segment | u8 reason | u64 created
//	32 chain head, u64 sequence, u64 commits      where the log stood before
//	32 Ed25519 key                                signs this segment's COMMITs and the next rotation
//	u64 serial | u8 n, n × 32                     of audit.pub; SHA-256 of each recipient's text
//	u16 n, n × (u64 segment, u64 offset, u64 size, 32 SHA-256)              torn tails, see below
//	u32 n, n × (u64 sequence, u64 time, 16 subject, u16 n, own)             intents without a result, by sequence
//	u32 n, age file                               the segment's read key, 32 bytes, to all recipients
//	64 Ed25519 signature over "auditlog header 1\n" and all of the above
//
// Times are Unix nanoseconds. The reason says who signed: 1 genesis, the identity, segment 1 alone; 2 start, the
// recovery key; 3 rotate, the previous segment's key; 4 recover, the recovery key, and only here torn tails are listed.
//
// RECORD:
//
//	u8 kind (1 note, 2 intent, 3 result) | 16 subject | u16 n, own | sealed body
//
// The body, one byte 0x80 and zeros up to a multiple of 64 are sealed by AES-256-GCM. Key: HKDF-SHA-256 of the read
// key, salt the batch's 16 bytes, info "auditlog record key 1". Nonce: u96 index in the batch, from 0. Additional data:
// u64 segment | u64 sequence | kind | subject. Own is opaque; the chain covers it. An intent is open until a result with
// its subject; a second intent with that subject meanwhile changes nothing.
//
// COMMIT:
//
//	8 start of SHA-256 of the identity key | u64 segment | u64 last sequence | u64 commit number | u64 time
//	32 chain head before this frame | 64 Ed25519 signature by the segment's key
//
// The signed text is a checkpoint as C2SP writes it:
//
//	ORIGIN
//	last sequence
//	BASE64 of the chain head
//	commits N
//	segment N
//	time RFC 3339, UTC, nanoseconds without trailing zeros
//
// Writer.Checkpoint is that text of the last COMMIT as a note signed by the log identity.
//
// # Chain
//
//	h[0] = 32 zero bytes
//	h[i] = SHA-256("auditlog chain 1" | h[i-1] | frame[i])
//
// over every frame of every segment, prefixes, HEADERs and COMMITs included, torn tails not. Each COMMIT states the
// head, so its signature covers every earlier byte. Verify therefore checks each segment's first and last signature,
// unless it is asked for all.
//
// # After a crash
//
// What follows the last valid COMMIT of a segment is a torn tail if a crash could have left it: it has at most 4 MiB,
// and no COMMIT of this segment is in it, other than the very next one at its very end (its sector was written and an
// earlier one was not). A segment whose first batch is not whole is a torn tail from byte 0; there, with no key to
// check by, whatever begins like a COMMIT of it counts as one. A batch is written only when the one before is durable,
// so a tail that has more was not left by a crash. Tails are never edited away. The next segment's HEADER, reason
// recover, lists exactly those since the HEADER before it. A tail that no HEADER lists is torn if no valid segment
// follows, else tampering. Everything else that does not fit is tampering.
//
// So damage to the very last batch reads as a crash: like truncation, only a checkpoint kept elsewhere tells it apart.
package auditlog
