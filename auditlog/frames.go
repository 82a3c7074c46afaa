package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
)

// chainRoom is what a link hashes before its frames: the head.
const chainRoom = sha256.Size

// frames reads one segment front to back, and hashes links of the chain in as few pieces as the buffer allows.
// Memory: one frame, at least 128 KiB.
type frames struct {
	r    io.Reader
	buf  []byte // buf[pos:end] is read and not yet consumed; pos >= chainRoom
	pos  int
	end  int
	last int       // where the last frame begins in buf
	off  int64     // of buf[pos] in the file
	from int       // buf[from:pos] belongs to the link and is not hashed yet
	part bool      // hash has an earlier piece of the link
	hash hash.Hash // SHA-256
}

// begin starts with another file, whose first byte to come is at off; the buffer stays.
func (f *frames) begin(r io.Reader, off int64) *frames {
	if f.buf == nil {
		f.buf, f.hash = make([]byte, 128<<10), sha256.New()
	}
	f.r, f.pos, f.end, f.off, f.from = r, chainRoom, chainRoom, off, chainRoom
	return f
}

// link begins a link of the chain at the next frame.
func (f *frames) link(head [32]byte) {
	// The head goes where the bytes before the frame were, which nobody needs any more: one hash over one range.
	f.from, f.part = f.pos-chainRoom, false
	copy(f.buf[f.from:], head[:])
}

// linked is the chain head after the link, which ends before the last frame.
func (f *frames) linked() (head [32]byte) {
	if !f.part {
		return sha256.Sum256(f.buf[f.from:f.last])
	}
	f.hash.Write(f.buf[f.from:f.last])
	f.hash.Sum(head[:0])
	return head
}

// after is the chain head after the last frame, a link by itself.
func (f *frames) after(head [32]byte) [32]byte {
	copy(f.buf[f.last-chainRoom:], head[:])
	return sha256.Sum256(f.buf[f.last-chainRoom : f.pos])
}

// next reads a frame. It is valid until the following call.
// io.EOF: the file ended before the frame's first byte. unfit: no frame lies here; nothing was consumed. Else an I/O error.
func (f *frames) next() (typ byte, body []byte, err error) {
	if err := f.fill(prefix); err != nil {
		if err == io.EOF && f.pos != f.end {
			err = unfit("a frame's prefix is cut off")
		}
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(f.buf[f.pos:])
	typ = f.buf[f.pos+4]
	if n == 0 {
		return 0, nil, unfit("no frame has length 0")
	}
	if n > maxBody {
		return 0, nil, unfitf("a frame cannot have length %d", n)
	}
	if typ < frameHeader || typ > frameCommit {
		return 0, nil, unfitf("frame type %d is unknown", typ)
	}
	size := prefix + int(n)
	if err := f.fill(size); err != nil {
		if err == io.EOF {
			err = unfit("a frame is cut off")
		}
		return 0, nil, err
	}
	f.last = f.pos
	f.pos += size
	f.off += int64(size)
	return typ, f.buf[f.last+prefix : f.pos], nil
}

// fill makes n unconsumed bytes available; io.EOF: the file has fewer.
func (f *frames) fill(n int) error {
	if f.end-f.pos >= n {
		return nil
	}
	if f.from < f.pos {
		if !f.part {
			f.hash.Reset()
		}
		f.hash.Write(f.buf[f.from:f.pos])
		f.part = true
	}
	to := f.buf
	if chainRoom+n > len(to) {
		to = make([]byte, chainRoom+n)
	}
	f.end = chainRoom + copy(to[chainRoom:], f.buf[f.pos:f.end])
	f.buf, f.pos, f.from = to, chainRoom, chainRoom
	for empty := 0; f.end-f.pos < n; {
		m, err := f.r.Read(f.buf[f.end:])
		f.end += m
		if m > 0 {
			empty = 0
			continue
		}
		if err != nil {
			return err
		}
		if empty++; empty == 100 {
			return io.ErrNoProgress
		}
	}
	return nil
}
