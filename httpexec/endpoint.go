package httpexec

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"sallyport/gateway/scrub"
)

// endpoint is the way to a token endpoint: one request, to a checked address, by the exchange that every call uses.
type endpoint struct {
	c         *Client
	ctx, dial context.Context
	rules     *Rules
	used      bool
	failed    *failure // why there is no answer
}

func (e *endpoint) client() *http.Client {
	return &http.Client{Transport: e, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

var errEndpoint = errors.New("token endpoint not reached")

func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	if e.used {
		return nil, errEndpoint // nothing is sent twice
	}
	e.used = true
	o, err := originOf(req.URL)
	if err != nil {
		return nil, err
	}
	cn, f := e.c.connect(e.ctx, e.dial, o, e.rules, nil)
	if f != nil {
		e.failed = &failure{f.outcome, f.reason, "token endpoint: " + f.detail}
		return nil, errEndpoint
	}
	defer cn.close()
	out := req.Clone(e.ctx)
	out.Header.Set("User-Agent", e.c.o.UserAgent)
	out.Header.Set("Accept-Encoding", "identity")
	var body bytes.Buffer
	x := exchange{conn: cn, req: out, set: scrub.New(), limit: maxMint, body: &body}
	r, _, err := x.run(e.ctx, e.dial)
	if err != nil || r.Outcome != Confirmed || !r.Complete {
		detail := r.Detail
		if r.Code != 0 && r.Outcome != Confirmed {
			detail = "it answered " + strconv.Itoa(r.Code)
		}
		e.failed = unminted("token endpoint: " + detail)
		return nil, errEndpoint
	}
	h := http.Header{}
	for k, v := range r.Headers {
		h.Set(k, v)
	}
	return &http.Response{StatusCode: r.Code, Status: r.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(&body), ContentLength: int64(body.Len()), Request: req}, nil
}

func originOf(u *url.URL) (origin, error) { return parseOrigin(u.Scheme, u.Host, false) }
