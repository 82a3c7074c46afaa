package auditlog

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"slices"
)

// Format is the version of the log's format, as the package comment has it.
const Format = 1

const (
	headerMagic  = "auditlg\x01" // the last byte is the format's version
	headerDomain = "auditlog header 1\n"
)

// Why a segment was begun.
const (
	genesis   = 1 // first segment; signed by the identity
	restarted = 2 // a writer opened a log that ended at a COMMIT; signed by the recovery key
	rotated   = 3 // the writer itself moved on; signed by the previous segment's key
	recovered = 4 // a writer opened a log with a torn tail; signed by the recovery key
)

// drop is a torn tail that a HEADER explains. offset 0: not even the segment's first batch was whole.
type drop struct {
	segment, offset, size uint64
	sum                   [32]byte // SHA-256 of the dropped bytes
	why                   string   // for messages; not in the file
}

func (d drop) same(e drop) bool { d.why, e.why = "", ""; return d == e }

// intent is an Intent that has no Result yet.
type intent struct {
	seq     uint64
	time    int64 // of its COMMIT, Unix nanoseconds
	subject [16]byte
	own     []byte
}

func (i intent) cost() int { return 8 + 8 + 16 + 2 + len(i.own) }

func (i intent) equal(j intent) bool {
	return i.seq == j.seq && i.time == j.time && i.subject == j.subject && bytes.Equal(i.own, j.own)
}

// maxOpen bounds the open intents so that they fit a HEADER.
const maxOpen = 768 << 10

type header struct {
	origin  string
	segment uint64
	reason  byte
	created int64 // Unix nanoseconds
	from    stand // where the log stood before this segment
	key     ed25519.PublicKey
	counter uint64 // the owner's, see Options.Counter
	readers readers
	drops   []drop
	open    []intent // by seq
	wrapped []byte   // age file holding the read key
	sig     []byte
}

// stand is a place between two batches and the tree there.
type stand struct {
	mark
	edge edge
}

func (s stand) equal(o stand) bool { return s.mark == o.mark && slices.Equal(s.edge, o.edge) }

// readers says to whom a segment is sealed. pub is the signed audit.pub of that serial, there when the segment before
// had another serial: so whoever pinned an older audit.pub can follow.
type readers struct {
	serial uint64
	prints [][32]byte // fingerprints of the recipients
	pub    []byte
}

// body is what is signed.
func (h header) body() []byte {
	b := []byte(headerMagic)
	b = append(b, byte(len(h.origin)))
	b = append(b, h.origin...)
	b = binary.BigEndian.AppendUint64(b, h.segment)
	b = append(b, h.reason)
	b = binary.BigEndian.AppendUint64(b, uint64(h.created))
	b = append(b, h.from.head[:]...)
	b = binary.BigEndian.AppendUint64(b, h.from.seq)
	b = binary.BigEndian.AppendUint64(b, h.from.commits)
	b = append(b, byte(len(h.from.edge)))
	for _, e := range h.from.edge {
		b = append(b, e[:]...)
	}
	b = append(b, h.key...)
	b = binary.BigEndian.AppendUint64(b, h.counter)
	b = binary.BigEndian.AppendUint64(b, h.readers.serial)
	b = append(b, byte(len(h.readers.prints)))
	for _, r := range h.readers.prints {
		b = append(b, r[:]...)
	}
	b = appendBytes(b, h.readers.pub)
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.drops)))
	for _, d := range h.drops {
		b = binary.BigEndian.AppendUint64(b, d.segment)
		b = binary.BigEndian.AppendUint64(b, d.offset)
		b = binary.BigEndian.AppendUint64(b, d.size)
		b = append(b, d.sum[:]...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(h.open)))
	for _, i := range h.open {
		b = binary.BigEndian.AppendUint64(b, i.seq)
		b = binary.BigEndian.AppendUint64(b, uint64(i.time))
		b = append(b, i.subject[:]...)
		b = binary.BigEndian.AppendUint16(b, uint16(len(i.own)))
		b = append(b, i.own...)
	}
	return appendBytes(b, h.wrapped)
}

// appendBytes appends a u32 length and the bytes.
func appendBytes(b, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

func (h *header) sign(by ed25519.PrivateKey) {
	h.sig = ed25519.Sign(by, append([]byte(headerDomain), h.body()...))
}

func (h header) signedBy(key ed25519.PublicKey) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, append([]byte(headerDomain), h.body()...), h.sig)
}

// frame is the whole HEADER frame.
func (h header) frame() []byte {
	b := beginFrame(nil, frameHeader)
	b = append(b, h.body()...)
	b = append(b, h.sig...)
	endFrame(b, 0)
	return b
}

// parseHeader reads a HEADER's body. It copies what it keeps, and takes only what frame would print.
func parseHeader(body []byte) (header, error) {
	c := &cursor{b: body}
	if string(c.take(len(headerMagic))) != headerMagic {
		return header{}, unfit("header magic or version unknown")
	}
	var h header
	h.origin = string(c.take(int(c.u8())))
	h.segment = c.u64()
	h.reason = c.u8()
	h.created = int64(c.u64())
	h.from.mark = mark{head: c.sum(), seq: c.u64(), commits: c.u64()}
	for range c.u8() {
		h.from.edge = append(h.from.edge, c.sum())
	}
	h.key = slices.Clone(c.take(ed25519.PublicKeySize))
	h.counter = c.u64()
	h.readers.serial = c.u64()
	for range c.u8() {
		h.readers.prints = append(h.readers.prints, c.sum())
	}
	h.readers.pub = bytes.Clone(c.take(c.u32()))
	for range c.u16() {
		if c.short {
			break
		}
		h.drops = append(h.drops, drop{segment: c.u64(), offset: c.u64(), size: c.u64(), sum: c.sum()})
	}
	for range c.u32() {
		if c.short {
			break
		}
		i := intent{seq: c.u64(), time: int64(c.u64())}
		copy(i.subject[:], c.take(16))
		i.own = bytes.Clone(c.take(c.u16()))
		h.open = append(h.open, i)
	}
	h.wrapped = bytes.Clone(c.take(c.u32()))
	h.sig = bytes.Clone(c.take(ed25519.SignatureSize))
	if c.short || len(c.b) != 0 {
		return header{}, unfit("header fields do not fill its frame")
	}
	if len(h.from.edge) != edgeSize(h.from.commits) {
		return header{}, unfit("header states a tree edge of another size")
	}
	return h, nil
}
