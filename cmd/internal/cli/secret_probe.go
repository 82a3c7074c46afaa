package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

// secretTest has a credential's probe sent.
func (a *app) secretTest() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "See whether a credential works, by a read that its rules allow",
		Long: `See whether a credential works: the gateway sends the read that was named with --probe,
or by the preset, to the origin of the credential's first rule. It is recorded as the
operator's act. Of the answer only the status is shown. Exit 0 for a status from 200 to 299.`,
		Example: "  sp secret test github",
		Args:    exactly("NAME"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		var t api.Tested
		if err := a.do(cmd.Context(), api.PathCredentialTest, nil, api.NameArgs{Name: words[0]}, nil, &t); err != nil {
			return err
		}
		if asJSON {
			if err := a.document(t); err != nil {
				return err
			}
		} else {
			said := []string{escape(t.Outcome)}
			if t.Status != 0 {
				said = append(said, "status "+strconv.Itoa(t.Status))
			}
			if t.Detail != "" {
				said = append(said, escape(t.Detail))
			}
			verdict := "does not show that it works"
			if t.Works {
				verdict = "works"
			}
			fmt.Fprintf(a.out, "%s %s\n  %s: %s\n", escape(t.Credential), verdict, escape(t.Operation), strings.Join(said, ", "))
		}
		if !t.Works {
			return exitError(1)
		}
		return nil
	}
	return cmd
}

// secretPresets lists what --preset knows.
func (a *app) secretPresets() *cobra.Command {
	return listing(a, "presets", "List the services that --preset knows", api.PathCredentialPresets,
		[]column{{"PRESET", vital}, {"KIND", fixed}, {"SITE", fixed}, {"VALUE", words}, {"ABOUT", words}},
		func(p api.Preset) []string {
			s := p.Site
			if s == "" {
				s = "--site"
			}
			return []string{p.Name, p.Kind, s, p.Value, p.About}
		})
}
