package auditlog

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// A COMMIT's length field: log id, segment, seq, commits, time, head, root, signature; and with a countersignature.
const (
	commitBody        = 8 + 8 + 8 + 8 + 8 + 32 + 32 + ed25519.SignatureSize
	countersignedBody = commitBody + ed25519.SignatureSize
)

// commit is a COMMIT: everything before it, in every segment, is durable and as its head says.
type commit struct {
	log     [8]byte // start of SHA-256 of the identity key
	segment uint64
	seq     uint64    // last record
	commits uint64    // its own number, from 1; the tree's size with it
	time    int64     // Unix nanoseconds
	head    [32]byte  // chain head before this frame
	root    tlog.Hash // of the tree with this COMMIT
	sig     [ed25519.SignatureSize]byte
	sure    bool                        // the identity has signed too
	idSig   [ed25519.SignatureSize]byte // by the identity, over the same text
}

// text is the signed message: a checkpoint as C2SP tlog-checkpoint writes it, with four extension lines.
func (c commit) text(origin string) []byte {
	return fmt.Appendf(nil, "%s\n%d\n%s\nsequence %d\nhead %s\nsegment %d\ntime %s\n", origin, c.commits,
		base64.StdEncoding.EncodeToString(c.root[:]), c.seq, base64.StdEncoding.EncodeToString(c.head[:]), c.segment,
		time.Unix(0, c.time).UTC().Format(time.RFC3339Nano))
}

// signedBy holds the segment's signature, and the identity's where there is one.
func (c commit) signedBy(key ed25519.PublicKey, p Pub) bool {
	t := c.text(p.Origin)
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, t, c.sig[:]) && (!c.sure || ed25519.Verify(p.Identity, t, c.idSig[:]))
}

// commitStart is how every COMMIT of one segment begins, after its length: type, log id, segment.
func commitStart(log [8]byte, segment uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{frameCommit}, log[:]...), segment)
}

func (c commit) appendFrame(b []byte) []byte {
	n := commitBody
	if c.sure {
		n = countersignedBody
	}
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = append(b, commitStart(c.log, c.segment)...)
	b = binary.BigEndian.AppendUint64(b, c.seq)
	b = binary.BigEndian.AppendUint64(b, c.commits)
	b = binary.BigEndian.AppendUint64(b, uint64(c.time))
	b = append(b, c.head[:]...)
	b = append(b, c.root[:]...)
	b = append(b, c.sig[:]...)
	if c.sure {
		b = append(b, c.idSig[:]...)
	}
	return b
}

func parseCommit(body []byte) (commit, error) {
	if len(body) != commitBody && len(body) != countersignedBody {
		return commit{}, unfit("commit has a wrong length")
	}
	r := &cursor{b: body}
	var c commit
	copy(c.log[:], r.take(8))
	c.segment, c.seq, c.commits, c.time = r.u64(), r.u64(), r.u64(), int64(r.u64())
	c.head, c.root = r.sum(), r.sum()
	copy(c.sig[:], r.take(ed25519.SignatureSize))
	if len(r.b) > 0 {
		c.sure = true
		copy(c.idSig[:], r.take(ed25519.SignatureSize))
	}
	return c, nil
}

// findCommit finds the first whole COMMIT frame in b that begins as start says. ok is false where there is none.
func findCommit(b, start []byte) (off int, c commit, end int, ok bool) {
	for from := 0; ; {
		i := bytes.Index(b[from:], start)
		if i < 0 {
			return 0, c, 0, false
		}
		off = from + i - 4
		from += i + 1
		if off < 0 {
			continue
		}
		n := binary.BigEndian.Uint32(b[off:])
		if n != commitBody && n != countersignedBody || off+prefix+int(n) > len(b) {
			continue
		}
		end = off + prefix + int(n)
		if c, err := parseCommit(b[off+prefix : end]); err == nil {
			return off, c, end, true
		}
	}
}
