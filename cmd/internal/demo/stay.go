package demo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// stay leaves everything up until ctx ends or the gateway is stopped, and says how to use it.
func (d *demo) stay(ctx context.Context) int {
	identity := filepath.Join(d.dir, "reader.identity")
	if err := os.WriteFile(identity, []byte(d.op.created.ReaderIdentity+"\n"), 0o600); err != nil {
		d.out.bad("stay", err.Error())
		return 1
	}
	d.out.line("")
	d.out.title("Everything stays up until Ctrl-C. In another terminal:")
	for _, l := range []string{
		"export SALLYPORT_HOME=" + d.stage.home.Data(),
		"sp() { " + quoted(d.exe) + " sp \"$@\"; }        # or an sp that you built",
		"sp status",
		"sp run ls",
		"sp audit verify",
		"sp audit activity --identity " + quoted(identity),
		"sp call http_request '{\"target\":\"" + apiName + "\",\"path\":\"/headers\",\"method\":\"GET\"}'      # waits for you",
		"sp call ssh_exec '{\"target\":\"" + hostName + "\",\"argv\":[\"" + strings.Join(command(), `","`) + "\"]}'",
		"sp approvals ; sp approve ID                    # from one more terminal",
		"sp console                                      # or say yes in a browser",
	} {
		d.out.line("    " + l)
	}
	d.out.say("The operator's passphrase: %s", d.op.passphrase)
	d.out.say("An MCP client of yours: its server is `%s sp mcp`, with SALLYPORT_HOME in its environment.", d.exe)
	select {
	case <-ctx.Done():
	case <-d.stage.ended:
		d.out.line("\nThe gateway was stopped.")
	}
	return 0
}

// quoted is a path as a shell takes it.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
