package auditlog

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is one COMMIT as the log identity vouched for it. Kept elsewhere it shows truncation and forks.
type Checkpoint struct {
	Origin  string
	Size    int64     // of the tree: commits
	Root    tlog.Hash // RFC 6962, over Size commits
	Seq     uint64    // last record
	Head    [32]byte  // chain head before that COMMIT
	Segment uint64
	Time    time.Time // UTC
}

// Checkpoint is the last durable COMMIT as a C2SP checkpoint, a note signed by the log identity: origin, tree size,
// base64 root, then sequence, head, segment and time as extension lines. VerifyOptions takes it, and so does a witness.
func (w *Writer) Checkpoint(id ed25519.PrivateKey) ([]byte, error) {
	s, err := newNoteSigner(w.origin(), id)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	if !w.pub.Load().Identity.Equal(id.Public()) {
		return nil, errors.New("sign checkpoint: the key is not this log's identity")
	}
	b, err := note.Sign(&note.Note{Text: string(w.last.Load().text(w.origin()))}, s)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return b, nil
}

// ParseCheckpoint opens a signed note from Writer.Checkpoint by the log identity that p names. Further signatures, a
// witness's, are left to whoever knows the witness's key.
func ParseCheckpoint(signed []byte, p Pub) (Checkpoint, error) {
	c, err := parseCheckpoint(signed, p)
	if err != nil {
		return Checkpoint{}, err
	}
	return Checkpoint{Origin: p.Origin, Size: int64(c.commits), Root: c.root, Seq: c.seq, Head: c.head, Segment: c.segment, Time: time.Unix(0, c.time).UTC()}, nil
}

func parseCheckpoint(signed []byte, p Pub) (commit, error) {
	v, err := noteVerifier(p.Origin, p.Identity)
	if err != nil {
		return commit{}, err
	}
	n, err := note.Open(signed, note.VerifierList(v))
	if err != nil {
		return commit{}, fmt.Errorf("open checkpoint: %w", err)
	}
	c, err := parseText(n.Text, p.Origin)
	if err != nil {
		return commit{}, fmt.Errorf("parse checkpoint: %w", err)
	}
	return c, nil
}

func parseText(text, origin string) (c commit, err error) {
	l := strings.Split(text, "\n")
	if len(l) != 8 || l[0] != origin {
		return c, errors.New("no checkpoint of this log")
	}
	for _, f := range []struct {
		line, key string
		to        *[32]byte
	}{{l[2], "", (*[32]byte)(&c.root)}, {l[4], "head ", &c.head}} {
		b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(f.line, f.key))
		if err != nil || len(b) != 32 {
			return c, fmt.Errorf("no hash in %q", f.line)
		}
		copy(f.to[:], b)
	}
	t, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(l[6], "time "))
	if err != nil {
		return c, errors.New("no time in line 7")
	}
	c.time = t.UnixNano()
	for i, f := range []struct {
		line string
		to   *uint64
	}{{l[1], &c.commits}, {strings.TrimPrefix(l[3], "sequence "), &c.seq}, {strings.TrimPrefix(l[5], "segment "), &c.segment}} {
		if *f.to, err = strconv.ParseUint(f.line, 10, 63); err != nil {
			return c, fmt.Errorf("no number in field %d", i+1)
		}
	}
	if string(c.text(origin)) != text {
		return c, errors.New("not in canonical form")
	}
	return c, nil
}
