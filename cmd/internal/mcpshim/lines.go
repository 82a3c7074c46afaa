package mcpshim

import (
	"bufio"
	"errors"
	"io"
)

// lineLimit is the longest line taken from the host, in bytes without its newline.
const lineLimit = 16 << 20

var errLineTooLong = errors.New("read line: longer than 16 MiB")

// lines cuts a stream at newlines. A line past lineLimit is skipped without being kept.
type lines struct{ r *bufio.Reader }

func newLines(r io.Reader) *lines { return &lines{bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line without its newline; the slice is the caller's. A last line without a newline counts as one.
// errLineTooLong leaves the stream at the start of the next line; any other error ends it.
func (l *lines) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if n := len(part); n > 0 && part[n-1] == '\n' {
			part = part[:n-1]
		}
		if long = long || len(line)+len(part) > lineLimit; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || err == io.EOF):
			return nil, errLineTooLong
		case err == io.EOF && len(line) > 0, err == nil:
			return line, nil
		default:
			return nil, err
		}
	}
}
