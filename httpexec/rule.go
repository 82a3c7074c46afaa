package httpexec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// rule is one line of --allow.
type rule struct {
	methods []string
	origin  origin // host may begin with "*."
	segs    []string
	query   []pair // values are patterns; sorted as written
}

// segment wildcards
const (
	one  = "*"     // one segment
	raw  = "{raw}" // one segment that may hold %2F or ";"
	rest = "**"    // one or more segments, only at the end
)

// parseRule reads one rule. Only the canonical spelling is taken; the error for
// another says how to write it.
func parseRule(s string) (rule, error) {
	if len(s) > maxURL {
		return rule{}, errors.New("longer than 8 KiB")
	}
	methods, url, ok := strings.Cut(s, " ")
	if !ok {
		return rule{}, errors.New(`write METHODS URL, like "GET,POST https://api.example.com/v1/**"`)
	}
	r := rule{methods: strings.Split(methods, ",")}
	for i, m := range r.methods {
		r.methods[i] = strings.ToUpper(m)
		if !validMethod(r.methods[i]) {
			return rule{}, fmt.Errorf("method %s: write names like GET,POST", quote(m))
		}
		if slices.Contains(r.methods[:i], r.methods[i]) {
			return rule{}, fmt.Errorf("method %s is written twice", r.methods[i])
		}
	}
	scheme, authority, after, err := splitURL(url)
	if err != nil {
		return rule{}, err
	}
	if r.origin, err = parseOrigin(scheme, authority, true); err != nil {
		return rule{}, err
	}
	if err := r.origin.checkWildcard(); err != nil {
		return rule{}, err
	}
	path, query, hasQuery := strings.Cut(after, "?")
	if path == "" {
		return rule{}, errors.New(`no path; end with "/**" for every path`)
	}
	if r.segs, err = parsePattern(path); err != nil {
		return rule{}, err
	}
	if hasQuery {
		if r.query, err = parseQueryPattern(query); err != nil {
			return rule{}, err
		}
	}
	if c := r.String(); c != s {
		return rule{}, fmt.Errorf("write it as %q", c)
	}
	return r, nil
}

// checkWildcard: below a public suffix every name is somebody else's.
func (o origin) checkWildcard() error {
	base, ok := strings.CutPrefix(o.host, "*.")
	if !ok {
		return nil
	}
	if suffix, _ := publicsuffix.PublicSuffix(base); suffix == base || numericHost(base) {
		return fmt.Errorf("host %s: anybody can own a name there; write more labels after the star", o.host)
	}
	return nil
}

func numericHost(h string) bool { return numeric(h[strings.LastIndex(h, ".")+1:]) }

func parsePattern(path string) ([]string, error) {
	segs := strings.Split(path[1:], "/")
	for i, s := range segs {
		switch {
		case s == one || s == raw:
		case s == rest:
			if i != len(segs)-1 {
				return nil, errors.New(`"**" can only be the last segment`)
			}
		case strings.Contains(s, "*"):
			return nil, errors.New(`"*" stands for a whole segment; write a literal star as %2A`)
		case strings.ContainsAny(s, "{}"):
			return nil, errors.New(`braces are only in "{raw}"; write literal ones as %7B and %7D`)
		default:
			c, err := canonicalPath("/" + s)
			if err == nil && s == "" && i != len(segs)-1 {
				err = errors.New("path holds an empty segment")
			}
			if err != nil {
				return nil, err
			}
			segs[i] = c[0]
		}
	}
	return segs, nil
}

// parseQueryPattern reads KEY=PATTERN pairs. A pattern's "*" is kept as a wildcard,
// %2A is a star; so patterns stay escaped until they are matched.
func parseQueryPattern(s string) ([]pair, error) {
	var out []pair
	for part := range strings.SplitSeq(s, "&") {
		k, v, ok := strings.Cut(part, "=")
		if !ok || k == "" {
			return nil, errors.New(`after "?" write KEY=PATTERN`)
		}
		key, err := unescape(k)
		if err != nil {
			return nil, errors.New("query holds a bad percent escape")
		}
		var b strings.Builder
		for i, lit := range strings.Split(v, "*") {
			if lit, err = unescape(lit); err != nil {
				return nil, errors.New("query holds a bad percent escape")
			}
			if i > 0 {
				b.WriteByte('*')
			}
			escapeQuery(&b, lit)
		}
		p := pair{name: key, value: b.String()}
		if err := checkQuery(pair{name: key}); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o pair) bool { return sameKey(o.name, key) }) {
			return nil, fmt.Errorf("query key %s is written twice", quote(key))
		}
		out = append(out, p)
	}
	return out, nil
}

// String is the rule as it is written in --allow.
func (r rule) String() string {
	var b strings.Builder
	b.WriteString(strings.Join(r.methods, ","))
	b.WriteByte(' ')
	b.WriteString(r.origin.String())
	for _, s := range r.segs {
		b.WriteByte('/')
		b.WriteString(s)
	}
	for i, p := range r.query {
		b.WriteByte("?&"[min(i, 1)])
		escapeQuery(&b, p.name)
		b.WriteByte('=')
		b.WriteString(p.value)
	}
	return b.String()
}

// allows returns "" or why q is not covered: the first part that differs.
func (r rule) allows(q Request) string {
	switch {
	case !r.origin.covers(q.origin):
		return "origin"
	case !r.coversPath(q.segs):
		return "path"
	case !slices.Contains(r.methods, q.method):
		return "method"
	}
	for _, p := range r.query {
		if why := p.constrains(q.query); why != "" {
			return why
		}
	}
	return ""
}

func (o origin) covers(q origin) bool {
	if q.host == "" || o.scheme != q.scheme || o.port != q.port {
		return false
	}
	base, wild := strings.CutPrefix(o.host, "*")
	if !wild {
		return o.host == q.host
	}
	label, ok := strings.CutSuffix(q.host, base)
	return ok && label != "" && !strings.Contains(label, ".")
}

func (r rule) coversPath(segs []string) bool {
	for i, p := range r.segs {
		if i >= len(segs) {
			return false
		}
		s := segs[i]
		switch {
		case p == rest:
			return !slices.ContainsFunc(segs[i:], needsRaw)
		case p == raw:
			if s == "" {
				return false
			}
		case p == one:
			if s == "" || needsRaw(s) {
				return false
			}
		case p != s:
			return false
		}
	}
	return len(r.segs) == len(segs)
}

// constrains returns "" if p's key is in q exactly once with a matching value. A twin
// that some framework reads as the same key counts.
func (p pair) constrains(q []pair) string {
	key := "query key " + quote(p.name)
	found := -1
	for i, o := range q {
		if !sameKey(o.name, p.name) {
			continue
		}
		if found >= 0 || o.name != p.name {
			return key + " given twice"
		}
		found = i
	}
	if found < 0 {
		return key + " missing"
	}
	if !glob(p.value, q[found].value) {
		return key
	}
	return ""
}

// glob matches a query pattern: literal parts are percent-escaped, "*" is any run.
func glob(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	for i, p := range parts {
		lit, err := unescape(p)
		if err != nil {
			return false
		}
		parts[i] = lit
	}
	return globParts(parts, s)
}

// globParts reports whether s is parts in order with anything between them.
func globParts(parts []string, s string) bool {
	last := len(parts) - 1
	if last == 0 {
		return s == parts[0]
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1:last] {
		if _, s, ok = strings.Cut(s, p); !ok {
			return false
		}
	}
	return strings.HasSuffix(s, parts[last])
}
