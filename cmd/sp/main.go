// Command sp is the operator's, the agent's and the reviewer's program. It links
// no vault code: what needs the vault is a request to spd.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sallyport/cmd/internal/cli"
	_ "sallyport/cmd/internal/mcpshim/first/before"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := cli.Main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
