package auditlog

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/note"
)

const (
	pubFile        = "audit.pub"
	segmentsFolder = "audit"
	signerFile     = "signer" // in segmentsFolder
)

// Writer appends to a log. Its methods may be called concurrently. Lock order: turn, then queue.mu.
type Writer struct {
	pub    Pub
	o      Options
	disk   disk
	folder string // of the segments
	lock   *os.File

	turn  sync.Mutex // held by the leader of a group while it writes
	live  liveLog    // under turn
	queue queue

	last   atomic.Pointer[commit]
	cause  atomic.Pointer[error] // why the writer is poisoned
	flying atomic.Int64          // calls inside Append
}

// liveLog is the end of the log.
type liveLog struct {
	seg  *segment
	at   mark
	open map[[16]byte]intent
	buf  []byte // reused by each batch
}

// Head is the last durable COMMIT. It waits for nobody.
func (w *Writer) Head() Head {
	c := w.last.Load()
	return Head{Seq: c.seq, Records: c.seq, Commits: c.commits, Hash: c.head}
}

// Checkpoint is the last durable COMMIT as a note signed by the log identity: origin, sequence, base64 of the chain
// head, then commits, segment and time as extension lines. Kept elsewhere it shows truncation and forks: VerifyOptions.
func (w *Writer) Checkpoint(id ed25519.PrivateKey) ([]byte, error) {
	s, err := newNoteSigner(w.pub.Origin, id)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	if !w.pub.Identity.Equal(id.Public()) {
		return nil, errors.New("sign checkpoint: the key is not this log's identity")
	}
	b, err := note.Sign(&note.Note{Text: string(w.last.Load().text(w.pub.Origin))}, s)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return b, nil
}

// Close waits for the batch being written and gives up the lock. Calls still queued get ErrClosed.
func (w *Writer) Close() error {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.queue.mu.Lock()
	was := w.queue.closed
	w.queue.closed = true
	w.queue.mu.Unlock()
	if was {
		return nil
	}
	err := w.live.seg.end()
	if err2 := w.lock.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
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
	last := w.last.Load()
	if last.seq <= after {
		return nil
	}
	fsys := os.DirFS(w.folder)
	wk := newWalker(w.pub)
	from, err := wk.segmentOf(fsys, last.segment, after)
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

// segmentOf goes back from segment n to the one that holds the record after `after`.
func (w *walker) segmentOf(fsys fs.FS, n, after uint64) (uint64, error) {
	for ; n > 1; n-- {
		h, err := w.headerOf(fsys, n)
		var u unfit
		switch {
		case errors.As(err, &u): // a torn one
		case err != nil:
			return 0, err
		case h.from.seq <= after:
			return n, nil
		}
	}
	return 1, nil
}
