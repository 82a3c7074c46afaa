package auditlog

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// walker carries the log's state over segments and says where it stops being true.
type walker struct {
	pub   Pub
	log   [8]byte
	at    mark
	key   ed25519.PublicKey // of the segment last entered
	last  commit            // last one accepted
	place place             // end of what was accepted
	open  map[[16]byte]intent
	drops []drop // torn tails since the last HEADER; the next one must state exactly these

	frames *frames
	every  bool // check each COMMIT's signature, not only a segment's first and last
	hooks
}

// hooks look on. Each may be nil; an error ends the walk.
type hooks struct {
	onHeader func(header) error
	onBatch  func(*batch) error // gets records; implies every
	onCommit func(commit) error
	wrap     func(io.Reader) io.Reader
}

// place is a byte of a segment.
type place struct {
	segment uint64
	off     int64
}

func newWalker(p Pub) *walker {
	return &walker{pub: p, log: p.log(), open: map[[16]byte]intent{}, frames: newFrames()}
}

func (w *walker) fault(kind string, at place, format string, a ...any) error {
	return &TamperError{Kind: kind, Segment: segmentName(at.segment), Offset: at.off, Seq: w.at.seq + 1, Detail: fmt.Sprintf(format, a...)}
}

// tail is what lies in a segment after the last valid COMMIT.
type tail struct {
	off  int64
	size int64 // of the segment
	why  string
	sig  bool // a signature is missing, all else holds
}

// segment walks one segment. tail: it does not end at a valid COMMIT. An error is a fault, a hook's, or the reader's.
func (w *walker) segment(n uint64, r io.Reader) (*tail, error) {
	f := w.frames.begin(r)
	h, b, err := w.readFirst(f, n)
	if err != nil {
		return asTail(0, err)
	}
	if err := w.enter(n, h); err != nil {
		return nil, err
	}
	if err := w.accept(n, b); err != nil {
		return nil, err
	}
	var held *batch // fits, and waits for its own signature or for a batch that covers it
	cur := b.after
	for {
		off := f.off
		b, err := w.readBatch(f, n, cur)
		if err == nil && (w.every || w.onBatch != nil) {
			if !b.commit.signedBy(w.key, w.pub.Origin) {
				return asTail(off, notSigned)
			}
			if err := w.accept(n, b); err != nil {
				return nil, err
			}
			cur = b.after
			continue
		}
		if err == nil {
			if err := w.accept(n, held); err != nil {
				return nil, err
			}
			held, cur = b, b.after
			continue
		}
		t, err := asTail(off, err)
		if err != nil {
			return nil, err
		}
		return w.settle(n, held, t)
	}
}

// settle decides the last fitting batch by its signature.
func (w *walker) settle(n uint64, held *batch, t *tail) (*tail, error) {
	if held == nil {
		return t, nil
	}
	if held.commit.signedBy(w.key, w.pub.Origin) {
		return t, w.accept(n, held)
	}
	// The one before was taken on this one's word, which is worth nothing.
	if !w.last.signedBy(w.key, w.pub.Origin) {
		return nil, w.fault(unsigned, w.place, "the commits before this byte are not signed by the segment's key")
	}
	return asTail(held.off, notSigned)
}

// notSigned is the one way in which a batch fits and is still not valid.
const notSigned = unfit("a commit's signature is missing or wrong")

// asTail tells a clean end and unfit bytes from a failing reader.
func asTail(off int64, err error) (*tail, error) {
	var u unfit
	switch {
	case err == io.EOF:
		return nil, nil
	case errors.As(err, &u):
		return &tail{off: off, why: string(u), sig: u == notSigned}, nil
	}
	return nil, err
}

