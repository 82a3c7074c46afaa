package first

// request is what Answer looks at in a line.
type request struct {
	id           []byte // nil for a notification
	method       string
	version      string // params.protocolVersion
	capabilities bool   // params.capabilities is an object
	client       bool   // params.clientInfo is an object
	cursor       bool   // params.cursor is there
	meta         meta
}

// meta is params._meta.
type meta struct {
	version      string
	capabilities bool // is an object
	wrongClient  bool // is there, and no object
}

// read takes the lines that hosts begin with, and those only if they are plain (see scanner). What it takes jsonline.Parse
// takes too, and reads in the same way; what it doesn't take is left to that.
func read(line []byte) (request, bool) {
	var r request
	members, ok := object(line)
	version := false
	for _, m := range members {
		switch m.name {
		case "jsonrpc":
			version = string(m.value) == `"2.0"`
		case "id":
			r.id, ok = m.value, ok && (m.value[0] == '"' || whole(m.value))
		case "method":
			r.method = text(m.value)
		case "params":
			ok = ok && r.params(m.value)
		default:
			return r, false
		}
	}
	return r, ok && version && r.method != ""
}

func (r *request) params(v []byte) bool {
	members, ok := object(v)
	for _, m := range members {
		switch m.name {
		case "protocolVersion":
			r.version = text(m.value)
		case "capabilities":
			r.capabilities = m.value[0] == '{'
		case "clientInfo":
			r.client = m.value[0] == '{'
		case "cursor":
			r.cursor = true
		case "_meta":
			ok = ok && r.meta.read(m.value)
		}
	}
	return ok
}

func (t *meta) read(v []byte) bool {
	members, ok := object(v)
	for _, m := range members {
		switch m.name {
		case "io.modelcontextprotocol/protocolVersion":
			t.version = text(m.value)
			ok = ok && t.version != ""
		case "io.modelcontextprotocol/clientCapabilities":
			t.capabilities = m.value[0] == '{'
		case "io.modelcontextprotocol/clientInfo":
			t.wrongClient = m.value[0] != '{'
		}
	}
	return ok
}

// text is a string's content; "" for any other value.
func text(v []byte) string {
	if v[0] != '"' {
		return ""
	}
	return string(v[1 : len(v)-1])
}

// whole says that a number is a plain one without a sign.
func whole(v []byte) bool {
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// scanner reads plain JSON: RFC 8259 in printable ASCII, without escapes in strings, without a name that stands twice in an
// object, with at most 64 members in one and 16 levels.
type scanner struct {
	b []byte
	i int
}

const (
	memberLimit = 64
	depthLimit  = 16
)

type member struct {
	name  string
	value []byte // never empty
}

// object splits an object that fills b, but for the blanks around it.
func object(b []byte) ([]member, bool) {
	s := scanner{b: b}
	if s.peek() != '{' {
		return nil, false
	}
	members, ok := s.object(0)
	return members, ok && s.peek() == 0 && s.i == len(b)
}

// peek skips blanks and shows the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take skips blanks and the byte c.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

func (s *scanner) value(depth int) (v []byte, ok bool) {
	if depth > depthLimit {
		return nil, false
	}
	c, from := s.peek(), s.i
	switch {
	case c == '{':
		_, ok = s.object(depth)
	case c == '[':
		ok = s.array(depth)
	case c == '"':
		_, ok = s.string()
	case c == '-' || c >= '0' && c <= '9':
		ok = s.number()
	default:
		ok = s.word("true") || s.word("false") || s.word("null")
	}
	return s.b[from:s.i], ok
}

func (s *scanner) object(depth int) (members []member, ok bool) {
	if s.take('{'); s.take('}') {
		return nil, true
	}
	for len(members) < memberLimit {
		s.peek()
		name, ok := s.string()
		for _, m := range members {
			ok = ok && m.name != name
		}
		if !ok || !s.take(':') {
			return nil, false
		}
		v, ok := s.value(depth + 1)
		if !ok {
			return nil, false
		}
		members = append(members, member{name, v})
		if !s.take(',') {
			return members, s.take('}')
		}
	}
	return nil, false
}

func (s *scanner) array(depth int) bool {
	if s.take('['); s.take(']') {
		return true
	}
	for {
		if _, ok := s.value(depth + 1); !ok {
			return false
		}
		if !s.take(',') {
			return s.take(']')
		}
	}
}

func (s *scanner) string() (string, bool) {
	if s.i == len(s.b) || s.b[s.i] != '"' {
		return "", false
	}
	from := s.i + 1
	for i := from; i < len(s.b) && s.b[i] >= ' ' && s.b[i] <= '~' && s.b[i] != '\\'; i++ {
		if s.b[i] == '"' {
			s.i = i + 1
			return string(s.b[from:i]), true
		}
	}
	return "", false
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) number() bool {
	s.word("-")
	if !s.word("0") && !s.digits() {
		return false
	}
	if s.word(".") && !s.digits() {
		return false
	}
	if s.word("e") || s.word("E") {
		if !s.word("+") {
			s.word("-")
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}
