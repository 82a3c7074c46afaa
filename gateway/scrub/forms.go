package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	lowerHex = "0123456789abcdef"
	upperHex = "0123456789ABCDEF"
)

// renderings yields the forms of b: raw, hex, percent, JSON and HTML escapes of it, and
// each base64 form with its own percent, JSON and HTML escapes. Duplicates are possible.
func renderings(b []byte) iter.Seq[form] {
	return func(yield func(form) bool) {
		text := func(t []byte) bool { return yield(form{text: t}) }
		x := hex.AppendEncode(nil, b)
		if !text(bytes.Clone(b)) || !text(x) || !text(bytes.ToUpper(x)) ||
			!text(percentAll(b, upperHex)) || !text(percentAll(b, lowerHex)) || !escapes(b, text) || !htmlEscapes(b, text) {
			return
		}
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			for f := range base64Forms(enc, b) {
				as := func(t []byte) bool { return yield(form{t, f.head, f.tail}) }
				if !yield(f) || !base64Escapes(f.text, as) || !htmlEscapes(f.text, as) {
					return
				}
			}
		}
	}
}

// base64Forms yields the whole encoding, padded and not, and for each of the three
// places b can have in a longer text the characters that depend on b alone.
func base64Forms(enc *base64.Encoding, b []byte) iter.Seq[form] {
	return func(yield func(form) bool) {
		raw := enc.WithPadding(base64.NoPadding)
		if !yield(form{text: enc.AppendEncode(nil, b)}) || !yield(form{text: raw.AppendEncode(nil, b)}) {
			return
		}
		for before := range 3 {
			text := raw.AppendEncode(nil, append(make([]byte, before), b...))
			f := form{head: before > 0, tail: (before+len(b))%3 != 0}
			if f.head {
				text = text[before+1:] // these depend on the bytes before
			}
			if f.tail {
				text = text[:len(text)-1] // this one on the bytes after
			}
			// What is left of a very short value may be too little to look for.
			if len(text) < 4 {
				continue
			}
			f.text = text
			if !yield(f) {
				return
			}
		}
	}
}

// escapes yields the percent and JSON escaped forms of b, where they differ from b.
func escapes(b []byte, yield func([]byte) bool) bool {
	if !slices.ContainsFunc(b, func(c byte) bool { return !alphanumeric(c) && !contains("-._", c) }) {
		return true // most tokens: no encoder touches them
	}
	for _, digits := range []string{upperHex, lowerHex} {
		for _, keep := range []string{"", "~", "!'()*~", "!*", "/~", "$&+,/:;=@~", "$&+:=@~!'()*,;"} {
			for _, space := range []string{"%20", "+"} {
				// A URL is often shown inside JSON, whose encoders escape some of what a URL keeps.
				p := percent(b, digits, "-._"+keep, space)
				if !yield(p) {
					return false
				}
				if !slices.ContainsFunc(p, func(c byte) bool { return contains("/&'+", c) }) {
					continue
				}
				for _, mode := range []int{escapeSlash, escapeHTML, escapeSlash | escapeHTML, escapePlus} {
					if !yield(jsonEscape(p, lowerHex, mode)) || mode == escapePlus && !yield(jsonEscape(p, upperHex, mode)) {
						return false
					}
				}
			}
		}
		for mode := range escapeModes {
			if !yield(jsonEscape(b, digits, mode)) {
				return false
			}
		}
	}
	return true
}

// base64Escapes is escapes for text of the base64 alphabets: only "+", "/" and "="
// are ever changed.
func base64Escapes(b []byte, yield func([]byte) bool) bool {
	if !slices.ContainsFunc(b, func(c byte) bool { return contains("+/=", c) }) {
		return true
	}
	for _, digits := range []string{upperHex, lowerHex} {
		if !yield(percent(b, digits, "-_", "")) || !yield(percent(b, digits, "-_/", "")) ||
			!yield(jsonEscape(b, digits, escapeSlash)) || !yield(jsonEscape(b, digits, escapePlus)) {
			return false
		}
	}
	return true
}

// percent escapes every byte but letters, digits and those in keep (RFC 3986, and
// what encodeURIComponent, url.QueryEscape, url.PathEscape, PHP and Python leave).
func percent(b []byte, digits, keep, space string) []byte {
	out := make([]byte, 0, len(b)+8)
	for _, c := range b {
		switch {
		case alphanumeric(c) || contains(keep, c):
			out = append(out, c)
		case c == ' ':
			out = append(out, space...)
		default:
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return out
}

func percentAll(b []byte, digits string) []byte {
	out := make([]byte, 0, 3*len(b))
	for _, c := range b {
		out = append(out, '%', digits[c>>4], digits[c&15])
	}
	return out
}

// The JSON encoders in use differ in a few choices; a mode is a set of them.
const (
	escapeSlash = 1 << iota // "/" as "\/" (PHP)
	escapeHTML              // < > & as \u003c ... (Go, Rails)
	escapeASCII             // everything past ASCII as \uXXXX (Python, PHP)
	escapePlus              // " & ' + < > ` as \u00XX (.NET)
	escapeModes
)

// jsonEscape renders b as the inside of a JSON string (RFC 8259 section 7).
func jsonEscape(b []byte, digits string, mode int) []byte {
	out := make([]byte, 0, len(b)+8)
	u := func(r rune) {
		out = append(out, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case mode&escapePlus != 0 && r < utf8.RuneSelf && contains("\"&'+<>`", byte(r)):
			u(r)
		case r == '"' || r == '\\' || r == '/' && mode&escapeSlash != 0:
			out = append(out, '\\', byte(r))
		case r < ' ' && shortEscape(byte(r)) != 0:
			out = append(out, '\\', shortEscape(byte(r)))
		case r < ' ', mode&escapeHTML != 0 && (r == '<' || r == '>' || r == '&'):
			u(r)
		case mode&escapeASCII != 0 && r > 0xffff:
			u(0xd800 + (r-0x10000)>>10)
			u(0xdc00 + (r-0x10000)&0x3ff)
		case mode&escapeASCII != 0 && r >= utf8.RuneSelf && (r != utf8.RuneError || n > 1):
			u(r)
		default:
			out = append(out, b[i:i+n]...)
		}
		i += n
	}
	return out
}

func shortEscape(c byte) byte {
	switch c {
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func contains(set string, c byte) bool { return strings.IndexByte(set, c) >= 0 }
