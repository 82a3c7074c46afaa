package main

import (
	"os"

	"github.com/spf13/cobra"

	"sallyport/cmd/internal/demo"
	"sallyport/cmd/internal/release"
)

// demoCommands are the demo, and the agent that it starts as a process of its own.
func demoCommands() []*cobra.Command {
	var stay bool
	story := &cobra.Command{
		Use:   "demo",
		Short: "show the whole product, in a temporary folder",
		Long:  "Show the whole product, in a temporary folder and on loopback alone: vault, gateway, agent, approvals,\nrevocation, the two logs and their verification. Exit 0 only if all of it held.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exitCode(demo.Run(cmd.Context(), demo.Options{Out: os.Stdout, Stay: stay, Version: release.This().Version, Ours: ours(), Listen: listen}))
		},
	}
	story.Flags().BoolVar(&stay, "stay", false, "leave everything up until Ctrl-C")
	agent := &cobra.Command{
		Use:                demo.AgentCommand + " SHIM [ARG…]",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo.Agent(cmd.Context(), os.Stdin, os.Stdout, os.Stderr, args)
		},
	}
	return []*cobra.Command{story, agent}
}
