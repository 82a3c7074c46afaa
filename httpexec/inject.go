package httpexec

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"sallyport/gateway/scrub"
)

// Injection is what Do adds to the request. Secret is read during Do only.
type Injection struct {
	Credential     string // its id, for the pool
	Version        uint64
	Secret         []byte
	IdempotencyKey string // sent with writes where the rules name a header for it
}

const (
	minSecret = 8 // bytes; shorter ones can't be scrubbed without masking chance text
	maxSecret = 16 << 10
)

// Check is the entry check of a spec with its value. Its error never holds the value.
func (s Spec) Check(value []byte) error {
	if _, err := s.compile(); err != nil {
		return err
	}
	switch {
	case len(value) == 0:
		return errors.New("value: empty")
	case len(value) > maxSecret:
		return errors.New("value: longer than 16 KiB")
	case len(value) < minSecret && s.Scrub != "off":
		return errors.New(`value: shorter than 8 bytes, so answers can't be scrubbed of it; use a longer one, or say scrub "off"`)
	}
	return s.checkValue(value)
}

func (s Spec) checkValue(value []byte) error {
	if s.Kind == "header" && len(bytes.Trim(value, " ")) != len(value) {
		return errors.New("value: begins or ends with a space, which a header loses")
	}
	for i, c := range value {
		switch {
		case c < ' ' || c == 0x7f:
			return fmt.Errorf("value: control byte at offset %d; is a line break in it?", i)
		case s.Kind == "bearer" && (c == ' ' || c > '~'):
			return fmt.Errorf("value: offset %d is a space or not ASCII; a bearer token has neither", i)
		case s.Kind == "header" && c > '~':
			return fmt.Errorf("value: offset %d is not ASCII; a header can't carry it", i)
		}
	}
	return nil
}

// checkInjection checks the fields that say how the value is sent.
func (s Spec) checkInjection() error {
	switch s.Kind {
	case "bearer", "basic", "header":
	default:
		return fmt.Errorf("kind: %s is not known here; write bearer, basic or header", quote(s.Kind))
	}
	if s.Kind == "basic" {
		if s.Username == "" || strings.Contains(s.Username, ":") || strings.IndexFunc(s.Username, control) >= 0 {
			return errors.New("username: kind basic needs one, without a colon or control characters")
		}
	} else if s.Username != "" {
		return errors.New("username: only kind basic has one")
	}
	if s.Kind != "header" {
		if s.Header != "" || s.Format != "" {
			return errors.New("header and format: only kind header has them")
		}
	} else {
		if !token(s.Header) || structural(strings.ToLower(s.Header)) {
			return errors.New("header: name the header to set, like X-Api-Key; not one the exchange needs itself")
		}
		if s.Format != "" && (strings.Count(s.Format, "%") != 1 || !strings.Contains(s.Format, "%s")) {
			return errors.New(`format: needs exactly one %s and no other percent sign, like "token %s"`)
		}
		if strings.IndexFunc(s.Format, func(c rune) bool { return c < ' ' || c > '~' }) >= 0 || s.Format != strings.TrimSpace(s.Format) {
			return errors.New("format: must be printable ASCII without outer spaces")
		}
	}
	if n := s.IdempotencyHeader; n != "" {
		if refusedHeader(n) != nil || strings.EqualFold(n, s.injected()) {
			return errors.New("idempotencyHeader: name a header like Idempotency-Key")
		}
	}
	return nil
}

func control(c rune) bool { return c < ' ' || c == 0x7f }

// structural names decide where a request ends or who answers it.
func structural(n string) bool {
	return framing(n) || methodOverride(n) || n == "cookie" || n == "cookie2" || n == "proxy-connection" || n == "content-encoding" || n == "content-type"
}

// injected is the name of the header that carries the secret.
func (s Spec) injected() string {
	if s.Kind == "header" {
		return s.Header
	}
	return "Authorization"
}

// inject sets the credential's header, last, and returns the set that scrubs the answer.
func (s Spec) inject(h http.Header, q Request, in Injection) (*scrub.Set, error) {
	if len(in.Secret) == 0 {
		return nil, errors.New("inject credential: no secret")
	}
	if err := s.checkValue(in.Secret); err != nil {
		return nil, fmt.Errorf("inject credential: %w", err)
	}
	if s.IdempotencyHeader != "" && in.IdempotencyKey != "" && q.Effect() != "read" {
		if !token(in.IdempotencyKey) {
			return nil, errors.New("inject idempotency key: not a header token")
		}
		h.Set(s.IdempotencyHeader, in.IdempotencyKey)
	}
	var set *scrub.Set
	switch s.Kind {
	case "bearer":
		// "Bearer " before the secret adds no form: base64 is found at every alignment.
		set = scrub.New(in.Secret)
		h.Set("Authorization", "Bearer "+string(in.Secret))
	case "basic":
		basic := base64.StdEncoding.EncodeToString([]byte(s.Username + ":" + string(in.Secret)))
		set = scrub.New(in.Secret)
		set.Add([]byte(basic))
		h.Set("Authorization", "Basic "+basic)
	case "header":
		format := s.Format
		if format == "" {
			format = "%s"
		}
		set = scrub.New(in.Secret)
		h.Set(s.Header, strings.Replace(format, "%s", string(in.Secret), 1))
	default:
		return nil, errors.New("inject credential: unknown kind")
	}
	if s.Scrub == "off" {
		return scrub.New(), nil
	}
	return set, nil
}
