package clientcfg

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// splice puts text in the place of the bytes from one offset to another.
type splice struct {
	from, to int
	text     string
}

// apply makes all splices. They do not overlap; those at one place go in their order.
func apply(src []byte, all []splice) []byte {
	slices.SortStableFunc(all, func(a, b splice) int { return cmp.Compare(a.from, b.from) })
	var out []byte
	at := 0
	for _, s := range all {
		out = append(append(out, src[at:s.from]...), s.text...)
		at = s.to
	}
	return append(out, src[at:]...)
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// cutMark takes the byte order mark off, which some editors write.
func cutMark(src []byte) (mark, rest []byte) {
	if bytes.HasPrefix(src, byteOrderMark) {
		return src[:3], src[3:]
	}
	return nil, src
}

// newline is the file's own: CRLF where its first line ends so.
func newline(src []byte) string {
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// blanks are the spaces and tabs that a line begins with, up to at.
func blanks(src []byte, at int) string {
	line := src[bytes.LastIndexByte(src[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// backOver is the offset after the last byte before at that is no space.
func backOver(src []byte, at int) int {
	return len(bytes.TrimRight(src[:at], " \t\r\n"))
}

// quote writes a string as JSON and TOML both read it.
func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil || !utf8.ValidString(s) {
		return `""` // plain has refused such a path
	}
	return string(b)
}

// render writes a member's value on one line.
func render(value any) string {
	if s, ok := value.(string); ok {
		return quote(s)
	}
	out := "["
	for i, s := range value.([]string) {
		if i > 0 {
			out += ", "
		}
		out += quote(s)
	}
	return out + "]"
}
