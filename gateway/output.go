package gateway

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"sallyport/gateway/api"
)

// What a running action puts out is kept as it comes, already scrubbed, so that whoever asks for its status can read
// along. The scrubber holds back what could still be the beginning of a secret, so a reader is never ahead of it.

const (
	inlineLimit = 1 << 20   // bytes of one output that an action's result holds
	cursorBytes = 128 << 10 // bytes of one output that one status shows
)

// stream is one output of an action: its first inlineLimit bytes, and the count of all. Where spill is set, an output
// that is longer goes to a file as a whole.
type stream struct {
	spill func() (*fileWriter, error)

	mu    sync.Mutex
	head  []byte
	total int64
	file  *fileWriter
	err   error         // the file could not be written; what came after head is lost
	more  chan struct{} // closed when there is more than before; nil: nobody waits
}

// Write keeps p. It never fails: what there is no room for is counted.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fits := s.total+int64(len(p)) <= inlineLimit
	if !fits && s.file == nil && s.err == nil && s.spill != nil {
		if s.file, s.err = s.spill(); s.err == nil {
			_, s.err = s.file.Write(s.head)
		}
	}
	if s.file != nil && s.err == nil {
		_, s.err = s.file.Write(p)
	}
	s.head = append(s.head, p[:min(len(p), max(inlineLimit-len(s.head), 0))]...)
	s.total += int64(len(p))
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
	return len(p), nil
}

// over tells whether there was more than an action's result holds.
func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total > inlineLimit
}

// bytes is what the result shows. Nothing may be written any more.
func (s *stream) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

// kept ends the file, if there is one, and returns what its action keeps of it. The error is why a long output has none.
func (s *stream) kept() (*keptFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil, s.err
	}
	if err := errors.Join(s.err, s.file.Close()); err != nil {
		s.file.drop()
		return nil, fmt.Errorf("keep a long answer: %w", err)
	}
	return &s.file.kept, nil
}

// drop removes the file, if there is one: its action has no result that would name it.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.drop()
		s.file = nil
	}
}

// count is how many bytes were written.
func (s *stream) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// from returns a copy of what is kept after the first n bytes, at most cursorBytes and, where it is text, whole
// characters; and the number of bytes before what comes next.
func (s *stream) from(n int) ([]byte, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(max(n, 0), len(s.head))
	part := s.head[n:min(len(s.head), n+cursorBytes)]
	for cut := 1; cut < utf8.UTFMax && cut < len(part); cut++ { // the last character may have come in part
		if c := part[len(part)-cut:]; utf8.RuneStart(c[0]) {
			if !utf8.FullRune(c) {
				part = part[:len(part)-cut]
			}
			break
		}
	}
	return append([]byte(nil), part...), n + len(part)
}

// beyond is closed once there is more than the first n bytes.
func (s *stream) beyond(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < len(s.head) {
		c := make(chan struct{})
		close(c)
		return c
	}
	if s.more == nil {
		s.more = make(chan struct{})
	}
	return s.more
}

// streams are the outputs of one action while it runs: of an HTTP request its body, of a command stdout and stderr.
type streams struct {
	out, err *stream
}

// part shows what came after a cursor.
func (s *streams) part(tool string, at cursor) *api.Output {
	out, next := s.out.from(at.out)
	o := &api.Output{}
	if tool == api.ToolHTTP {
		o.Body, o.BodyEncoding = bodyText(out)
		o.Cursor = cursor{next, 0}.String()
		return o
	}
	errs, errNext := s.err.from(at.err)
	o.Stdout, o.Stderr, o.Cursor = text(out), text(errs), cursor{next, errNext}.String()
	return o
}
