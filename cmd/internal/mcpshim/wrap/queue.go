package wrap

import (
	"io"
	"sync"
)

// queueRoom is how many bytes wait for a reader before whoever writes more has to wait, and queueLimit how many may wait at all.
const (
	queueRoom  = 4 << 20
	queueLimit = 64 << 20
)

// queue is lines on their way to one reader, written whole and in order by run alone.
type queue struct {
	mu     sync.Mutex
	change *sync.Cond
	lines  [][]byte
	bytes  int
	closed bool // no more lines; those that are there are still written
	broken bool // nobody reads
}

func newQueue() *queue {
	q := &queue{}
	q.change = sync.NewCond(&q.mu)
	return q
}

// put appends a line, to which it gives its newline. It never waits; false: the line can't be taken.
func (q *queue) put(line []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.broken || q.bytes+len(line) > queueLimit {
		return false
	}
	q.lines = append(q.lines, line)
	q.bytes += len(line) + 1
	q.change.Broadcast()
	return true
}

// room waits until little enough is waiting.
func (q *queue) room() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > queueRoom && !q.closed && !q.broken {
		q.change.Wait()
	}
}

// finish lets run end once it has written what is there.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.change.Broadcast()
}

// run writes until finish or until w breaks; broken is then called.
func (q *queue) run(w io.Writer, broken func()) {
	for {
		q.mu.Lock()
		for len(q.lines) == 0 && !q.closed {
			q.change.Wait()
		}
		if len(q.lines) == 0 {
			q.mu.Unlock()
			return
		}
		line := q.lines[0]
		q.lines = q.lines[1:]
		q.mu.Unlock()
		// A new slice: the line may be kept elsewhere, and a newline must go out in the same write.
		_, err := w.Write(append(line[:len(line):len(line)], '\n'))
		q.mu.Lock()
		q.bytes -= len(line) + 1
		q.broken = err != nil
		if q.broken {
			q.lines, q.bytes = nil, 0
		}
		q.change.Broadcast()
		q.mu.Unlock()
		if err != nil {
			broken()
			return
		}
	}
}
