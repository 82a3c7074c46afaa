package auditlog

import (
	"bytes"
	"io"
)

// batch is a run of frames that became durable together: BATCH, RECORDs, COMMIT; or a segment's HEADER and COMMIT.
type batch struct {
	off     int64 // of its first byte
	end     int64
	salt    [saltSize]byte
	effects []effect // its intents and results
	records []sealed // all of them, only where somebody looks
	commit  commit
	after   mark
}

// effect is what a record does to the set of open intents.
type effect struct {
	kind    Kind
	seq     uint64
	subject [16]byte
	own     []byte
}

// blank is a batch to be read into. One is in use while the one before it waits to be covered; where somebody looks at
// each, each is a new one.
func (w *walker) blank() *batch {
	if w.onBatch != nil {
		return &batch{}
	}
	w.turns++
	b := &w.pair[w.turns%2]
	*b = batch{effects: b.effects[:0]}
	return b
}

// readBatch reads the batch after from. It checks structure and chain, not the signature: what a later valid COMMIT
// covers needs none of its own. io.EOF: the segment ends here. unfit: no whole batch lies here.
func (w *walker) readBatch(f *frames, segment uint64, from mark) (*batch, error) {
	b := w.blank()
	b.off, b.after = f.off, from
	f.link(from.head)
	typ, body, err := f.next()
	if err != nil {
		return nil, err
	}
	if typ != frameBatch || len(body) != saltSize {
		return nil, unfit("a batch must begin with its salt")
	}
	copy(b.salt[:], body)
	for {
		typ, body, err = f.next()
		if err == io.EOF {
			err = unfit("a batch has no commit")
		}
		if err != nil {
			return nil, err
		}
		switch {
		case f.off-b.off > maxBatch:
			return nil, unfit("a batch is larger than 4 MiB")
		case typ == frameRecord:
			if err := w.takeRecord(b, body); err != nil {
				return nil, err
			}
		case typ == frameCommit:
			err := w.takeCommit(b, f, segment, body, f.linked())
			if err == nil && b.after.seq == from.seq && !b.commit.sure {
				err = unfit("a batch without records is not countersigned")
			}
			return b, err
		default:
			return nil, unfitf("frame type %d is out of place", typ)
		}
	}
}

func (w *walker) takeRecord(b *batch, body []byte) error {
	s, err := parseRecord(body)
	if err != nil {
		return err
	}
	b.after.seq++
	if s.kind != Note {
		e := effect{kind: s.kind, seq: b.after.seq, subject: s.subject}
		if s.kind == Intent {
			e.own = bytes.Clone(s.own)
		}
		b.effects = append(b.effects, e)
	}
	if w.onBatch != nil {
		s.own, s.box = bytes.Clone(s.own), bytes.Clone(s.box)
		b.records = append(b.records, s)
	}
	return nil
}

func (w *walker) takeCommit(b *batch, f *frames, segment uint64, body []byte, before [32]byte) error {
	c, err := parseCommit(body)
	if err != nil {
		return err
	}
	b.after.commits++
	switch {
	case c.log != w.log || c.segment != segment || c.commits != b.after.commits || c.seq != b.after.seq:
		return unfit("a commit states another place")
	case c.head != before:
		return unfit("a commit states another chain head")
	}
	b.commit, b.end, b.after.head = c, f.off, f.after(before)
	return nil
}

// readFirst reads HEADER and COMMIT of a segment. That they hold together is seen from themselves alone; whether they
// belong here is enter's question.
func (w *walker) readFirst(f *frames, segment uint64) (header, *batch, error) {
	typ, body, err := f.next()
	if err == io.EOF {
		err = unfit("the segment is empty")
	}
	if err != nil {
		return header{}, nil, err
	}
	if typ != frameHeader {
		return header{}, nil, unfit("a segment must begin with its header")
	}
	h, err := parseHeader(body)
	if err != nil {
		return header{}, nil, err
	}
	b := &batch{after: h.from.mark}
	before := next(h.from.head, h.frame())
	typ, body, err = f.next()
	if err == io.EOF {
		err = unfit("the header has no commit")
	}
	if err != nil {
		return header{}, nil, err
	}
	if typ != frameCommit {
		return header{}, nil, unfit("the header has no commit")
	}
	// A segment in another's place states its own number; enter names that fault.
	if err := w.takeCommit(b, f, h.segment, body, before); err != nil {
		return header{}, nil, err
	}
	if !b.commit.signedBy(h.key, w.pub) {
		return header{}, nil, notSigned
	}
	return h, b, nil
}
