package gateway

import (
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/vault"
)

// What an operator types, an apply file says, the vault keeps and a listing shows are the same fields under the same
// names: camelCase in JSON, snake_case in TOML. So one form turns into another by its names, and a field added to
// api.HTTPRules and httpexec.Spec is everywhere at once. A test holds the two to each other.

// field is one of a credential's or host's settings as TOML would say it.
type field struct{ key, value string }

// fieldsOf lists the fields that v, a document of ours, has, in the order of its type.
func fieldsOf(v any) []field {
	var out []field
	d := jsontext.NewDecoder(strings.NewReader(string(encode(v))))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	for d.PeekKind() == jsontext.KindString {
		key, err := d.ReadToken()
		name := key.String()
		if err != nil {
			return nil
		}
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		out = append(out, field{snake(name), string(value)})
	}
	return out
}

// differences lists what is another in next than in was, under a prefix; a field that one of them lacks is empty there.
func differences(prefix string, was, next []field) []api.Change {
	var keys []string
	for _, f := range slices.Concat(next, was) {
		if !slices.Contains(keys, f.key) {
			keys = append(keys, f.key)
		}
	}
	value := func(in []field, key string) string {
		if i := slices.IndexFunc(in, func(f field) bool { return f.key == key }); i >= 0 {
			return in[i].value
		}
		return ""
	}
	out := []api.Change{}
	for _, k := range keys {
		if a, b := value(was, k), value(next, k); a != b {
			out = append(out, api.Change{Setting: prefix + k, Old: a, New: b})
		}
	}
	return out
}

// changedKeys names what a list of changes is about, for the log.
func changedKeys(changes []api.Change) []string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = c.Setting
	}
	return out
}

// snake is a JSON name as TOML has it: allowHttp is allow_http.
func snake(camel string) string {
	var b strings.Builder
	for _, r := range camel {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// camel is a TOML key as JSON has it. A key that is no snake_case comes back as one that no field has.
func camel(key string) string {
	parts := strings.Split(key, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	if out := strings.Join(parts, ""); snake(out) == key {
		return out
	}
	return key + "?"
}

// specOf is an HTTP kind's rules as httpexec reads them.
func specOf(kind string, h api.HTTPRules) (s httpexec.Spec, err error) {
	err = json.Unmarshal(encode(h), &s, json.RejectUnknownMembers(true))
	s.Kind = kind
	return s, err
}

// typedRules is a stored credential's rules as they were typed.
func typedRules(m vault.Meta) (h api.HTTPRules, err error) {
	if !isHTTP(m.Kind) {
		return h, nil
	}
	var s httpexec.Spec
	if err = json.Unmarshal(m.Rules, &s, json.RejectUnknownMembers(true)); err != nil {
		return h, err
	}
	s.Kind = ""
	var parts map[string]jsontext.Value
	if err = json.Unmarshal(encode(s), &parts); err != nil {
		return h, err
	}
	delete(parts, "kind")
	return h, json.Unmarshal(encode(parts), &h, json.RejectUnknownMembers(true))
}

// credentialFields are what an apply file says of a credential: all but its name and value.
func credentialFields(m vault.Meta) ([]field, error) {
	h, err := typedRules(m)
	if err != nil {
		return nil, err
	}
	said := struct {
		Kind      string `json:"kind"`
		Account   string `json:"account,omitzero"`
		Confirm   string `json:"confirm"`
		Principal string `json:"principal,omitzero"`
		api.HTTPRules
	}{Kind: m.Kind, Account: m.Account, Confirm: m.Confirm, HTTPRules: h}
	if logsIn(m.Kind) {
		said.Principal = readLoginRules(m).Principal
	}
	return fieldsOf(said), nil
}
