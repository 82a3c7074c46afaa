package gateway

import (
	"strings"
	"testing"
	"unicode"

	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
)

// The card tells everything that decides an action's effect: no part of it hides past a limit or off the card.
func TestCardTellsAll(t *testing.T) {
	const mark = "DROP-ALL"
	pad := strings.Repeat("a", 7<<10)
	http := func(in httpexec.Input) string {
		t.Helper()
		q, err := httpexec.ParseRequest(in)
		if err != nil {
			t.Fatal(err)
		}
		return shownHTTP(q)
	}
	ssh := func(in sshexec.Input) string {
		t.Helper()
		c, err := sshexec.ParseCommand(in)
		if err != nil {
			t.Fatal(err)
		}
		return shownSSH(api.ToolSSH, "web", hostAsk{cmd: c})
	}
	const url = "https://api.example.com/x"
	for name, card := range map[string]string{
		"query":   http(httpexec.Input{URL: url, Query: map[string]string{"a": pad, "z": mark}}),
		"path":    http(httpexec.Input{URL: url + "/" + pad + "/" + mark}),
		"header":  http(httpexec.Input{URL: url, Headers: map[string]string{"X-Action": mark}}),
		"headers": http(httpexec.Input{URL: url, Headers: map[string]string{"A": pad, "X-Action": pad + mark}}),
		"body":    http(httpexec.Input{URL: url, Method: "POST", Body: []byte(mark)}),
		"argv":    ssh(sshexec.Input{Argv: []string{"rm", pad, mark}}),
		"shell":   ssh(sshexec.Input{Shell: "true; " + mark}),
		"stdin":   ssh(sshexec.Input{Argv: []string{"sh"}, Stdin: []byte(mark)}),
	} {
		if !strings.Contains(card, mark) {
			t.Errorf("%s: the card hides it: %.120s", name, card)
		}
	}
	for name, card := range map[string]string{
		"long argv":  ssh(sshexec.Input{Argv: []string{"rm", strings.Repeat("\x01", 9<<10), mark}}),
		"long stdin": ssh(sshexec.Input{Argv: []string{"sh"}, Stdin: []byte(pad + mark)}),
		"long body":  http(httpexec.Input{URL: url, Method: "POST", Body: []byte(pad + mark)}),
	} {
		if !strings.Contains(card, "bytes, sha256:") || len(card) > 64<<10 {
			t.Errorf("%s: cut, and not said: %.120s", name, card)
		}
	}
}

// I17: what the agent wrote can't look like a line of the card, move the cursor, turn the text or stay unseen.
func TestCardTextIsInert(t *testing.T) {
	evil := "a\nheader X: 1\r\x1b[2J\u202e\u2066\u200b\u00ad\u034f\u115f\u3164\uffa0\u2800\ufe0f\U000e0100\U000e0041\u2028\u0085z"
	q, err := httpexec.ParseRequest(httpexec.Input{URL: "https://api.example.com/x", Method: "POST", Body: []byte(evil)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := sshexec.ParseCommand(sshexec.Input{Argv: []string{"echo", evil}, Stdin: []byte(evil)})
	if err != nil {
		t.Fatal(err)
	}
	for _, card := range []string{shownHTTP(q), shownSSH(api.ToolSSH, "web", hostAsk{cmd: c}), escape(evil, 4096)} {
		for l := range strings.SplitSeq(card, "\n") {
			if strings.HasPrefix(l, "header X") {
				t.Errorf("the agent wrote a line of the card: %q", l)
			}
		}
		for _, r := range card {
			if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == '\u2800') {
				t.Errorf("raw %U on the card", r)
			}
		}
	}
}

// What a card names is what is sent: two calls that differ in anything sent have different digests.
func TestDigestTellsCallsApart(t *testing.T) {
	seen := map[[32]byte]string{}
	add := func(name, tool string, args any) {
		t.Helper()
		q := parse(api.ActionRequest{Tool: tool, Args: encode(args)})
		if q.fault != nil {
			t.Fatalf("%s: %v", name, q.fault)
		}
		d := bind(q, nil).digest
		if old, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", name, old)
		}
		seen[d] = name
	}
	u := "https://api.example.com/x"
	add("plain", api.ToolHTTP, api.HTTPArgs{URL: u})
	add("method", api.ToolHTTP, api.HTTPArgs{URL: u, Method: "POST"})
	add("query", api.ToolHTTP, api.HTTPArgs{URL: u + "?a=1"})
	add("bare", api.ToolHTTP, api.HTTPArgs{URL: u + "?a"})
	add("empty value", api.ToolHTTP, api.HTTPArgs{URL: u + "?a="})
	add("header", api.ToolHTTP, api.HTTPArgs{URL: u, Headers: map[string]string{"Accept": "a"}})
	add("header moved to body", api.ToolHTTP, api.HTTPArgs{URL: u, Body: "Accepta"})
	add("port", api.ToolHTTP, api.HTTPArgs{URL: "https://api.example.com:8443/x"})
	add("slash", api.ToolHTTP, api.HTTPArgs{URL: u + "/"})
	add("argv", api.ToolSSH, api.SSHArgs{Target: "web", Argv: []string{"a", "b"}})
	add("argv joined", api.ToolSSH, api.SSHArgs{Target: "web", Argv: []string{"a b"}})
	add("shell", api.ToolSSH, api.SSHArgs{Target: "web", Shell: "'a' 'b'"})
	add("stdin", api.ToolSSH, api.SSHArgs{Target: "web", Argv: []string{"a", "b"}, Stdin: "x"})
	add("host", api.ToolSSH, api.SSHArgs{Target: "db", Argv: []string{"a", "b"}})
	add("timeout", api.ToolSSH, api.SSHArgs{Target: "web", Argv: []string{"a", "b"}, TimeoutSeconds: 7})
}
