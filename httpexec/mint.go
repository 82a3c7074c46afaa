package httpexec

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/oauth2"
)

// Keeper holds what was minted during calls of one credential. Keep is durable on return, before what it was given is
// used; it is called also when the call's context has ended, since a refresh token may be gone at the other end by then.
// Kept returns nil where there is nothing. A field is "token" or "capture" and a JSON pointer.
type Keeper interface {
	Keep(ctx context.Context, field string, value []byte) error
	Kept(ctx context.Context, field string) ([]byte, error)
}

// fieldToken is where oauth2 and github-app keep theirs.
const fieldToken = "token"

// minted is the field's document.
type minted struct {
	Access  string    `json:"accessToken,omitempty"`
	Refresh string    `json:"refreshToken,omitempty"` // oauth2's grant refresh: the one to use next
	Expiry  time.Time `json:"expiry,omitzero"`        // zero: the server did not say
	At      time.Time `json:"at"`
	Version uint64    `json:"version"` // of the credential: an access token of another one is not used
}

const (
	early    = time.Minute      // a token that ends within is minted anew
	youngest = 10 * time.Second // a token refused at this age is not minted anew: something else is wrong
)

func (m minted) serves(version uint64, now time.Time) bool {
	return m.Access != "" && m.Version == version && (m.Expiry.IsZero() || now.Add(early).Before(m.Expiry))
}

// mints tells the kinds whose value is only what tokens are made with.
func (s Spec) mints() bool { return s.Kind == "oauth2" || s.Kind == "github-app" }

// token returns a token that serves, from the keeper or minted now. One call of a credential mints; others wait for it.
func (c *Client) token(ctx, dial context.Context, r *Rules, in Injection) (minted, *failure) {
	read := func() (minted, *failure) {
		m, err := in.minted(ctx)
		if err != nil {
			return m, unminted("the kept token can't be read")
		}
		return m, nil
	}
	m, f := read()
	if f != nil || m.serves(in.Version, time.Now()) {
		return m, f
	}
	done, f := c.single(ctx, dial, in.Credential)
	if f != nil {
		return m, f
	}
	defer done()
	if m, f = read(); f != nil || m.serves(in.Version, time.Now()) {
		return m, f
	}
	// What is minted belongs to who starts now: a token endpoint is spoken to once, whatever it answers.
	e := &endpoint{c: c, ctx: ctx, dial: dial, rules: r}
	next, err := r.mintOne(context.WithValue(ctx, oauth2.HTTPClient, e.client()), e, in, m)
	switch {
	case e.failed != nil:
		return m, e.failed
	case err != nil:
		return m, unminted(err.Error())
	}
	next.At, next.Version = time.Now(), in.Version
	if err := in.keep(ctx, next); err != nil {
		return m, unminted("a new token could not be kept, so it is not used")
	}
	return next, nil
}

func unminted(why string) *failure {
	return &failure{NotSent, NotSent.String(), "no token to call with: " + why}
}

func (in Injection) keep(ctx context.Context, m minted) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	defer clear(b)
	return in.Keep.Keep(context.WithoutCancel(ctx), fieldToken, b)
}

// minted is what is kept; its zero value where nothing is.
func (in Injection) minted(ctx context.Context) (m minted, err error) {
	b, err := in.Keep.Kept(ctx, fieldToken)
	if err == nil && b != nil {
		err = json.Unmarshal(b, &m)
		clear(b)
	}
	return m, err
}

// refused notes that the host refused a token: the next call mints another. Nothing is sent again by itself. Another call
// may have minted one meanwhile, whose refresh token is the only one that is still good: it stays as it is.
func (c *Client) refused(ctx context.Context, in Injection, had minted) error {
	if time.Since(had.At) < youngest {
		return nil
	}
	done, f := c.single(ctx, ctx, in.Credential)
	if f != nil {
		return nil // the next call may find out for itself
	}
	defer done()
	m, err := in.minted(ctx)
	if err != nil || m.Access != had.Access || m.Version != had.Version {
		return err
	}
	m.Access, m.Expiry = "", time.Time{}
	return in.keep(ctx, m)
}

// single lets one call of a credential in at a time.
func (c *Client) single(ctx, dial context.Context, credential string) (done func(), f *failure) {
	for {
		c.mintMu.Lock()
		busy := c.minting[credential]
		if busy == nil {
			mine := make(chan struct{})
			c.minting[credential] = mine
			c.mintMu.Unlock()
			return func() {
				c.mintMu.Lock()
				delete(c.minting, credential)
				c.mintMu.Unlock()
				close(mine)
			}, nil
		}
		c.mintMu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		case <-dial.Done():
		}
		if f := stopped(ctx, dial); f != nil {
			return nil, f
		}
	}
}
