package httpexec

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Trust says whose certificates are taken. There is no way to take any.
type Trust struct {
	CA   string   `json:"ca,omitempty"`      // PEM certificates that replace the system's roots
	Pins []string `json:"spkiPin,omitempty"` // "sha256/" and base64 of a public key (RFC 7469); one of them must be in the verified chain
}

func (t Trust) compile() (roots *x509.CertPool, pins [][32]byte, err error) {
	if t.CA != "" {
		if roots, err = parseCA(t.CA); err != nil {
			return nil, nil, fmt.Errorf("ca: %w", err)
		}
	}
	for i, p := range t.Pins {
		text, ok := strings.CutPrefix(p, "sha256/")
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if !ok || err != nil || len(b) != sha256.Size {
			return nil, nil, fmt.Errorf("spkiPin[%d]: write sha256/ and the base64 of 32 bytes", i)
		}
		pins = append(pins, [32]byte(b))
	}
	return roots, pins, nil
}

var errPin = errors.New("no certificate of the chain has a pinned key")

// pinned is for tls.Config.VerifyConnection, after the chain itself was verified.
func pinned(pins [][32]byte) func(tls.ConnectionState) error {
	if len(pins) == 0 {
		return nil
	}
	return func(s tls.ConnectionState) error {
		for _, chain := range s.VerifiedChains {
			for _, c := range chain {
				if slices.Contains(pins, sha256.Sum256(c.RawSubjectPublicKeyInfo)) {
					return nil
				}
			}
		}
		return errPin
	}
}

func parseCA(text string) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for rest := []byte(text); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			if strings.TrimSpace(string(rest)) != "" {
				return nil, errors.New("text that is no PEM block; give certificates only")
			}
			break
		}
		if b.Type != "CERTIFICATE" {
			return nil, errors.New("a PEM block that is no CERTIFICATE; give certificates only")
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: not readable", n+1)
		}
		pool.AddCert(c)
		n++
	}
	if n == 0 {
		return nil, errors.New("no PEM certificate in it")
	}
	return pool, nil
}

// clientCert is what mtls shows in the handshake; nil for every other kind.
func (r *Rules) clientCert(value []byte) (*tls.Certificate, error) {
	if r.spec.Kind != "mtls" {
		return nil, nil
	}
	c, err := parsePair(value)
	if err != nil {
		return nil, err
	}
	return &c, nil
}
