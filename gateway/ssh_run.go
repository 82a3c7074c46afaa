package gateway

import (
	"context"
	"errors"
	"time"

	"sallyport/gateway/api"
	"sallyport/gateway/scrub"
	"sallyport/sshexec"
)

// dialFault is why an SSH connection was not made, in safe words.
func dialFault(err error) *api.Error {
	if e, ok := errors.AsType[*sshexec.DialError](err); ok {
		return api.Fail(e.Reason, e.Detail)
	}
	return api.Fail("dial_failed", "")
}

// executeHost logs in and does what the plan asks. Its secrets are lent until it returns, and used while it logs in.
func (g *Gateway) executeHost(c *call, p *plan, out *outcome) error {
	return g.lent(c.ctx, p.way.logins, c.id, p.run, func(a *sshexec.Auth, secrets [][]byte) error {
		ctx, cancel := context.WithTimeout(c.ctx, p.hostLimit())
		defer cancel()
		dial, stop := joined(ctx, c.dial)
		defer stop()
		conn, err := g.ssh.Dial(dial, p.way.target, *a)
		if err != nil {
			e := dialFault(err)
			word := "not_sent"
			if e.Code == "address_refused" {
				word = "denied"
			}
			out.settled(word, e.Code, e.Reason)
			return nil
		}
		defer g.ssh.Put(conn)
		set := scrub.New(secrets...)
		switch {
		case p.job != nil:
			return g.askHostJob(ctx, p, conn, out)
		case p.tool == api.ToolJob:
			return g.startJob(ctx, c, p, conn, out)
		case p.tool == api.ToolUpload:
			return g.upload(ctx, c, p, conn, out)
		case p.tool == api.ToolDownload:
			return g.download(ctx, c, p, conn, set, out)
		case p.tool == api.ToolGit:
			g.serveGit(ctx, p, conn, out)
			return nil
		}
		return g.runCommand(ctx, c, p, conn, set, out)
	})
}

func (g *Gateway) runCommand(ctx context.Context, c *call, p *plan, conn *sshexec.Conn, set *scrub.Set, out *outcome) error {
	stdout, stderr := &stream{}, &stream{}
	g.acts.show(c.id, &streams{out: stdout, err: stderr})
	ow, ew := set.Writer(stdout), set.Writer(stderr)
	r := conn.Run(ctx, p.host.cmd, p.way.match, ow, ew)
	var err error
	for _, w := range []*scrub.Writer{ow, ew} {
		hits, werr := w.Close(r.Complete())
		out.reflected += hits
		err = errors.Join(err, werr)
	}
	out.hostSettled(r)
	out.received = stdout.count() + stderr.count()
	if out.reflected > 0 {
		out.flags = append(out.flags, "reflected")
	}
	if stdout.over() || stderr.over() || r.Truncated {
		out.flags = append(out.flags, "output_truncated")
	}
	if r.PipesHeld {
		out.flags = append(out.flags, "pipes_held")
	}
	if r.Outcome == sshexec.Confirmed || r.Outcome == sshexec.FailedRemote {
		res := api.SSHResult{ExitStatus: r.ExitStatus, Stdout: text(stdout.bytes()), Stderr: text(stderr.bytes())}
		if r.Signal != "" {
			res.Signal, out.signal = &r.Signal, r.Signal
		} else {
			out.exit = &r.ExitStatus
		}
		out.result = encode(res)
	}
	return err
}

// hostSettled takes the executor's word.
func (o *outcome) hostSettled(r sshexec.Result) { o.settled(r.Outcome.String(), r.Reason, r.Detail) }

// hostLimit bounds what a plan asks of a host, login included.
func (p *plan) hostLimit() time.Duration {
	switch {
	case p.job != nil, p.tool == api.ToolJob:
		return jobLimit
	case p.tool == api.ToolUpload, p.tool == api.ToolDownload:
		return transferLimit
	case p.tool == api.ToolGit:
		return gitLimit
	}
	return p.host.cmd.Timeout()
}

const (
	transferLimit = 30 * time.Minute
	gitLimit      = time.Hour
)
