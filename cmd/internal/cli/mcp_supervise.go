package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sallyport/cmd/internal/mcpshim"
	wrapper "sallyport/cmd/internal/mcpshim/wrap"
	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/peer"
)

// labelForm is what the gateway takes as a server's label.
var labelForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// exitLimit is the longest time a server may be expected to need for its end.
const exitLimit = time.Minute

// superviseFlags are those of `sp mcp -- CMD`, which starts a server of others' under supervision.
func superviseFlags(cmd *cobra.Command) *wrapper.Config {
	c := &wrapper.Config{Alone: true}
	f := cmd.Flags()
	f.StringVar(&c.Label, "label", "", "the server's name for approvals and the log (default: from CMD)")
	f.StringVar(&c.Reload, "reload", "none", "when its files change: none (only say so) or restart; restart also starts it again when it has ended")
	f.IntVar(&c.Workers, "workers", 1, "how many processes may read the server's stdin at once")
	f.DurationVar(&c.ExitWithin, "exit-within", 0, "how long the server is expected to need once its stdin is closed; a breach is recorded")
	f.StringVar(&c.Children, "children", "", "what is expected of the server's own children at its end: die or keep")
	cmd.Long = `Without a command: the gateway's own tools.

With a command after -- : that MCP server, supervised. The gateway measures what is
started and opens an epoch for it; each tools/call goes to the server only under a
grant of that epoch. A restart, a replaced process or a changed contract of a tool
asks for approval again. The server's own stderr is passed on as it is; lines from
here begin with "sp mcp:", or are status lines such as

  build changed: dist/server.js
  running process unchanged: pid=48192 epoch=ep_…

The server finds the agents' door in the variable SALLYPORT_AGENT_SOCK: a path, no key.`
	return c
}

// supervise runs a server between its host and the gateway.
func (a *app) supervise(cmd *cobra.Command, c *wrapper.Config, argv []string) error {
	switch {
	case c.Reload != "none" && c.Reload != "restart":
		return usage("--reload is none or restart")
	case c.Children != "" && c.Children != "die" && c.Children != "keep":
		return usage("--children is die or keep")
	case c.Workers < 1:
		return usage("--workers is at least 1")
	case c.ExitWithin < 0 || c.ExitWithin > exitLimit:
		return usage("--exit-within is at most %s", exitLimit)
	case argv[0] == "":
		return usage("the server's command is empty")
	}
	if c.Label == "" {
		c.Label = labelOf(argv)
	}
	if !labelForm.MatchString(c.Label) {
		return usage("--label is 1 to 64 letters, digits, dots, dashes and underscores")
	}
	h, err := a.home()
	if err != nil {
		return err
	}
	c.Command, c.Env = argv, os.Environ()
	if c.Dir, err = os.Getwd(); err != nil {
		return fmt.Errorf("find working directory: %w", err)
	}
	c.Open = func(ctx context.Context, pushed func(api.Push)) (wrapper.Link, error) {
		s, err := client.DialServer(ctx, h, pushed)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	c.Serving = func(ctx context.Context) ([]*peer.Listener, error) { return client.Serving(ctx, h) }
	if err := wrapper.Adopt(); err != nil {
		return fmt.Errorf("adopt what a server leaves behind: %w", err)
	}
	in, out, err := mcpshim.TakeStdio()
	if err != nil {
		return err
	}
	gone, release := peer.Feeder()
	defer release()
	return wrapper.Run(cmd.Context(), *c, wrapper.Host{In: in, Out: out, Err: os.Stderr, Gone: gone})
}

// labelOf is a label from a command: the script's name without its ending where an interpreter runs one.
func labelOf(argv []string) string {
	name := filepath.Base(argv[0])
	for _, arg := range argv[1:] {
		if ext := filepath.Ext(arg); !strings.HasPrefix(arg, "-") && ext != "" {
			name = strings.TrimSuffix(filepath.Base(arg), ext)
			break
		}
	}
	name = regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(name, "-")
	if len(name) > 64 {
		name = name[:64]
	}
	return name
}
