package httpexec

import (
	"strings"
	"testing"
)

func form(kind, body string) Input {
	h := map[string]string{"Content-Type": kind}
	if kind == "" {
		h = nil
	}
	return Input{URL: "https://a.example/x", Method: "POST", Headers: h, Body: []byte(strings.ReplaceAll(body, "\n", "\r\n"))}
}

func part(disposition string) string {
	return "--b\nContent-Disposition: " + disposition + "\n\nvalue\n--b--\n"
}

// H15 in the body: many frameworks take the method from a form's key. H36: a part's name that two parsers read in two ways.
func TestForms(t *testing.T) {
	const urlencoded, multi = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	for _, c := range []struct {
		in   Input
		word string // empty: taken
	}{
		{form(urlencoded, "a=1&method=delete"), ""},
		{form(urlencoded, "a=_method"), ""},
		{form(urlencoded, "_method=delete"), "overrides the method"},
		{form(urlencoded, "a=1&%5Fmethod=delete"), "overrides the method"},
		{form(urlencoded, "a=1;_METHOD=delete"), "overrides the method"},
		{form(urlencoded+"; charset=utf-8", "_method%5B%5D=delete"), "overrides the method"},
		{form("APPLICATION/X-WWW-FORM-URLENCODED", "_method=delete"), "overrides the method"},
		{form("application/x-www-form-urlencoded; x", "_method=delete"), "overrides the method"},
		{form(urlencoded, "X-HTTP-Method-Override=delete"), "overrides the method"},
		{form(urlencoded, "%zz=1&_method=delete"), "overrides the method"},
		{form("text/plain", "_method=delete"), ""},
		// Rack takes a POST without a type for a form, and reads multipart/mixed and multipart/related as one.
		{form("", "_method=delete"), "overrides the method"},
		{form(" ", "_method=delete"), "overrides the method"},
		{form("", "hello"), ""},
		{form("x", "a=1&_method=delete"), "overrides the method"},
		{form("multipart/mixed; boundary=b", part(`form-data; name="_method"`)), "overrides the method"},
		{form("multipart/related; boundary=b", part(`form-data; name="_method"`)), "overrides the method"},
		{form("multipart/related; boundary=b", "--b\nContent-ID: _method\n\nDELETE\n--b--\n"), "overrides the method"},
		{form("multipart/related; boundary=b", "--b\nContent-Type: application/json\n\n{}\n--b\nContent-Type: image/png\nContent-ID: <a@b>\n\nx\n--b--\n"), ""},
		{form("multipart/mixed", part(`form-data; name="a"`)), "multipart"},
		// PHP ends a key at a NUL, and leaves a bad escape as it is.
		{form(urlencoded, "_method%00x=delete"), "overrides the method"},
		{form(urlencoded, "%5Fmethod[%zz]=delete"), "overrides the method"},
		{form(urlencoded+"; charset=ibm037", "m%85=1"), "charset"},
		{form(urlencoded+"; charset=UTF-8", "a=1"), ""},
		{form(multi+"; charset=utf-16", part(`form-data; name="a"`)), "charset"},
		// Laravel takes the method from a JSON body's member; Express does where it is told to.
		{form("application/json", `{"a":{"_method":"delete"},"b":["_method"]}`), ""},
		{form("application/json", `{"_method":"delete"}`), "overrides the method"},
		{form("application/json; charset=utf-8", `{"a":1,"\u005fmethod":"delete"}`), "overrides the method"},
		{form("Application/Vnd.Api+JSON", `{"_METHOD":"delete"}`), "overrides the method"},
		{form("text/json", `{"X-HTTP-Method-Override":"delete"}`), "overrides the method"},
		{form("application/json", `{"a":1,"a":2,"_method":"delete"}`), "overrides the method"},
		{form("application/json", `{"a":"`+"\xff"+`","_method":"delete"}`), "overrides the method"},
		{form("application/json", `{"a":1}{"_method":"delete"}`), "overrides the method"},
		{form("application/json", `{"a":NaN,"_method":"delete"}`), "JSON"},
		{form("application/json; x=\"", `{"_method":"delete"}`), "overrides the method"},
		{form(urlencoded+"; a=\"/json\"", `{"a":"&_method=delete&"}`), "overrides the method"},
		{form("application/json", `{"method":"delete","a":[1,2]}`), ""},
		{form(multi, part(`form-data; name="file"; filename="a b.txt"`)), ""},
		{form(multi, part(`form-data; name="_method"`)), "overrides the method"},
		{form(multi, part(`form-data; name=_Method`)), "overrides the method"},
		{form(multi, part(`form-data; name="a"; filename="x\"; name=\"b"`)), "quotes"},
		{form(multi, part("form-data; name=\"a\"; filename=\"x\n evil: 1\"")), "quotes"},
		{form(multi, part(`form-data; name="a"; filename*=utf-8''x`)), "quotes"},
		{form(multi, part(`form-data; name="a"`+"\nContent-Disposition: form-data; name=\"b\"")), "quotes"},
		{form(multi, part(`attachment; name="a"`)), "quotes"},
		{form(multi, "--b\nContent-Disposition: form-data; name=\"a\"\n\nno end"), "multipart"},
		{form(multi, "preamble\n"+part(`form-data; name="a"`)), "multipart"},
		{form("multipart/form-data", part(`form-data; name="a"`)), "multipart"},
		{form("multipart/form-data; boundary=", "x"), "multipart"},
		{form(multi, strings.Repeat("--b\nContent-Disposition: form-data; name=\"a\"\n\nv\n", 1001)+"--b--\n"), "1000"},
	} {
		_, err := ParseRequest(c.in)
		if c.word == "" {
			if err != nil {
				t.Errorf("%q %q: %v", c.in.Headers, c.in.Body, err)
			}
			continue
		}
		t.Logf("%q %q", c.in.Headers, c.in.Body[:min(len(c.in.Body), 100)])
		wantError(t, err, "invalid_request", c.word)
	}
}

func FuzzForm(f *testing.F) {
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--b--\r\n"))
	f.Add("application/x-www-form-urlencoded", []byte("a=1&_method=x"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		q := Request{method: "POST", headers: []pair{{name: "Content-Type", value: kind}}, body: body}
		if err := q.checkForm(); err == nil && kind == "application/x-www-form-urlencoded" && strings.HasPrefix(string(body), "_method=") {
			t.Fatal("a method override passes")
		}
	})
}
