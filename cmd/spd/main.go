// Command spd is the gateway daemon: it holds the vault and performs the actions. `spd demo` shows the whole product.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"sallyport/cmd/internal/cli"
	"sallyport/cmd/internal/release"
	"sallyport/gateway"
	"sallyport/gateway/home"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// exitCode ends the program with a status that a command has already explained.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "sp" {
		return cli.Main(ctx, args[1:]) // the demo's shim: one file is enough for `go run`
	}
	root := commands()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "spd: %v\n", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

var errUsage = errors.New("see `spd --help`")

func commands() *cobra.Command {
	var uid uint32
	var console string
	foreground := &cobra.Command{
		Use:   "serve",
		Short: "run the gateway in the foreground",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			web, err := consoleOf(console, cmd.Flags().Changed("console"))
			if err != nil {
				return err
			}
			return serve(cmd.Context(), uid, cmd.Flags().Changed("serve-uid"), web)
		},
	}
	foreground.Flags().StringVar(&console, "console", "on", "web console: `on|off`; without the flag the gateway also goes on where its addresses can't be had")
	foreground.Flags().Uint32Var(&uid, "serve-uid", 0, "serve the user `UID` from a user of one's own, with sockets in the system's folder (see `sp service print`)")
	root := &cobra.Command{
		Use:     "spd",
		Short:   "the " + home.Product + " gateway: acts with credentials that agents never hold",
		Long:    "spd holds the vault and performs the actions that agents ask for. It is started with `sp up`, or runs in the\nforeground with `spd serve` (also: spd with no arguments). Everything else is done with `sp`.",
		Version: release.This().Version,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), 0, false, gateway.ConsoleWanted)
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w; %w", err, errUsage) })
	root.AddCommand(append(demoCommands(), foreground)...)
	return root
}

// consoleOf reads --console. Asked for by name it must be had.
func consoleOf(word string, asked bool) (gateway.Console, error) {
	switch {
	case word == "off":
		return gateway.ConsoleOff, nil
	case word != "on":
		return 0, fmt.Errorf("--console %q: on or off; %w", word, errUsage)
	case asked:
		return gateway.ConsoleRequired, nil
	}
	return gateway.ConsoleWanted, nil
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unknown argument %q; %w", args[0], errUsage)
	}
	return nil
}
