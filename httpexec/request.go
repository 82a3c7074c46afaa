package httpexec

import (
	"encoding/binary"
	"strings"
)

const (
	maxURL    = 8 << 10  // bytes of a URL or path
	maxHeader = 32 << 10 // bytes of a header block, either way
	maxBody   = 16 << 20 // bytes of a request body
)

// Input is a request as a caller names it: exactly one of URL and Target; Path only
// with Target. Method is GET when empty. Body is at most 16 MiB and is kept, not copied.
type Input struct {
	URL, Target, Path, Method string
	Query, Headers            map[string]string
	Body                      []byte
}

// Request is a canonical request. It is never changed; the zero value matches no rule.
type Request struct {
	target  string
	origin  origin
	method  string
	segs    []string
	query   []pair
	headers []pair
	body    []byte
}

// ParseRequest returns the canonical request or a *RequestError. It does no I/O.
func ParseRequest(in Input) (Request, error) {
	q := Request{target: in.Target, body: in.Body}
	if (in.URL == "") == (in.Target == "") {
		return Request{}, invalid("name exactly one of url and target")
	}
	if len(in.URL) > maxURL {
		return Request{}, invalid("url is longer than 8 KiB")
	}
	if len(in.Body) > maxBody {
		return Request{}, invalid("body is longer than 16 MiB")
	}
	q.method = strings.ToUpper(in.Method)
	if q.method == "" {
		q.method = "GET"
	}
	if !validMethod(q.method) {
		return Request{}, invalid("method must be one word of letters, and not CONNECT or TRACE")
	}
	path, query := in.Path, ""
	if in.URL != "" {
		if in.Path != "" {
			return Request{}, invalid("path goes with target, not with url")
		}
		scheme, authority, rest, err := splitURL(in.URL)
		if err != nil {
			return Request{}, invalid(err.Error())
		}
		if q.origin, err = parseOrigin(scheme, authority, false); err != nil {
			return Request{}, invalid(err.Error())
		}
		path, query, _ = strings.Cut(rest, "?")
	} else if strings.ContainsAny(path, "?#") {
		return Request{}, invalid(`path holds "?" or "#"; use query for the query`)
	}
	if path == "" {
		path = "/"
	}
	return q.fill(path, query, in)
}

func (q Request) fill(path, query string, in Input) (Request, error) {
	var err error
	if q.segs, err = canonicalPath(path); err != nil {
		return Request{}, invalid(err.Error())
	}
	if q.query, err = parseQuery(query); err != nil {
		return Request{}, invalid(err.Error())
	}
	if q.query, err = withQuery(q.query, in.Query); err != nil {
		return Request{}, invalid(err.Error())
	}
	if len(q.RequestURI()) > maxURL {
		return Request{}, invalid("path and query are longer than 8 KiB")
	}
	if q.headers, err = parseHeaders(in.Headers); err != nil {
		return Request{}, err
	}
	if err := q.checkForm(); err != nil {
		return Request{}, err
	}
	return q, nil
}

func validMethod(m string) bool {
	for i := range len(m) {
		if m[i] < 'A' || m[i] > 'Z' {
			return false
		}
	}
	return m != "" && len(m) <= 20 && m != "CONNECT" && m != "TRACE" && m != "PRI"
}

// At returns the request with the origin of its target (scheme://host[:port]).
// An origin with a wildcard names no host: the caller must give a url.
func (q Request) At(o string) (Request, error) {
	scheme, authority, rest, err := splitURL(o)
	if err != nil {
		return Request{}, invalid("origin: " + err.Error())
	}
	if rest != "" {
		return Request{}, invalid("origin: text after the host")
	}
	if strings.HasPrefix(authority, "*.") {
		return Request{}, invalid("the target's rules leave the host open; name the url")
	}
	if q.origin.host != "" {
		return Request{}, invalid("the request has an origin already")
	}
	if q.origin, err = parseOrigin(scheme, authority, false); err != nil {
		return Request{}, invalid("origin: " + err.Error())
	}
	return q, nil
}

// Target is the name the caller gave, empty if it gave a URL.
func (q Request) Target() string { return q.target }

// Origin is scheme://host[:port], empty for a named target until At.
func (q Request) Origin() string { return q.origin.String() }

func (q Request) Method() string { return q.method }

// Path is the canonical path, without the query.
func (q Request) Path() string { return "/" + strings.Join(q.segs, "/") }

// RequestURI is path and query as they are written to the wire.
func (q Request) RequestURI() string {
	if len(q.query) == 0 {
		return q.Path()
	}
	return q.Path() + "?" + encodeQuery(q.query)
}

// URL is the canonical URL; without an origin it is RequestURI.
func (q Request) URL() string { return q.Origin() + q.RequestURI() }

// Headers are the caller's own headers, in canonical spelling.
func (q Request) Headers() map[string]string {
	m := make(map[string]string, len(q.headers))
	for _, h := range q.headers {
		m[h.name] = h.value
	}
	return m
}

// Body is the body to be sent. It must not be changed.
func (q Request) Body() []byte { return q.body }

// Effect is "read" (GET, HEAD, OPTIONS), "destructive" (DELETE) or "write".
func (q Request) Effect() string { return effectOf(q.method) }

func effectOf(method string) string {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return "read"
	case "DELETE":
		return "destructive"
	}
	return "write"
}

// Canonical is everything that is sent before the credential is injected: method,
// origin, path with query, each header, body; each with its length (8 bytes, big
// endian) before it. Two requests have the same bytes only if they send the same.
func (q Request) Canonical() []byte {
	parts := []string{"http/1", q.method, q.Origin(), q.RequestURI()}
	n := 8 + len(q.body)
	for _, h := range q.headers {
		parts = append(parts, h.name, h.value)
	}
	for _, p := range parts {
		n += 8 + len(p)
	}
	b := make([]byte, 0, n+8)
	b = binary.BigEndian.AppendUint64(b, uint64(len(parts)))
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(len(q.body)))
	return append(b, q.body...)
}
