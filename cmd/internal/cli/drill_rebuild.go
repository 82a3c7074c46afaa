package cli

import (
	"github.com/spf13/cobra"

	"sallyport/cmd/internal/drill"
)

func (a *app) drillRebuild() *cobra.Command {
	var o drill.Options
	cmd := &cobra.Command{
		Use:   "rebuild [-- CMD…]",
		Short: "Rebuild a server under a running agent, and answer what it may still do",
		Long: `Start a gateway of its own in a temporary folder, then a client and a supervised server
(sp mcp -- CMD). Approve a write, rebuild the server and replace its process, and answer:
which code acted, was the change seen, does the old approval reach the new code, what was
the client told, how often was written. Six steps, five failures that are easily forgotten,
and a call that leaves out an argument. Exit 0 only if every answer is good.

The drill's own server wants python3. Of CMD, a server of yours, only what changes nothing is
tried: how it is identified, that nothing reaches it without an approval, that a restart is
another epoch.`,
		Example: `  sp drill rebuild --report rebuild
  sp drill rebuild -- node dist/server.js`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().StringVar(&o.Report, "report", "", "write report.json and report.md into folder `DIR`")
	cmd.RunE = a.drill(&o, drill.Rebuild)
	return cmd
}
