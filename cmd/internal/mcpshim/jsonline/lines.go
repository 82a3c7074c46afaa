package jsonline

import (
	"bufio"
	"errors"
	"io"
)

// Limit is the longest line that is taken, in bytes without its newline.
const Limit = 16 << 20

// ErrTooLong is Next's, of a line past Limit.
var ErrTooLong = errors.New("read line: longer than 16 MiB")

// Reader cuts a stream at newlines. A line past Limit is skipped without being kept.
type Reader struct{ r *bufio.Reader }

// NewReader reads r from here on; r belongs to it.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next line without its newline; the slice is the caller's. A last line without a newline counts as one.
// ErrTooLong leaves the stream at the start of the next line; any other error ends it.
func (l *Reader) Next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if n := len(part); n > 0 && part[n-1] == '\n' {
			part = part[:n-1]
		}
		if long = long || len(line)+len(part) > Limit; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || err == io.EOF):
			return nil, ErrTooLong
		case err == io.EOF && len(line) > 0, err == nil:
			return line, nil
		default:
			return nil, err
		}
	}
}
