package scrub

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// htmlEscapers are the ways in which pages and XML escape what they show, as the pairs they replace; they differ in the
// characters they take and in how they write them.
var htmlEscapers = []*strings.Replacer{
	escaper("&", "&amp;", "<", "&lt;"),
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;"),                                                                           // text of XML, Java's DOM
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;"),                                                            // an attribute
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;"),                                               // Go, MarkupSafe
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;"),                                              // Rails, lodash, ASP.NET
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;"),                                             // Python, Rack
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#039;"),                                             // PHP
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;"),                                             // XML's own
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;", "/", "&#x2F;"),                              // OWASP's advice
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "=", "&#x3D;"),               // Handlebars
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;", "=", "&#x3D;"), // Mustache
	escaper("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;", "+", "&#x2B;", "`", "&#x60;"),               // .NET, which escapes what is not ASCII too
}

func escaper(pairs ...string) *strings.Replacer { return strings.NewReplacer(pairs...) }

// htmlEscapes yields b as pages show it, where that differs from b.
func htmlEscapes(b []byte, yield func([]byte) bool) bool {
	if !bytes.ContainsAny(b, "&<>\"'/`=+") {
		return true // what is not ASCII is escaped with others by .NET alone, and alone by few
	}
	var last string
	for i, e := range htmlEscapers {
		s := e.Replace(string(b))
		if i == len(htmlEscapers)-1 {
			s = numbered(s)
		}
		if s == string(b) || s == last {
			continue
		}
		if last = s; !yield([]byte(s)) {
			return false
		}
	}
	return true
}

// numbered writes what is not ASCII by its number.
func numbered(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
		} else {
			fmt.Fprintf(&b, "&#x%X;", r)
		}
	}
	return b.String()
}
