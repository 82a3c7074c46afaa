package httpexec

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const maxParts = 1000

// checkForm refuses bodies that change the method a rule has allowed, and multipart bodies that two programs could read in
// two ways. A body without a readable type is held to be a form: so does Rack.
func (q Request) checkForm() error {
	if len(q.body) == 0 || q.Effect() == "read" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(q.contentType())
	said := strings.ToLower(q.contentType())
	inJSON := strings.Contains(said, "/json") || strings.Contains(said, "+json") // as Laravel looks for it
	if inJSON {
		if err := checkMembers(q.body); err != nil {
			return err
		}
	}
	switch {
	case err != nil && strings.Contains(said, "multipart"):
		return invalid("the content type of a multipart body is not readable")
	case err != nil, !strings.Contains(kind, "/"):
		return checkPairs(string(q.body))
	}
	isForm := kind == "application/x-www-form-urlencoded" || strings.HasPrefix(kind, "multipart/")
	switch {
	case isForm && !slices.Contains([]string{"", "utf-8", "utf8", "us-ascii", "iso-8859-1"}, strings.ToLower(params["charset"])):
		return invalid("the charset of a form is not one that reads its keys as they are written; use utf-8")
	case kind == "application/x-www-form-urlencoded":
		return checkPairs(string(q.body))
	case kind == "multipart/form-data":
		return checkParts(q.body, params["boundary"])
	case isForm:
		return checkHeads(q.body, params["boundary"])
	}
	return nil
}

func (q Request) contentType() string {
	for _, h := range q.headers {
		if h.name == "Content-Type" {
			return h.value
		}
	}
	return ""
}

func override(key string) error {
	return invalid("the body's key " + quote(key) + " overrides the method; name the method itself")
}

func checkPairs(body string) error {
	for part := range strings.FieldsFuncSeq(body, func(c rune) bool { return c == '&' || c == ';' }) {
		key, _, _ := strings.Cut(part, "=")
		plain := unescapeAny(strings.ReplaceAll(key, "+", " "))
		if plain, _, _ = strings.Cut(plain, "\x00"); overrides(plain) { // PHP ends a key there
			return override(plain)
		}
	}
	return nil
}

// unescapeAny decodes the escapes that are good and leaves the others.
func unescapeAny(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && hexDigit(s[i+1]) && hexDigit(s[i+2]) {
			b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// checkMembers looks at the names of a JSON body's own members: Laravel takes the method from one. Every reader must see
// the same ones, so what is no JSON is refused.
func checkMembers(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		t, err := d.ReadToken()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return invalid("the body is not the JSON that its content type says")
		}
		if kind, n := d.StackIndex(d.StackDepth()); d.StackDepth() == 1 && kind == '{' && n%2 == 1 && overrides(t.String()) {
			return override(t.String())
		}
	}
}

// overrides tells the keys by which a framework takes another method than the request's.
func overrides(key string) bool {
	return sameKey(key, "_method") || methodOverride(strings.ReplaceAll(flatKey(key), "_", "-"))
}

func checkParts(body []byte, boundary string) error {
	bad := invalid("the body is not the multipart that its content type says, or a part's name has quotes or line breaks in it")
	if boundary == "" || !bytes.HasPrefix(body, []byte("--"+boundary)) {
		return bad
	}
	if !soundHeads(body, boundary) {
		return bad
	}
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for range maxParts {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil || !soundPart(http.Header(p.Header)) {
			return bad
		}
		if overrides(p.FormName()) {
			return override(p.FormName())
		}
		if _, err := io.Copy(io.Discard, p); err != nil {
			return bad
		}
	}
	return invalid("the multipart body has more than 1000 parts")
}

// checkHeads looks through a multipart body that is no form by its type: Rack reads multipart/mixed and multipart/related as
// one all the same, by a part's name or else its Content-ID. What is in the parts is not looked at.
func checkHeads(body []byte, boundary string) error {
	if boundary == "" {
		return invalid("the content type of a multipart body names no boundary")
	}
	for part := range bytes.SplitSeq(body, []byte("--"+boundary)) {
		head := string(part)
		for _, end := range []string{"\r\n\r\n", "\n\n", "\r\r"} {
			head, _, _ = strings.Cut(head, end)
		}
		head = strings.ReplaceAll(flatKey(strings.ReplaceAll(unescapeAny(head), `\`, "")), "-", "_")
		for _, key := range []string{"_method", "method_override"} {
			if strings.Contains(head, key) {
				return override(key)
			}
		}
	}
	return nil
}

// soundHeads: lines end as RFC 2046 says and none is folded, so that every parser sees the same ones.
func soundHeads(body []byte, boundary string) bool {
	for part := range bytes.SplitSeq(append([]byte("\r\n"), body...), []byte("\r\n--"+boundary)) {
		head, _, ok := bytes.Cut(part, []byte("\r\n\r\n"))
		if !ok {
			head = part // before the first and after the last
		}
		for i, c := range head {
			lf := i+1 < len(head) && head[i+1] == '\n'
			folded := i+2 < len(head) && (head[i+2] == ' ' || head[i+2] == '\t')
			if c == '\r' && (!lf || folded) || c == '\n' && (i == 0 || head[i-1] != '\r') || c == 0 {
				return false
			}
		}
	}
	return true
}

// soundPart: one disposition, whose names every parser reads alike.
func soundPart(h http.Header) bool {
	d := h["Content-Disposition"]
	if len(d) != 1 {
		return false
	}
	kind, params, err := mime.ParseMediaType(d[0])
	if err != nil || kind != "form-data" || params["name"] == "" || strings.Contains(d[0], `\`) || strings.Contains(d[0], "*") {
		return false
	}
	for _, key := range []string{"name", "filename"} {
		if strings.ContainsFunc(params[key], func(c rune) bool { return control(c) || c == '"' }) {
			return false
		}
	}
	return true
}
