package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document prints v as one JSON document on a line. What could move a terminal's
// cursor or turn its text around is written as \u escapes: same value, safe to look at.
func (a *app) document(v any) error { return a.write(v) }

// showDocument prints v as document does, but over several lines, for people.
func (a *app) showDocument(v any) error { return a.write(v, jsontext.WithIndent("  ")) }

func (a *app) write(v any, more ...json.Options) error {
	b, err := json.Marshal(v, append(more, json.Deterministic(true), jsontext.AllowDuplicateNames(true))...)
	if err != nil {
		return fmt.Errorf("write document: %w", err)
	}
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case !unsafe(r), r == '\n': // a newline here is indentation: in a text it is written as \n
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10, (r-0x10000)&0x3ff
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+hi, 0xdc00+lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	out.WriteByte('\n')
	_, err = io.WriteString(a.out, out.String())
	return err
}

// unsafe: control, format (bidi, zero width), separators, private use and unassigned characters.
func unsafe(r rune) bool {
	return r != ' ' && (!unicode.IsPrint(r) || r == utf8.RuneError)
}

// escape makes text that others wrote safe to show: it stays on its line and can neither move nor hide anything.
func escape(s string) string {
	if !strings.ContainsFunc(s, unsafe) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !unsafe(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && s[i] != 0xef: // no character, a stray byte
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// facts prints pairs of a label and its text, one a line; pairs without text are
// left out. Text without a label goes on below the one before it.
func facts(w io.Writer, indent string, pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		width = max(width, len(pairs[i]))
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s%-*s  %s\n", indent, width, pairs[i], escape(pairs[i+1]))
		}
	}
}

// Colours of paint, as SGR parameters.
const (
	green = "32"
	red   = "31"
	amber = "33"
)

// paint colours s where stdout is a terminal and NO_COLOR is unset (no-color.org).
func (a *app) paint(colour, s string) string {
	if !a.outTTY || a.getenv("NO_COLOR") != "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// say tells a person something; it is no part of the result.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.err, format+"\n", args...)
}

// stamp is a time for people; the zero time is nothing.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// short cuts a digest to what tells two apart at a glance.
func short(digest string) string {
	if len(digest) > 19 {
		return digest[:19] + "…"
	}
	return digest
}
