package httpexec

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	maxDecoded = 64 << 20 // bytes that a coded body may open to
	maxRatio   = 100      // and so many times its size on the wire
	ratioFree  = 64 << 10 // the first bytes are free: small bodies pack well
)

// codings are the words of Content-Encoding, without identity.
func codings(h http.Header) (out []string) {
	for _, v := range h["Content-Encoding"] {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.ToLower(strings.TrimSpace(one)); one != "" && one != "identity" {
				out = append(out, one)
			}
		}
	}
	return out
}

// decoded opens exactly one known coding. ok is false for an unknown or a doubled one: what is inside can't be searched.
func decoded(names []string, body io.Reader) (r io.Reader, ok bool) {
	if len(names) == 0 {
		return body, true
	}
	if len(names) > 1 {
		return nil, false
	}
	in := &counted{r: body}
	buf := bufio.NewReader(in)
	var open func() (io.Reader, error)
	switch names[0] {
	case "gzip", "x-gzip":
		open = func() (io.Reader, error) { return gzip.NewReader(buf) }
	case "deflate":
		open = func() (io.Reader, error) { return zlib.NewReader(buf) }
	case "br":
		open = func() (io.Reader, error) { return brotli.NewReader(buf), nil }
	case "zstd":
		open = func() (io.Reader, error) {
			d, err := zstd.NewReader(buf, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxDecoded), zstd.WithDecoderMaxWindow(8<<20))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}
	default:
		return nil, false
	}
	return &opened{in: in, buf: buf, open: open}, true
}

// opened reads a coded body and stops where it opens to too much.
type opened struct {
	in   *counted
	buf  *bufio.Reader // over in
	open func() (io.Reader, error)
	r    io.Reader
	n    int64
}

func (o *opened) Read(p []byte) (int, error) {
	n, err := 0, error(nil)
	if o.r == nil {
		var r io.Reader
		if r, err = o.open(); err == nil { // with an error r may be nil of a type
			o.r = r
		}
	}
	if err == nil {
		n, err = o.r.Read(p)
	}
	o.n += int64(n)
	if o.n > maxDecoded || o.n > ratioFree+maxRatio*o.in.n {
		return 0, errTooLong
	}
	switch {
	case err == nil, err == io.EOF:
	case errors.Is(o.in.err, errTooLong):
		err = errTooLong
	case o.in.err != nil && o.in.err != io.EOF: // it was cut on its way: what came says nothing of its coding
	default: // a whole body that its coding reads as half of one is another's too
		err = errors.Join(errCoding, err)
	}
	if err == io.EOF {
		o.close()
		// A coding has its own end; the body's must be there too.
		if _, rest := o.buf.ReadByte(); rest != io.EOF {
			err = errors.Join(errCoding, rest)
		}
	}
	return n, err
}

// close lets go of what a decoder holds.
func (o *opened) close() {
	if c, ok := o.r.(io.Closer); ok {
		c.Close()
	}
}

var errCoding = errors.New("the body is not what its coding says")

// counted counts what comes, ends it at maxDecoded (a coding can go on for ever and open to nothing), and remembers why it
// ended.
type counted struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counted) Read(p []byte) (n int, err error) {
	if c.n > maxDecoded {
		c.err = errTooLong
		return 0, c.err
	}
	n, err = c.r.Read(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}
