package gateway

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/gateway/api"
	"sallyport/httpexec"
)

// What the card says of an action: all that decides its effect. Whatever is too long to be shown is said to be there,
// with its size and digest, so that nothing is approved behind an ellipsis.
const (
	shownWhole = 40 << 10 // bytes, escaped: a URL or a header is never longer
	shownLine  = 16 << 10 // of a command
	shownBytes = 4 << 10  // of a body or stdin
)

// preview is what the log keeps of a call beside its digest: no body, no header value, no value of a query.
func (p *plan) preview() string {
	if p.relay != nil {
		return cut(fmt.Sprintf("%s arguments of %d bytes, sha256:%x", p.operation, len(p.relay.args), sha256.Sum256(p.relay.args)), previewLimit)
	}
	if p.onHost() {
		if p.job != nil {
			return cut(p.operation, previewLimit)
		}
		return cut(p.host.line(p.tool), previewLimit)
	}
	line := p.http.Method() + " " + p.http.Origin() + p.http.Path()
	if n := len(p.http.Body()); n > 0 {
		line += fmt.Sprintf(" body of %d bytes, sha256:%x", n, sha256.Sum256(p.http.Body()))
	}
	return cut(line, previewLimit)
}

// previewLimit is in bytes.
const previewLimit = 512

// cut bounds a text; the log's readers escape it when they show it.
func cut(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// shownHTTP is a request line by line: method and URL, the caller's own headers, the body.
func shownHTTP(q httpexec.Request) string {
	var b strings.Builder
	b.WriteString(escape(q.Method()+" "+q.URL(), shownWhole))
	headers := q.Headers()
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		b.WriteString("\nheader " + escape(name+": "+headers[name], shownWhole))
	}
	if len(q.Body()) > 0 {
		b.WriteString("\n" + shownData("body", q.Body()))
	}
	return b.String()
}

// shownSSH is what is asked of a host: a command as the login shell gets it and what it is fed, a file, a repository.
func shownSSH(tool, target string, a hostAsk) string {
	var b strings.Builder
	line, what := a.line(tool), "ssh "
	if tool == api.ToolJob {
		what = "job on "
	}
	b.WriteString(escape(what+target+": "+line, shownLine))
	if len(line) > shownLine/2 { // escaped it may have been cut
		fmt.Fprintf(&b, "\ncommand: %d bytes, sha256:%x", len(line), sha256.Sum256([]byte(line)))
	}
	if data := a.supplied(); len(data) > 0 {
		name := "stdin"
		if tool == api.ToolUpload {
			name = "file"
		}
		b.WriteString("\n" + shownData(name, data))
	}
	return b.String()
}

func shownData(what string, data []byte) string {
	head := fmt.Sprintf("%s: %d bytes, sha256:%x", what, len(data), sha256.Sum256(data))
	if len(data) > shownBytes {
		head += fmt.Sprintf("; the first %d are", shownBytes)
	}
	return head + block(string(data[:min(len(data), shownBytes+1)]), shownBytes)
}
