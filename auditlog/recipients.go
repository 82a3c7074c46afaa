package auditlog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

const (
	maxRecipients = 16
	readKeySize   = 32
)

// NewReader makes an age identity for a reviewer: hybrid post-quantum. The identity is the secret half.
func NewReader() (identity, recipient string, err error) {
	i, err := age.GenerateHybridIdentity()
	if err != nil {
		return "", "", fmt.Errorf("make reader identity: %w", err)
	}
	return i.String(), i.Recipient().String(), nil
}

// ParseRecipients says whether a log can be sealed to these: 1 to 16 age recipients, none twice, either all X25519
// (age1…) or all hybrid post-quantum (age1pq1…). age refuses to mix them, since the weaker kind would decide.
func ParseRecipients(r []string) error {
	_, err := parseRecipients(r)
	return err
}

func parseRecipients(list []string) ([]age.Recipient, error) {
	if len(list) == 0 {
		return nil, errors.New("parse recipients: none given")
	}
	if len(list) > maxRecipients {
		return nil, fmt.Errorf("parse recipients: more than %d", maxRecipients)
	}
	var out []age.Recipient
	seen := map[string]bool{}
	hybrid := 0
	for i, s := range list {
		if seen[s] {
			return nil, fmt.Errorf("parse recipients: number %d is given twice", i+1)
		}
		seen[s] = true
		var r age.Recipient
		var err error
		if strings.HasPrefix(s, "age1pq1") {
			hybrid++
			r, err = age.ParseHybridRecipient(s)
		} else {
			r, err = age.ParseX25519Recipient(s)
		}
		if err != nil {
			// The text is not repeated: somebody may have given the secret half.
			return nil, fmt.Errorf("parse recipients: number %d is no age1 or age1pq1 recipient", i+1)
		}
		if p, ok := r.(fmt.Stringer); !ok || p.String() != s {
			return nil, fmt.Errorf("parse recipients: number %d is not in canonical form", i+1)
		}
		out = append(out, r)
	}
	if hybrid != 0 && hybrid != len(list) {
		return nil, errors.New("parse recipients: classic and post-quantum recipients cannot be mixed")
	}
	return out, nil
}

func fingerprints(recipients []string) [][32]byte {
	var f [][32]byte
	for _, r := range recipients {
		f = append(f, sha256.Sum256([]byte(r)))
	}
	return f
}

// wrapKey seals a segment's read key to the recipients.
func wrapKey(key []byte, recipients []string) ([]byte, error) {
	rs, err := parseRecipients(recipients)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, rs...)
	if err != nil {
		return nil, fmt.Errorf("wrap read key: %w", err)
	}
	if _, err := w.Write(key); err != nil {
		return nil, fmt.Errorf("wrap read key: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("wrap read key: %w", err)
	}
	return b.Bytes(), nil
}

// unwrapKey opens it for a reviewer.
func unwrapKey(wrapped []byte, ids []age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(wrapped), ids...)
	if err != nil {
		return nil, fmt.Errorf("unwrap read key: %w", err)
	}
	key, err := io.ReadAll(io.LimitReader(r, readKeySize+1))
	if err != nil {
		return nil, fmt.Errorf("unwrap read key: %w", err)
	}
	if len(key) != readKeySize {
		return nil, errors.New("unwrap read key: wrong length")
	}
	return key, nil
}

func parseIdentity(s string) ([]age.Identity, error) {
	ids, err := age.ParseIdentities(strings.NewReader(s))
	if err != nil {
		// age's message may repeat a part of the line.
		return nil, errors.New("parse reader identity: no age identity")
	}
	return ids, nil
}
