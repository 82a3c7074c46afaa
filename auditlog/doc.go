// Package auditlog keeps the audit log: frames, chain, commits. It knows bytes, not events.
//
// This comment is the format, version 1. The package example walks a log by it with nothing but the standard library;
// testdata/vectors holds small logs with the verdict that every implementation must give, and testdata/verify.py is a
// second one, written from this comment alone.
//
// # Folder
//
//	audit.pub                  who may sign and who may read; signed by the log identity
//	audit/00000001.seg …       segments, numbered from 1 without a gap, eight digits at least; never changed once written past
//	audit/signer               the recovery key, for the writer alone
//	audit/tree                 hashes that make proofs quick; can be made anew, is trusted for nothing
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
// the fingerprint ("sha256:" and the hex SHA-256 of the identity key), from elsewhere: the pin. Identity, recovery key and
// origin of a log never change; recipients may, with a higher serial, and a pin with a lower one stays good.
//
// # Frames
//
// A segment is a run of frames. Integers are big endian.
//
//	u32 length | u8 type | body       length counts the body, 1 to 1 MiB
//
//	HEADER 1   first frame of a segment, followed by a COMMIT
//	BATCH  2   16 random bytes; begins a batch
//	RECORD 3   any number in a batch
//	COMMIT 4   ends a batch
//
// HEADER and its COMMIT, or BATCH, RECORDs and COMMIT, are one batch: one write and one fdatasync, at most 4 MiB.
// A BATCH without RECORDs has a countersigned COMMIT. Records have sequence numbers from 1, batches have commit numbers
// from 1, both over all segments and without a gap.
//
// Behind the last frame may lie preallocated space: zeros to the end of the file. They say nothing and are in no hash;
// since no frame has length 0, it is clear where they begin. A writer cuts them off when it ends a segment. More than
// 256 MiB of zeros no writer leaves: they count as more bytes than a torn tail can have.
//
// HEADER:
//
//	8 bytes "auditlg" 0x01 | u8 n, origin | u64 segment | u8 reason | u64 created
//	32 chain head, u64 sequence, u64 commits      where the log stood before
//	u8 n, n × 32                                  the tree's right edge there, see below
//	32 Ed25519 key                                signs this segment's COMMITs and the next rotation
//	u64 counter                                   the owner's lower bound, opaque here
//	u64 serial | u8 n, n × 32                     of audit.pub; SHA-256 of each recipient's text
//	u32 n, audit.pub                              in full if the segment before had another serial, else n = 0
//	u16 n, n × (u64 segment, u64 offset, u64 size, 32 SHA-256)              torn tails, see below
//	u32 n, n × (u64 sequence, u64 time, 16 subject, u16 n, own)             intents without a result, by sequence
//	u32 n, age file                               the segment's read key, 32 bytes, to all recipients
//	64 Ed25519 signature over "auditlog header 1\n" and all of the above
//
// Times are Unix nanoseconds. The reason says who signed: 1 genesis, the identity, segment 1 alone; 2 start, the
// recovery key; 3 rotate, the previous segment's key; 4 recover, the recovery key, and only here torn tails are listed.
// Serials never go back. A higher one than the segment before had needs its audit.pub, signed by the pinned identity, with
// the same origin and recovery key; with the same serial come the same recipients, and no audit.pub. Genesis brings
// none: the identity signed it. The recipients are those of the pin where the serial is the pin's.
//
// RECORD:
//
//	u8 kind (1 note, 2 intent, 3 result) | 16 subject | u16 n, own | sealed body
//
// The body, one byte 0x80 and the fewest zeros that make the whole frame 2 bytes more than a multiple of 64 are sealed
// by AES-256-GCM. Nonce: u96 index in the batch, from 0. Additional data: u64 segment | u64 sequence | kind | subject.
// Own, at most 1 KiB, is opaque; the chain covers it. Only notes may have the zero subject. An intent is open until a
// result with its subject; a second intent with that subject meanwhile changes nothing. All that are open take at most
// 768 KiB in a HEADER: a verifier need not remember more.
//
// Keys, with HKDF-SHA-256: K[1] is the HEADER's read key. The segment's i-th BATCH, with its 16 bytes as salt, gives
// P = Extract(salt, K[i]), the batch's AES key Expand(P, "auditlog record key 1"), and K[i+1] = Expand(P, "auditlog next
// key 1"), 32 bytes each. The writer keeps only the newest K: who takes its memory reads what comes, in this segment.
//
// COMMIT:
//
//	8 start of SHA-256 of the identity key | u64 segment | u64 last sequence | u64 commit number | u64 time
//	32 chain head before this frame | 32 tree root with this COMMIT
//	64 Ed25519 signature by the segment's key
//	64 Ed25519 signature by the identity, over the same text; or nothing: the body has 168 or 232 bytes
//
// The signed text is a checkpoint as C2SP tlog-checkpoint writes it:
//
//	ORIGIN
//	commit number
//	BASE64 of the tree root
//	sequence N
//	head BASE64 of the chain head
//	segment N
//	time RFC 3339, UTC, nanoseconds without trailing zeros
//
// Writer.Checkpoint is that text of the last COMMIT as a note signed by the log identity.
//
// # Chain and tree
//
//	h[0] = SHA-256("auditlog chain 1\n" | origin)
//	h[i] = SHA-256(h[i-1] | link[i])
//
// over every frame of every segment, prefixes included, torn tails not. A link is a HEADER, or a BATCH with all its
// RECORDs, or a COMMIT. Each COMMIT states the head before it, so its signature covers every earlier byte. The lengths
// are such that a batch of one record costs whole SHA-256 blocks.
//
// The tree is that of RFC 6962 over the COMMITs: commit number n is leaf n-1, its data u64 last sequence | u64 time | 32
// chain head. The root stated in a COMMIT is of the tree that ends with it. The right edge is the hashes of the perfect
// subtrees that a tree of that size consists of, largest first. With a checkpoint somebody who holds no log can be shown
// that a later one continues it (Writer.Prove, RFC 6962 section 2.1.2).
//
// Each segment's first and last signatures, its last countersignature and the roots in those COMMITs must hold; the
// chain covers the others, and Verify looks at them when it is asked for all.
//
// # Who vouches
//
// While the owner lends the identity key, each segment's first COMMIT is countersigned, and another at least once a
// minute while something is appended. That key alone stands for the log in the long run. A segment's own key is made
// for it, certified by the one before and wiped after it; the recovery key on disk may begin a segment at a start. So
// what lies behind the last countersigned COMMIT is weakly signed: who stole the recovery key or the running writer's
// memory could have written it. Verify tells where that begins (Report.Weak). All before is as strong as the identity
// key.
//
// # After a crash
//
// What follows the last valid COMMIT of a segment, preallocated zeros aside, is a torn tail if a crash could have left
// it: it has at most 4 MiB, and no COMMIT of this segment is in it, other than the very next one at its very end (its sector was
// written and an earlier one was not). A segment whose first batch is not whole is a torn tail from byte 0; there, with
// no key to check by, whatever begins like a COMMIT of it (a length that a COMMIT has, type, log and segment) counts as
// one. A batch is written only when the one before is durable, so a tail that has more was not left by a crash. Tails
// are never edited away. The next segment's HEADER, reason recover, lists exactly those since the HEADER before it,
// empty ones of segments that were never begun included. A tail that no HEADER lists is torn if no valid segment
// follows, else tampering. Everything else that does not fit is tampering.
//
// So damage to the very last batch reads as a crash: like truncation, only a checkpoint kept elsewhere tells it apart.
//
// # Full disks
//
// Space is allocated ahead: for the Results of all open intents, 8 KiB each, and 256 KiB for Reserved notes. Where a
// disk gives no more, intents and notes are refused with ErrFull, and Results still find their place.
package auditlog
