package httpexec

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// pair is a decoded query pair, or a header. bare: the query key came without "=".
type pair struct {
	name, value string
	bare        bool
}

// parseQuery reads key=value pairs separated by "&"; "+" and %20 are a space
// (WHATWG URL, application/x-www-form-urlencoded). Order and repetition are kept.
func parseQuery(s string) ([]pair, error) {
	if s == "" {
		return nil, nil
	}
	var out []pair
	for part := range strings.SplitSeq(s, "&") {
		k, v, eq := strings.Cut(part, "=")
		k, err := unescape(strings.ReplaceAll(k, "+", " "))
		if err != nil {
			return nil, errors.New("query holds a bad percent escape")
		}
		v, err = unescape(strings.ReplaceAll(v, "+", " "))
		if err != nil {
			return nil, errors.New("query holds a bad percent escape")
		}
		p := pair{name: k, value: v, bare: !eq}
		if err := checkQuery(p); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// checkQuery refuses pairs that servers read in different ways, and the keys by which
// a framework changes the method that a rule has allowed.
func checkQuery(p pair) error {
	switch {
	case p.name == "":
		return errors.New("query holds an empty key")
	case !utf8.ValidString(p.name) || !utf8.ValidString(p.value):
		return errors.New("query is not UTF-8")
	case strings.Contains(p.name, "\x00") || strings.Contains(p.value, "\x00"):
		return errors.New("query holds a NUL")
	case overrides(p.name):
		return errors.New("query key " + quote(p.name) + " overrides the method; name the method itself")
	}
	return nil
}

// sameKey tells whether some framework reads two query keys as one: many fold the case; PHP drops spaces before a key
// and takes dots, spaces and a lone bracket for "_"; PHP, Rails and qs read k[] and k[x] as a value of k.
func sameKey(a, b string) bool {
	if flatKey(a) == flatKey(b) {
		return true
	}
	x, inA := baseKey(a)
	y, inB := baseKey(b)
	return inA != inB && x == y
}

var flat = strings.NewReplacer(".", "_", " ", "_", "[", "_")

func flatKey(k string) string { return strings.ToLower(flat.Replace(strings.TrimLeft(k, " "))) }

// baseKey is what stands before a key's bracket.
func baseKey(k string) (base string, bracket bool) {
	k, _, bracket = strings.Cut(strings.TrimLeft(k, " "), "[")
	return flatKey(k), bracket
}

// withQuery appends the entries of m in the order of their keys.
func withQuery(q []pair, m map[string]string) ([]pair, error) {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		p := pair{name: k, value: m[k]}
		if err := checkQuery(p); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(q, func(o pair) bool { return o.name == k }) {
			return nil, errors.New("query key " + quote(k) + " stands in url and in query")
		}
		q = append(q, p)
	}
	return q, nil
}

func encodeQuery(q []pair) string {
	var b strings.Builder
	for i, p := range q {
		if i > 0 {
			b.WriteByte('&')
		}
		escapeQuery(&b, p.name)
		if !p.bare {
			b.WriteByte('=')
			escapeQuery(&b, p.value)
		}
	}
	return b.String()
}

func escapeQuery(b *strings.Builder, s string) {
	for i := range len(s) {
		if unreserved(s[i]) {
			b.WriteByte(s[i])
		} else {
			writeEscape(b, s[i])
		}
	}
}
