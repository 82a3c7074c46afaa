package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Frame types.
const (
	frameHeader = 1 // first frame of a segment
	frameBatch  = 2 // salt of the records that follow
	frameRecord = 3
	frameCommit = 4
)

const (
	prefix   = 5       // u32be length, u8 type
	maxBody  = 1 << 20 // largest length field
	maxBatch = 4 << 20 // largest batch, first byte to last byte of its COMMIT
	saltSize = 16
	tagSize  = 16
)

// chainDomain begins the chain. It is hashed once, with the origin: in each link it would cost a SHA-256 block.
const chainDomain = "auditlog chain 1\n"

// chainStart is h[0].
func chainStart(origin string) [32]byte { return sha256.Sum256([]byte(chainDomain + origin)) }

// next is h[i] from h[i-1] and a link: a HEADER, a BATCH with its RECORDs, or a COMMIT, prefixes included.
func next(head [32]byte, link []byte) [32]byte {
	h := sha256.New()
	h.Write(head[:])
	h.Write(link)
	h.Sum(head[:0])
	return head
}

// mark is a place between two batches.
type mark struct {
	head    [32]byte // chain head after the last COMMIT frame
	seq     uint64   // last record
	commits uint64
}

// beginFrame appends a prefix whose length endFrame fills in.
func beginFrame(b []byte, typ byte) []byte { return append(b, 0, 0, 0, 0, typ) }

func endFrame(b []byte, start int) {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-prefix))
}

// unfit says why bytes are no valid frame or batch. What it means (torn, tampered) is decided by who knows the place.
type unfit string

func (u unfit) Error() string { return string(u) }

func unfitf(format string, a ...any) error { return unfit(fmt.Sprintf(format, a...)) }

// cursor reads fixed fields. After the first short read every further read gives zero and short stays true.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return make([]byte, min(max(n, 0), 64))
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) u8() byte    { return c.take(1)[0] }
func (c *cursor) u16() int    { return int(binary.BigEndian.Uint16(c.take(2))) }
func (c *cursor) u32() int    { return int(binary.BigEndian.Uint32(c.take(4))) }
func (c *cursor) u64() uint64 { return binary.BigEndian.Uint64(c.take(8)) }

func (c *cursor) sum() (v [32]byte) { copy(v[:], c.take(32)); return v }

func segmentName(n uint64) string { return fmt.Sprintf("%08d.seg", n) }
