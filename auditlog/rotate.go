package auditlog

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func (w *Writer) rotationDue(g *group, now time.Time) bool {
	s := w.live.seg
	if s.serial != w.pub.Load().Serial {
		return true
	}
	if s.records == 0 {
		return false
	}
	// A clock that was stepped back far counts as age too.
	return s.size+int64(g.bytes+batchOverhead) > w.o.MaxSegment || now.Sub(s.created).Abs() >= w.o.MaxAge
}

// rotate begins the next segment, certified by this one's key, and ends this one. The old keys are wiped when the new
// HEADER is durable, not before: at no moment is there no key that may go on. ErrFull: this segment goes on.
func (w *Writer) rotate(now time.Time) error {
	l := &w.live
	if err := l.seg.check(); err != nil {
		return err
	}
	s, c, after, err := begin(w.disk, w.folder, w.pub.Load(), beginning{n: l.seg.n + 1, reason: rotated, by: l.seg.sign, from: l.at,
		serial: l.seg.serial, counter: w.o.Counter(), open: openList(l.open), now: now}, w.countersign)
	if err != nil {
		return err
	}
	old := l.seg
	l.seg, l.at = s, after
	w.committed(c)
	if err := old.end(true); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	return nil
}

// Recipients changes who can read what is appended from now on: audit.pub with a higher serial, and a new segment
// whose HEADER brings it along, so that who pinned the older one can still verify. id is the log identity. Killed
// between the two, the next Open begins that segment. After an error of another sort than ErrFull the writer may be poisoned;
// after ErrFull only Results and Reserved notes are taken until there is space for the segment.
func (w *Writer) Recipients(id ed25519.PrivateKey, r []string) error {
	w.turn.Lock()
	defer w.turn.Unlock()
	if err := w.recipients(id, r); err != nil {
		return fmt.Errorf("change recipients: %w", err)
	}
	return nil
}

func (w *Writer) recipients(id ed25519.PrivateKey, r []string) error {
	if err := w.usable(); err != nil {
		return err
	}
	old := w.pub.Load()
	if len(id) != ed25519.PrivateKeySize || !old.Identity.Equal(id.Public()) {
		return errors.New("the key is not this log's identity")
	}
	if err := ParseRecipients(r); err != nil {
		return err
	}
	p := published{Pub: old.Pub}
	p.Recipients, p.Serial = slices.Clone(r), old.Serial+1
	var err error
	if p.note, err = p.sign(id); err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(w.folder), pubFile)
	if err := writeFile(w.disk, path, p.note); err != nil {
		// Whether the new one is in its place decides what the next Open does, so it decides here too.
		if is, err2 := os.ReadFile(path); err2 != nil || !bytes.Equal(is, old.note) {
			return w.poison(err)
		}
		return err
	}
	w.pub.Store(&p)
	err = w.rotate(w.o.Now())
	if err != nil && !isErrFull(err) {
		return w.poison(err)
	}
	return err
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

// usable: the writer is neither closed nor poisoned. Under turn.
func (w *Writer) usable() error {
	w.queue.mu.Lock()
	closed := w.queue.closed
	w.queue.mu.Unlock()
	if closed {
		return ErrClosed
	}
	return w.poisoned()
}

func isErrFull(err error) bool { return errors.Is(err, ErrFull) }
