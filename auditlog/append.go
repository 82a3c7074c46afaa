package auditlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// queue is where calls meet. The first to find no group makes one and leads it: it waits for its turn, closes the
// group, and writes it for all. The others only wait.
type queue struct {
	mu      sync.Mutex
	pending *group
	cost    int // bytes that the open intents, queued ones included, will take in a HEADER
	closed  bool
}

// group is the calls that share one write and one sync. entries and bytes are under queue.mu until the leader closes
// the group, and the leader's after; first and err are set before done is closed.
type group struct {
	entries []Entry
	bytes   int
	first   uint64
	err     error
	done    chan struct{}
}

// batchOverhead is what a batch has besides its records.
const batchOverhead = prefix + saltSize + prefix + commitBody

// Append returns the sequence of the last entry once all are durable, together in one batch. ctx is looked at before
// queueing only: from then on the call ends with the truth, a disk's wait later. An entry past a limit refuses them
// all with ErrTooLarge. After any I/O error this and every later call fails with ErrPoisoned; whether the records are
// in the log is then known only to the next Open.
func (w *Writer) Append(ctx context.Context, e ...Entry) (seq uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("append to audit log: %w", err)
	}
	size, cost, err := measure(e)
	if err != nil {
		return 0, fmt.Errorf("append to audit log: %w", err)
	}
	w.flying.Add(1)
	defer w.flying.Add(-1)
	g, at, lead, err := w.join(e, size, cost)
	if err != nil {
		return 0, fmt.Errorf("append to audit log: %w", err)
	}
	if lead {
		w.lead(g)
	} else {
		<-g.done
	}
	if g.err != nil {
		return 0, fmt.Errorf("append to audit log: %w", g.err)
	}
	return g.first + uint64(at+len(e)) - 1, nil
}

// measure checks the entries; cost is what their intents take in a HEADER.
func measure(e []Entry) (size, cost int, err error) {
	if len(e) == 0 {
		return 0, 0, fmt.Errorf("nothing to append")
	}
	size = batchOverhead
	for i, e := range e {
		switch {
		case len(e.Own) > MaxOwn, len(e.Body) > MaxBody:
			return 0, 0, fmt.Errorf("entry %d: %w", i, ErrTooLarge)
		case e.Kind < Note || e.Kind > Result:
			return 0, 0, fmt.Errorf("entry %d: kind %d is unknown", i, e.Kind)
		case e.Kind != Note && e.Subject == [16]byte{}:
			return 0, 0, fmt.Errorf("entry %d: an intent or result needs a subject", i)
		}
		size += recordSize(e)
		if e.Kind == Intent {
			cost += intent{own: e.Own}.cost()
		}
	}
	if size > maxBatch {
		return 0, 0, ErrTooLarge
	}
	return size - batchOverhead, cost, nil
}

// join adds the entries to the pending group; at is where they begin in it.
func (w *Writer) join(e []Entry, size, cost int) (g *group, at int, lead bool, err error) {
	q := &w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, 0, false, ErrClosed
	}
	if err := w.poisoned(); err != nil {
		return nil, 0, false, err
	}
	if cost > 0 && q.cost+cost > maxOpen {
		return nil, 0, false, ErrTooManyOpen
	}
	q.cost += cost
	g = q.pending
	// A full group stays with its leader; the next one begins behind it.
	if g == nil || g.bytes+size+batchOverhead > maxBatch {
		g = &group{done: make(chan struct{})}
		q.pending, lead = g, true
	}
	at = len(g.entries)
	g.entries = append(g.entries, e...)
	g.bytes += size
	return g, at, lead, nil
}

func (w *Writer) lead(g *group) {
	w.turn.Lock()
	if w.flying.Load() > int64(1) {
		// Calls that are on their way here join for the price of one yield instead of a sync of their own.
		runtime.Gosched()
	}
	q := &w.queue
	q.mu.Lock()
	if q.pending == g {
		q.pending = nil
	}
	closed := q.closed
	q.mu.Unlock()
	if closed {
		g.err = ErrClosed
	} else {
		g.err = w.commit(g)
	}
	w.turn.Unlock()
	close(g.done)
}

