package sshexec

import (
	"bytes"
	"cmp"
	"crypto/rsa"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// MinRSABits is the smallest RSA modulus of a host key or a user key.
const MinRSABits = 2048

// hostKeyTypes in our order of preference.
func hostKeyTypes() []string {
	return []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA}
}

// signatureAlgorithms of a key type. RSA signs with SHA-2 only (RFC 8332).
func signatureAlgorithms(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// checkHostKey refuses certificates, other types and short RSA keys.
func checkHostKey(k ssh.PublicKey) error {
	if !slices.Contains(hostKeyTypes(), k.Type()) {
		return invalid("host key: type %s is not supported", k.Type())
	}
	if c, ok := k.(ssh.CryptoPublicKey); ok {
		if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() < MinRSABits {
			return invalid("host key: RSA with %d bits, at least %d are needed", r.N.BitLen(), MinRSABits)
		}
	}
	return nil
}

// authorizedForm is "TYPE BASE64", no comment, no newline.
func authorizedForm(k ssh.PublicKey) string {
	return strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k)), "\n")
}

// parseHostKey reads exactly one key in that form.
func parseHostKey(s string) (ssh.PublicKey, error) {
	k, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(s))
	if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, invalid("host key: not TYPE BASE64")
	}
	return k, checkHostKey(k)
}

// Fingerprint is the SHA256:… form of a key in authorized_keys form.
func Fingerprint(hostKey string) (string, error) {
	k, err := parseHostKey(hostKey)
	if err != nil {
		return "", err
	}
	return ssh.FingerprintSHA256(k), nil
}

// pins are the host keys one target may show.
type pins []ssh.PublicKey

func parsePins(hostKeys []string) (pins, error) {
	if len(hostKeys) == 0 {
		return nil, invalid("host key: none is pinned")
	}
	var p pins
	for _, s := range hostKeys {
		k, err := parseHostKey(s)
		if err != nil {
			return nil, err
		}
		p = append(p, k)
	}
	return p, nil
}

// algorithms is what we ask the host for: the types that are pinned and no
// other, else it may show a key we never saw and look changed.
func (p pins) algorithms() []string {
	var a []string
	for _, t := range hostKeyTypes() {
		if slices.ContainsFunc(p, func(k ssh.PublicKey) bool { return k.Type() == t }) {
			a = append(a, signatureAlgorithms(t)...)
		}
	}
	return a
}

func (p pins) has(k ssh.PublicKey) bool {
	return slices.ContainsFunc(p, func(q ssh.PublicKey) bool { return bytes.Equal(q.Marshal(), k.Marshal()) })
}

func (p pins) String() string {
	var s []string
	for _, k := range p {
		s = append(s, ssh.FingerprintSHA256(k))
	}
	return strings.Join(s, ",")
}

// sortKeys orders by type as hostKeyTypes has them, and drops doubles.
func sortKeys(keys []ssh.PublicKey) []string {
	order := hostKeyTypes()
	slices.SortStableFunc(keys, func(a, b ssh.PublicKey) int {
		return cmp.Compare(slices.Index(order, a.Type()), slices.Index(order, b.Type()))
	})
	var out []string
	for _, k := range keys {
		if s := authorizedForm(k); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// sameKeys reports whether two lists pin the same keys, in whatever order.
func sameKeys(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
