package auditlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
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

// group is the calls that share one write and one sync. It is under queue.mu until the leader closes it, and the
// leader's after, until done is closed.
type group struct {
	calls []*call
	bytes int
	done  chan struct{}
}

// call is one Append: size bytes of RECORDs, and what became of them.
type call struct {
	entries []Entry
	size    int
	last    uint64
	at      time.Time
	err     error
}

// batchOverhead is what a batch has besides its records, at most.
const batchOverhead = prefix + saltSize + prefix + countersignedBody

// Append returns the sequence of the last entry once all are durable, together in one batch. ctx is looked at before
// queueing only: from then on the call ends with the truth, a disk's wait later. An entry past a limit refuses them
// all with ErrTooLarge. ErrFull: the disk is full, and these are no Results or Reserved notes. After any other I/O error
// this and every later call fails with ErrPoisoned; whether the records are in the log is then known only to the next Open.
func (w *Writer) Append(ctx context.Context, e ...Entry) (seq uint64, err error) {
	seq, _, err = w.AppendAt(ctx, e...)
	return seq, err
}

// AppendAt is Append for whoever keeps what he wrote elsewhere too: at is the time of the commit, as Read tells it.
func (w *Writer) AppendAt(ctx context.Context, e ...Entry) (seq uint64, at time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return 0, at, fmt.Errorf("append to audit log: %w", err)
	}
	size, cost, err := measure(e)
	if err != nil {
		return 0, at, fmt.Errorf("append to audit log: %w", err)
	}
	w.flying.Add(1)
	defer w.flying.Add(-1)
	c := &call{entries: e, size: size}
	g, lead, err := w.join(c, cost)
	if err != nil {
		return 0, at, fmt.Errorf("append to audit log: %w", err)
	}
	if lead {
		w.lead(g)
	} else {
		<-g.done
	}
	if c.err != nil {
		return 0, at, fmt.Errorf("append to audit log: %w", c.err)
	}
	return c.last, c.at, nil
}

