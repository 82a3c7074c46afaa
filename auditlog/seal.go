package auditlog

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// HKDF infos: of a batch's key, and of the segment key that the next batch starts from.
const (
	recordKeyInfo = "auditlog record key 1"
	nextKeyInfo   = "auditlog next key 1"
)

// recordHead is the clear part of a RECORD before own: kind, subject, length of own.
const recordHead = 1 + 16 + 2

// A RECORD frame has recordFill bytes more than a multiple of 64: with the 32 of the chain head and the 21 of BATCH
// before it, and the 9 that SHA-256 itself adds, a batch of one record wastes no block.
const (
	recordFill = 2
	padTo      = 64
)

// recordSize is the whole frame.
func recordSize(e Entry) int { return frameSize(len(e.Own), len(e.Body)) }

func frameSize(own, body int) int {
	n := prefix + recordHead + own + body + 1 + tagSize // one byte at least, for the mark
	return (n-recordFill+padTo-1)/padTo*padTo + recordFill
}

// ratchet turns the segment's read key once for each batch: a is the batch's AEAD, AES-256-GCM. The old key is gone
// after it, so that who takes the running memory can read what comes, and not what was.
func ratchet(read, salt []byte) (a cipher.AEAD, err error) {
	prk, err := hkdf.Extract(sha256.New, read, salt)
	if err != nil {
		return nil, fmt.Errorf("derive record key: %w", err)
	}
	defer clear(prk)
	k, err := hkdf.Expand(sha256.New, prk, recordKeyInfo, readKeySize)
	if err != nil {
		return nil, fmt.Errorf("derive record key: %w", err)
	}
	defer clear(k)
	n, err := hkdf.Expand(sha256.New, prk, nextKeyInfo, readKeySize)
	if err != nil {
		return nil, fmt.Errorf("derive next key: %w", err)
	}
	copy(read, n)
	clear(n)
	b, err := aes.NewCipher(k)
	if err != nil {
		return nil, fmt.Errorf("derive record key: %w", err)
	}
	return cipher.NewGCM(b)
}

// recordNonce is the record's index in its batch; a salt, and so a key, serves one batch alone.
func recordNonce(index int) []byte {
	var n [12]byte
	binary.BigEndian.PutUint32(n[8:], uint32(index))
	return n[:]
}

// recordAD binds a body to its place and its clear part.
func recordAD(segment, seq uint64, k Kind, subject [16]byte) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+8+1+16), segment)
	b = binary.BigEndian.AppendUint64(b, seq)
	return append(append(b, byte(k)), subject[:]...)
}

// appendRecord appends e's RECORD frame.
func appendRecord(b []byte, a cipher.AEAD, segment, seq uint64, index int, e Entry) []byte {
	start := len(b)
	b = beginFrame(b, frameRecord)
	b = append(b, byte(e.Kind))
	b = append(b, e.Subject[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(e.Own)))
	b = append(b, e.Own...)
	plain := len(b)
	b = append(b, e.Body...)
	b = append(b, 0x80)
	b = append(b, make([]byte, start+recordSize(e)-tagSize-len(b))...)
	b = a.Seal(b[:plain], recordNonce(index), b[plain:], recordAD(segment, seq, e.Kind, e.Subject))
	endFrame(b, start)
	return b
}

// sealed is a RECORD's body, split; own and box point into it.
type sealed struct {
	kind    Kind
	subject [16]byte
	own     []byte
	box     []byte
}

func parseRecord(body []byte) (s sealed, err error) {
	if len(body) < recordHead {
		return s, unfit("record is too short")
	}
	s.kind = Kind(body[0])
	copy(s.subject[:], body[1:])
	n := int(binary.BigEndian.Uint16(body[17:]))
	rest := body[recordHead:]
	switch {
	case s.kind < Note || s.kind > Result:
		return s, unfit("record kind unknown")
	case s.kind != Note && s.subject == [16]byte{}:
		return s, unfit("record has no subject")
	case n > MaxOwn || n > len(rest):
		return s, unfit("record's own part is too long")
	}
	s.own, s.box = rest[:n], rest[n:]
	if len(s.box) <= tagSize || (prefix+len(body))%padTo != recordFill {
		return s, unfit("record body is not padded")
	}
	return s, nil
}

// open decrypts the body.
func (s sealed) open(a cipher.AEAD, segment, seq uint64, index int) ([]byte, error) {
	b, err := a.Open(nil, recordNonce(index), s.box, recordAD(segment, seq, s.kind, s.subject))
	if err != nil {
		return nil, fmt.Errorf("open record %d: %w", seq, err)
	}
	i := len(b) - 1
	for i >= 0 && b[i] == 0 {
		i--
	}
	if i < 0 || b[i] != 0x80 || frameSize(len(s.own), i) != prefix+recordHead+len(s.own)+len(s.box) {
		return nil, fmt.Errorf("open record %d: %w", seq, errors.New("padding is wrong"))
	}
	return b[:i], nil
}
