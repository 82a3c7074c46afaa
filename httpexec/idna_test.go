package httpexec

import "testing"

func TestInternationalHosts(t *testing.T) {
	hostile(t, "H03", func(t *testing.T) {
		r := rules(t, bearer("GET https://api.example.com/**"))
		// Not guessed at: the refusal says which spelling is beyond doubt.
		for _, h := range []string{"ａｐｉ.example.com", "api。example.com", "api．example.com", "аpi.example.com", "１２７.１", "exämple.com", "\xff.com"} {
			_, err := ParseRequest(Input{URL: "https://" + h + "/"})
			wantError(t, err, "invalid_request", "A-label")
		}
		_, err := r.Match(parse(t, Input{URL: "https://xn--pi-6kc.example.com/"})) // the Cyrillic look-alike's A-label
		wantError(t, err, "rule_mismatch", "origin")
		match(t, rules(t, bearer("GET https://xn--exmple-cua.com/**")), parse(t, Input{URL: "https://XN--exmple-cua.com/"}))
	})
}
