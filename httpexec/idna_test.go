package httpexec

import "testing"

func TestInternationalHosts(t *testing.T) {
	hostile(t, "H03", func(t *testing.T) {
		r := rules(t, bearer("GET https://api.example.com/**"))
		for _, h := range []string{"ａｐｉ.example.com", "api。example.com", "api．example｡com", "ＡＰＩ.example.com。", "api.example.com"} {
			q := parse(t, Input{URL: "https://" + h + "/"})
			if q.Origin() != "https://api.example.com" {
				t.Errorf("%s is %s", h, q.Origin())
			}
			match(t, r, q)
		}
		q := parse(t, Input{URL: "https://аpi.example.com/"}) // its first letter is Cyrillic
		if q.Origin() != "https://xn--pi-7kc.example.com" && q.Origin() == "https://api.example.com" {
			t.Errorf("look-alike is %s", q.Origin())
		}
		_, err := r.Match(q)
		wantError(t, err, "rule_mismatch", "origin")
		for _, h := range []string{"１２７.１", "１２７。０.１", "0ｘ7f.1", "a／b.com", "a＠b.com", "a：80", "\xff.com", "xn--a", "xn--.com", "a\u200d.com", "ﷺ.com:80:1"} {
			_, err := ParseRequest(Input{URL: "https://" + h + "/"})
			if err == nil {
				t.Errorf("%q taken", h)
			}
		}
		match(t, rules(t, bearer("GET https://xn--exmple-cua.com/**")), parse(t, Input{URL: "https://exämple.com/"}))
		match(t, rules(t, bearer("GET https://r3---sn-ab.example/**")), parse(t, Input{URL: "https://R3---sn-ab.example/"}))
	})
}
