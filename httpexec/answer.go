package httpexec

import (
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
	r.Status, r.Hits = x.mask(resp.Status)
	var n int
	r.Headers, n = x.headers(resp.Header)
	r.Hits += n
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		r.Outcome, r.Reason = FailedRemote, FailedRemote.String()
		r.Detail = "the host answered 101 Switching Protocols"
		return r, false, nil
	case resp.StatusCode >= 300 && resp.StatusCode <= 399 && resp.StatusCode != http.StatusNotModified:
		r.Outcome = RedirectNotFollowed
	default:
		r.Outcome = Confirmed
	}
	// The body is never closed: net/http would read it to its end.
	if coded(resp.Header) && resp.Body != http.NoBody {
		r.Withheld = true
		r.Detail = "the body has a content coding and can't be searched for the secret"
		return r, false, nil
	}
	return x.copyBody(resp, r)
}

// copyBody writes the scrubbed body. At most limit bytes are read, and at most limit
// bytes are written: a mask can be longer than what it stands for.
func (x *exchange) copyBody(resp *http.Response, r Result) (Result, bool, error) {
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
		n, rerr = resp.Body.Read(buf[:min(int64(len(buf)), left+1)])
		if int64(n) > left {
			n, rerr, r.Truncated = int(left), errTooLong, true
		}
		left -= int64(n)
		if n > 0 {
			_, werr = w.Write(buf[:n])
		}
	}
	whole := rerr == io.EOF
	hits, cerr := w.Close(whole)
	r.Hits += hits
	if werr == nil {
		werr = cerr
	}
	r.Truncated = r.Truncated || out.cut
	r.Complete = whole && werr == nil && !r.Truncated
	if !r.Complete && !r.Truncated && werr == nil {
		r.Detail = "the body ended early"
	}
	for name, values := range resp.Trailer { // never shown, yet counted
		_, n := x.mask(name + ": " + strings.Join(values, ", "))
		r.Hits += n
	}
	return r, whole && !resp.Close && x.conn.br.Buffered() == 0, werr
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

// coded reports a content coding: what is inside can't be searched.
func coded(h http.Header) bool {
	for _, v := range h["Content-Encoding"] {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.TrimSpace(one); one != "" && !strings.EqualFold(one, "identity") {
				return true
			}
		}
	}
	return false
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
