package wrap

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// span is where a value stands in a line: line[from:to].
type span struct{ from, to int }

// find returns where the value stands that path names, by members of objects from the outside in. The line is JSON.
func find(line []byte, path ...string) (span, bool) {
	d := jsontext.NewDecoder(bytes.NewReader(line))
	for depth := 0; ; depth++ {
		if depth == len(path) {
			v, err := d.ReadValue()
			if err != nil {
				return span{}, false
			}
			to := int(d.InputOffset())
			return span{to - len(v), to}, true
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
			return span{}, false
		}
		for found := false; !found; {
			name, err := d.ReadToken()
			if err != nil || name.Kind() != '"' {
				return span{}, false
			}
			if found = name.String() == path[depth]; !found && d.SkipValue() != nil {
				return span{}, false
			}
		}
	}
}

// put returns the line with another value at s. All other bytes stay.
func put(line []byte, s span, value string) []byte {
	return slices.Concat(line[:s.from], []byte(value), line[s.to:])
}

// forceListChanged makes the answer to initialize or server/discover say that the tools' list may change. Where the server
// has no tools nothing is said of them.
func forceListChanged(line []byte) []byte {
	if s, ok := find(line, "result", "capabilities", "tools", "listChanged"); ok {
		if string(line[s.from:s.to]) == "true" {
			return line
		}
		return put(line, s, "true")
	}
	s, ok := find(line, "result", "capabilities", "tools")
	if !ok || line[s.from] != '{' {
		return line
	}
	member := `"listChanged":true`
	if !isEmpty(line[s.from:s.to]) {
		member += ","
	}
	return put(line, span{s.from + 1, s.from + 1}, member)
}

func isEmpty(object []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	t, err := d.ReadToken()
	return err == nil && t.Kind() == '}' || errors.Is(err, io.EOF)
}

// withID is a request of the host's under another id.
func withID(line []byte, id jsontext.Value) ([]byte, bool) {
	s, ok := find(line, "id")
	if !ok {
		return nil, false
	}
	return put(line, s, string(id)), true
}
