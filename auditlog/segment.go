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
	size    int64
	records uint64
	created time.Time
	sign    ed25519.PrivateKey
	read    []byte
}

// beginning is what a new segment's HEADER says besides its keys.
type beginning struct {
	n      uint64
	reason byte
	by     ed25519.PrivateKey // signs the HEADER
	from   mark
	drops  []drop
	open   []intent
	now    time.Time
}

// begin makes a segment, HEADER and first COMMIT durable.
func begin(d disk, folder string, p Pub, b beginning) (*segment, commit, mark, error) {
	s, c, after, err := newSegment(d, folder, p, b)
	if err != nil {
		return nil, commit{}, mark{}, fmt.Errorf("begin segment %d: %w", b.n, err)
	}
	return s, c, after, nil
}

func newSegment(d disk, folder string, p Pub, b beginning) (s *segment, c commit, after mark, err error) {
	s = &segment{n: b.n, path: filepath.Join(folder, segmentName(b.n)), created: b.now, read: make([]byte, readKeySize)}
	var key ed25519.PublicKey
	if key, s.sign, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return nil, c, after, err
	}
	if _, err = rand.Read(s.read); err != nil {
		return nil, c, after, err
	}
	h := header{origin: p.Origin, segment: b.n, reason: b.reason, created: b.now.UnixNano(), from: b.from, key: key,
		serial: p.Serial, readers: fingerprints(p.Recipients), drops: b.drops, open: b.open}
	if h.wrapped, err = wrapKey(s.read, p.Recipients); err != nil {
		return nil, c, after, err
	}
	h.sign(b.by)
	buf := h.frame()
	if len(buf)-prefix > maxBody || len(h.drops) > 1<<16-1 {
		return nil, c, after, errors.New("the header would be larger than a frame")
	}
	c = commit{log: p.log(), segment: b.n, seq: b.from.seq, commits: b.from.commits + 1, time: h.created, head: next(b.from.head, buf)}
	buf, after = s.seal(buf, c, p.Origin)
	if s.f, err = d.create(s.path); err != nil {
		return nil, c, after, err
	}
	if err = s.write(buf); err == nil {
		err = d.syncDir(folder)
	}
	if err != nil {
		s.end()
		return nil, c, after, err
	}
	return s, c, after, nil
}

// seal signs c and appends its frame.
func (s *segment) seal(b []byte, c commit, origin string) ([]byte, mark) {
	copy(c.sig[:], ed25519.Sign(s.sign, c.text(origin)))
	start := len(b)
	b = c.appendFrame(b)
	return b, mark{head: next(c.head, b[start:]), seq: c.seq, commits: c.commits}
}

// write makes one batch durable: one write, one fdatasync, and a look whether this is still the file in the folder.
func (s *segment) write(b []byte) error {
	if _, err := s.f.Write(b); err != nil {
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
	if mine.Size() != s.size {
		return fmt.Errorf("look at live segment: it has %d bytes where %d were written", mine.Size(), s.size)
	}
	return nil
}

// end closes the file and wipes the keys.
func (s *segment) end() error {
	clear(s.sign)
	clear(s.read)
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}
