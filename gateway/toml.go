package gateway

import (
	"errors"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// tomlDepth bounds the parts of a key and what lies in one another: the decoder's work and memory grow with its square.
// A file of ours needs six.
const tomlDepth = 16

var errDeep = errors.New("a key of more than 16 parts, or values in one another more than 16 deep")

// decodeTOML reads a file of the operator's into doc, whose top tables are those of tops. unknown is a key that has no
// place in it; the decoder alone would take SETTINGS for settings, and of two spellings either one.
func decodeTOML(file []byte, doc any, tops ...string) (md toml.MetaData, unknown string, err error) {
	text := string(file)
	if !shallow(text) {
		return md, "", errDeep
	}
	if md, err = toml.Decode(text, doc); err != nil {
		return md, "", err
	}
	for _, key := range md.Keys() {
		if !slices.Contains(tops, key[0]) || key[0] == "settings" && slices.ContainsFunc(key, otherSpelling) {
			return md, key.String(), nil
		}
	}
	if un := md.Undecoded(); len(un) > 0 {
		unknown = un[0].String()
	}
	return md, unknown, nil
}

// otherSpelling tells whether a part of a key is no setting's name as it is written: the decoder folds letters beyond ASCII too.
func otherSpelling(part string) bool { return strings.Trim(part, "abcdefghijklmnopqrstuvwxyz_") != "" }

// shallow tells whether TOML keeps within tomlDepth, without keeping anything of it. What it takes for a string is one as
// far as the file is TOML, and further than that no decoder goes.
func shallow(text string) bool {
	parts, depth := 1, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '\'':
			i += tomlString(text[i:]) - 1
		case '#':
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				return true
			}
			i += n - 1
		case '.':
			parts++
		case '\n', '=', ',':
			parts = 1
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if parts > tomlDepth || depth > tomlDepth {
			return false
		}
	}
	return true
}

// tomlString is the length of the string that text begins with.
func tomlString(text string) int {
	quote := text[:1]
	many := strings.HasPrefix(text, strings.Repeat(quote, 3))
	i := 1
	if many {
		i = 3
	}
	for ; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == `"`:
			i++
		case many && strings.HasPrefix(text[i:], strings.Repeat(quote, 3)):
			for i += 3; i < len(text) && text[i] == quote[0]; i++ { // up to two belong to it still
			}
			return i
		case !many && text[i] == quote[0]:
			return i + 1
		case !many && text[i] == '\n':
			return i // no string, and the end of what is read
		}
	}
	return len(text)
}
