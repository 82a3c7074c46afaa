package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
)

// chainRoom is what next hashes before the frame.
const chainRoom = sha256.Size

// frames reads one segment front to back. Memory: one frame, at least 128 KiB.
type frames struct {
	r   io.Reader
	buf []byte // buf[pos:end] is read and not yet consumed; pos >= chainRoom
	pos int
	end int
	off int64 // of buf[pos] in the file
}

func newFrames() *frames { return &frames{} }

// begin starts with another file, whose first byte to come is at off; the buffer stays.
func (f *frames) begin(r io.Reader, off int64) *frames {
	if f.buf == nil {
		f.buf = make([]byte, 128<<10)
	}
	f.r, f.pos, f.end, f.off = r, chainRoom, chainRoom, off
	return f
}

// next reads a frame and carries the chain over it. The frame is valid until the following call.
// io.EOF: the file ended before the frame's first byte. unfit: no frame lies here; nothing was consumed. Else an I/O error.
func (f *frames) next(head [32]byte) (typ byte, body []byte, after [32]byte, err error) {
	if err := f.fill(prefix); err != nil {
		if err == io.EOF && f.pos != f.end {
			err = unfit("a frame's prefix is cut off")
		}
		return 0, nil, head, err
	}
	n := binary.BigEndian.Uint32(f.buf[f.pos:])
	typ = f.buf[f.pos+4]
	if n == 0 {
		return 0, nil, head, unfit("no frame has length 0")
	}
	if n > maxBody {
		return 0, nil, head, unfitf("a frame cannot have length %d", n)
	}
	if typ < frameHeader || typ > frameCommit {
		return 0, nil, head, unfitf("frame type %d is unknown", typ)
	}
	size := prefix + int(n)
	if err := f.fill(size); err != nil {
		if err == io.EOF {
			err = unfit("a frame is cut off")
		}
		return 0, nil, head, err
	}
	// The head goes where the bytes before the frame were, which nobody needs any more: one hash over one range.
	copy(f.buf[f.pos-chainRoom:], head[:])
	after = sha256.Sum256(f.buf[f.pos-chainRoom : f.pos+size])
	body = f.buf[f.pos+prefix : f.pos+size]
	f.pos += size
	f.off += int64(size)
	return typ, body, after, nil
}

// fill makes n unconsumed bytes available; io.EOF: the file has fewer.
func (f *frames) fill(n int) error {
	if f.end-f.pos >= n {
		return nil
	}
	to := f.buf
	if chainRoom+n > len(to) {
		to = make([]byte, chainRoom+n)
	}
	f.end = chainRoom + copy(to[chainRoom:], f.buf[f.pos:f.end])
	f.buf, f.pos = to, chainRoom
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
