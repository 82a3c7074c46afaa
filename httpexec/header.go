package httpexec

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// openHeaders may be set by every request; others only where a rule names them.
var openHeaders = []string{"accept", "accept-language", "content-type", "if-match", "if-none-match", "user-agent"}

// parseHeaders returns the headers in canonical spelling, sorted by name.
func parseHeaders(m map[string]string) ([]pair, error) {
	out := make([]pair, 0, len(m))
	size := 0
	for name, value := range m {
		if err := refusedHeader(name); err != nil {
			return nil, err
		}
		for i := range len(value) {
			if c := value[i]; c != '\t' && (c < ' ' || c > '~') {
				return nil, &RequestError{codeHeader, "header " + quote(name) + ": its value holds a byte that is not printable ASCII"}
			}
		}
		out = append(out, pair{name: textproto.CanonicalMIMEHeaderKey(name), value: strings.Trim(value, " \t")})
		size += len(name) + len(value) + 4
	}
	if size > maxHeader {
		return nil, invalid("headers are longer than 32 KiB")
	}
	slices.SortFunc(out, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(out); i++ {
		if out[i].name == out[i-1].name {
			return nil, invalid("header " + out[i].name + " is given twice")
		}
	}
	return out, nil
}

// refusedHeader refuses names that no rule can allow.
func refusedHeader(name string) error {
	n := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-") // CGI and WSGI make one of both
	why := ""
	switch {
	case n == "authorization" || n == "cookie" || n == "cookie2" || strings.HasPrefix(n, "proxy-"):
		why = "the vault sets it; leave it out"
	case framing(n):
		why = "it belongs to the exchange itself; leave it out"
	case methodOverride(n):
		why = "it overrides the method; name the method itself"
	case strings.HasPrefix(n, "x-forwarded-") || slices.Contains([]string{"forwarded", "via", "x-real-ip", "x-original-url", "x-original-host", "x-rewrite-url", "x-host"}, n):
		why = "it claims another origin, host or path; leave it out"
	case !token(name):
		why = "it is not a header name"
	default:
		return nil
	}
	return &RequestError{codeHeader, "header " + quote(name) + ": " + why}
}

// framing names belong to the exchange itself.
func framing(n string) bool {
	switch n {
	case "host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "content-length", "upgrade",
		"http2-settings", "expect", "range", "if-range", "accept-encoding":
		return true
	}
	return false
}

func methodOverride(n string) bool {
	return n == "x-http-method-override" || n == "x-http-method" || n == "x-method-override"
}

// token is RFC 9110 section 5.6.2.
func token(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// quote shows a name that the caller chose, escaped and bounded.
func quote(s string) string {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return strconv.QuoteToASCII(s)
}
