package clientcfg

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// depthLimit bounds nesting, before the parser, which calls itself for each level, sees it.
const depthLimit = 1000

// remoteKeys make an entry one that is reached over the network; with a command beside them it would be neither.
var remoteKeys = []string{"url", "httpUrl", "serverUrl"}

// document is a JSON file with comments and trailing commas.
type document struct {
	src  []byte
	root hujson.Value
	nl   string
	unit string // one level of indentation
}

// editJSON puts an entry with the wanted members below table, or takes it out if nothing is wanted.
func editJSON(src []byte, table string, want []member) ([]byte, error) {
	mark, body := cutMark(src)
	if len(bytes.TrimSpace(body)) == 0 { // no file, or an empty one
		if want == nil {
			return src, nil
		}
		body = []byte("{}\n")
	}
	d, err := parse(body)
	if err != nil {
		return nil, err
	}
	splices, err := d.edit(table, want)
	if err != nil || len(splices) == 0 {
		return src, err
	}
	out := apply(body, splices)
	d, err = parse(out)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	if rest, err := d.edit(table, want); err != nil || len(rest) > 0 {
		return nil, errors.New("the result would not hold what it should")
	}
	return append(slices.Clone(mark), out...), nil
}

func parse(src []byte) (*document, error) {
	if !utf8.Valid(src) {
		return nil, errors.New("it is no UTF-8")
	}
	if tooDeep(src) {
		return nil, fmt.Errorf("nested more than %d levels deep", depthLimit)
	}
	root, err := hujson.Parse(src)
	if err != nil {
		return nil, err
	}
	d := &document{src: src, root: root, nl: newline(src), unit: "  "}
	if o, ok := root.Value.(*hujson.Object); ok && len(o.Members) > 0 {
		if b := blanks(src, o.Members[0].Name.StartOffset); b != "" {
			d.unit = b
		}
	}
	return d, nil
}

// tooDeep counts brackets outside of strings and comments.
func tooDeep(src []byte) bool {
	depth := 0
	for i := 0; i < len(src); i++ {
		rest := src[i:]
		skip := 0
		switch {
		case src[i] == '"':
			for skip = 1; skip < len(rest) && rest[skip] != '"'; skip++ {
				if rest[skip] == '\\' {
					skip++
				}
			}
		case bytes.HasPrefix(rest, []byte("//")):
			if skip = bytes.IndexByte(rest, '\n'); skip < 0 {
				return false
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return false
			}
			skip = end + 3
		case src[i] == '[' || src[i] == '{':
			if depth++; depth > depthLimit {
				return true
			}
		case src[i] == ']' || src[i] == '}':
			depth--
		}
		i += skip
	}
	return false
}

// edit lists what has to be changed; nothing, when all is right.
func (d *document) edit(table string, want []member) ([]splice, error) {
	root, ok := d.root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it is no object")
	}
	servers, err := find(root, table)
	if err != nil {
		return nil, err
	}
	if servers < 0 {
		if want == nil {
			return nil, nil
		}
		return d.insert(&d.root, root, d.object(table, 1, func(level int) string { return d.object(Entry, level, d.entry(want)) })), nil
	}
	holder := &root.Members[servers].Value
	all, ok := holder.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object", table)
	}
	at, err := find(all, Entry)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", table, err)
	case at < 0 && want == nil:
		return nil, nil
	case at < 0:
		return d.insert(holder, all, d.object(Entry, 2, d.entry(want))), nil
	case want == nil:
		return d.remove(holder, all, at), nil
	}
	splices, err := d.update(&all.Members[at].Value, want)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", table, Entry, err)
	}
	return splices, nil
}

// find is the index of a member; -1: there is none.
func find(o *hujson.Object, name string) (int, error) {
	found := -1
	for i, m := range o.Members {
		if lit, ok := m.Name.Value.(hujson.Literal); ok && lit.String() == name {
			if found >= 0 {
				return 0, fmt.Errorf("%q stands there twice", name)
			}
			found = i
		}
	}
	return found, nil
}

