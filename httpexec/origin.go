package httpexec

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// origin is a scheme, host and port in canonical form.
type origin struct {
	scheme string // "https" or "http"
	host   string // lower-case name, or an address as netip prints it (no brackets)
	port   uint16
}

func (o origin) String() string {
	if o.host == "" {
		return ""
	}
	return o.scheme + "://" + o.authority()
}

// authority is the Host header's value.
func (o origin) authority() string {
	h := o.host
	if strings.Contains(h, ":") {
		h = "[" + h + "]"
	}
	if o.port == defaultPort(o.scheme) {
		return h
	}
	return h + ":" + strconv.Itoa(int(o.port))
}

func defaultPort(scheme string) uint16 {
	if scheme == "http" {
		return 80
	}
	return 443
}

// splitURL cuts a URL into origin text and the rest (path and query). It refuses
// what no canonical URL of ours has: userinfo, fragment, backslash, control bytes.
func splitURL(s string) (scheme, authority, rest string, err error) {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			return "", "", "", errors.New("url holds a control character")
		case c == '\\':
			return "", "", "", errors.New(`url holds a backslash; use "/"`)
		case c == '#':
			return "", "", "", errors.New("url holds a fragment; leave it out")
		}
	}
	scheme, after, ok := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "https" && scheme != "http" {
		return "", "", "", errors.New("url must begin with https:// or http://")
	}
	end := strings.IndexAny(after, "/?")
	if end < 0 {
		end = len(after)
	}
	return scheme, after[:end], after[end:], nil
}

// parseOrigin reads scheme and authority. wild allows a first label "*".
func parseOrigin(scheme, authority string, wild bool) (origin, error) {
	if strings.Contains(authority, "@") {
		return origin{}, errors.New("url holds userinfo; the vault adds credentials")
	}
	o := origin{scheme: scheme, port: defaultPort(scheme)}
	host := authority
	if h, ok := strings.CutPrefix(authority, "["); ok {
		h, port, ok := strings.Cut(h, "]")
		if !ok {
			return origin{}, errors.New("host: no closing bracket")
		}
		a, err := netip.ParseAddr(h)
		if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
			return origin{}, errors.New("host: not a plain IPv6 address in brackets")
		}
		o.host, host = a.String(), port
		if host != "" && host[0] != ':' {
			return origin{}, errors.New("host: text after the bracket")
		}
	}
	host, port, hasPort := strings.Cut(host, ":")
	if hasPort {
		n, err := parsePort(port)
		if err != nil {
			return origin{}, err
		}
		o.port = n
	}
	if o.host != "" {
		return o, nil
	}
	prefix := ""
	if h, ok := strings.CutPrefix(host, "*."); ok && wild {
		prefix, host = "*.", h
	}
	h, err := canonicalHost(host)
	if err != nil {
		return origin{}, err
	}
	o.host = prefix + h
	return o, nil
}

// parsePort takes a decimal number 1 to 65535 without leading zeros.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] < '1' || s[0] > '9' {
		return 0, errors.New("port must be a plain number from 1 to 65535")
	}
	return uint16(n), nil
}

// canonicalHost returns the lower-case A-label form of a name, or a dotted IPv4
// address. Names that a resolver could read as a number are refused: getaddrinfo
// takes 127.1, 0x7f.1 and 2130706433 for addresses, Go's resolver does not.
func canonicalHost(host string) (string, error) {
	if host == "" {
		return "", errors.New("host is empty")
	}
	h, err := toASCII(host)
	if err != nil {
		return "", err
	}
	h = strings.TrimSuffix(h, ".")
	labels := strings.Split(h, ".")
	for _, l := range labels {
		if !validLabel(l) {
			return "", errors.New("host: each label must be 1 to 63 letters, digits or inner hyphens")
		}
	}
	if len(h) > 253 {
		return "", errors.New("host is longer than 253 bytes")
	}
	if a, err := netip.ParseAddr(h); err == nil {
		return a.String(), nil
	}
	if numeric(labels[len(labels)-1]) {
		return "", errors.New("host looks like a number; write the address as four decimal parts")
	}
	return h, nil
}

func validLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		if c := l[i]; c != '-' && !('a' <= c && c <= 'z') && !('0' <= c && c <= '9') {
			return false
		}
	}
	return true
}

// numeric is the "ends in a number" check of the URL standard (WHATWG, host parsing).
func numeric(label string) bool {
	digits := "0123456789"
	if strings.HasPrefix(label, "0x") {
		label, digits = label[2:], "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}