// commit writes one group. Under turn.
func (w *Writer) commit(g *group) error {
	if err := w.poisoned(); err != nil {
		return err
	}
	now := w.o.Now()
	if w.rotationDue(g, now) {
		if err := w.rotate(now); err != nil {
			return w.poison(err)
		}
	}
	l := &w.live
	b, c, after, err := w.build(g, now)
	if err != nil {
		return w.poison(err)
	}
	l.buf = b
	if err := l.seg.write(b); err != nil {
		return w.poison(err)
	}
	g.first = l.at.seq + 1
	l.at = after
	l.seg.records += uint64(len(g.entries))
	w.last.Store(&c)
	w.settle(g, c)
	return nil
}

// build seals, chains and signs a group into one batch.
func (w *Writer) build(g *group, now time.Time) ([]byte, commit, mark, error) {
	l := &w.live
	b := beginFrame(l.buf[:0], frameBatch)
	b = append(b, make([]byte, saltSize)...)
	salt := b[prefix:]
	if _, err := rand.Read(salt); err != nil {
		return nil, commit{}, mark{}, fmt.Errorf("salt a batch: %w", err)
	}
	endFrame(b, 0)
	a, err := batchKey(l.seg.read, salt)
	if err != nil {
		return nil, commit{}, mark{}, err
	}
	head := next(l.at.head, b)
	for i, e := range g.entries {
		start := len(b)
		b = appendRecord(b, a, l.seg.n, l.at.seq+1+uint64(i), i, e)
		head = next(head, b[start:])
	}
	c := commit{log: w.pub.log(), segment: l.seg.n, seq: l.at.seq + uint64(len(g.entries)), commits: l.at.commits + 1, time: now.UnixNano(), head: head}
	b, after := l.seg.seal(b, c, w.pub.Origin)
	return b, c, after, nil
}

// settle carries the open intents over a durable group and gives back the room of those that closed.
func (w *Writer) settle(g *group, c commit) {
	freed := 0
	for i, e := range g.entries {
		was, is := w.live.open[e.Subject]
		switch {
		case e.Kind == Intent && is:
			freed += intent{own: e.Own}.cost() // the first one stands
		case e.Kind == Intent:
			w.live.open[e.Subject] = intent{seq: g.first + uint64(i), time: c.time, subject: e.Subject, own: bytes.Clone(e.Own)}
		case e.Kind == Result && is:
			freed += was.cost()
			delete(w.live.open, e.Subject)
		}
	}
	w.queue.mu.Lock()
	w.queue.cost -= freed
	w.queue.mu.Unlock()
}

func (w *Writer) rotationDue(g *group, now time.Time) bool {
	s := w.live.seg
	if s.records == 0 {
		return false
	}
	// A clock that was stepped back far counts as age too.
	return s.size+int64(g.bytes+batchOverhead) > w.o.MaxSegment || now.Sub(s.created).Abs() >= w.o.MaxAge
}

// rotate begins the next segment, certified by this one's key, and ends this one.
func (w *Writer) rotate(now time.Time) error {
	l := &w.live
	if err := l.seg.check(); err != nil {
		return err
	}
	s, c, after, err := begin(w.disk, w.folder, w.pub, beginning{n: l.seg.n + 1, reason: rotated, by: l.seg.sign, from: l.at, open: openList(l.open), now: now})
	if err != nil {
		return err
	}
	old := l.seg
	l.seg, l.at = s, after
	w.last.Store(&c)
	if err := old.end(); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	return nil
}

func (w *Writer) poison(cause error) error {
	err := fmt.Errorf("%w: %w", ErrPoisoned, cause)
	w.cause.CompareAndSwap(nil, &err)
	return w.poisoned()
}

func (w *Writer) poisoned() error {
	if err := w.cause.Load(); err != nil {
		return *err
	}
	return nil
}
