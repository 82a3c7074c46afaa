package cli

import (
	"github.com/spf13/cobra"

	"sallyport/cmd/internal/mcpshim"
	"sallyport/gateway/client"
)

func (a *app) mcp() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp [-- CMD ARG…]",
		Short: "Be an MCP server on stdin and stdout, for an agent's client to start",
	}
	wrapped := superviseFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dash := cmd.ArgsLenAtDash(); dash >= 0 && len(args) > dash {
			if dash > 0 {
				return usage("unexpected argument %q: the server's command comes after --", args[0])
			}
			return a.supervise(cmd, wrapped, args)
		}
		if len(args) > 0 {
			return usage("unexpected argument %q: the server's command comes after --", args[0])
		}
		if cmd.Flags().NFlag() > 0 {
			return usage("%s: --label, --reload, --workers, --exit-within and --children are of a server after --", cmd.CommandPath())
		}
		h, err := a.home()
		if err != nil {
			return err
		}
		in, out, err := mcpshim.TakeStdio()
		if err != nil {
			return err
		}
		agent := client.Agent(h)
		defer agent.Close()
		said, in := mcpshim.Begun(in)
		return mcpshim.Run(cmd.Context(), said, in, out, agent)
	}
	return cmd
}
