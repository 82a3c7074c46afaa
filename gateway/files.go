package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sallyport/gateway/home"
)

// A long body is kept in a file of its own, named by its action's id, in a folder of the gateway's. It is sealed under a
// key of its own, which lies in the action's sealed row: without that row the file is noise.
//
// The file is AES-256-GCM boxes of fileChunk bytes of the body each, the last one shorter (maybe empty). A box's nonce is
// four zero bytes and, big endian, twice its number, plus one if it is the last: no box stands for another, and a file
// that was cut does not end. A key seals one file, written once from its beginning.

const (
	fileChunk = 64 << 10
	fileLimit = 64 << 20 // bytes of a body that are kept
	gcmTag    = 16
)

// keptFile is what an action's row keeps of its file.
type keptFile struct {
	Key  []byte `json:"key"`
	Size int64  `json:"size"`
}

func newFileCipher(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

func fileNonce(n int64, last bool) []byte {
	nonce := make([]byte, 12)
	at := uint64(n) << 1
	if last {
		at++
	}
	binary.BigEndian.PutUint64(nonce[4:], at)
	return nonce
}

// fileWriter seals a body as it comes. It is not durable before Close: a result that a crash took has no file either.
type fileWriter struct {
	f    *os.File
	aead cipher.AEAD
	kept keptFile
	buf  []byte // of the box being filled
	n    int64
}

// newFile begins an action's file.
func newFile(dir, id string) (*fileWriter, error) {
	if err := home.MakePrivate(dir); err != nil {
		return nil, err
	}
	w := &fileWriter{kept: keptFile{Key: make([]byte, 32)}, buf: make([]byte, 0, fileChunk+gcmTag)}
	rand.Read(w.kept.Key)
	var err error
	if w.aead, err = newFileCipher(w.kept.Key); err != nil {
		return nil, err
	}
	if w.f, err = os.OpenFile(filepath.Join(dir, id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *fileWriter) Write(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 {
		n := min(fileChunk-len(w.buf), len(p))
		w.buf, p = append(w.buf, p[:n]...), p[n:]
		if len(w.buf) == fileChunk && len(p) > 0 { // the last box must be known as such
			if err := w.box(false); err != nil {
				return 0, err
			}
		}
	}
	w.kept.Size += int64(all)
	return all, nil
}

func (w *fileWriter) box(last bool) error {
	_, err := w.f.Write(w.aead.Seal(w.buf[:0], fileNonce(w.n, last), w.buf, nil))
	w.buf = w.buf[:0]
	w.n++
	return err
}

// Close ends the file.
func (w *fileWriter) Close() error {
	return errors.Join(w.box(true), w.f.Sync(), w.f.Close())
}

// drop removes a file that nobody will read.
func (w *fileWriter) drop() {
	w.f.Close()
	os.Remove(w.f.Name())
}

// readFile returns at most length bytes of an action's file from offset on, and whether they are the last.
func readFile(dir, id string, k keptFile, offset int64, length int) (part []byte, eof bool, err error) {
	aead, err := newFileCipher(k.Key)
	if err != nil {
		return nil, false, err
	}
	f, err := os.Open(filepath.Join(dir, id))
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	end := min(offset+int64(length), k.Size)
	if offset >= k.Size {
		return nil, true, nil
	}
	final := (k.Size - 1) / fileChunk // number of the last box; an empty body has no file
	box := make([]byte, fileChunk+gcmTag)
	for n := offset / fileChunk; n*fileChunk < end; n++ {
		size := int64(fileChunk)
		if n == final {
			size = k.Size - n*fileChunk
		}
		b := box[:size+gcmTag]
		if got, err := f.ReadAt(b, n*(fileChunk+gcmTag)); got < len(b) { // what the box before left in b is no part of this one
			return nil, false, fmt.Errorf("file of %s: box %d is cut: %w", id, n, err)
		}
		plain, err := aead.Open(b[:0], fileNonce(n, n == final), b, nil)
		if err != nil {
			return nil, false, fmt.Errorf("file of %s: box %d is not what was written", id, n)
		}
		part = append(part, plain[max(offset-n*fileChunk, 0):min(end-n*fileChunk, size)]...)
	}
	return part, end == k.Size, nil
}
