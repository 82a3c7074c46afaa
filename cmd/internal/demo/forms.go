package demo

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// secret is one credential's value, as it is looked for. The search is this package's own: it must not share a mistake
// with the scrubber that it judges.
type secret struct {
	name  string
	value []byte
	file  []byte // the file that holds the value, where it comes in one
}

// form is one way in which a value may stand in a text.
type form struct {
	name string
	text []byte
}

// forms lists the ways: raw, hex, base64 at each of the three places a value can have in a longer text, percent and JSON escapes.
func (s secret) forms() []form {
	v := s.value
	list := []form{
		{"raw", v}, {"hex", hex.AppendEncode(nil, v)}, {"HEX", bytes.ToUpper(hex.AppendEncode(nil, v))},
		{"percent", []byte(url.QueryEscape(string(v)))}, {"percent (path)", []byte(url.PathEscape(string(v)))},
		{"percent (all)", each(v, "%%%02X")}, {"JSON (slashes)", bytes.ReplaceAll(v, []byte("/"), []byte(`\/`))}, {"JSON (all)", each(v, `\u%04x`)},
	}
	for alphabet, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
		for before := range 3 {
			text := enc.AppendEncode(nil, append(make([]byte, before), v...))
			if before > 0 {
				text = text[before+1:] // these also carry bits of what stands before
			}
			if (before+len(v))%3 != 0 {
				text = text[:len(text)-1] // and this of what stands after
			}
			list = append(list, form{fmt.Sprintf("%s at %d", alphabet, before), text})
		}
	}
	return list
}

func each(v []byte, format string) []byte {
	var b bytes.Buffer
	for _, c := range v {
		fmt.Fprintf(&b, format, c)
	}
	return b.Bytes()
}

// folded takes line breaks out of a text, plain and JSON-escaped: a PEM file is found inside it like one long line.
func folded(text []byte) []byte {
	for _, eol := range []string{"\n", "\r", `\n`, `\r`} {
		text = bytes.ReplaceAll(text, []byte(eol), nil)
	}
	return text
}

// in names the forms of s that text holds.
func (s secret) in(text []byte) (found []string) {
	joined := folded(text)
	for _, f := range s.forms() {
		if bytes.Contains(text, f.text) || bytes.Contains(joined, f.text) {
			found = append(found, f.name)
		}
	}
	return found
}

// plants are texts that give s away, made by other means than forms.
func (s secret) plants() []form {
	v := string(s.value)
	list := []form{
		{"raw", []byte("Bearer " + v)}, {"hex", fmt.Appendf(nil, "token=%x", v)}, {"HEX", fmt.Appendf(nil, "%X.", v)},
		{"percent", []byte(url.Values{"q": {v}}.Encode())}, {"path", []byte("/a/" + url.PathEscape(v) + "/b")},
		{"JSON", []byte(strings.ReplaceAll(v, "/", `\/`))},
	}
	for _, before := range []string{"", "u", "u:"} {
		list = append(list, form{"base64 after " + before, []byte(base64.StdEncoding.EncodeToString([]byte(before + v + "\n")))},
			form{"base64url after " + before, []byte(base64.URLEncoding.EncodeToString([]byte(before + v)))})
	}
	if s.file != nil {
		list = append(list, form{"file", s.file}, form{"file in JSON", bytes.ReplaceAll(s.file, []byte("\n"), []byte(`\n`))})
	}
	return list
}

// keySeed is the secret half of an OpenSSH key file: the 32 bytes before the last copy of the public half.
func keySeed(file []byte, authorized string) ([]byte, error) {
	block, _ := pem.Decode(file)
	words := strings.Fields(authorized)
	if block == nil || len(words) < 2 {
		return nil, errors.New("read key: not in the form expected")
	}
	pub, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil || len(pub) < 32 {
		return nil, errors.New("read key: no public half")
	}
	at := bytes.LastIndex(block.Bytes, pub[len(pub)-32:])
	if at < 32 {
		return nil, errors.New("read key: no private half")
	}
	return bytes.Clone(block.Bytes[at-32 : at]), nil
}
