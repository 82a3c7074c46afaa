package auditlog

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// commitBody is a COMMIT's length field: log id, segment, seq, commits, time, head, signature.
const commitBody = 8 + 8 + 8 + 8 + 8 + 32 + ed25519.SignatureSize

// commit is a COMMIT: everything before it, in every segment, is durable and as its head says.
type commit struct {
	log     [8]byte // start of SHA-256 of the identity key
	segment uint64
	seq     uint64   // last record
	commits uint64   // its own number, from 1
	time    int64    // Unix nanoseconds
	head    [32]byte // chain head before this frame
	sig     [ed25519.SignatureSize]byte
}

// text is the signed message: a checkpoint as C2SP tlog-checkpoint writes it, with three extension lines.
func (c commit) text(origin string) []byte {
	return fmt.Appendf(nil, "%s\n%d\n%s\ncommits %d\nsegment %d\ntime %s\n", origin, c.seq,
		base64.StdEncoding.EncodeToString(c.head[:]), c.commits, c.segment, time.Unix(0, c.time).UTC().Format(time.RFC3339Nano))
}

func (c commit) signedBy(key ed25519.PublicKey, origin string) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, c.text(origin), c.sig[:])
}

// commitStart is how every COMMIT of one segment begins: prefix, log id, segment.
func commitStart(log [8]byte, segment uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, commitBody)
	b = append(b, frameCommit)
	b = append(b, log[:]...)
	return binary.BigEndian.AppendUint64(b, segment)
}

func (c commit) appendFrame(b []byte) []byte {
	b = append(b, commitStart(c.log, c.segment)...)
	b = binary.BigEndian.AppendUint64(b, c.seq)
	b = binary.BigEndian.AppendUint64(b, c.commits)
	b = binary.BigEndian.AppendUint64(b, uint64(c.time))
	b = append(b, c.head[:]...)
	return append(b, c.sig[:]...)
}

func parseCommit(body []byte) (commit, error) {
	if len(body) != commitBody {
		return commit{}, unfit("commit has a wrong length")
	}
	r := &cursor{b: body}
	var c commit
	copy(c.log[:], r.take(8))
	c.segment, c.seq, c.commits, c.time = r.u64(), r.u64(), r.u64(), int64(r.u64())
	c.head = r.sum()
	copy(c.sig[:], r.take(ed25519.SignatureSize))
	return c, nil
}

// parseCheckpoint opens a signed note that Writer.Checkpoint wrote.
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
	if len(l) != 7 || l[0] != origin {
		return c, errors.New("no checkpoint of this log")
	}
	head, err := base64.StdEncoding.DecodeString(l[2])
	if err != nil || len(head) != len(c.head) {
		return c, errors.New("no chain head in line 3")
	}
	copy(c.head[:], head)
	t, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(l[5], "time "))
	if err != nil {
		return c, errors.New("no time in line 6")
	}
	c.time = t.UnixNano()
	for i, f := range []struct {
		line string
		to   *uint64
	}{{l[1], &c.seq}, {strings.TrimPrefix(l[3], "commits "), &c.commits}, {strings.TrimPrefix(l[4], "segment "), &c.segment}} {
		if *f.to, err = strconv.ParseUint(f.line, 10, 64); err != nil {
			return c, fmt.Errorf("no number in field %d", i+1)
		}
	}
	if string(c.text(origin)) != text {
		return c, errors.New("not in canonical form")
	}
	return c, nil
}
