package auditlog

import "fmt"

const (
	roomStep   = 1 << 20   // a segment's file grows by steps of it
	resultRoom = 8 << 10   // kept for the Result of each open intent, with what its batch costs
	noteRoom   = 256 << 10 // kept for Reserved notes
	maxBlank   = 256 << 20 // more than all that is kept behind the last frame: maxOpen/(8+8+16+2) results, notes, a batch, a step
)

// reserve is how long a segment's file must be, so that after size written bytes everything fits that must not be refused.
func reserve(size int64, open int) int64 {
	n := size + int64(open)*resultRoom + noteRoom
	return (n + roomStep - 1) / roomStep * roomStep
}

// grow makes room for a batch of size bytes with so many intents. ErrFull: the disk has none; the file is as it was.
func (w *Writer) grow(size int64, intents int) error {
	s := w.live.seg
	open := len(w.live.open) + intents
	if s.size+size+int64(open)*resultRoom+noteRoom <= s.room {
		return nil
	}
	// Before it is lengthened: a file that somebody else changed must not look right again by that.
	if err := s.check(); err != nil {
		return err
	}
	to := reserve(s.size+size, open)
	err := s.f.Allocate(s.room, to)
	if err == nil {
		s.room = to
		return nil
	}
	if !isFull(err) {
		return fmt.Errorf("allocate space: %w", err)
	}
	if err := s.f.Truncate(s.room); err != nil {
		return fmt.Errorf("give back space: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrFull, err)
}

// admit picks the calls that can be written: all, or on a full disk those that the kept space is for. full: only
// those in any case. The others end with ErrFull. An error is a fault of the disk.
func (w *Writer) admit(calls []*call, full error) ([]*call, error) {
	if full == nil {
		size, intents := int64(batchOverhead), 0
		for _, c := range calls {
			size += int64(c.size)
			for _, e := range c.entries {
				if e.Kind == Intent {
					intents++
				}
			}
		}
		if full = w.grow(size, intents); full == nil {
			return calls, nil
		}
		if !isErrFull(full) {
			return nil, full
		}
	}
	s := w.live.seg
	size, closed := s.size+batchOverhead, map[[16]byte]bool{}
	var fit []*call
	for _, c := range calls {
		closes := map[[16]byte]bool{}
		reserved := true
		for _, e := range c.entries {
			_, is := w.live.open[e.Subject]
			switch {
			case e.Kind == Result && is && !closed[e.Subject]:
				closes[e.Subject] = true
			case e.Kind == Result, e.Kind == Note && e.Reserved:
			default:
				reserved = false
			}
		}
		left := int64(len(w.live.open)-len(closed)-len(closes)) * resultRoom
		if !reserved || size+int64(c.size)+left > s.room {
			c.err = full
			continue
		}
		size += int64(c.size)
		for k := range closes {
			closed[k] = true
		}
		fit = append(fit, c)
	}
	return fit, nil
}
