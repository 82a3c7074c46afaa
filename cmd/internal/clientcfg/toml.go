package clientcfg

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// statement is one `key = value`, also inside of an inline table, or one table's header.
type statement struct {
	path     []string // from the file's root
	header   bool
	list     bool // a header in [[ ]], or what stands below one: its path is not unique
	from, to int  // its bytes; a header's from its first key to the last, without brackets
	key      int  // where its last key begins
	keyEnd   int
	inline   int // index of the statement whose value is the inline table that holds this one; -1: none
	brace    int // offset behind the { of its value, where that is an inline table; else 0
}

func (s statement) is(path ...string) bool { return !s.list && slices.Equal(s.path, path) }

func (s statement) below(path ...string) bool {
	return len(s.path) >= len(path) && slices.Equal(s.path[:len(path)], path)
}

// editTOML puts an entry with the wanted members below table, or takes it out if nothing is wanted. The edit works on
// text; whether it came out right is then judged by what a decoder reads before and after.
func editTOML(src []byte, table string, want []member) ([]byte, error) {
	mark, body := cutMark(src)
	was, err := decode(body)
	if err != nil {
		return nil, err
	}
	servers, err := tableOf(was, table)
	if err != nil {
		return nil, err
	}
	_, there := servers[Entry]
	entry, err := tableOf(servers, Entry)
	if err != nil && want != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}
	if want == nil && !there || want != nil && holds(entry, want) {
		return src, nil
	}
	for _, key := range remoteKeys {
		if _, remote := entry[key]; remote && want != nil {
			return nil, fmt.Errorf("%s.%s has %q: a server of another kind holds our name", table, Entry, key)
		}
	}

	all, err := statements(body)
	if err != nil {
		return nil, err
	}
	f := tomlFile{body, all, newline(body), table}
	var splices []splice
	switch {
	case want == nil:
		splices = f.remove()
	case !there:
		splices = f.add(want)
	default:
		splices = f.update(entry, want)
	}
	out := apply(body, splices)
	is, err := decode(out)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	if !reflect.DeepEqual(dropEmpty(is, table), dropEmpty(wanted(was, table, want), table)) {
		return nil, errors.New("the file's way of writing " + table + " is not understood: it would not hold what it should")
	}
	return append(slices.Clone(mark), out...), nil
}

func decode(src []byte) (map[string]any, error) {
	doc := map[string]any{}
	if err := toml.Unmarshal(src, &doc); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return nil, fmt.Errorf("line %d, column %d: %s", row, column, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return nil, err
	}
	return doc, nil
}

// tableOf is the table under a key; nil where there is nothing.
func tableOf(m map[string]any, key string) (map[string]any, error) {
	v, ok := m[key]
	if !ok {
		return nil, nil
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no table", key)
	}
	return t, nil
}

func holds(entry map[string]any, want []member) bool {
	for _, m := range want {
		if !reflect.DeepEqual(entry[m.key], decoded(m.value)) {
			return false
		}
	}
	return true
}

// decoded is the value as the decoder gives it.
func decoded(value any) any {
	list, ok := value.([]string)
	if !ok {
		return value
	}
	out := make([]any, 0, len(list))
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// wanted changes a decoded document as the text should have been changed.
func wanted(doc map[string]any, table string, want []member) map[string]any {
	servers, _ := doc[table].(map[string]any)
	if want == nil {
		delete(servers, Entry)
		return doc
	}
	if servers == nil {
		servers = map[string]any{}
		doc[table] = servers
	}
	entry, _ := servers[Entry].(map[string]any)
	if entry == nil {
		entry = map[string]any{}
		servers[Entry] = entry
	}
	for _, m := range want {
		entry[m.key] = decoded(m.value)
	}
	return doc
}

// dropEmpty makes a table without keys and no table the same.
func dropEmpty(doc map[string]any, table string) map[string]any {
	if t, ok := doc[table].(map[string]any); ok && len(t) == 0 {
		delete(doc, table)
	}
	return doc
}

// statements lists a file's keys and headers in their order.
func statements(src []byte) ([]statement, error) {
	var p unstable.Parser
	p.Reset(src)
	var all []statement
	var section []string
	list := false
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			s := keyOf(e, nil)
			s.header, s.list = true, e.Kind == unstable.ArrayTable
			for _, t := range all { // a table below a [[ ]] belongs to its newest element
				s.list = s.list || t.header && t.list && s.below(t.path...)
			}
			section, list = s.path, s.list
			all = append(all, s)
		case unstable.KeyValue:
			all = walk(all, e, section, list, -1)
		}
	}
	return all, p.Error()
}

// walk adds a key and what is in its inline table.
func walk(all []statement, e *unstable.Node, section []string, list bool, inline int) []statement {
	s := keyOf(e, section)
	s.from, s.to = int(e.Raw.Offset), int(e.Raw.Offset+e.Raw.Length)
	s.list, s.inline = list, inline
	at := len(all)
	v := e.Value()
	if v.Kind == unstable.InlineTable {
		s.brace = int(v.Raw.Offset) + 1
	}
	all = append(all, s)
	if v.Kind == unstable.InlineTable {
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				all = walk(all, it.Node(), s.path, list, at)
			}
		}
	}
	return all
}

func keyOf(e *unstable.Node, section []string) statement {
	s := statement{path: slices.Clone(section), inline: -1}
	for it, first := e.Key(), true; it.Next(); first = false {
		k := it.Node()
		s.path = append(s.path, string(k.Data))
		s.key, s.keyEnd = int(k.Raw.Offset), int(k.Raw.Offset+k.Raw.Length)
		if first {
			s.from = s.key
		}
	}
	s.to = s.keyEnd
	return s
}

