package gateway

import "strings"

// readNetrc reads a netrc as curl and git do: machine, login, password, account, macdef, default; words apart by white
// space, also in double quotes; # begins a comment.
func readNetrc(b []byte) source {
	var out source
	t := netrcWords{text: strings.TrimPrefix(string(b), "\ufeff"), line: 1}
	var now *sourced
	end := func() {
		if now == nil {
			return
		}
		switch {
		case now.from == "":
			out.refuse("default", now.line, "it is for any host, and a credential is for one")
		case len(now.value) == 0:
			out.refuse(now.from, now.line, "no password")
		default:
			out.values = append(out.values, *now)
		}
		now = nil
	}
	for len(out.values)+len(out.refused) < sourceLimit {
		word, line, ok := t.next()
		if !ok {
			break
		}
		switch word {
		case "default":
			end()
			now = &sourced{line: line}
			continue
		case "macdef":
			t.next()
			t.skipMacro()
			continue
		}
		if strings.HasPrefix(strings.TrimLeft(t.text, " \t\r\n"), "#") { // passed over, the word after it would be taken for the value
			out.refuse("", line, "what follows begins with #, which some read as a comment; put it in double quotes")
			now = nil
			continue
		}
		value, _, ok := t.next()
		switch {
		case !ok:
			out.refuse("", line, "ends in the middle of an entry")
		case word == "machine":
			end()
			now = &sourced{from: value, line: line}
		case now == nil:
			out.refuse("", line, "a word outside of any machine's entry")
		case word == "login":
			now.login = value
		case word == "password":
			now.value = []byte(value)
		case word != "account":
			out.refuse(now.from, line, "a word that no netrc has; a password with a space needs double quotes")
			now = nil
		}
	}
	end()
	return out.once()
}

// netrcWords takes a netrc apart.
type netrcWords struct {
	text string
	line int
}

// next is the next word, and the line it is in.
func (t *netrcWords) next() (word string, line int, ok bool) {
	for t.text != "" {
		switch c := t.text[0]; {
		case c == '\n':
			t.line++
			t.text = t.text[1:]
		case c == ' ' || c == '\t' || c == '\r':
			t.text = t.text[1:]
		case c == '#':
			i := strings.IndexByte(t.text, '\n')
			if i < 0 {
				i = len(t.text)
			}
			t.text = t.text[i:]
		default:
			return t.word()
		}
	}
	return "", t.line, false
}

func (t *netrcWords) word() (word string, line int, ok bool) {
	line = t.line
	if t.text[0] == '"' {
		if inner, after, closed := quoted(t.text); closed && !strings.Contains(inner, "\n") {
			t.text = after
			return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(inner), line, true
		}
	}
	i := strings.IndexAny(t.text, " \t\r\n")
	if i < 0 {
		i = len(t.text)
	}
	word, t.text = t.text[:i], t.text[i:]
	return word, line, true
}

// skipMacro passes over a macro: the rest of its line, and lines up to an empty one.
func (t *netrcWords) skipMacro() {
	_, t.text, _ = strings.Cut(t.text, "\n")
	t.line++
	for t.text != "" {
		var one string
		one, t.text, _ = strings.Cut(t.text, "\n")
		t.line++
		if strings.TrimSpace(one) == "" {
			return
		}
	}
}
