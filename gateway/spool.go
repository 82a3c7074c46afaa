package gateway

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"sallyport/gateway/api"
)

// Files on the operators' door: a backup is the whole answer, a file to restore follows the envelope's line. Both pass
// through a nameless file beside the vault: what is in it is complete and known by its digest before anything is done
// with it, and a caller who is slow or leaves holds up nobody.

const (
	maxBackup  = 4 << 30          // bytes of a backup
	fileStalls = 30 * time.Second // how long a side may be silent
	fileDrain  = 64 << 20         // bytes of a refused file that are read, so that its sender hears why
)

// spooled is such a file. Everything written passes through its digest: an embedded file would let others around it.
type spooled struct {
	file   *os.File
	sum    hash.Hash
	length int64
}

// newSpool makes an empty one. The caller closes it, and with that it is gone.
func (g *Gateway) newSpool() (*spooled, error) {
	f, err := os.CreateTemp(g.cfg.Home.Data(), "spool-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return &spooled{file: f, sum: sha256.New()}, nil
}

func (s *spooled) Read(b []byte) (int, error) { return s.file.Read(b) }
func (s *spooled) Close() error               { return s.file.Close() }

func (s *spooled) Write(b []byte) (int, error) {
	n, err := s.file.Write(b)
	s.sum.Write(b[:n])
	s.length += int64(n)
	return n, err
}

// digest is "sha256:" and hex, of all that was written.
func (s *spooled) digest() string { return "sha256:" + hex.EncodeToString(s.sum.Sum(nil)) }

func (s *spooled) rewind() error {
	_, err := s.file.Seek(0, io.SeekStart)
	return err
}

// receive spools the request's file, if it is the one that args speak of.
func (g *Gateway) receive(r opRequest, length int64, digest []byte) (*spooled, error) {
	if r.file == nil || length <= 0 || length > maxBackup {
		return nil, api.Fail("invalid_request", "a file of 1 byte to 4 GiB follows the request's line")
	}
	s, err := g.newSpool()
	if err != nil {
		return nil, err
	}
	src := &reading{r: io.LimitReader(r.file, length+1)}
	_, err = io.Copy(s, src)
	switch {
	case src.err != nil:
		err = api.Fail("invalid_request", "the file ended early; nothing was stored")
	case err == nil && (s.length != length || !bytes.Equal(s.sum.Sum(nil), digest)):
		err = api.Fail("invalid_request", "the file is not the one the request speaks of; nothing was stored")
	case err == nil:
		err = s.rewind()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// reading remembers that it was reading that failed, not writing.
type reading struct {
	r   io.Reader
	err error
}

func (r *reading) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// atEnd calls whole once its reader ends.
type atEnd struct {
	io.Reader
	whole func()
}

func (r atEnd) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.EOF {
		r.whole()
	}
	return n, err
}

// readLine reads an envelope that a file follows, and leaves the file to be read.
func readLine(body *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := body.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > api.FrameLimit:
			return nil, api.Fail("frame_too_large", "")
		case err == nil || err == io.EOF:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, api.Fail("invalid_request", "the request's body ended early")
		}
	}
}

// patient gives a sender or a receiver fileStalls for each piece, instead of one time limit for a whole file.
type patient struct {
	io.Reader
	io.Writer
	c *http.ResponseController
}

func (p patient) Read(b []byte) (int, error) {
	p.c.SetReadDeadline(time.Now().Add(fileStalls))
	return p.Reader.Read(b)
}

func (p patient) Write(b []byte) (int, error) {
	p.c.SetWriteDeadline(time.Now().Add(fileStalls))
	return p.Writer.Write(b)
}

// send answers with a file, and closes it. Its end can't be missed: the length comes first.
func (s *spooled) send(w http.ResponseWriter) {
	defer s.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(s.length, 10))
	io.Copy(patient{Writer: w, c: http.NewResponseController(w)}, s)
}