// measure checks the entries; cost is what their intents take in a HEADER.
func measure(e []Entry) (size, cost int, err error) {
	if len(e) == 0 {
		return 0, 0, errors.New("nothing to append")
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

// join adds the call to the pending group.
func (w *Writer) join(c *call, cost int) (g *group, lead bool, err error) {
	q := &w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, false, ErrClosed
	}
	if err := w.poisoned(); err != nil {
		return nil, false, err
	}
	if cost > 0 && q.cost+cost > maxOpen {
		return nil, false, ErrTooManyOpen
	}
	q.cost += cost
	g = q.pending
	// A full group stays with its leader; the next one begins behind it.
	if g == nil || g.bytes+c.size+batchOverhead > maxBatch {
		g = &group{done: make(chan struct{})}
		q.pending, lead = g, true
	}
	g.calls = append(g.calls, c)
	g.bytes += c.size
	return g, lead, nil
}

func (w *Writer) lead(g *group) {
	w.turn.Lock()
	if w.flying.Load() > 1 {
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
	err := ErrClosed
	if !closed {
		err = w.commit(g)
	}
	if err != nil {
		for _, c := range g.calls {
			c.err = err
		}
	}
	w.turn.Unlock()
	close(g.done)
}

// commit writes one group. Under turn. An error is every call's; ErrFull is for some of them.
func (w *Writer) commit(g *group) error {
	if err := w.poisoned(); err != nil {
		return err
	}
	now := w.o.Now()
	var full error
	if w.rotationDue(g, now) {
		err := w.rotate(now)
		switch {
		case err == nil:
		case !isErrFull(err):
			return w.poison(err)
		case w.live.seg.serial != w.pub.Load().Serial:
			full = err // its readers may not read what comes
		}
	}
	calls, err := w.admit(g.calls, full)
	if err != nil {
		return w.poison(err)
	}
	var entries []Entry
	if len(calls) == 1 {
		entries = calls[0].entries
	} else {
		for _, c := range calls {
			entries = append(entries, c.entries...)
		}
	}
	first := w.live.at.seq + 1
	if len(calls) > 0 {
		if err := w.put(entries, now); err != nil {
			return err
		}
	}
	for _, c := range calls {
		first += uint64(len(c.entries))
		c.last, c.at = first-1, time.Unix(0, now.UnixNano()).UTC()
	}
	if len(calls) < len(g.calls) {
		w.giveBack(g.calls)
	}
	return nil
}

// put writes one batch. Under turn.
func (w *Writer) put(entries []Entry, now time.Time) error {
	l := &w.live
	b, err := w.build(entries, now)
	if err != nil {
		return w.poison(err)
	}
	defer clear(b.read[:])
	if len(entries) == 0 && !b.commit.sure {
		return errors.New("countersign: the identity did not sign")
	}
	if err := l.seg.write(b.frames); err != nil {
		return w.poison(err)
	}
	copy(l.seg.read, b.read[:])
	first := l.at.seq + 1
	l.at = b.after
	l.seg.records += uint64(len(entries))
	w.committed(b.commit)
	w.settle(entries, first, b.commit)
	return nil
}

// committed tells of a durable COMMIT.
func (w *Writer) committed(c commit) {
	l := &w.live
	w.last.Store(&durable{c, place{l.seg.n, l.seg.size}})
	if c.sure {
		l.sure, l.sureAt = c.commits, c.time
	}
	w.arm()
	w.mirror.wake()
}

// built is a batch ready to be written: its bytes, and how things stand once they are durable.
type built struct {
	frames []byte
	commit commit
	after  stand
	read   [readKeySize]byte
}

// build seals, chains and signs a batch.
func (w *Writer) build(entries []Entry, now time.Time) (r built, err error) {
	l := &w.live
	b := beginFrame(l.buf[:0], frameBatch)
	b = append(b, make([]byte, saltSize)...)
	salt := b[prefix:]
	if _, err := rand.Read(salt); err != nil {
		return built{}, fmt.Errorf("salt a batch: %w", err)
	}
	endFrame(b, 0)
	copy(r.read[:], l.seg.read)
	a, err := ratchet(r.read[:], salt)
	if err != nil {
		return built{}, err
	}
	for i, e := range entries {
		b = appendRecord(b, a, l.seg.n, l.at.seq+1+uint64(i), i, e)
	}
	p := w.pub.Load()
	c := commit{log: p.log(), segment: l.seg.n, seq: l.at.seq + uint64(len(entries)), commits: l.at.commits + 1, time: now.UnixNano(), head: next(l.at.head, b)}
	var sign func(*commit)
	if len(entries) == 0 || w.countersignDue(now) {
		sign = w.countersign
	}
	r.frames, r.commit, r.after = l.seg.seal(b, c, l.at, p.Origin, sign)
	l.buf = r.frames
	return r, nil
}

// settle carries the open intents over a durable batch and gives back the room of those that closed.
func (w *Writer) settle(entries []Entry, first uint64, c commit) {
	freed := 0
	for i, e := range entries {
		was, is := w.live.open[e.Subject]
		switch {
		case e.Kind == Intent && is:
			freed += intent{own: e.Own}.cost() // the first one stands
		case e.Kind == Intent:
			w.live.open[e.Subject] = intent{seq: first + uint64(i), time: c.time, subject: e.Subject, own: bytes.Clone(e.Own)}
		case e.Kind == Result && is:
			freed += was.cost()
			delete(w.live.open, e.Subject)
		}
	}
	w.free(freed)
}

// giveBack frees what refused calls would have cost.
func (w *Writer) giveBack(calls []*call) {
	freed := 0
	for _, c := range calls {
		if c.err == nil {
			continue
		}
		for _, e := range c.entries {
			if e.Kind == Intent {
				freed += intent{own: e.Own}.cost()
			}
		}
	}
	w.free(freed)
}

func (w *Writer) free(cost int) {
	w.queue.mu.Lock()
	w.queue.cost -= cost
	w.queue.mu.Unlock()
}
