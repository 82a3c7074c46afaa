package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
)

func (a *app) console() *cobra.Command {
	return &cobra.Command{
		Use:   "console",
		Short: "Print the URL of the web console for one new tab",
		Long: `Print the URL of the web console for one new tab of a browser on this machine. The token behind its # works once,
within ten minutes; the tab then keeps a session of its own until it is closed or loaded anew. With it a page can
read, deny, revoke and lock. To approve it takes the passphrase, or a passkey.`,
		Example: `  xdg-open "$(sp console)"`,
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var o api.ConsoleOpened
			if err := a.do(cmd.Context(), api.PathConsoleOpen, nil, nil, nil, &o); err != nil {
				return err
			}
			fmt.Fprintln(a.out, o.URL)
			return nil
		},
	}
}
