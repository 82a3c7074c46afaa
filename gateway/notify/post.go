package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// post sends to a URL. It is told nothing when nothing waits any more: what was sent can't be taken back.
type post struct {
	url    string
	ntfy   bool
	client *http.Client
}

// newClient follows no redirect, asks no proxy, and keeps no connection.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 5 * time.Second,
			ResponseHeaderTimeout: patience, MaxResponseHeaderBytes: 32 << 10},
	}
}

func (p *post) tell(ctx context.Context, n note) error {
	if n == (note{}) {
		return nil
	}
	body, kind := []byte(n.text()), "text/plain; charset=utf-8"
	if !p.ntfy {
		kind = "application/json"
		var err error
		if body, err = json.Marshal(struct {
			Text     string `json:"text"`
			Waiting  int    `json:"waiting"`
			Replaced int    `json:"replaced,omitzero"`
		}{n.text(), n.waiting, n.replaced}); err != nil {
			return fmt.Errorf("encode notification: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send notification: %w", withoutURL(err))
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("User-Agent", strings.ToLower(title))
	if p.ntfy {
		r.Header.Set("Title", title)
	}
	res, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("send notification: %w", withoutURL(err))
	}
	defer res.Body.Close()
	io.CopyN(io.Discard, res.Body, 4<<10)
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("send notification: the service answered %d", res.StatusCode)
	}
	return nil
}

// withoutURL is an error that does not name the URL: it may be the topic's only key.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
