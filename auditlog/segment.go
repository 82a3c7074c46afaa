package auditlog

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// segment is the one being written. Its two secrets live in memory alone and end with it.
type segment struct {
	n       uint64
	path    string
	f       segmentFile
	size    int64 // written
	room    int64 // of the file: zeros follow what is written
	records uint64
	serial  uint64 // of the audit.pub it is sealed by
	created time.Time
	sign    ed25519.PrivateKey
	read    []byte
}

// beginning is what a new segment's HEADER says besides its keys.
type beginning struct {
	n       uint64
	reason  byte
	by      ed25519.PrivateKey // signs the HEADER
	from    stand
	serial  uint64 // of the segment before; 0: none
	counter uint64
	drops   []drop
	open    []intent
	now     time.Time
}

// begin makes a segment, HEADER and first COMMIT durable, with space for its open intents' results. ErrFull: there is
// none, and nothing was left behind. sign puts the identity's signature on the COMMIT, if it is at hand.
func begin(d disk, folder string, p *published, b beginning, sign func(*commit)) (*segment, commit, stand, error) {
	s, c, after, err := newSegment(d, folder, p, b, sign)
	if err != nil {
		return nil, commit{}, stand{}, fmt.Errorf("begin segment %d: %w", b.n, err)
	}
	return s, c, after, nil
}

func newSegment(d disk, folder string, p *published, b beginning, sign func(*commit)) (s *segment, c commit, after stand, err error) {
	s = &segment{n: b.n, path: filepath.Join(folder, segmentName(b.n)), serial: p.Serial, created: b.now, read: make([]byte, readKeySize)}
	defer func(s *segment) {
		if err != nil {
			s.end(false)
		}
	}(s)
	var key ed25519.PublicKey
	if key, s.sign, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return nil, c, after, err
	}
	if _, err = rand.Read(s.read); err != nil {
		return nil, c, after, err
	}
	h := header{origin: p.Origin, segment: b.n, reason: b.reason, created: b.now.UnixNano(), from: b.from, key: key, counter: b.counter,
		readers: readers{serial: p.Serial, prints: fingerprints(p.Recipients)}, drops: b.drops, open: b.open}
	if b.reason != genesis && b.serial != p.Serial {
		h.readers.pub = p.note
	}
	if h.wrapped, err = wrapKey(s.read, p.Recipients); err != nil {
		return nil, c, after, err
	}
	h.sign(b.by)
	buf := h.frame()
	if len(buf)-prefix > maxBody || len(h.drops) > 1<<16-1 {
		return nil, c, after, errors.New("the header would be larger than a frame")
	}
	c = commit{log: p.log(), segment: b.n, seq: b.from.seq, commits: b.from.commits + 1, time: h.created, head: next(b.from.head, buf)}
	buf, c, after = s.seal(buf, c, b.from, p.Origin, sign)
	if s.f, err = d.create(s.path); isFull(err) {
		return nil, c, after, fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return nil, c, after, err
	}
	need := reserve(int64(len(buf)), len(b.open))
	if err = s.f.Allocate(0, need); isFull(err) {
		if err2 := d.remove(s.path); err2 != nil {
			return nil, c, after, err2
		}
		return nil, c, after, fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return nil, c, after, err
	}
	s.room = need
	if err = s.write(buf); err == nil {
		err = d.syncDir(folder)
	}
	return s, c, after, err
}

// seal states the tree, signs c and appends its frame.
func (s *segment) seal(b []byte, c commit, from stand, origin string, sign func(*commit)) ([]byte, commit, stand) {
	leaf := c.leaf()
	c.root = from.edge.rootWith(from.commits, leaf)
	copy(c.sig[:], ed25519.Sign(s.sign, c.text(origin)))
	if sign != nil {
		sign(&c)
	}
	start := len(b)
	b = c.appendFrame(b)
	after := stand{mark{head: next(c.head, b[start:]), seq: c.seq, commits: c.commits}, append(edge(nil), from.edge...).with(from.commits, leaf)}
	return b, c, after
}

// write makes one batch durable: one write, one fdatasync, and a look whether this is still the file in the folder.
func (s *segment) write(b []byte) error {
	if _, err := s.f.WriteAt(b, s.size); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	if err := s.f.Sync(); err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	s.size += int64(len(b))
	return s.check()
}

// check notices a live segment that was removed, replaced, cut or written by somebody else.
func (s *segment) check() error {
	mine, err := s.f.Stat()
	if err != nil {
		return fmt.Errorf("look at live segment: %w", err)
	}
	there, err := os.Lstat(s.path)
	if err != nil {
		return fmt.Errorf("look at live segment: %w", err)
	}
	if !os.SameFile(mine, there) {
		return errors.New("look at live segment: it was replaced")
	}
	if mine.Size() != s.room {
		return fmt.Errorf("look at live segment: it has %d bytes where %d were allocated", mine.Size(), s.room)
	}
	return nil
}

// end closes the file and wipes the keys. whole: every byte of it was written as it should be, so that the space
// allocated behind them can go; else the file stays as it is, for the next Open to judge.
func (s *segment) end(whole bool) error {
	clear(s.sign)
	clear(s.read)
	if s.f == nil {
		return nil
	}
	var err error
	if whole {
		err = s.f.Truncate(s.size)
	}
	if err2 := s.f.Close(); err == nil {
		err = err2
	}
	return err
}
