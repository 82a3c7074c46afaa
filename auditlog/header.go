package auditlog

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"slices"
)

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
	from    mark  // where the log stood before this segment
	key     ed25519.PublicKey
	serial  uint64     // of the audit.pub in force
	readers [][32]byte // fingerprints of its recipients
	drops   []drop
	open    []intent // by seq
	wrapped []byte   // age file holding the read key
	sig     []byte
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
	b = append(b, h.key...)
	b = binary.BigEndian.AppendUint64(b, h.serial)
	b = append(b, byte(len(h.readers)))
	for _, r := range h.readers {
		b = append(b, r[:]...)
	}
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
	b = binary.BigEndian.AppendUint32(b, uint32(len(h.wrapped)))
	return append(b, h.wrapped...)
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
	h.from = mark{head: c.sum(), seq: c.u64(), commits: c.u64()}
	h.key = slices.Clone(c.take(ed25519.PublicKeySize))
	h.serial = c.u64()
	for range c.u8() {
		h.readers = append(h.readers, c.sum())
	}
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
	return h, nil
}
