package gateway

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"sallyport/gateway/peer"
)

// escape makes agent-controlled text safe to show: control, format (bidi marks among them), unprintable and unseen
// characters become \u escapes, and it ends after limit bytes.
func escape(s string, limit int) string {
	var b strings.Builder
	for i, r := range s {
		if b.Len() >= limit {
			b.WriteString("…")
			break
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteString(`\x`)
			b.WriteString(hexByte(s[i]))
		case r == '\n':
			b.WriteString(`\n`)
		case r == ' ' || unicode.IsGraphic(r) && !unicode.In(r, unicode.Cf, unicode.Zs, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && r != blankBraille:
			b.WriteRune(r)
		default:
			b.WriteString(quoteRune(r))
		}
	}
	return b.String()
}

// blankBraille is graphic to Unicode and a space to the eye.
const blankBraille = '\u2800'

// block shows a text of several lines, each marked, so that none can pass for a line of the card itself.
func block(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	var b strings.Builder
	for line := range strings.SplitSeq(s, "\n") {
		b.WriteString("\n  | ")
		b.WriteString(escape(line, limit))
	}
	return b.String()
}

func hexByte(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

func quoteRune(r rune) string {
	if r > 0xffff {
		return `\U` + hexByte(byte(r>>24)) + hexByte(byte(r>>16)) + hexByte(byte(r>>8)) + hexByte(byte(r))
	}
	return `\u` + hexByte(byte(r>>8)) + hexByte(byte(r))
}

// command shows a process's words; they are its own, so they are escaped and bounded.
func command(f peer.Facts) string {
	if len(f.Args) == 0 {
		return escape(f.Exe, 256)
	}
	return escape(strings.Join(f.Args, " "), 512)
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// validText: UTF-8 that a JSON string carries unchanged and a person can read.
func validText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// actionID is the id whose ULID a record's subject is.
func actionID(subject [16]byte) string { return "act_" + ulid.ULID(subject).String() }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
