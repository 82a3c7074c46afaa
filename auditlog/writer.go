package auditlog

import (
	"crypto"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pubFile        = "audit.pub"
	segmentsFolder = "audit"
	signerFile     = "signer" // in segmentsFolder
)

// Writer appends to a log. Its methods may be called concurrently. Lock order: mirror.set,
// turn, then queue.mu or mirror.mu.
type Writer struct {
	pub    atomic.Pointer[published] // changed under turn
	o      Options
	disk   disk
	folder string // of the segments
	lock   *os.File

	turn   sync.Mutex // held by the leader of a group while it writes
	live   liveLog    // under turn
	queue  queue
	mirror mirror
	prove  sync.Mutex // held over the file of the tree's hashes; nothing else is taken under it

	last   atomic.Pointer[durable]
	cause  atomic.Pointer[error] // why the writer is poisoned
	flying atomic.Int64          // calls inside Append
}

// published is audit.pub: what it says, and its bytes.
type published struct {
	Pub
	note []byte
}

// durable is the last COMMIT, and where its frame ends.
type durable struct {
	commit
	end place
}

// liveLog is the end of the log.
type liveLog struct {
	seg  *segment
	at   stand
	open map[[16]byte]intent
	buf  []byte // reused by each batch

	identity crypto.Signer // nil: locked
	sure     uint64        // the last COMMIT it signed in this writer's life
	sureAt   int64         // and that one's time
	timer    *time.Timer   // will countersign the end of the log
}

func (w *Writer) origin() string { return w.pub.Load().Origin }

// Head is the last durable COMMIT. It waits for nobody.
func (w *Writer) Head() Head {
	c := w.last.Load()
	return Head{Seq: c.seq, Records: c.seq, Commits: c.commits, Hash: c.head, Root: c.root}
}

// Close waits for the batch being written, countersigns it if it can, and gives up the lock. Calls still queued get
// ErrClosed. A mirror gets a few seconds for what it lacks.
func (w *Writer) Close() error {
	err := w.close()
	w.mirror.end()
	if err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}

func (w *Writer) close() error {
	w.turn.Lock()
	defer w.turn.Unlock()
	was := w.usable()
	var err error
	if was == nil {
		err = w.affirm()
		was = w.poisoned()
	}
	w.queue.mu.Lock()
	closed := w.queue.closed
	w.queue.closed = true
	w.queue.mu.Unlock()
	if closed {
		return nil
	}
	w.live.identity = nil
	if w.live.timer != nil {
		w.live.timer.Stop()
	}
	if was == nil {
		was = w.live.seg.check()
	}
	err = errors.Join(err, w.live.seg.end(was == nil))
	return errors.Join(err, w.lock.Close())
}

// Own yields every durable record after seq `after`, Body nil: the owner's redo log. It needs no key, works beside
// Append, and ends at the Head of its beginning. It starts at the segment that holds `after`, not at the first. An error comes last.
func (w *Writer) Own(after uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		err := w.own(after, yield)
		if err != nil && !errors.Is(err, errStop) {
			yield(Record{}, fmt.Errorf("read own parts: %w", err))
		}
	}
}

func (w *Writer) own(after uint64, yield func(Record, error) bool) error {
	last := w.last.Load().commit
	if last.seq <= after {
		return nil
	}
	fsys := os.DirFS(w.folder)
	wk := newWalker(w.pub.Load().Pub)
	from, err := wk.segmentBefore(fsys, last.segment, func(h header) bool { return h.from.seq <= after })
	if err != nil {
		return err
	}
	if err := wk.adoptAt(fsys, from); err != nil {
		return err
	}
	wk.onBatch = func(b *batch) error {
		for i, s := range b.records {
			seq := b.after.seq - uint64(len(b.records)-1-i)
			if seq > after && !yield(b.record(seq, s, nil), nil) {
				return errStop
			}
		}
		if b.commit.commits == last.commits {
			return errStop
		}
		return nil
	}
	if err := wk.walk(fsys, from, last.segment); err != nil {
		return err
	}
	return wk.fault(truncated, wk.place, "commit %d was written and is not there", last.commits)
}
