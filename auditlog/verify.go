package auditlog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// Verdicts. The zero Report has none: nothing was verified.
const (
	Intact = "intact" // every byte is accounted for
	Broken = "broken" // Kind says how
	Torn   = "torn"   // intact up to an unfinished batch that a crash left and no HEADER explains yet
	Live   = "live"   // the same, and the batch is being written now
)

// VerifyOptions: the zero value compares with no checkpoint and takes no log for live.
type VerifyOptions struct {
	Checkpoint    []byte                  // signed note from Writer.Checkpoint; nil: none
	Live          func() bool             // somebody holds the writer's lock now
	Progress      func(done, total int64) // bytes; called now and then, from Verify's goroutine
	AllSignatures bool                    // check every COMMIT's signature; else each segment's first and last, which cover the others
}

// Report is what Verify found. On a fault the counters stop where the fault is.
type Report struct {
	Verdict       string    `json:"verdict"` // intact, broken, torn or live
	Kind          string    `json:"kind"`    // of a fault: tampered, truncated, forked, unsigned
	Segment       string    `json:"segment"` // place of a fault or of a tail: file name
	Offset        int64     `json:"offset"`  // first byte that no valid COMMIT covers
	Seq           uint64    `json:"seq"`     // first record in doubt
	Detail        string    `json:"detail"`
	Segments      int64     `json:"segments"`
	Records       int64     `json:"records"`
	Commits       int64     `json:"commits"`
	Bytes         int64     `json:"bytes"`       // read
	Torn          int64     `json:"torn"`        // bytes of torn tails, explained ones and the last
	Head          string    `json:"head"`        // base64 of the chain head that the last COMMIT states, as in a checkpoint
	Root          string    `json:"root"`        // base64 of the root of the tree over all COMMITs
	Fingerprint   string    `json:"fingerprint"` // of the identity verified against
	Anchored      string    `json:"anchored"`    // the checkpoint that was met, in words; empty: none
	First         time.Time `json:"first"`       // of the first COMMIT
	Last          time.Time `json:"last"`        // of the last COMMIT
	OpenIntents   int       `json:"openIntents"`
	Countersigned int64     `json:"countersigned"` // COMMITs that the log identity signed too
	Weak          Weak      `json:"weak"`
	Serial        uint64    `json:"serial"`  // of the audit.pub in force at the end
	Counter       uint64    `json:"counter"` // the owner's, in the last HEADER; see Options.Counter
}

// Weak is the end of a log that the log identity has not signed: nobody but who holds the recovery key or the running
// writer's memory can have written it, and they could. All before it stands on the identity's word.
type Weak struct {
	Commits int64     `json:"commits"` // 0: nothing is weak
	Records int64     `json:"records"`
	Seq     uint64    `json:"seq"`   // the first record that is only weakly signed; 0: none
	Since   time.Time `json:"since"` // of the last COMMIT that the identity signed; zero: it never did
}

// Verify checks a folder of segments against a pinned audit.pub. It needs no key, no lock and no writer. A fault is a
// Report; the error is for what cannot be read: the folder, a pub that is no audit.pub, a checkpoint that is not of
// this log. Memory stays below 16 MiB whatever the log's size.
func Verify(segmentsDir fs.FS, pub []byte, o VerifyOptions) (Report, error) {
	live := o.Live != nil && o.Live()
	p, err := ParsePub(pub)
	if errors.Is(err, errNotPub) {
		return Report{}, err
	}
	if err != nil {
		return Report{Verdict: Broken, Kind: unsigned, Segment: pubFile, Detail: err.Error()}, nil
	}
	v := &verifier{w: newWalker(p), o: o}
	v.rep.Fingerprint = p.fingerprint()
	if o.Checkpoint != nil {
		c, err := parseCheckpoint(o.Checkpoint, p)
		if err != nil {
			return Report{}, err
		}
		v.anchor = &c
	}
	v.watch(v.w, &v.seen)
	err = v.run(segmentsDir)
	v.sum()
	var fault *TamperError
	switch {
	case errors.As(err, &fault):
		v.broken(fault)
	case err != nil:
		return Report{}, err
	default:
		v.ended(live || o.Live != nil && o.Live())
	}
	return v.rep, nil
}

// verifier joins what is found in the segments, in their order.
type verifier struct {
	w      *walker
	o      VerifyOptions
	rep    Report
	seen   seen
	anchor *commit
	meter  meter
}

