package httpexec

import (
	"bytes"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-json-experiment/json"
	"github.com/golang-jwt/jwt/v5"
)

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
	}
	if err := s.checkValue(value); err != nil {
		return err
	}
	if s.Scrub == "off" {
		return nil
	}
	for _, part := range s.secrets(value) {
		if len(part) < minSecret {
			return errors.New(`value: shorter than 8 bytes, so answers can't be scrubbed of it; use a longer one, or say scrub "off"`)
		}
	}
	return nil
}

// secrets are the parts of a value that an answer could show: those that are sent.
func (s Spec) secrets(value []byte) [][]byte {
	switch s.Kind {
	case "sigv4":
		if c, err := parseAWS(value); err == nil {
			return [][]byte{[]byte(c.SecretAccessKey)}
		}
	case "oauth2":
		if v, err := s.parseOAuth(value); err == nil && v.RefreshToken != "" {
			return [][]byte{[]byte(v.RefreshToken)}
		}
	case "github-app", "mtls":
		return nil // a private key never leaves the gateway
	}
	return [][]byte{value}
}

func (s Spec) checkValue(value []byte) error {
	switch s.Kind {
	case "sigv4":
		_, err := parseAWS(value)
		return err
	case "oauth2":
		_, err := s.parseOAuth(value)
		return err
	case "github-app":
		_, err := parseAppKey(value)
		return err
	case "mtls":
		_, err := parsePair(value)
		return err
	case "path":
		_, err := s.secretSegments(value)
		return err
	}
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
		case s.Kind == "cookie" && (c > '~' || strings.IndexByte(` ",;\`, c) >= 0): // RFC 6265 section 4.1.1
			return fmt.Errorf("value: offset %d is a byte that a cookie can't carry", i)
		}
	}
	return nil
}

// parseAWS reads ID:SECRET[:TOKEN], or the JSON that AWS's own tools print, also inside {"Credentials":…}.
func parseAWS(value []byte) (aws.Credentials, error) {
	bad := errors.New("value: write ACCESSKEYID:SECRET[:SESSIONTOKEN], or JSON with AccessKeyId, SecretAccessKey and SessionToken")
	var c aws.Credentials
	if text := bytes.TrimSpace(value); len(text) > 0 && text[0] == '{' {
		type keys struct{ AccessKeyID, SecretAccessKey, SessionToken string }
		var doc struct {
			keys        `json:",inline"`
			Credentials keys
		}
		if err := json.Unmarshal(text, &doc, json.MatchCaseInsensitiveNames(true)); err != nil {
			return c, bad
		}
		k := doc.keys
		if k == (keys{}) {
			k = doc.Credentials
		}
		c = aws.Credentials{AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey, SessionToken: k.SessionToken}
	} else {
		parts := strings.SplitN(string(value), ":", 3)
		if len(parts) < 2 {
			return c, bad
		}
		c = aws.Credentials{AccessKeyID: parts[0], SecretAccessKey: parts[1]}
		if len(parts) == 3 {
			c.SessionToken = parts[2]
		}
	}
	for _, part := range []string{c.AccessKeyID, c.SecretAccessKey, c.SessionToken + "x"} {
		if part == "" || strings.IndexFunc(part, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			return c, bad
		}
	}
	return c, nil
}

// oauthValue is what an oauth2 credential keeps secret.
type oauthValue struct {
	ClientSecret string `json:"clientSecret,omitempty"`
	RefreshToken string `json:"refreshToken,omitempty"`
}

func (s Spec) parseOAuth(value []byte) (v oauthValue, err error) {
	switch {
	case s.Grant == "client-credentials":
		v.ClientSecret = string(value)
	case value[0] == '{':
		err = json.Unmarshal(value, &v, json.RejectUnknownMembers(true))
	default:
		v.RefreshToken = string(value)
	}
	if err != nil || s.Grant == "refresh" && v.RefreshToken == "" {
		return v, errors.New(`value: write the refresh token, or {"clientSecret":"…","refreshToken":"…"}`)
	}
	if strings.IndexFunc(v.ClientSecret+v.RefreshToken, control) >= 0 {
		return v, errors.New("value: control character in it; is a line break in it?")
	}
	return v, nil
}

func parseAppKey(value []byte) (*rsa.PrivateKey, error) {
	key, err := jwt.ParseRSAPrivateKeyFromPEM(value)
	if err != nil {
		return nil, errors.New("value: not the app's private key (PEM, RSA, as GitHub gives it)")
	}
	if key.N.BitLen() < 2048 {
		return nil, errors.New("value: an RSA key of fewer than 2048 bits")
	}
	return key, nil
}

func parsePair(value []byte) (tls.Certificate, error) {
	for rest := value; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if b.Headers["DEK-Info"] != "" || b.Type == "ENCRYPTED PRIVATE KEY" {
			return tls.Certificate{}, errors.New("value: the private key has a passphrase; decrypt it first, with `openssl pkey`")
		}
	}
	c, err := tls.X509KeyPair(value, value)
	if err != nil {
		return c, errors.New("value: not a certificate and its private key (PEM, both in one text)")
	}
	if c.Leaf == nil {
		if c.Leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
			return c, errors.New("value: certificate not readable")
		}
	}
	if now := time.Now(); now.After(c.Leaf.NotAfter) {
		return c, errors.New("value: the certificate ended at " + c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return c, nil
}

// secretSegments is a path kind's value as it stands in the path.
func (s Spec) secretSegments(value []byte) ([]string, error) {
	segs, err := canonicalPath("/" + formatted(s.Format, value))
	if err != nil {
		return nil, errors.New("value: can't stand in a path; give it without a slash before or after it")
	}
	for _, one := range segs {
		if one == "" || needsRaw(one) {
			return nil, errors.New("value: can't stand in a path; give it without a slash before or after it")
		}
	}
	return segs, nil
}

func formatted(format string, value []byte) string {
	if format == "" {
		return string(value)
	}
	return strings.Replace(format, "%s", string(value), 1)
}
