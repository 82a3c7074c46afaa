package auditlog

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// walker carries the log's state over segments and says where it stops being true.
type walker struct {
	pub Pub
	log [8]byte
	state

	apart  bool // one segment by itself, on the word of its HEADER; whether it belongs there is another's question
	every  bool // check each COMMIT's signatures and root, not only a segment's first and last
	owed   *owed
	frames *frames
	pair   [2]batch // read in turns, see blank
	turns  int
	hooks
}

// state is the log as far as it was accepted.
type state struct {
	at      stand
	key     ed25519.PublicKey // of the segment last entered
	last    commit            // last one accepted
	sure    commit            // last one that the identity signed
	place   place             // end of what was accepted
	readers readers           // of the segment last entered
	counter uint64            // the owner's, in the HEADER last entered
	open    map[[16]byte]intent
	cost    int    // of all in open, in a HEADER
	drops   []drop // torn tails since the last HEADER; the next one must state exactly these
}

// owed is a countersignature that was not looked at yet.
type owed struct {
	commit
	place
	seq  uint64    // before it
	tree tlog.Hash // the root of the tree with it
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
	w := &walker{pub: p, log: p.log(), frames: &frames{}}
	w.state = state{at: stand{mark: mark{head: chainStart(p.Origin)}}, open: map[[16]byte]intent{}}
	return w
}

func (w *walker) fault(kind string, at place, format string, a ...any) error {
	return &TamperError{Kind: kind, Segment: segmentName(at.segment), Offset: at.off, Seq: w.at.seq + 1, Detail: fmt.Sprintf(format, a...)}
}

// tail is what lies in a segment after the last valid COMMIT.
type tail struct {
	off int64
	why string
	sig bool // a signature is missing, all else holds
}

// segment walks one segment. tail: it does not end at a valid COMMIT. An error is a fault, a hook's, or the reader's.
func (w *walker) segment(n uint64, r io.Reader) (*tail, error) {
	f := w.frames.begin(r, 0)
	h, b, err := w.readFirst(f, n)
	if err != nil {
		return asTail(0, err)
	}
	if w.apart {
		w.adopt(h, h.key)
		w.drops, w.readers, w.counter = nil, readers{h.readers.serial, h.readers.prints, nil}, h.counter
		err = w.look(h)
	} else {
		err = w.enter(n, h)
	}
	if err != nil {
		return nil, err
	}
	if err := w.vouched(b, w.key); err != nil {
		return nil, err
	}
	if err := w.accept(n, b, true); err != nil {
		return nil, err
	}
	return w.batches(n, f)
}

// batches walks on from w.at to the end of the segment.
func (w *walker) batches(n uint64, f *frames) (*tail, error) {
	var held *batch // fits, and waits for its own signature or for a batch that covers it
	cur := w.at.mark
	for {
		off := f.off
		b, err := w.readBatch(f, n, cur)
		switch {
		case err == nil && (w.every || w.onBatch != nil):
			if err = w.vouched(b, w.key); err == nil {
				err = w.accept(n, b, true)
			}
		case err == nil:
			err = w.accept(n, held, false)
			held = b
		default:
			t, err := asTail(off, err)
			if err != nil {
				return nil, err
			}
			if t, err = w.settle(n, held, t); err == nil {
				err = w.pay()
			}
			return t, err
		}
		if err == notSigned {
			return asTail(off, err)
		}
		if err != nil {
			return nil, err
		}
		cur = b.after
	}
}

// settle decides the last fitting batch by its signature.
func (w *walker) settle(n uint64, held *batch, t *tail) (*tail, error) {
	if held == nil {
		return t, nil
	}
	err := w.vouched(held, w.key)
	if err == nil {
		return t, w.accept(n, held, true)
	}
	if err != notSigned {
		return nil, err
	}
	// The one before was taken on this one's word, which is worth nothing.
	if !w.last.signedBy(w.key, w.pub) {
		return nil, w.fault(unsigned, w.place, "the commits before this byte are not signed by the segment's key")
	}
	if w.at.edge.root() != w.last.root {
		return nil, w.fault(tampered, w.place, "the commit before this byte states another tree root")
	}
	return asTail(held.off, notSigned)
}

// pay looks at the segment's last countersignature, if it was taken unseen, and at the root that it vouches for.
func (w *walker) pay() error {
	o := w.owed
	w.owed = nil
	if o == nil {
		return nil
	}
	kind, what := tampered, "the commit states another tree root"
	switch {
	case !o.signedBy(w.key, w.pub):
		kind, what = unsigned, "the commit's countersignature is wrong"
	case o.root == o.tree:
		return nil
	}
	return &TamperError{Kind: kind, Segment: segmentName(o.place.segment), Offset: o.off, Seq: o.seq + 1, Detail: what}
}

// notSigned is the one way in which a batch fits and is still not valid.
const notSigned = unfit("a commit's signature is missing or wrong")

// vouched holds a batch's signatures, and then its tree root: no crash makes a wrong root and signs it.
func (w *walker) vouched(b *batch, key ed25519.PublicKey) error {
	if !b.commit.signedBy(key, w.pub) {
		return notSigned
	}
	if w.at.edge.rootWith(w.at.commits, b.commit.leaf()) != b.commit.root {
		return w.fault(tampered, place{b.commit.segment, b.off}, "the commit states another tree root")
	}
	return nil
}

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

// accept makes a batch part of the log. seen: its signatures were looked at.
func (w *walker) accept(n uint64, b *batch, seen bool) error {
	if b == nil {
		return nil
	}
	for _, e := range b.effects {
		was, is := w.open[e.subject]
		i := intent{seq: e.seq, time: b.commit.time, subject: e.subject, own: e.own}
		switch {
		case e.kind == Result && is:
			delete(w.open, e.subject)
			w.cost -= was.cost()
		case e.kind == Result:
		case !is && w.cost+i.cost() > maxOpen:
			return w.fault(tampered, place{n, b.off}, "more intents are open than a header can carry")
		case !is:
			w.open[e.subject] = i
			w.cost += i.cost()
		}
	}
	before := w.at.seq
	w.at.edge = w.at.edge.with(w.at.commits, b.commit.leaf())
	w.at.mark, w.last, w.place = b.after, b.commit, place{n, b.end}
	if b.commit.sure {
		w.sure, w.owed = b.commit, nil
		if !seen {
			w.owed = &owed{b.commit, place{n, b.off}, before, w.at.edge.root()}
		}
	}
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

func (w *walker) look(h header) error {
	if w.onHeader != nil {
		return w.onHeader(h)
	}
	return nil
}

// adopt starts in the middle of a log, on the word of a HEADER. key is the one that must have signed it.
func (w *walker) adopt(h header, key ed25519.PublicKey) {
	w.state = state{at: stand{h.from.mark, slices.Clone(h.from.edge)}, key: key, place: place{h.segment, 0}, drops: slices.Clone(h.drops), open: map[[16]byte]intent{}}
	w.readers = h.readers
	if len(h.readers.pub) > 0 {
		w.readers = readers{serial: h.readers.serial - 1}
	}
	for _, i := range h.open {
		w.open[i.subject] = i
		w.cost += i.cost()
	}
}

func openList(open map[[16]byte]intent) []intent {
	l := make([]intent, 0, len(open))
	for _, i := range open {
		l = append(l, i)
	}
	slices.SortFunc(l, func(a, b intent) int { return cmp.Compare(a.seq, b.seq) })
	return l
}

func (i intent) record() Record {
	return Record{Seq: i.seq, Time: time.Unix(0, i.time).UTC(), Entry: Entry{Kind: Intent, Subject: i.subject, Own: i.own}}
}
