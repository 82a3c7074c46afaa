package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

// gitSSH is git's ssh command. Git's own options come before the host: they are read by hand, since what follows the host
// is the remote command, whatever it looks like.
func (a *app) gitSSH() *cobra.Command {
	return &cobra.Command{
		Use:   "git-ssh HOST COMMAND",
		Short: "Be git's ssh command: GIT_SSH_COMMAND=\"sp git-ssh\"",
		Long: `Be git's ssh command. Git reaches the repositories that a host's rules name, as an
agent: each clone, fetch and push is an action, approved and recorded like every other.
HOST is the name of a stored host; user and port are its entry's. The path must be
written as --allow-git has it. A push is held to the host's git rules before any of it
leaves.`,
		Example: `  sp host add forge --address git.example.org:22 --user git --credential deploy-key --enrol \
     --allow-git org/repo --git-rule 'no-push refs/heads/main'
  GIT_SSH_COMMAND="sp git-ssh" git clone forge:org/repo`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 1 && (words[0] == "-h" || words[0] == "--help") {
				return cmd.Help()
			}
			g, err := a.gitArgs(words)
			if err != nil {
				return err
			}
			h, err := a.home()
			if err != nil {
				return err
			}
			agent := client.Agent(h)
			defer agent.Close()
			return a.serveGit(cmd.Context(), agent, g)
		},
	}
}

// gitArgs reads what git gives its ssh command. Of the options of OpenSSH only the one that passes the protocol's version
// on is taken; -G, by which git finds out which ssh this is, is answered with exit 1: none that git knows.
func (a *app) gitArgs(words []string) (api.GitArgs, error) {
	g := api.GitArgs{Protocol: a.getenv("GIT_PROTOCOL")}
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		switch {
		case words[0] == "-G":
			return g, exitError(1)
		case words[0] == "-o" && len(words) > 1 && words[1] == "SendEnv=GIT_PROTOCOL":
			words = words[2:]
		default:
			return g, usage("the ssh option %s is not taken: user, port and options are the stored host's", words[0])
		}
	}
	if len(words) < 2 {
		return g, usage("git gives a host and a command")
	}
	if strings.Contains(words[0], "@") {
		return g, usage("%s names a user; the stored host has its own: write %s", words[0], words[0][strings.LastIndex(words[0], "@")+1:])
	}
	g.Target, g.Argv = words[0], words[1:]
	return g, nil
}

// serveGit moves the bytes until the host has ended.
func (a *app) serveGit(ctx context.Context, agent *client.Client, g api.GitArgs) error {
	g.WaitSeconds = firstWait
	x, err := agent.Git(ctx, g)
	told := false
	for err == nil && x.State == api.Pending {
		if !told {
			told = true
			a.say("sp: %s waits for approval: the operator answers with `sp approvals` and `sp approve`", escape(x.ID))
		}
		x, err = agent.Status(ctx, api.StatusRequest{Action: x.ID, WaitSeconds: firstWait})
	}
	if err != nil {
		return err
	}
	if x.State != api.Done {
		go a.feedGit(ctx, agent, x.ID)
		if err := a.readGit(ctx, agent, x.ID); err != nil {
			return err
		}
		if x, err = agent.Status(ctx, api.StatusRequest{Action: x.ID, WaitSeconds: api.WaitLimit}); err != nil {
			return err
		}
	}
	return a.gitEnd(x)
}

// feedGit sends what git says, until it ends or the action does. It ends with the process.
func (a *app) feedGit(ctx context.Context, agent *client.Client, id string) {
	buf := make([]byte, 256<<10)
	for {
		n, err := a.in.Read(buf)
		if n > 0 {
			if _, serr := agent.Stream(ctx, api.StreamRequest{Action: id, Data: buf[:n]}); serr != nil {
				return
			}
		}
		if err != nil {
			_, _ = agent.Stream(ctx, api.StreamRequest{Action: id, EOF: true}) // the reading side tells what is wrong
			return
		}
	}
}

func (a *app) readGit(ctx context.Context, agent *client.Client, id string) error {
	for {
		p, err := agent.Stream(ctx, api.StreamRequest{Action: id, Read: true})
		if err != nil {
			return err
		}
		if _, err := a.err.Write(p.Err); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			return err
		}
		if _, err := a.out.Write(p.Data); err != nil {
			return fmt.Errorf("write to git: %w", err)
		}
		if p.EOF {
			return nil
		}
	}
}

// gitEnd tells git how the host ended, and a person why it did not serve.
func (a *app) gitEnd(x api.Action) error {
	if x.Error != nil {
		return x.Error
	}
	var r api.SSHResult
	if x.Outcome != "confirmed" || json.Unmarshal(x.Result, &r) != nil {
		return api.Fail(orInternal(x.Outcome), "")
	}
	return status(r.ExitStatus)
}

func orInternal(code string) string {
	if api.Lookup(code).Name != code {
		return "internal"
	}
	return code
}
