package cli

import (
	"github.com/spf13/cobra"

	"sallyport/cmd/internal/mcpshim"
	"sallyport/gateway/client"
)

func (a *app) mcp() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Be an MCP server on stdin and stdout, for an agent's client to start",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			return mcpshim.Run(cmd.Context(), in, out, agent)
		},
	}
}
