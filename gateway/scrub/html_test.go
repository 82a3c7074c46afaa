package scrub

import (
	"bytes"
	"encoding/xml"
	"html"
	"strings"
	"testing"
)

// An error page repeats what it was given in HTML, a service that speaks XML in XML. Each row is an escaper as it stands
// in the frameworks in use, written as the pairs it replaces.
func TestHTML(t *testing.T) {
	const secret = `pa&ss<w>o"r'd+/=42` + "`é"
	var x bytes.Buffer
	if err := xml.EscapeText(&x, []byte(secret)); err != nil {
		t.Fatal(err)
	}
	for name, shown := range map[string]string{
		"Go":         html.EscapeString(secret),
		"Go XML":     x.String(),
		"Python":     strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(secret),
		"PHP":        strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#039;").Replace(secret),
		"Rails":      strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(secret),
		"XML":        strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace(secret),
		"text node":  strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(secret),
		"no bracket": strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(secret),
		"attribute":  strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(secret),
		"Handlebars": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "=", "&#x3D;").Replace(secret),
		"Mustache":   strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;", "=", "&#x3D;").Replace(secret),
		".NET":       strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;", "+", "&#x2B;", "`", "&#x60;", "é", "&#xE9;").Replace(secret),
	} {
		if got, hits := New([]byte(secret)).String("<p>" + shown + "</p>"); got != "<p>"+Mask+"</p>" || hits != 1 {
			t.Errorf("%s: %q, %d hits", name, got, hits)
		}
	}
	if n := len(New([]byte("plain-token_17.x")).forms); n > 20 {
		t.Errorf("a value that no page escapes has %d forms", n)
	}
}