// accept makes a batch part of the log.
func (w *walker) accept(n uint64, b *batch) error {
	if b == nil {
		return nil
	}
	for _, e := range b.effects {
		_, is := w.open[e.subject]
		switch {
		case e.kind == Result:
			delete(w.open, e.subject)
		case !is && len(w.open) == maxOpen/(intent{}).cost():
			return w.fault(tampered, place{n, b.off}, "more intents are open than a header can carry")
		case !is:
			w.open[e.subject] = intent{seq: e.seq, time: b.commit.time, subject: e.subject, own: e.own}
		}
	}
	w.at, w.last, w.place = b.after, b.commit, place{n, b.end}
	if w.onCommit != nil {
		if err := w.onCommit(b.commit); err != nil {
			return err
		}
	}
	if w.onBatch != nil {
		return w.onBatch(b)
	}
	return nil
}

// enter checks that a segment belongs here, and that its HEADER was signed by whom the reason demands.
func (w *walker) enter(n uint64, h header) error {
	start := place{n, 0}
	if h.segment != n {
		return w.fault(tampered, start, "the header is of segment %d", h.segment)
	}
	if h.origin != w.pub.Origin {
		return w.fault(tampered, start, "the header is of another log")
	}
	if (n == 1) != (h.reason == genesis) {
		return w.fault(tampered, start, "header reason %d cannot stand here", h.reason)
	}
	// Before the signature: damage to an earlier segment is named there, not where its consequences show.
	if err := w.explained(n, h); err != nil {
		return err
	}
	by := w.pub.Recovery
	switch h.reason {
	case genesis:
		by = w.pub.Identity
	case rotated:
		by = w.key
	case restarted, recovered:
	default:
		return w.fault(tampered, start, "header reason %d is unknown", h.reason)
	}
	if !h.signedBy(by) {
		return w.fault(unsigned, start, "the header is not signed by the key that may begin this segment")
	}
	if h.from != w.at {
		return w.fault(tampered, w.place, "the log ends here at record %d, commit %d; the next segment continues record %d, commit %d", w.at.seq, w.at.commits, h.from.seq, h.from.commits)
	}
	if h.serial == w.pub.Serial && !slices.Equal(h.readers, fingerprints(w.pub.Recipients)) {
		return w.fault(tampered, start, "the header names other recipients than audit.pub")
	}
	if !slices.EqualFunc(h.open, openList(w.open), intent.equal) {
		return w.fault(tampered, start, "the header carries other open intents than the log has")
	}
	w.key = h.key
	if w.onHeader != nil {
		return w.onHeader(h)
	}
	return nil
}

// explained holds the torn tails found against those the HEADER states.
func (w *walker) explained(n uint64, h header) error {
	for i, d := range w.drops {
		if i >= len(h.drops) || !d.same(h.drops[i]) {
			return w.fault(tampered, place{d.segment, int64(d.offset)}, "%s, and the next header does not explain it", d.why)
		}
	}
	if len(h.drops) > len(w.drops) {
		d := h.drops[len(w.drops)]
		return w.fault(tampered, place{d.segment, int64(d.offset)}, "the torn tail of %d bytes that segment %d explains is gone", d.size, n)
	}
	if (h.reason == recovered) != (len(h.drops) > 0) {
		return w.fault(tampered, place{n, 0}, "header reason and dropped bytes disagree")
	}
	w.drops = nil
	return nil
}

// adopt starts in the middle of a log, on the word of a HEADER whose signature enter will check by prev.
func (w *walker) adopt(h header, prev ed25519.PublicKey) {
	w.at, w.key, w.place = h.from, prev, place{h.segment, 0}
	w.drops = slices.Clone(h.drops)
	clear(w.open)
	for _, i := range h.open {
		w.open[i.subject] = i
	}
}

func openList(open map[[16]byte]intent) []intent {
	l := make([]intent, 0, len(open))
	for _, i := range open {
		l = append(l, i)
	}
	slices.SortFunc(l, func(a, b intent) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	return l
}

func (i intent) record() Record {
	return Record{Seq: i.seq, Time: time.Unix(0, i.time).UTC(), Entry: Entry{Kind: Intent, Subject: i.subject, Own: i.own}}
}
