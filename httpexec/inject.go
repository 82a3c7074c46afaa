package httpexec

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"sallyport/gateway/scrub"
)

// Injection is what Do adds to the request. Secret is read during Do only.
type Injection struct {
	Credential     string // its id, for the pool and for single flights
	Version        uint64
	Secret         []byte
	Keep           Keeper // for kinds that mint tokens, and for Spec.Capture
	IdempotencyKey string // sent with writes where the rules name a header for it
}

// structural names decide where a request ends or who answers it.
func structural(n string) bool {
	return framing(n) || methodOverride(n) || n == "cookie" || n == "cookie2" || n == "proxy-connection" || n == "content-encoding" || n == "content-type"
}

// inject puts the credential into the request, last, and returns the set that scrubs the answer. in.Secret is the value,
// or the token that was minted with it.
func (s Spec) inject(req *http.Request, q Request, in Injection) (*scrub.Set, error) {
	if len(in.Secret) == 0 {
		return nil, errors.New("inject credential: no secret")
	}
	if s.IdempotencyHeader != "" && in.IdempotencyKey != "" && q.Effect() != "read" {
		if !token(in.IdempotencyKey) {
			return nil, errors.New("inject idempotency key: not a header token")
		}
		req.Header.Set(s.IdempotencyHeader, in.IdempotencyKey)
	}
	set, err := s.carry(req, q, in.Secret)
	if err != nil {
		return nil, fmt.Errorf("inject credential: %w", err)
	}
	if s.Scrub == "off" {
		return scrub.New(), nil
	}
	return set, nil
}

// carry writes the secret, or what is made of it, to its place, and returns every form an answer could give back.
func (s Spec) carry(req *http.Request, q Request, secret []byte) (*scrub.Set, error) {
	if !kindOf(s.Kind).secretParts || s.Kind == "sigv4" {
		if err := s.checkValue(secret); err != nil {
			return nil, err
		}
	}
	set := &scrub.Set{}
	h := req.Header
	switch s.Kind {
	case "bearer", "oauth2", "github-app":
		// "Bearer " before the secret adds no form: base64 is found at every alignment.
		set.Add(secret)
		h.Set("Authorization", "Bearer "+string(secret))
	case "basic":
		basic := base64.StdEncoding.EncodeToString([]byte(s.Username + ":" + string(secret)))
		set.Add(secret)
		set.Add([]byte(basic))
		h.Set("Authorization", "Basic "+basic)
	case "header":
		set.Add(secret)
		h.Set(s.Header, formatted(s.Format, secret))
	case "query":
		set.Add(secret)
		var b strings.Builder
		escapeQuery(&b, s.Param)
		b.WriteByte('=')
		escapeQuery(&b, string(secret))
		if req.URL.RawQuery != "" {
			req.URL.RawQuery += "&"
		}
		req.URL.RawQuery += b.String()
	case "cookie":
		set.Add(secret)
		h.Set("Cookie", s.Param+"="+string(secret))
	case "path":
		set.Add(secret)
		segs, err := s.secretSegments(secret)
		if err != nil {
			return nil, err
		}
		// It is sent in canonical form, and read without its escapes.
		if bare, err := (Spec{}).secretSegments(secret); err == nil {
			sent := strings.Join(bare, "/")
			set.Add([]byte(sent))
			set.Add([]byte(unescapeAny(sent)))
		}
		own := q.segs
		if len(own) == 1 && own[0] == "" {
			own = nil // "/" alone names no segment
		}
		req.URL.Opaque = "/" + strings.Join(slices.Insert(slices.Clone(own), s.place(), segs...), "/")
	case "sigv4":
		return set, s.sign(req, q, secret, set)
	case "mtls":
		// The key signs the handshake and is never sent.
	default:
		return nil, errors.New("unknown kind")
	}
	return set, nil
}

// sign is AWS Signature Version 4. S3 takes the path as it is; other services want it escaped once more.
func (s Spec) sign(req *http.Request, q Request, secret []byte, set *scrub.Set) error {
	creds, err := parseAWS(secret)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(q.body)
	payload := hex.EncodeToString(sum[:])
	if s.Service == "s3" {
		req.Header.Set("X-Amz-Content-Sha256", payload)
	}
	path := req.URL.Opaque
	if s.Service == "s3" {
		path = s3Path(path)
	}
	// The signer reads the path out of //host/path.
	signed := &http.Request{Method: req.Method, Host: req.Host, Header: req.Header, ContentLength: req.ContentLength,
		URL: &url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Opaque: "//" + req.URL.Host + path, RawQuery: req.URL.RawQuery}}
	// Empty would be signed and is not sent.
	if req.Header.Get("User-Agent") == "" {
		req.Header.Del("User-Agent")
	}
	err = v4.NewSigner().SignHTTP(context.Background(), creds, signed, payload, s.Service, s.Region, time.Now(), func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = s.Service == "s3"
	})
	if err != nil {
		return errors.New("not signed")
	}
	set.Add([]byte(creds.SecretAccessKey))
	if creds.SessionToken != "" {
		set.Add([]byte(creds.SessionToken))
	}
	if _, signature, ok := strings.Cut(req.Header.Get("Authorization"), "Signature="); ok {
		set.Add([]byte(signature))
	}
	return nil
}

// s3Path is a canonical path as S3 signs it: what RFC 3986 leaves unescaped in a path, S3 escapes there too.
func s3Path(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; unreserved(c) || c == '/' || c == '%' {
			b.WriteByte(c)
		} else {
			writeEscape(&b, c)
		}
	}
	return b.String()
}
