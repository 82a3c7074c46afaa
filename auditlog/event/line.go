package event

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSON returns the line for programs: one object, seq, time, type and the event's fields; the same bytes each time.
// Characters a terminal might act on are escaped as JSON allows, so they decode to what they were.
func (l Line) JSON() []byte {
	b := append([]byte(`{"seq":`), strconv.FormatUint(l.Seq, 10)...)
	b = append(b, `,"time":"`...)
	b = append(b, stamp(l.Time)...)
	b = append(b, `",`...)
	return escapeJSON(appendEvent(b, l.Event))
}

// Text returns the line for people, without a newline: time (UTC, and it says so), type, run and epoch in short, what.
// Full ids stand where something gets its name.
func (l Line) Text() string {
	run, epoch, what := l.describe()
	s := fmt.Sprintf("%s  %-*s  %-10s  %-9s  %s", l.Time.UTC().Format("2006-01-02 15:04:05.000Z"),
		typeWidth, Type(l.Event), column(run, 10), column(epoch, 9), what)
	return strings.TrimRight(s, " ")
}

// typeWidth is the longest name in the table.
var typeWidth = func() (w int) {
	for _, r := range table {
		w = max(w, len(r.name))
	}
	return w
}()

// column is an id in short, or as much of something else as fits.
func column(id string, width int) string { return clip(escape(short(id)), width) }

// short keeps the kind and the end of an id: the end is what differs between ids of one moment.
func short(id string) string {
	if Subject(id) == ([16]byte{}) {
		return id
	}
	kind, _, _ := strings.Cut(id, "_")
	return kind + "_" + id[len(id)-6:]
}

// clip bounds text that somebody else chose.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