// update sets the members that differ in an entry that exists.
func (d *document) update(v *hujson.Value, want []member) ([]splice, error) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it is no object")
	}
	for _, key := range remoteKeys {
		if at, err := find(o, key); err != nil || at >= 0 {
			return nil, fmt.Errorf("it has %q: a server of another kind holds our name", key)
		}
	}
	var splices []splice
	var missing []string
	for _, m := range want {
		at, err := find(o, m.key)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			missing = append(missing, pair(m))
			continue
		}
		if old := &o.Members[at].Value; !same(old, m.value) {
			splices = append(splices, splice{old.StartOffset, old.EndOffset, render(m.value)})
		}
	}
	if missing != nil {
		splices = append(splices, d.insert(v, o, missing...)...)
	}
	return splices, nil
}

// same compares by meaning: a value spelt otherwise is right too.
func same(v *hujson.Value, want any) bool {
	text := func(v *hujson.Value, s string) bool {
		lit, ok := v.Value.(hujson.Literal)
		return ok && lit.Kind() == '"' && lit.String() == s
	}
	if s, ok := want.(string); ok {
		return text(v, s)
	}
	list := want.([]string)
	a, ok := v.Value.(*hujson.Array)
	if !ok || len(a.Elements) != len(list) {
		return false
	}
	for i := range list {
		if !text(&a.Elements[i], list[i]) {
			return false
		}
	}
	return true
}

// entry writes our entry's members, for an object at a level.
func (d *document) entry(want []member) func(int) string {
	return func(level int) string {
		var parts []string
		for _, m := range want {
			parts = append(parts, pair(m))
		}
		return strings.Join(parts, ","+d.nl+strings.Repeat(d.unit, level))
	}
}

func pair(m member) string { return quote(m.key) + ": " + render(m.value) }

// object writes a member that is an object; level is the member's own.
func (d *document) object(name string, level int, inner func(level int) string) string {
	return quote(name) + ": {" + d.nl + strings.Repeat(d.unit, level+1) + inner(level+1) + d.nl + strings.Repeat(d.unit, level) + "}"
}

// insert adds members at the end of an object: behind its last comment, in the object's own style.
func (d *document) insert(v *hujson.Value, o *hujson.Object, members ...string) []splice {
	brace := v.EndOffset - 1
	from := brace - len(o.AfterExtra)
	at := from + len(bytes.TrimRight(o.AfterExtra, " \t\r\n"))
	inLines := bytes.IndexByte(o.AfterExtra, '\n') >= 0
	lead, tail := " ", ""
	var splices []splice
	if len(o.Members) == 0 {
		indent := blanks(d.src, v.StartOffset)
		lead = d.nl + indent + d.unit
		if !inLines {
			tail = d.nl + indent
		}
		return append(splices, splice{at, at, lead + strings.Join(members, ","+lead) + tail})
	}
	if inLines {
		lead = d.nl + blanks(d.src, o.Members[0].Name.StartOffset)
	}
	if last := o.Members[len(o.Members)-1].Value; last.AfterExtra == nil { // no trailing comma
		splices = append(splices, splice{last.EndOffset, last.EndOffset, ","})
	} else {
		tail = ","
	}
	return append(splices, splice{at, at, lead + strings.Join(members, ","+lead) + tail})
}

// remove takes a member out with the spaces before it, and the comma that is too many. Comments stay.
func (d *document) remove(v *hujson.Value, o *hujson.Object, at int) []splice {
	m := &o.Members[at]
	from, to := backOver(d.src, m.Name.StartOffset), m.Value.EndOffset
	comma := m.Value.EndOffset + len(m.Value.AfterExtra)
	hasComma := at < len(o.Members)-1 || m.Value.AfterExtra != nil
	behind := to
	if hasComma {
		behind = comma + 1
	}
	if next := bytes.TrimLeft(d.src[behind:], " \t\r"); next[0] != '\n' && bytes.IndexByte(d.src[from:m.Name.StartOffset], '\n') >= 0 {
		from = m.Name.StartOffset // the line before may end in a comment, which must not swallow what comes next
	}
	if hasComma {
		return []splice{{from, m.Value.EndOffset, ""}, {comma, comma + 1, ""}}
	}
	if at > 0 {
		before := &o.Members[at-1].Value
		comma = before.EndOffset + len(before.AfterExtra)
		return []splice{{comma, comma + 1, ""}, {max(from, comma+1), to, ""}}
	}
	if len(bytes.TrimSpace(o.AfterExtra)) == 0 && d.src[from-1] == '{' { // nothing is left: {}
		to = v.EndOffset - 1
	}
	return []splice{{from, to, ""}}
}
