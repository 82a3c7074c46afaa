package cli

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sallyport/cmd/internal/drill"
)

// drills try on this machine what must hold when something breaks.
func (a *app) drills() *cobra.Command {
	return group("drill", "Try on this machine what a crash or a rebuild leaves behind", a.drillCrash(), a.drillRebuild(), drillClient())
}

func (a *app) drillCrash() *cobra.Command {
	var o drill.Options
	cmd := &cobra.Command{
		Use:   "crash [-- CMD…]",
		Short: "Kill a client hard at three moments, and answer what became of everything",
		Long: `Start a gateway of its own in a temporary folder, with a ledger on loopback as the
service, then a client and its server (sp mcp, or CMD). Kill the client before its call is
sent, after the service accepted it, and after the answer; each time, answer what an
investigation would ask. Exit 0 only if every answer is good.

CMD is any MCP server on stdin and stdout, as a client would start it. One that offers
http_request (sp mcp through a launcher, say) is drilled in full; of others the process is
looked at: does it heed the end of its input, how long does it take, what does it leave.`,
		Example: `  sp drill crash --report crash
  sp drill crash --exit-within 2s -- node dist/server.js`,
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.Report, "report", "", "write report.json and report.md into folder `DIR`")
	f.DurationVar(&o.Within, "exit-within", 10*time.Second, "the server's clean-up expectation: gone so long after its input ended")
	cmd.RunE = a.drill(&o, drill.Crash)
	return cmd
}

// drill is what a drill's command does, once its flags are in o.
func (a *app) drill(o *drill.Options, hold func(context.Context, drill.Options) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			return usage("the server's command stands behind --")
		}
		if o.SP, err = os.Executable(); err != nil {
			return err
		}
		if o.SPD, err = a.spd(); err != nil {
			return err
		}
		o.Client, o.Command, o.Version, o.Out, o.Log = []string{"drill", "client"}, args, versionLine(), a.out, a.err
		return hold(cmd.Context(), *o)
	}
}

// drillClient is the program of a drill's client, which is a copy of sp.
func drillClient() *cobra.Command {
	cmd := &cobra.Command{Use: "client", Hidden: true, Args: cobra.ArbitraryArgs, DisableFlagParsing: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return drill.Client(cmd.Context(), args, os.Stdin, os.Stdout)
	}
	return cmd
}
