package auditlog

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// edge is the right edge of the RFC 6962 tree over the COMMITs: the hashes of its perfect subtrees, largest first, as
// many as the tree's size has one bits. It is all that is needed to go on: at most 64 hashes.
type edge []tlog.Hash

// with is the edge after one leaf more; commits is the size before. It may write over e's array.
func (e edge) with(commits uint64, leaf tlog.Hash) edge {
	for ; commits&1 == 1; commits >>= 1 {
		leaf = nodeHash(e[len(e)-1], leaf)
		e = e[:len(e)-1]
	}
	return append(e, leaf)
}

// root is the tree's head; of the empty tree, SHA-256 of nothing.
func (e edge) root() tlog.Hash {
	if len(e) == 0 {
		return sha256.Sum256(nil)
	}
	r := e[len(e)-1]
	for i := len(e) - 2; i >= 0; i-- {
		r = nodeHash(e[i], r)
	}
	return r
}

// rootWith is the root after one leaf more; e stays as it is.
func (e edge) rootWith(commits uint64, leaf tlog.Hash) tlog.Hash {
	return slices.Clone(e).with(commits, leaf).root()
}

func edgeSize(commits uint64) int { return bits.OnesCount64(commits) }

// leaf is what the tree holds of a COMMIT: 48 bytes, so that it costs one SHA-256 block. The chain head in it covers all
// that went before, and the number is the leaf's place.
func (c commit) leaf() tlog.Hash {
	var b [1 + 8 + 8 + 32]byte // 0x00 before the data: RFC 6962, section 2.1
	binary.BigEndian.PutUint64(b[1:], c.seq)
	binary.BigEndian.PutUint64(b[9:], uint64(c.time))
	copy(b[17:], c.head[:])
	return sha256.Sum256(b[:])
}

// nodeHash is tlog.NodeHash without its allocation.
func nodeHash(left, right tlog.Hash) tlog.Hash {
	var b [1 + 2*tlog.HashSize]byte
	b[0] = 0x01
	copy(b[1:], left[:])
	copy(b[1+tlog.HashSize:], right[:])
	return sha256.Sum256(b[:])
}
