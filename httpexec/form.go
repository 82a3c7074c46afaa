package httpexec

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
)

const maxParts = 1000

// checkForm refuses form bodies that change the method a rule has allowed, and multipart bodies that two programs could
// read in two ways.
func (q Request) checkForm() error {
	i := -1
	for j, h := range q.headers {
		if h.name == "Content-Type" {
			i = j
		}
	}
	if i < 0 || len(q.body) == 0 || q.Effect() == "read" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(q.headers[i].value)
	looks := strings.ToLower(q.headers[i].value)
	switch {
	case kind == "application/x-www-form-urlencoded" || err != nil && strings.Contains(looks, "urlencoded"):
		return checkPairs(string(q.body))
	case err != nil && strings.Contains(looks, "multipart"):
		return invalid("the content type of a multipart body is not readable")
	case kind == "multipart/form-data":
		return checkParts(q.body, params["boundary"])
	}
	return nil
}

func checkPairs(body string) error {
	for part := range strings.FieldsFuncSeq(body, func(c rune) bool { return c == '&' || c == ';' }) {
		key, _, _ := strings.Cut(part, "=")
		plain, err := unescape(strings.ReplaceAll(key, "+", " "))
		if err != nil {
			plain = key
		}
		if overrides(plain) {
			return invalid("the form's key " + quote(plain) + " overrides the method; name the method itself")
		}
	}
	return nil
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
			return invalid("the form's key " + quote(p.FormName()) + " overrides the method; name the method itself")
		}
		if _, err := io.Copy(io.Discard, p); err != nil {
			return bad
		}
	}
	return invalid("the multipart body has more than 1000 parts")
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
