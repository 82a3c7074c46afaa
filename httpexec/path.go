package httpexec

import (
	"errors"
	"strings"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

// canonicalPath splits a path that begins with "/" into canonical segments. A last
// empty segment is a trailing slash. It refuses whatever could name another path
// for another program: dot and empty segments, also behind escapes and parameters.
func canonicalPath(path string) ([]string, error) {
	if path == "" || path[0] != '/' {
		return nil, errors.New(`path must begin with "/"`)
	}
	if len(path) > maxURL {
		return nil, errors.New("path is longer than 8 KiB")
	}
	segs := strings.Split(path[1:], "/")
	for i, s := range segs {
		if s == "" {
			if i != len(segs)-1 {
				return nil, errors.New("path holds an empty segment")
			}
			continue
		}
		c, err := canonicalSegment(s)
		if err != nil {
			return nil, err
		}
		segs[i] = c
	}
	return segs, nil
}

func canonicalSegment(s string) (string, error) {
	plain, err := unescape(s)
	if err != nil {
		return "", errors.New("path holds a bad percent escape")
	}
	if nestedEscape(plain) {
		return "", errors.New("path holds an escape within an escape (%25)")
	}
	if !utf8.ValidString(plain) {
		return "", errors.New("path is not UTF-8")
	}
	if strings.Contains(strings.ToLower(s), "%2e") {
		return "", errors.New("path holds %2e; write a dot as a dot")
	}
	for i := range len(plain) {
		if c := plain[i]; c < ' ' || c == 0x7f {
			return "", errors.New("path holds a control character")
		} else if c == '\\' {
			return "", errors.New("path holds a backslash")
		}
	}
	// A server may take "/" out of its escape, and drop ";" and what follows it.
	for part := range strings.SplitSeq(plain, "/") {
		if part, _, _ = strings.Cut(part, ";"); part == "" || part == "." || part == ".." {
			return "", errors.New("path holds a dot or empty segment")
		}
	}
	return escapeSegment(s), nil
}

// nestedEscape reports whether text that has been decoded once still has an escape.
func nestedEscape(s string) bool {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == '%' && hexDigit(s[i+1]) && hexDigit(s[i+2]) {
			return true
		}
	}
	return false
}

// needsRaw reports whether a canonical segment may stand only where a rule says {raw}.
func needsRaw(seg string) bool {
	return strings.Contains(seg, "%2F") || strings.Contains(seg, ";") || strings.Contains(seg, "%3B")
}

// escapeSegment writes s, whose escapes are valid, in canonical form (RFC 3986
// section 6.2.2): reserved characters and their escapes stay what they are, since
// to a server they can differ.
func escapeSegment(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		escaped := c == '%'
		if escaped {
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		}
		if unreserved(c) || !escaped && strings.IndexByte("!$&'()*+,;=:@", c) >= 0 {
			b.WriteByte(c)
		} else {
			writeEscape(&b, c)
		}
	}
	return b.String()
}

func writeEscape(b *strings.Builder, c byte) {
	b.WriteByte('%')
	b.WriteByte(upperHex[c>>4])
	b.WriteByte(upperHex[c&15])
}

// unescape decodes every %XX once.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2]) {
			return "", errors.New("bad percent escape")
		}
		b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2]))
		i += 2
	}
	return b.String(), nil
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}