// seen is what was met on the way, in one segment or in all.
type seen struct {
	bytes, torn, countersigned int64
	first                      int64 // time of the first COMMIT
	anchored                   string
}

func (s *seen) add(o seen) {
	s.bytes, s.torn, s.countersigned = s.bytes+o.bytes, s.torn+o.torn, s.countersigned+o.countersigned
	if s.first == 0 {
		s.first = o.first
	}
	s.anchored += o.anchored
}

// watch lets w tell s what it meets.
func (v *verifier) watch(w *walker, s *seen) {
	w.every = v.o.AllSignatures
	w.onHeader = func(h header) error {
		for _, d := range h.drops {
			s.torn += int64(d.size)
		}
		return nil
	}
	w.onCommit = func(c commit) error {
		if s.first == 0 {
			s.first = c.time
		}
		if c.sure {
			s.countersigned++
		}
		a := v.anchor
		if a == nil || a.commits != c.commits {
			return nil
		}
		if a.head != c.head || a.seq != c.seq || a.root != w.at.edge.root() {
			return w.fault(forked, w.place, "commit %d is another one than the checkpoint's", c.commits)
		}
		s.anchored = fmt.Sprintf("commit %d, record %d, %s", c.commits, c.seq, time.Unix(0, c.time).UTC().Format(time.RFC3339))
		return nil
	}
	w.wrap = func(r io.Reader) io.Reader { return &counter{r, s, &v.meter} }
}

func (v *verifier) sum() {
	w, s := v.w, v.seen
	v.rep.Bytes, v.rep.Torn, v.rep.Countersigned, v.rep.Anchored = s.bytes, s.torn, s.countersigned, s.anchored
	v.rep.Records, v.rep.Commits, v.rep.OpenIntents = int64(w.at.seq), int64(w.at.commits), len(w.open)
	v.rep.Serial, v.rep.Counter = w.readers.serial, w.counter
	if w.at.commits == 0 {
		return
	}
	v.rep.First, v.rep.Last = time.Unix(0, s.first).UTC(), time.Unix(0, w.last.time).UTC()
	v.rep.Head = base64.StdEncoding.EncodeToString(w.last.head[:])
	root := w.at.edge.root()
	v.rep.Root = base64.StdEncoding.EncodeToString(root[:])
	weak := Weak{Commits: int64(w.at.commits - w.sure.commits), Records: int64(w.at.seq - w.sure.seq)}
	if weak.Records > 0 {
		weak.Seq = w.sure.seq + 1
	}
	if w.sure.commits > 0 {
		weak.Since = time.Unix(0, w.sure.time).UTC()
	}
	v.rep.Weak = weak
}

func (v *verifier) broken(f *TamperError) {
	v.rep.Verdict, v.rep.Kind, v.rep.Segment = Broken, f.Kind, f.Segment
	v.rep.Offset, v.rep.Seq, v.rep.Detail = f.Offset, f.Seq, f.Detail
}

// ended gives the verdict over a log without a fault.
func (v *verifier) ended(live bool) {
	var left *drop
	for i, d := range v.w.drops {
		v.rep.Torn += int64(d.size)
		// An empty segment is one that was never begun: nothing is lost and nothing needs a word.
		if left == nil && d.size > 0 {
			left = &v.w.drops[i]
		}
	}
	if a := v.anchor; a != nil && a.commits > v.w.at.commits {
		v.broken(&TamperError{Kind: truncated, Segment: segmentName(max(v.w.place.segment, 1)), Offset: v.w.place.off, Seq: v.w.at.seq + 1,
			Detail: fmt.Sprintf("the checkpoint is of commit %d, record %d; the log ends at commit %d, record %d", a.commits, a.seq, v.w.at.commits, v.w.at.seq)})
		return
	}
	if v.w.at.commits == 0 {
		v.broken(&TamperError{Kind: truncated, Segment: segmentName(1), Seq: 1, Detail: "no segment has a valid header"})
		return
	}
	v.rep.Verdict = Intact
	if left == nil {
		return
	}
	v.rep.Verdict = Torn
	if live {
		v.rep.Verdict = Live
	}
	v.rep.Segment, v.rep.Offset, v.rep.Seq = segmentName(left.segment), int64(left.offset), v.w.at.seq+1
	v.rep.Detail = fmt.Sprintf("%d bytes after the last commit: %s", left.size, left.why)
}
