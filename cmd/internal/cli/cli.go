// Package cli is sp's commands: the operator's, the agent's and the reviewer's.
//
// A command that needs the gateway is a request to one of its two doors; what a
// reviewer needs (audit verify, sessions, activity, show, export) works on files alone. No
// command reads a secret from argv or the environment.
//
// Documents and tables go to stdout, everything said to a person to stderr.
// Exit: 0 done, 1 refused or failed, 2 usage or unreadable, 3 self-consistent only
// and 6 meaning breached (audit verify), 4 vault locked, absent or quarantined,
// 5 gateway not running.
package cli

import (
	"context"

	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
)

// Main runs sp with args (without the program's name) on the process's own
// streams, environment and terminal, and returns the exit status.
func Main(ctx context.Context, args []string) int {
	return run(ctx, system(), args)
}

// app is one run of sp.
type app struct {
	env
}

func run(ctx context.Context, e env, args []string) int {
	a := &app{env: e}
	var root *cobra.Command
	if len(args) == 1 && args[0] == "mcp" { // hosts wait a second or two for the first answer: no other command is built
		root = a.rootOf(a.mcp())
	} else {
		root = a.root()
	}
	root.SetArgs(args)
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	return a.report(cmd, err)
}

func (a *app) root() *cobra.Command {
	return a.rootOf(
		a.up(), a.down(), a.initVault(), a.unlock(), a.lock(), a.status(),
		a.secret(), a.host(), a.apply(),
		a.approvals(), a.approve(), a.deny(), a.mute(), a.unmute(), a.live(), a.console(), a.passkeys(),
		a.runs(), a.epochs(), a.servers(), a.grants(), a.actions(), a.call(), a.mcp(), a.gitSSH(), a.vault(),
		a.backup(), a.restore(),
		a.incident(), a.drills(), a.install(),
		a.audit(), a.service(), a.doctor(), completion(), a.version(),
	)
}

// rootOf is sp with these commands.
func (a *app) rootOf(commands ...*cobra.Command) *cobra.Command {
	root := group("sp", "Speak to the gateway that acts for agents and keeps their keys", commands...)
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%s", err) })
	return root
}

// group is a command that only holds others. It has a RunE of its own, so that a
// wrong subcommand is a usage error and no help page with exit 0.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, SuggestionsMinimumDistance: 2}
	g.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("%s needs a command", cmd.CommandPath())
		}
		return unknownCommand(cmd, args[0])
	}
	g.AddCommand(children...)
	return g
}

// home finds the folders; commands that work on files alone never ask.
func (a *app) home() (home.Home, error) {
	return home.Find(a.getenv)
}

// do sends one command to the operators' door.
func (a *app) do(ctx context.Context, path string, p *api.Proof, args any, v *client.Value, out any) error {
	return a.command(ctx, client.Command{Path: path, Proof: p, Args: args, Value: v}, out)
}

// command sends one command to the operators' door.
func (a *app) command(ctx context.Context, cmd client.Command, out any) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	c := client.Operator(h)
	defer c.Close()
	return c.Run(ctx, cmd, out)
}
