package gateway

import (
	"bytes"
	"regexp"
	"strings"

	"sallyport/gateway/api"
)

// sourced is one value of a file that people keep secrets in.
type sourced struct {
	from  string // a variable's name, or a machine's
	line  int    // from 1
	value []byte
	login string // netrc
}

// source is such a file, read: what has a value, and what has none that one could be sure of.
type source struct {
	values  []sourced
	refused []api.Refused
}

func (s *source) refuse(from string, line int, reason string) {
	s.refused = append(s.refused, api.Refused{From: escape(from, 64), Line: line, Reason: reason})
}

// sourceLimit bounds what a file may hold.
const sourceLimit = 4096

var (
	variable   = regexp.MustCompile(`^(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*`)
	shellWords = regexp.MustCompile("\\$[A-Za-z_{(0-9]|`")
)

// readEnv reads an env file: KEY=value lines, with export, quotes and comments as a POSIX shell has them. Readers of such
// files differ in what $, backslashes and unquoted spaces mean; a line that they would not all read the same is refused.
func readEnv(b []byte) source {
	var out source
	text := strings.TrimPrefix(string(b), "\ufeff")
	line := 0
	for text != "" && len(out.values)+len(out.refused) < sourceLimit {
		line++
		at := line
		one, after, _ := strings.Cut(text, "\n")
		trimmed := strings.TrimLeft(strings.TrimRight(one, "\r"), " \t")
		m := variable.FindStringSubmatch(trimmed)
		if m == nil {
			text = after
			if trimmed != "" && trimmed[0] != '#' {
				out.refuse("", at, "no KEY=value line")
			}
			continue
		}
		said := text[strings.Index(one, m[0])+len(m[0]):]
		rest, after := valueLines(said)
		line += strings.Count(said[:len(said)-len(after)], "\n")
		if after != "" || strings.HasSuffix(said, "\n") {
			line-- // the one that ends the value's last line
		}
		text = after
		value, why := unquoteEnv(rest)
		if why != "" {
			out.refuse(m[1], at, why)
			continue
		}
		out.values = append(out.values, sourced{from: m[1], line: at, value: value})
	}
	if text != "" {
		out.refuse("", line+1, "the file is longer than what is read of one")
	}
	return out.once()
}

// valueLines cuts off the lines of the value that text begins with: one, or with a quote that is not closed there (keys
// have many) all up to the line that closes it. Looked for once, however many lines there are.
func valueLines(text string) (value, after string) {
	n := 0
	if text != "" && (text[0] == '\'' || text[0] == '"') {
		_, rest, ok := quoted(text)
		if n = len(text) - len(rest); !ok {
			n = len(text)
		}
	}
	if i := strings.IndexByte(text[n:], '\n'); i >= 0 {
		value, after = text[:n+i], text[n+i+1:]
	} else {
		value = text
	}
	return strings.TrimRight(strings.ReplaceAll(value, "\r\n", "\n"), "\r"), after
}

// quoted reads the quoted text that s begins with, and gives what follows it.
func quoted(s string) (inner, after string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] == '"':
			i++
		case s[i] == s[0]:
			return s[1:i], s[i+1:], true
		}
	}
	return "", "", false
}

// unquoteEnv reads a value; why says what is wrong with it.
func unquoteEnv(s string) (value []byte, why string) {
	if s == "" || s[0] == '#' {
		return nil, "empty"
	}
	if s[0] != '\'' && s[0] != '"' {
		bare, _, _ := strings.Cut(s, " #")
		bare, _, _ = strings.Cut(bare, "\t#")
		bare = strings.TrimRight(bare, " \t")
		switch {
		case strings.ContainsAny(bare, " \t"):
			return nil, "spaces without quotes around them"
		case strings.ContainsAny(bare, `'"\`):
			return nil, "a quote or a backslash in the middle; put the whole value in single quotes"
		case shellWords.MatchString(bare):
			return nil, "a $ or ` that a shell would replace; put the value in single quotes, or say what it stands for"
		}
		return []byte(bare), ""
	}
	inner, after, ok := quoted(s)
	switch rest := strings.TrimLeft(after, " \t"); {
	case !ok:
		return nil, "a quote that is not closed"
	case rest != "" && (rest[0] != '#' || len(rest) == len(after)):
		return nil, "something after the closing quote"
	case inner == "":
		return nil, "empty"
	case s[0] == '\'':
		return []byte(inner), ""
	}
	return unescapeEnv(inner)
}

// unescapeEnv reads what double quotes hold.
func unescapeEnv(s string) (value []byte, why string) {
	var b bytes.Buffer
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' {
			if (c == '$' || c == '`') && shellWords.MatchString(s[i:min(i+2, len(s))]) {
				return nil, "a $ or ` that a shell would replace; put the value in single quotes, or say what it stands for"
			}
			b.WriteByte(c)
			continue
		}
		i++
		switch s[i] { // quoted leaves no backslash at the end
		case 'n':
			b.WriteByte('\n')
		case '\n': // a line that goes on
		case '"', '\\', '$', '`':
			b.WriteByte(s[i])
		default:
			return nil, "a backslash that readers of such files take differently; put the value in single quotes"
		}
	}
	return b.Bytes(), ""
}

// once refuses what is there more than once: which one counts is the reader's choice.
func (s source) once() source {
	lines := map[string]int{}
	twice := map[string]bool{}
	for _, v := range s.values {
		if lines[v.from] > 0 {
			twice[v.from] = true
		}
		lines[v.from] = v.line
	}
	var out source
	out.refused = s.refused
	for _, v := range s.values {
		if twice[v.from] {
			out.refuse(v.from, v.line, "there more than once; leave the one that counts")
			continue
		}
		out.values = append(out.values, v)
	}
	return out
}

// joinAWS makes one value of the variables that AWS's tools keep a key in.
func (s source) joinAWS() source {
	find := func(name string) *sourced {
		for i := range s.values {
			if s.values[i].from == name {
				return &s.values[i]
			}
		}
		return nil
	}
	id, secret, session := find("AWS_ACCESS_KEY_ID"), find("AWS_SECRET_ACCESS_KEY"), find("AWS_SESSION_TOKEN")
	if id == nil || secret == nil {
		return s
	}
	parts := [][]byte{id.value, secret.value}
	if session != nil {
		parts = append(parts, session.value)
	}
	out := source{refused: s.refused}
	for _, v := range s.values {
		switch v.from {
		case "AWS_ACCESS_KEY_ID":
			v.value = bytes.Join(parts, []byte(":"))
		case "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN":
			continue // told with the key's id
		}
		out.values = append(out.values, v)
	}
	return out
}
