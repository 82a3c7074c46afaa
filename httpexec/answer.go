package httpexec

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"unicode/utf8"
)

// show turns an answer into a Result and writes its body. clean: it was read to its
// end and the connection may be used again. err is x.body's.
func (x *exchange) show(resp *http.Response) (r Result, clean bool, err error) {
	r.Code = resp.StatusCode
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		r.Outcome, r.Reason = FailedRemote, FailedRemote.String()
		r.Detail = "the host answered 101 Switching Protocols"
		x.head(resp, &r)
		return r, false, nil
	case resp.StatusCode >= 300 && resp.StatusCode <= 399 && resp.StatusCode != http.StatusNotModified:
		r.Outcome = RedirectNotFollowed
	default:
		r.Outcome = Confirmed
	}
	// The body is never closed: net/http would read it to its end.
	names := codings(resp.Header)
	body, ok := decoded(names, resp.Body)
	if !ok && resp.Body != http.NoBody {
		x.head(resp, &r)
		r.Withheld = true
		r.Detail = "the body has a content coding that can't be searched for the secret"
		return r, false, nil
	}
	if resp.Body == http.NoBody {
		body = resp.Body
	} else if len(names) > 0 { // what is shown is not coded any more
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
	}
	if x.capture != nil && resp.StatusCode < 300 && resp.Body != http.NoBody {
		// What is captured must be known before anything is shown.
		moved, err := x.capture.move(body, x.set.Add)
		x.head(resp, &r)
		if err != nil {
			r.Withheld, r.Detail = true, err.Error()
			return r, false, nil
		}
		resp.Header.Del("Content-Length")
		delete(r.Headers, "Content-Length")
		return x.copyBody(resp, bytes.NewReader(moved), false, r)
	}
	x.head(resp, &r)
	return x.copyBody(resp, body, len(names) == 0, r)
}

// head shows the status line and the headers.
func (x *exchange) head(resp *http.Response, r *Result) {
	var n, m int
	r.Status, n = x.mask(resp.Status)
	r.Headers, m = x.headers(resp.Header)
	r.Hits += n + m
}

// copyBody writes the scrubbed body. At most limit bytes are read, and at most limit
// bytes are written: a mask can be longer than what it stands for. plain: src is the
// body as it came, so that its end is the answer's.
func (x *exchange) copyBody(resp *http.Response, src io.Reader, plain bool, r Result) (Result, bool, error) {
	out := &capped{w: x.body, left: x.limit}
	w := x.set.Writer(out)
	if x.conn.buf == nil {
		x.conn.buf = make([]byte, 16<<10)
	}
	buf := x.conn.buf
	var rerr, werr error
	for left := x.limit; rerr == nil && werr == nil; {
		// One byte past the limit tells a longer body from one that fits.
		var n int
		n, rerr = src.Read(buf[:min(int64(len(buf)), left+1)])
		if int64(n) > left {
			n, rerr = int(left), errTooLong
		}
		r.Truncated = r.Truncated || rerr == errTooLong
		left -= int64(n)
		if n > 0 {
			_, werr = w.Write(buf[:n])
		}
	}
	if o, ok := src.(*opened); ok {
		o.close()
	}
	whole := rerr == io.EOF
	hits, cerr := w.Close(whole)
	r.Hits += hits
	if werr == nil {
		werr = cerr
	}
	r.Truncated = r.Truncated || out.cut
	r.Complete = whole && werr == nil && !r.Truncated
	switch {
	case r.Complete || werr != nil:
	case errors.Is(rerr, errCoding):
		r.Withheld, r.Detail = true, "the body is not what its content coding says"
	case !r.Truncated:
		r.Detail = "the body ended early"
	}
	for name, values := range resp.Trailer { // never shown, yet counted
		_, n := x.mask(name + ": " + strings.Join(values, ", "))
		r.Hits += n
	}
	return r, plain && whole && !resp.Close && x.conn.br.Buffered() == 0, werr
}

var errTooLong = errors.New("body longer than the limit")

// capped drops what is past its limit.
type capped struct {
	w    io.Writer
	left int64
	cut  bool
}

func (c *capped) Write(p []byte) (int, error) {
	n := len(p)
	if int64(n) > c.left {
		p, c.cut = p[:c.left], true
	}
	c.left -= int64(len(p))
	if len(p) > 0 {
		if _, err := c.w.Write(p); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// headers returns the headers that may be shown, scrubbed; several values of a name
// are joined by ", ". A name that holds the secret in any case is left out: net/http
// has changed its case.
func (x *exchange) headers(h http.Header) (map[string]string, int) {
	out, hits := make(map[string]string, len(h)), 0
	listed := map[string]bool{}
	for _, v := range h["Connection"] {
		for one := range strings.SplitSeq(v, ",") {
			listed[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(one))] = true
		}
	}
	for name, values := range h {
		if hiddenHeader(name) || listed[name] {
			continue
		}
		if x.set.Fold(name) {
			hits++
			continue
		}
		v, n := x.mask(strings.Join(values, ", "))
		hits += n
		out[name] = v
	}
	return out, hits
}

// hiddenHeader names what is for a browser, for the connection, or a credential.
func hiddenHeader(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Authentication-Info", "Proxy-Authentication-Info", "Alt-Svc", "Refresh",
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// mask scrubs one line of text and makes it valid UTF-8.
func (x *exchange) mask(s string) (string, int) {
	s, n := x.set.String(s)
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return s, n
}
