package httpexec

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sallyport/gateway/scrub"
)

// ClientOptions: zero values are the defaults.
type ClientOptions struct {
	Roots     *x509.CertPool // nil: the system's
	BodyLimit int64          // bytes of an answer's body that are read; 0: 1 MiB
	Resolver  Resolver       // nil: net.DefaultResolver
	UserAgent string         // sent where the request names none; empty: no such header
}

// Client performs requests. It is safe for concurrent use.
type Client struct {
	o ClientOptions
	p pool

	mintMu  sync.Mutex
	minting map[string]chan struct{} // credentials whose token is being minted; closed when it is
}

// Result is what is known of a call. Reason is a code when the outcome isn't an
// answer; Detail is safe text for it. Strings are scrubbed.
type Result struct {
	Outcome   Outcome
	Code      int    // status code
	Status    string // "200 OK"
	Headers   map[string]string
	Complete  bool // the whole body was written
	Truncated bool // the body was longer than BodyLimit
	Withheld  bool // scrub_withheld: the body can't be searched for secrets and isn't shown
	Hits      int  // reflections masked
	Sent      int64
	Received  int64  // bytes on the wire, TLS included, handshake not
	JobID     string // with Accepted: what the answer calls the job it started
	Reason    string
	Detail    string
}

func NewClient(o ClientOptions) *Client {
	if o.BodyLimit <= 0 {
		o.BodyLimit = 1 << 20
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	return &Client{o: o, minting: map[string]chan struct{}{}, p: pool{now: time.Now, idle: map[PoolKey][]*conn{}, leases: map[*lease]struct{}{}}}
}

// Drop closes the pooled connections f names and returns when they are closed;
// connections in use are closed when their call ends. f must not call the client.
func (c *Client) Drop(f func(PoolKey) bool) { c.p.drop(f) }

// Close closes all idle connections; later ones aren't kept.
func (c *Client) Close() { c.p.close() }

// Do sends q once, with the credential that m's rules inject, and writes the scrubbed
// body, at most BodyLimit bytes, to body. When dial ends, connecting stops and the call
// is not_sent; when ctx ends, the connection is closed and the call is classified by
// what had left. No write begins after ctx is done, no first write after dial is done.
// Everything about the call is in Result; err is for a misuse, or body's own error.
func (c *Client) Do(ctx, dial context.Context, q Request, m Match, inj Injection, body io.Writer) (Result, error) {
	if m.rules == nil || m.rule == nil || m.rule.allows(q) != "" || m.rules.checkHeaders(q) != nil || m.rules.spec.checkPlace(q) != nil {
		return Result{Outcome: Denied}, errors.New("send request: its match is another request's")
	}
	s := m.rules.spec
	if inj.Keep == nil && (s.mints() || len(s.Capture) > 0) {
		return Result{Outcome: Denied}, errors.New("send request: nobody keeps what is minted")
	}
	cert, err := m.rules.clientCert(inj.Secret)
	if err != nil {
		return Result{Outcome: Denied}, fmt.Errorf("send request: %w", err)
	}
	if f := stopped(ctx, dial); f != nil {
		return f.result(), nil
	}
	var tok minted
	if s.mints() {
		var f *failure
		if tok, f = c.token(ctx, dial, m.rules, inj); f != nil {
			return f.result(), nil
		}
		inj.Secret = []byte(tok.Access)
	}
	req, set, err := c.wireRequest(q, s, inj)
	if err != nil {
		return Result{Outcome: Denied}, fmt.Errorf("send request: %w", err)
	}
	l, cn := c.p.take(PoolKey{inj.Credential, inj.Version, q.Origin()}, q.Effect() != "read")
	if cn == nil {
		var f *failure
		if cn, f = c.connect(ctx, dial, q.origin, m.rules, cert); f != nil {
			c.p.give(l, nil)
			return f.result(), nil
		}
	}
	var ids *jobReader
	if m.starts(q) {
		ids = &jobReader{w: body}
		body = ids
	}
	x := exchange{conn: cn, req: req, set: set, limit: c.o.BodyLimit, body: body}
	if len(s.Capture) > 0 {
		x.capture = &capture{pointers: s.Capture, in: inj, ctx: ctx}
	}
	r, reuse, err := x.run(ctx, dial)
	if ids != nil {
		m.rules.job.named(&r, q, ids.kept)
	}
	if !reuse {
		cn.close()
		cn = nil
	}
	c.p.give(l, cn)
	if s.mints() && r.Code == http.StatusUnauthorized {
		err = errors.Join(err, c.refused(ctx, inj, tok))
	}
	return r, err
}

func (f *failure) result() Result {
	return Result{Outcome: f.outcome, Reason: f.reason, Detail: f.detail}
}

// wireRequest is q with the credential in it. Opaque keeps net/http from spelling the
// path its own way.
func (c *Client) wireRequest(q Request, s Spec, inj Injection) (*http.Request, *scrub.Set, error) {
	path, query, hasQuery := strings.Cut(q.RequestURI(), "?")
	req := &http.Request{
		Method:        q.method,
		URL:           &url.URL{Scheme: q.origin.scheme, Host: q.origin.authority(), Opaque: path, RawQuery: query, ForceQuery: hasQuery},
		Host:          q.origin.authority(),
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {c.o.UserAgent}},
		ContentLength: int64(len(q.body)),
	}
	if len(q.body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(q.body))
	}
	for _, h := range q.headers {
		req.Header.Set(h.name, h.value)
	}
	set, err := s.inject(req, q, inj)
	return req, set, err
}
