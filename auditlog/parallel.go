package auditlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
)

// maxWorkers bounds Verify's memory: each has a buffer, and a few segments' ends wait for their turn.
const maxWorkers = 4

// part is one segment walked by itself.
type part struct {
	n     uint64
	h     header // has the claims that state began from
	state state
	drop  *drop
	seen  seen
	err   error
}

// run walks every segment by itself, several at a time, each on the word of its HEADER, and joins them in order, where
// each word is held against the end of the segment before. What does not join is found there as if all was walked in
// one go: a HEADER that lies is found before what follows from its lie.
func (v *verifier) run(fsys fs.FS) error {
	count, err := segments(fsys)
	if err != nil {
		return err
	}
	if count == 0 {
		return &TamperError{Kind: truncated, Segment: segmentName(1), Seq: 1, Detail: "there is no segment"}
	}
	if err := v.meter.begin(fsys, count, v.o.Progress); err != nil {
		return err
	}
	workers := min(runtime.GOMAXPROCS(0), maxWorkers, int(min(count, maxWorkers)))
	ahead := 2*uint64(workers) + 1
	jobs, done := make(chan uint64, ahead), make(chan part, ahead)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { v.work(fsys, jobs, done) })
	}
	defer func() {
		v.meter.stop.Store(true)
		close(jobs)
		all.Wait()
	}()
	waiting := map[uint64]part{}
	given := uint64(0)
	for n := uint64(1); n <= count; n++ {
		for ; given < count && given < n+ahead-1; given++ {
			jobs <- given + 1
		}
		for waiting[n].n == 0 {
			select {
			case p := <-done:
				waiting[p.n] = p
			case <-v.meter.tick:
				v.meter.tell()
			}
		}
		p := waiting[n]
		delete(waiting, n)
		v.rep.Segments++
		if err := v.join(fsys, p); err != nil {
			return err
		}
	}
	v.meter.end()
	return nil
}

func (v *verifier) work(fsys fs.FS, jobs <-chan uint64, done chan<- part) {
	w := newWalker(v.w.pub)
	w.apart = true
	for n := range jobs {
		p := part{n: n}
		v.watch(w, &p.seen)
		look := w.onHeader
		w.onHeader = func(h header) error { p.h = h; return look(h) }
		p.drop, p.err = w.one(fsys, n)
		p.state = w.state
		w.owed = nil
		done <- p
	}
}

// join holds a segment's claims against the end of the one before, and goes on from its own end.
func (v *verifier) join(fsys fs.FS, p part) error {
	w := v.w
	if errors.Is(p.err, errNotBegun) {
		// What that means depends on where the log stands; it is short, or it is tampering.
		return w.walk(fsys, p.n, p.n)
	}
	if p.h.key == nil {
		return p.err // not even read
	}
	look := w.onHeader
	w.onHeader = nil
	err := w.enter(p.n, p.h)
	w.onHeader = look
	if err != nil {
		return err
	}
	sure := w.sure
	w.state = p.state
	if w.sure.commits == 0 {
		w.sure = sure
	}
	v.seen.add(p.seen)
	if p.drop != nil {
		w.drops = append(w.drops, *p.drop)
	}
	return p.err
}

// meter counts what all workers read, for Progress.
type meter struct {
	progress func(done, total int64)
	total    int64
	told     int64
	read     atomic.Int64
	stop     atomic.Bool
	tick     chan struct{}
}

func (m *meter) begin(fsys fs.FS, count uint64, progress func(done, total int64)) error {
	m.progress, m.tick = progress, make(chan struct{}, 1)
	if progress == nil {
		return nil
	}
	for n := uint64(1); n <= count; n++ {
		i, err := fs.Stat(fsys, segmentName(n))
		if err != nil {
			return fmt.Errorf("list segments: %w", err)
		}
		m.total += i.Size()
	}
	return nil
}

func (m *meter) tell() {
	if n := min(m.read.Load(), m.total); m.progress != nil && n > m.told {
		m.told = n
		m.progress(n, m.total)
	}
}

func (m *meter) end() {
	if m.progress != nil && m.told < m.total {
		m.progress(m.total, m.total)
	}
}

// counter counts bytes, and ticks about once a MiB.
type counter struct {
	r io.Reader
	s *seen
	m *meter
}

func (c *counter) Read(b []byte) (int, error) {
	if c.m.stop.Load() {
		return 0, errStop
	}
	n, err := c.r.Read(b)
	c.s.bytes += int64(n)
	if now := c.m.read.Add(int64(n)); now>>20 != (now-int64(n))>>20 {
		select {
		case c.m.tick <- struct{}{}:
		default:
		}
	}
	return n, err
}
