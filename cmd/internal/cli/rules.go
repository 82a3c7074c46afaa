package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sallyport/gateway/api"
)

// ruleFlags are the flags of `secret add` and `secret rebind` that say what a credential may be used for and how it is sent.
type ruleFlags struct {
	set   *pflag.FlagSet
	given api.HTTPRules
	ca    string // a file's name
}

func newRuleFlags(cmd *cobra.Command) *ruleFlags {
	x := &ruleFlags{set: pflag.NewFlagSet("rules", pflag.ContinueOnError)}
	httpFlags(x.set, &x.given)
	x.set.StringVar(&x.ca, "ca", "", "trust the certificates in `FILE` (PEM) for this credential's origins, and no others")
	cmd.Flags().AddFlagSet(x.set)
	return x
}

// rules are what the flags say, with what they name by file.
func (x *ruleFlags) rules() (api.HTTPRules, error) {
	if x.ca == "" {
		return x.given, nil
	}
	pem, err := readFile(x.ca)
	if err != nil {
		return x.given, err
	}
	if !utf8.Valid(pem) || !strings.Contains(string(pem), "-----BEGIN CERTIFICATE-----") {
		return x.given, usage("--ca %s holds no PEM certificate", x.ca)
	}
	x.given.CA = string(pem)
	return x.given, nil
}

// over lays the flags that were given over the rules that stand; an empty one takes its rule away.
func (x *ruleFlags) over(stand api.HTTPRules) (out api.HTTPRules, err error) {
	given, err := x.rules()
	if err != nil {
		return out, err
	}
	over, err := fields(given)
	if err != nil {
		return out, err
	}
	under, err := fields(stand)
	if err != nil {
		return out, err
	}
	x.set.VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed {
			return
		}
		key := fieldOf(flag.Name)
		delete(under, key)
		if v, ok := over[key]; ok && string(v) != `[""]` {
			under[key] = v
		}
	})
	b, err := json.Marshal(under)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(b, &out, json.RejectUnknownMembers(true))
}

func fields(r api.HTTPRules) (out map[string]jsontext.Value, err error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(b, &out)
}

// fieldOf is a flag's name as JSON has it.
func fieldOf(flag string) string {
	parts := strings.Split(flag, "-")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}

// flagOf is a JSON name as a flag's.
func flagOf(field string) string {
	var b strings.Builder
	for _, r := range field {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
