package auditlog

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"filippo.io/age"
)

// Read decrypts a log for a reviewer who brings an age identity. It verifies on the way: a record is yielded only when
// its COMMIT's signature and everything before it hold. A fault, or a segment not sealed to the identity, is yielded as
// the last error. A torn tail ends the log quietly; Verify tells of it.
func Read(segmentsDir fs.FS, pub []byte, identity string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		p, err := ParsePub(pub)
		if err != nil {
			yield(Record{}, err)
			return
		}
		ids, err := parseIdentity(identity)
		if err != nil {
			yield(Record{}, err)
			return
		}
		o := &opener{ids: ids}
		w := newWalker(p)
		w.hooks = hooks{onHeader: o.header, onBatch: func(b *batch) error { return o.batch(b, yield) }}
		count, err := segments(segmentsDir)
		if err == nil && count == 0 {
			err = fmt.Errorf("read log: %w", ErrTruncated)
		}
		if err == nil {
			err = w.walk(segmentsDir, 1, count)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(Record{}, err)
		}
	}
}

type opener struct {
	ids  []age.Identity
	read []byte // the segment's key
}

func (o *opener) header(h header) (err error) {
	if o.read, err = unwrapKey(h.wrapped, o.ids); err != nil {
		return fmt.Errorf("open segment %d: %w", h.segment, err)
	}
	return nil
}

func (o *opener) batch(b *batch, yield func(Record, error) bool) error {
	if b.off == 0 {
		return nil // a HEADER's batch has no key of its own
	}
	a, err := ratchet(o.read, b.salt[:])
	if err != nil {
		return err
	}
	for i, s := range b.records {
		seq := b.after.seq - uint64(len(b.records)-1-i)
		body, err := s.open(a, b.commit.segment, seq, i)
		if err != nil {
			return err
		}
		if !yield(b.record(seq, s, body), nil) {
			return errStop
		}
	}
	return nil
}

func (b *batch) record(seq uint64, s sealed, body []byte) Record {
	return Record{Seq: seq, Time: time.Unix(0, b.commit.time).UTC(), Entry: Entry{Kind: s.kind, Subject: s.subject, Body: body, Own: s.own}}
}

// headerOf reads the HEADER of segment n if its first batch is whole.
func (w *walker) headerOf(fsys fs.FS, n uint64) (header, error) {
	f, err := fsys.Open(segmentName(n))
	if err != nil {
		return header{}, fmt.Errorf("read segment: %w", err)
	}
	defer f.Close()
	h, _, err := w.readFirst(w.frames.begin(f, 0), n)
	return h, err
}

// adoptAt starts the walk at segment n, whose first batch is whole. The HEADERs before it are followed back to one
// that the recovery key or the identity signed, so that the key which must have signed n's is known for certain.
func (w *walker) adoptAt(fsys fs.FS, n uint64) error {
	h, err := w.headerOf(fsys, n)
	if err != nil {
		return fmt.Errorf("read header of segment %d: %w", n, err)
	}
	chain := []header{h}
	for h.reason == rotated && h.segment > 1 {
		prev, err := w.headerOf(fsys, h.segment-1)
		if err != nil || prev.segment != h.segment-1 {
			return &TamperError{Kind: tampered, Segment: segmentName(h.segment - 1), Seq: h.from.seq, Detail: "the header is damaged, and the next segment was signed by its key"}
		}
		h = prev
		chain = append(chain, h)
	}
	var key ed25519.PublicKey
	for i := len(chain) - 1; i > 0; i-- {
		by := key
		switch chain[i].reason {
		case genesis:
			by = w.pub.Identity
		case restarted, recovered:
			by = w.pub.Recovery
		}
		if !chain[i].signedBy(by) {
			return &TamperError{Kind: unsigned, Segment: segmentName(chain[i].segment), Seq: chain[i].from.seq + 1, Detail: "the header is not signed by the key that may begin this segment"}
		}
		key = chain[i].key
	}
	w.adopt(chain[0], key)
	return nil
}
