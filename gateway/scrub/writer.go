package scrub

import (
	"errors"
	"io"
)

// piece bounds what a Writer holds: a piece, the window and the output made of them.
const piece = 32 << 10

var errClosed = errors.New("write scrubbed stream: closed")

// Writer masks a stream. It is not safe for concurrent use.
type Writer struct {
	w    io.Writer
	scan scanner
	held []byte // not settled yet
	out  []byte
	done bool
	err  error // of w, kept
}

// Writer returns a writer that passes what is written to it on to w, masked.
func (s *Set) Writer(w io.Writer) *Writer {
	return &Writer{w: w, scan: scanner{m: s.compiled()}}
}

// Write takes all of p unless the underlying writer fails. Up to L-1 bytes stay held.
func (w *Writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, errClosed
	}
	n := 0
	for n < len(p) && w.err == nil {
		k := min(len(p)-n, piece)
		w.held = append(w.held, p[n:n+k]...)
		w.pass(false)
		n += k
	}
	return n, w.err
}

// Close ends the stream and returns the number of reflections shown as masks.
// complete: the input is whole, and what was held is released. Otherwise its last
// L-1 bytes are dropped, whatever they are.
func (w *Writer) Close(complete bool) (hits int, err error) {
	if !w.done && complete && w.err == nil {
		w.pass(true)
	}
	w.done, w.held = true, nil
	return w.scan.hits, w.err
}

func (w *Writer) pass(final bool) {
	var settled int
	w.out, settled = w.scan.scan(w.out[:0], w.held, final)
	w.held = w.held[:copy(w.held, w.held[settled:])]
	if len(w.out) > 0 {
		_, w.err = w.w.Write(w.out)
	}
}
