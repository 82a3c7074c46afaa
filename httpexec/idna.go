package httpexec

import (
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// toASCII maps a host name to lower case and A-labels (RFC 5891 section 5, UTS #46
// lookup): full-width letters and U+3002 become the letters and dots they stand for.
// What comes out is what is judged and resolved.
func toASCII(host string) (string, error) {
	lower, plain := strings.ToLower(host), true
	for i := range len(host) {
		plain = plain && host[i] < 0x80
	}
	if plain && !strings.Contains(lower, "xn--") {
		return lower, nil // the profile refuses hyphens that real hosts have
	}
	h, err := idna.Lookup.ToASCII(host)
	if err != nil || !utf8.ValidString(host) {
		return "", errors.New("host is no valid international name; write its A-label form (xn--…)")
	}
	return h, nil
}
