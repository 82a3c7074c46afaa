package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/sshexec"
)

// What is asked of an SSH host: a command, a job, a file, a repository. All of them name a stored host, are held to its
// rules, and log in as its operator said.

// onHost tells whether a plan is about an SSH host: a supervised server may call its own tools what it likes.
func (p *plan) onHost() bool { return p.relay == nil && onHost(p.tool) }

// onHost tells the tools that act on an SSH host.
func onHost(tool string) bool {
	switch tool {
	case api.ToolSSH, api.ToolJob, api.ToolUpload, api.ToolDownload, api.ToolGit:
		return true
	}
	return false
}

// hostAsk is what is asked, as its tool says: a command (ssh_exec, job_start), a transfer with an upload's bytes, or git.
type hostAsk struct {
	cmd  sshexec.Command
	move sshexec.Transfer
	git  sshexec.Git
	body []byte
	pipe *gitPipe // between git's caller and the host
}

// canonical is the one encoding that digest and effect key are taken over.
func (a hostAsk) canonical(tool string) []byte {
	switch tool {
	case api.ToolUpload, api.ToolDownload:
		return a.move.Canonical()
	case api.ToolGit:
		return a.git.Canonical()
	}
	return a.cmd.Canonical()
}

// line is the asked in one line, for the log and the card.
func (a hostAsk) line(tool string) string {
	switch tool {
	case api.ToolUpload:
		return fmt.Sprintf("upload %d bytes, sha256:%s, mode %04o, to %s", a.move.Size(), a.move.Digest(), a.move.Mode(), a.move.Path())
	case api.ToolDownload:
		return "download " + a.move.Path()
	case api.ToolGit:
		return a.git.Service() + " " + a.git.Repo()
	}
	return a.cmd.Line()
}

// class names the kind of operation.
func (a hostAsk) class(tool string) string {
	switch tool {
	case api.ToolUpload, api.ToolDownload:
		return strings.TrimPrefix(tool, "ssh_")
	case api.ToolGit:
		return a.git.Service()
	}
	return a.cmd.Class()
}

// effect of a command can't be read off its words; that of a transfer or a git service can.
func (a hostAsk) effect(tool string) authz.Effect {
	if tool == api.ToolDownload || tool == api.ToolGit && !a.git.Writes() {
		return authz.Read
	}
	return authz.Write
}

// supplied is what the caller gives to be sent: stdin or a file.
func (a hostAsk) supplied() []byte {
	if a.body != nil {
		return a.body
	}
	return a.cmd.Stdin()
}

// match finds the host's rule for it.
func (a hostAsk) match(tool string, r sshexec.Rules) (sshexec.Match, error) {
	switch tool {
	case api.ToolUpload, api.ToolDownload:
		return r.MatchTransfer(a.move)
	case api.ToolGit:
		return r.MatchGit(a.git)
	}
	return r.Match(a.cmd)
}

func (q *parsed) parseSSH(args []byte) {
	var a api.SSHArgs
	if q.fault = decode(args, &a); q.fault != nil {
		return
	}
	q.target = a.Target
	cmd, err := sshexec.ParseCommand(sshexec.Input{Argv: a.Argv, Shell: a.Shell, Stdin: []byte(a.Stdin), TimeoutSeconds: a.TimeoutSeconds})
	switch {
	case err != nil:
		q.fault = requestFault(err)
	case q.tool == api.ToolJob && a.Shell != "":
		q.fault = api.Fail("invalid_request", "shell: a job is an argv")
	case q.tool == api.ToolJob && a.TimeoutSeconds != 0:
		q.fault = api.Fail("invalid_request", "timeoutSeconds: a job has none; it is cancelled with action_cancel")
	default:
		q.named()
	}
	q.host.cmd = cmd
}

// named refuses a call without a target.
func (q *parsed) named() {
	if q.target == "" {
		q.fault = api.Fail("invalid_request", "target: name one that list_targets shows")
	}
}

func (q *parsed) parseTransfer(args []byte, blob func(ref string) ([]byte, *api.Error)) {
	var a api.TransferArgs
	if q.fault = decode(args, &a); q.fault != nil {
		return
	}
	q.target = a.Target
	in := sshexec.TransferInput{Way: sshexec.Download, Path: a.Path}
	if q.tool == api.ToolUpload {
		if a.BodyRef == "" {
			q.fault = api.Fail("invalid_request", "bodyRef: the file's bytes come first, with the method blob")
			return
		}
		if q.host.body, q.fault = blob(a.BodyRef); q.fault != nil {
			return
		}
		sum := sha256.Sum256(q.host.body)
		in.Way, in.Size, in.Digest = sshexec.Upload, int64(len(q.host.body)), hex.EncodeToString(sum[:])
		mode, fault := fileMode(a.Mode)
		if q.fault = fault; fault != nil {
			return
		}
		in.Mode = mode
	} else if a.BodyRef != "" || a.Mode != "" {
		q.fault = api.Fail("invalid_request", "a download takes target and path alone")
		return
	}
	move, err := sshexec.ParseTransfer(in)
	if err != nil {
		q.fault = requestFault(err)
		return
	}
	q.named()
	q.host.move = move
}

// fileMode reads three or four octal digits; empty is 0600.
func fileMode(s string) (uint32, *api.Error) {
	if s == "" {
		return 0o600, nil
	}
	var mode uint32
	if n, err := fmt.Sscanf(s, "%o", &mode); n != 1 || err != nil || len(s) > 4 || mode > 0o777 || strings.Trim(s, "01234567") != "" {
		return 0, api.Fail("invalid_request", "mode: octal, as in 0644")
	}
	return mode, nil
}

// parseGit tells also how long the caller waits for a first answer.
func (q *parsed) parseGit(args []byte) time.Duration {
	wait := api.WaitLimit * time.Second
	var a api.GitArgs
	if q.fault = decode(args, &a); q.fault != nil {
		return wait
	}
	if a.WaitSeconds < 0 || a.WaitSeconds > api.WaitLimit {
		q.fault = api.Fail("invalid_request", fmt.Sprintf("waitSeconds: 0 to %d", api.WaitLimit))
		return wait
	}
	if a.WaitSeconds > 0 {
		wait = time.Duration(a.WaitSeconds) * time.Second
	}
	q.target = a.Target
	git, err := sshexec.ParseGit(strings.Join(a.Argv, " "), a.Protocol)
	if err != nil {
		q.fault = requestFault(err)
		return wait
	}
	q.named()
	q.host.git = git
	return wait
}

// bindHost resolves host, rule and the credentials to log in with.
func (p *plan) bindHost(t *targets) {
	p.operation = p.host.class(p.tool)
	p.authz.Effect = p.host.effect(p.tool)
	p.summary = shownSSH(p.tool, p.target, p.host)
	if t == nil {
		return
	}
	h, ok := t.hosts[p.target]
	if !ok {
		p.unbound(authz.TargetUnknown, "")
		return
	}
	m, err := p.host.match(p.tool, h.rules)
	if err != nil {
		p.unbound(authz.RuleMismatch, requestFault(err).Reason)
		return
	}
	if p.login(t, h) {
		p.way.match = m
		p.authz.AlwaysAsk = m.Ask()
		p.effectKey = strings.Join([]string{p.secret.Name, p.target, p.host.line(p.tool)}, "\n")
	}
}
