package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) secretList() *cobra.Command {
	return listing(a, "ls", "List the credentials, without their values", api.PathCredentialList,
		[]column{{"NAME", vital}, {"KIND", fixed}, {"ACCOUNT", words}, {"CONFIRM", fixed}, {"SCRUB", fixed}, {"VERSION", fixed}, {"RULES", vital}},
		func(c api.Credential) []string {
			return []string{c.Name, c.Kind, c.Account, c.Confirm, c.Scrub, strconv.FormatUint(c.Version, 10), strings.Join(c.Rules, "; ")}
		})
}

func (a *app) secretShow() *cobra.Command {
	return showing(a, "Show a credential's rules, and who uses it; never its value", api.PathCredentialShow, func(c api.CredentialShown) error {
		pairs := []string{"name", c.Name, "kind", c.Kind, "account", c.Account, "confirm", c.Confirm, "scrub", c.Scrub, "version", strconv.FormatUint(c.Version, 10)}
		label := "may"
		if c.Kind == "ssh-key" {
			label = "public key"
		}
		for _, r := range c.Rules {
			pairs = append(pairs, label, r)
		}
		set, err := settingPairs(c.Settings)
		if err != nil {
			return err
		}
		pairs = append(pairs, set...)
		for _, h := range c.Hosts {
			pairs = append(pairs, "host", h)
		}
		for _, g := range c.Grants {
			pairs = append(pairs, "grant", g)
		}
		facts(a.out, "", pairs...)
		return nil
	})
}

// settingPairs are the rules that no listing shows, under the names of their flags.
func settingPairs(r api.HTTPRules) ([]string, error) {
	r.Allow, r.Scrub = nil, ""
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	d := jsontext.NewDecoder(strings.NewReader(string(b)))
	var out []string
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() == jsontext.KindString {
		key, err := d.ReadToken()
		name := key.String()
		if err != nil {
			return nil, err
		}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		out = append(out, flagOf(name), plain(value))
	}
	return out, nil
}

// plain is a JSON value for people: a text without its quotes, a list with commas.
func plain(v jsontext.Value) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		if first, more, _ := strings.Cut(text, "\n"); more != "" {
			return first + " …"
		}
		return text
	}
	var list []string
	if json.Unmarshal(v, &list) == nil {
		return strings.Join(list, ", ")
	}
	return string(v)
}

// showing is `show NAME` of a noun.
func showing[T any](a *app, short, path string, print func(T) error) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "show NAME", Short: short, Args: exactly("NAME")}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		v, err := fetchNamed[T](cmd.Context(), a, path, words[0])
		switch {
		case err != nil:
			return err
		case asJSON:
			return a.document(v)
		}
		return print(v)
	}
	return cmd
}

func fetchNamed[T any](ctx context.Context, a *app, path, name string) (v T, err error) {
	return v, a.do(ctx, path, nil, api.NameArgs{Name: name}, nil, &v)
}