// tomlFile is a file to be edited.
type tomlFile struct {
	src   []byte
	all   []statement
	nl    string
	table string
}

// lineEnd is the offset of the newline, or of CRLF, that ends the line of at; the file's end if none does.
func (f *tomlFile) lineEnd(at int) int {
	if i := bytes.IndexByte(f.src[at:], '\n'); i >= 0 {
		at += i
		if f.src[at-1] == '\r' {
			at--
		}
		return at
	}
	return len(f.src)
}

// nextLine is the offset of the line after the one of at.
func (f *tomlFile) nextLine(at int) int {
	if i := bytes.IndexByte(f.src[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(f.src)
}

func (f *tomlFile) lineStart(at int) int { return bytes.LastIndexByte(f.src[:at], '\n') + 1 }

func (f *tomlFile) find(path ...string) int {
	return slices.IndexFunc(f.all, func(s statement) bool { return s.is(path...) })
}

// add writes a new entry: at the file's end, or into the inline table where all servers are in one.
func (f *tomlFile) add(want []member) []splice {
	if i := f.find(f.table); i >= 0 && f.all[i].brace > 0 {
		return f.intoInline(i, Entry+" = { "+strings.Join(assignments(want), ", ")+" }")
	}
	return f.section(want)
}

// section writes the entry's own table at the file's end.
func (f *tomlFile) section(want []member) []splice {
	text := "[" + f.table + "." + Entry + "]" + f.nl + strings.Join(assignments(want), f.nl) + f.nl
	end := len(f.src)
	if end > 0 && f.src[end-1] != '\n' {
		text = f.nl + text
	}
	if len(bytes.TrimSpace(f.src)) > 0 {
		text = f.nl + text
	}
	return []splice{{end, end, text}}
}

func (f *tomlFile) intoInline(i int, text string) []splice {
	last := -1
	for j, s := range f.all {
		if s.inline == i {
			last = j
		}
	}
	if last < 0 {
		return []splice{{f.all[i].brace, f.all[i].brace, " " + text}}
	}
	return []splice{{f.all[last].to, f.all[last].to, ", " + text}}
}

func assignments(want []member) []string {
	var lines []string
	for _, m := range want {
		lines = append(lines, m.key+" = "+render(m.value))
	}
	return lines
}

// update sets the members that differ in an entry that exists, however it is written.
func (f *tomlFile) update(entry map[string]any, want []member) []splice {
	var splices []splice
	var missing []member
	for _, m := range want {
		i := f.find(f.table, Entry, m.key)
		switch {
		case reflect.DeepEqual(entry[m.key], decoded(m.value)):
		case i >= 0:
			s := f.all[i]
			splices = append(splices, splice{s.keyEnd, s.to, " = " + render(m.value)})
		default:
			missing = append(missing, m)
		}
	}
	if missing == nil {
		return splices
	}
	i := f.find(f.table, Entry)
	if i >= 0 && f.all[i].brace > 0 {
		return append(splices, f.intoInline(i, strings.Join(assignments(missing), ", "))...)
	}
	if i >= 0 { // its header
		end := f.lineEnd(f.all[i].to)
		return append(splices, splice{end, end, f.nl + strings.Join(assignments(missing), f.nl)})
	}
	for _, s := range f.all { // dotted keys: below one of them, in its way
		if !s.header && len(s.path) == 3 && s.below(f.table, Entry) && s.inline < 0 {
			end, lead := f.lineEnd(s.to), f.nl+string(f.src[s.from:s.key])
			for _, a := range assignments(missing) {
				splices = append(splices, splice{end, end, lead + a})
			}
			return splices
		}
	}
	return append(splices, f.section(missing)...) // only tables below it
}

// remove takes out every table and key of the entry.
func (f *tomlFile) remove() []splice {
	var splices []splice
	for i := 0; i < len(f.all); i++ {
		s := f.all[i]
		if !s.below(f.table, Entry) {
			continue
		}
		from, to := f.lineStart(s.from), f.nextLine(s.to)
		switch {
		case s.header:
			for i+1 < len(f.all) && !f.all[i+1].header { // its keys; what else is below them is a comment of the next one
				i++
				to = max(to, f.nextLine(f.all[i].to))
			}
			above := bytes.HasSuffix(f.src[:from], []byte(f.nl+f.nl))
			if above && (to == len(f.src) || bytes.HasPrefix(f.src[to:], []byte(f.nl))) {
				from -= len(f.nl) // one of the empty lines around it
			}
		case s.inline >= 0:
			from, to = f.fromInline(i)
			i = f.last(i)
		default:
			i = f.last(i)
		}
		splices = append(splices, splice{from, to, ""})
	}
	return splices
}

// last is the index of the last statement inside of statement i.
func (f *tomlFile) last(i int) int {
	j := i
	for j+1 < len(f.all) && f.all[j+1].inline >= i {
		j++
	}
	return j
}

// fromInline is what of an inline table goes with statement i: also the comma on one side.
func (f *tomlFile) fromInline(i int) (from, to int) {
	s := f.all[i]
	from, to = s.from, s.to
	for j, t := range f.all {
		if t.inline == s.inline && j < i {
			from = t.to
		}
	}
	if from != s.from {
		return from, to
	}
	for j, t := range f.all {
		if t.inline == s.inline && j > i {
			return s.from, t.from
		}
	}
	return from, to
}
