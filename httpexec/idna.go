package httpexec

import (
	"errors"
	"strings"
)

// toASCII lower-cases a host name. A name outside ASCII is refused with the way out:
// its A-label says without doubt which name is meant.
func toASCII(host string) (string, error) {
	for i := range len(host) {
		if host[i] >= 0x80 {
			return "", errors.New("host is not ASCII; write its A-label form (xn--…)")
		}
	}
	return strings.ToLower(host), nil
}
