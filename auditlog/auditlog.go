package auditlog

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the clear sort of a record. With Subject it is all that the owner needs to find open actions with no key.
type Kind uint8

const (
	Note   Kind = iota + 1 // something happened; opens and closes nothing
	Intent                 // an action is about to leave
	Result                 // an action has ended; closes the Intent with the same Subject
)

// Entry is one record as the caller gives it.
type Entry struct {
	Kind    Kind
	Subject [16]byte // the action's ULID; zero: none, allowed for a Note only
	Body    []byte   // sealed to the readers
	Own     []byte   // at most MaxOwn bytes, opaque here: the owner seals it to itself

	// Reserved lets a Note use the space that a full disk leaves to Results: for revocations. It is not written.
	Reserved bool
}

// Record is an Entry with its place. Body is nil where no read key was at hand.
type Record struct {
	Seq  uint64    // counts records from 1, without gaps, over all segments
	Time time.Time // of the COMMIT that made the record durable, UTC
	Entry
}

// Head is the last durable COMMIT.
type Head struct {
	Seq     uint64   // of the last record
	Records uint64   // in the whole log
	Commits uint64   // in the whole log; grows with each batch and each new segment
	Hash    [32]byte // the chain head that COMMIT states, as in Checkpoint
	Root    [32]byte // of the tree with that COMMIT
}

// Options of a Writer. The zero value is the default.
type Options struct {
	Now         func() time.Time // nil: time.Now
	MaxSegment  int64            // bytes after which a new segment is begun; 0: 64 MiB
	MaxAge      time.Duration    // age after which a new segment is begun; 0: one hour
	Countersign time.Duration    // the longest that a COMMIT waits for the identity, while there is one; 0: a minute
	Counter     func() uint64    // the owner's own lower bound, stated in each HEADER; nil: 0
	MirrorEvery time.Duration    // the least between two copies to the mirror; 0: a second
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxSegment <= 0 {
		o.MaxSegment = 64 << 20
	}
	if o.MaxAge <= 0 {
		o.MaxAge = time.Hour
	}
	if o.Countersign <= 0 {
		o.Countersign = time.Minute
	}
	if o.Counter == nil {
		o.Counter = func() uint64 { return 0 }
	}
	if o.MirrorEvery <= 0 {
		o.MirrorEvery = time.Second
	}
	return o
}

// Limits of one Append. What goes past them is refused with ErrTooLarge before anything is queued.
const (
	MaxOwn  = 1 << 10       // bytes of Entry.Own
	MaxBody = 1<<20 - 2<<10 // bytes of Entry.Body; with any Own its frame stays below 1 MiB
	// MaxReserved is up to which size, Body and Own together, a Result never meets a full disk.
	MaxReserved = resultRoom - 1<<10
)

var (
	// ErrNoLog: Open found no audit.pub. A log that was never finished counts as none.
	ErrNoLog = errors.New("no audit log here")
	// ErrLocked: another writer holds the folder.
	ErrLocked = errors.New("audit log is in use by another writer")
	// ErrTruncated: audit.pub is there and the segments are gone.
	ErrTruncated = errors.New("audit log is truncated")
	// ErrPoisoned: an earlier write, sync or look at the live segment failed. Nothing is appended until the log is reopened.
	ErrPoisoned = errors.New("audit log writer is poisoned")
	// ErrTooLarge: the entries of one Append go past a limit.
	ErrTooLarge = errors.New("audit record is too large")
	// ErrTooManyOpen: a further Intent would not fit the list that each HEADER carries. Results are never refused for it.
	ErrTooManyOpen = errors.New("too many open intents")
	// ErrFull: the disk has no space left beyond what is kept for Results and Reserved notes. It is no fault of the
	// log: the writer goes on as soon as there is space.
	ErrFull = errors.New("no space for further audit records")
	// ErrClosed: Append after Close.
	ErrClosed = errors.New("audit log writer is closed")
)

// TamperError is a fault that no crash could have made, or one that nobody has explained, and its place.
type TamperError struct {
	Kind    string // tampered, truncated, forked or unsigned
	Segment string // file name
	Offset  int64  // of the first byte that no valid COMMIT covers
	Seq     uint64 // of the first record in doubt
	Detail  string // what was expected
}

func (e *TamperError) Error() string {
	return fmt.Sprintf("audit log %s: %s at byte %d, record %d: %s", e.Kind, e.Segment, e.Offset, e.Seq, e.Detail)
}

const (
	tampered  = "tampered"
	truncated = "truncated"
	forked    = "forked"
	unsigned  = "unsigned"
)
