package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/sshexec/sshtest"
)

// The names the story uses.
const (
	apiName  = "demo-api"
	keyName  = "demo-key"
	hostName = "demo-host"
	hostUser = "demo"
)

// loopback is the one network the credentials may reach.
func loopback() []string { return []string{"127.0.0.1/32"} }

// command is what the agent wants to run.
func command() []string { return []string{"systemctl", "status", "nginx"} }

func (d *demo) openVault(ctx context.Context) error {
	if err := d.stage.startGateway(ctx, filepath.Join(d.dir, "home"), d.o); err != nil {
		return err
	}
	d.op = newOperator(d.stage.home, "demo-"+strings.ToLower(rand.Text()[:16]))
	if err := d.op.do(ctx, api.PathInit, nil, nil, &d.op.created); err != nil {
		return err
	}
	pin := exec.CommandContext(ctx, d.exe, "sp", "audit", "pin")
	pin.Env = agentEnv(d.stage.home.Data())
	if said, err := pin.CombinedOutput(); err != nil {
		return fmt.Errorf("sp audit pin: %w: %s", err, said)
	}
	var err error
	if d.op.pin, d.seen.vault.pinned, err = readPin(d.stage.home.Pins()); err != nil {
		return err
	}
	var s api.Status
	if err := d.op.do(ctx, api.PathStatus, nil, nil, &s); err != nil {
		return err
	}
	d.seen.vault.state, d.seen.vault.fingerprint = s.Vault, d.op.created.Fingerprint
	d.out.say("Only the operator's passphrase opens it (scrypt 2^%d, quick for this story; `sp init` makes it 2^18).", workFactor)
	d.out.say("Log key: %s", d.op.created.Fingerprint)
	return nil
}

func (d *demo) openPlaces(ctx context.Context) (err error) {
	file, authorized, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		return err
	}
	seed, err := keySeed(file, authorized)
	if err != nil {
		return err
	}
	// The signs of base64 and JSON are in it, so that its encodings differ.
	token := "demo+" + rand.Text() + "/" + rand.Text()
	d.secrets = []secret{{name: apiName, value: []byte(token)}, {name: keyName, value: seed, file: file}}
	if d.stage.service, err = startService(); err != nil {
		return err
	}
	d.stage.service.expect("Bearer " + token)
	// Its life is the stage's, which close ends.
	d.stage.host, err = sshtest.Start(context.WithoutCancel(ctx), sshtest.Options{User: hostUser, AuthorizedKey: authorized})
	if err != nil {
		return err
	}
	d.out.say("An HTTPS service, %s, that wants a bearer token and echoes every header it gets.", d.stage.service.origin)
	d.out.say("An SSH host, %s, that lets in one key.", d.stage.host.Addr())
	return nil
}

func (d *demo) storeSecrets(ctx context.Context) error {
	return d.store(ctx, api.HTTPRules{Allow: []string{"GET " + d.stage.service.origin + "/**"}, AllowNetwork: loopback(), CA: d.stage.service.ca})
}

func (d *demo) store(ctx context.Context, rules api.HTTPRules) error {
	token := api.CredentialArgs{Name: apiName, Kind: "bearer", Rules: rules}
	if err := d.op.addCredential(ctx, token, d.secrets[0].value); err != nil {
		return err
	}
	if err := d.op.addCredential(ctx, api.CredentialArgs{Name: keyName, Kind: "ssh-key"}, d.secrets[1].file); err != nil {
		return err
	}
	host := api.HostArgs{Name: hostName, Address: d.stage.host.Addr(), User: hostUser, Credential: keyName, AllowNetwork: loopback(),
		HostKey: strings.Join(d.stage.host.HostKeys(), "\n"), AllowArgv: [][]string{{"systemctl", "status", "*"}}}
	if err := d.op.do(ctx, api.PathTargetAdd, host, nil, nil); err != nil {
		return err
	}
	d.out.say("%s: a token, for %s", apiName, strings.Join(rules.Allow, ", "))
	d.out.say("%s: a key, for `systemctl status *` on %s, whose host key is pinned", keyName, hostName)
	return nil
}

func (d *demo) startAgent(ctx context.Context) (err error) {
	file, err := anotherProgram(d.exe, d.dir)
	if err != nil {
		return err
	}
	if d.agent, err = startChild(ctx, file, d.stage.home.Data(), d.exe, "sp", "mcp"); err != nil {
		return err
	}
	list, err := d.agent.ask(ctx, "list_targets", struct{}{})
	if err != nil {
		return err
	}
	d.out.say("Process %d, an MCP client; its server is `sp mcp`. Its environment: %s", d.agent.cmd.Process.Pid,
		strings.Join(agentEnv(d.stage.home.Data()), " "))
	d.out.say("Its tools: %s", strings.Join(d.agent.tools, ", "))
	d.out.quote("list_targets tells it:", list.Text)
	return nil
}

func (d *demo) callHTTP(ctx context.Context) error {
	seen, err := d.approved(ctx, api.ToolHTTP, api.HTTPArgs{Target: apiName, Method: "GET", Path: "/headers"}, d.stage.service.ledger)
	d.seen.http = seen
	if err != nil {
		return err
	}
	d.seen.http.echo = echoed(seen.action)
	if err := d.lookAtRun(ctx, seen.action.AgentRun); err != nil {
		return err
	}
	d.out.quote("The service echoed what it got. This much of it reached the agent:", "Authorization: "+d.seen.http.echo)
	return nil
}

// echoed is the Authorization header in the body of /headers.
func echoed(a api.Action) string {
	var r api.HTTPResult
	var body struct {
		Headers map[string][]string `json:"headers"`
	}
	if json.Unmarshal(a.Result, &r) != nil || json.Unmarshal([]byte(r.Body), &body) != nil {
		return ""
	}
	return strings.Join(body.Headers["Authorization"], ", ")
}

// lookAtRun compares whom the gateway takes for the caller with who it was.
func (d *demo) lookAtRun(ctx context.Context, id string) error {
	var r api.Run
	if err := d.op.do(ctx, api.PathRunShow, api.IDArgs{ID: id}, nil, &r); err != nil {
		return err
	}
	d.seen.run = runSeen{id: r.ID, owner: r.Agent.ProcessID, agent: d.agent.cmd.Process.Pid, operator: os.Getpid()}
	if len(r.Epochs) == 1 {
		d.seen.run.caller = r.Epochs[0].ProcessID
	}
	return nil
}

func (d *demo) callSSH(ctx context.Context) error {
	line, base := strings.Join(command(), " "), len(d.stage.host.Commands())
	ledger := func() (arrived, carried int) {
		commands, auths := d.stage.host.Commands()[base:], d.stage.host.Auths()
		for _, c := range commands {
			if strings.ReplaceAll(c, "'", "") == line && len(auths) > 0 && auths[len(auths)-1].OK {
				carried++
			}
		}
		return len(commands), carried
	}
	seen, err := d.approved(ctx, api.ToolSSH, api.SSHArgs{Target: hostName, Argv: command()}, ledger)
	d.seen.ssh = seen
	if err != nil {
		return err
	}
	var r api.SSHResult
	if json.Unmarshal(seen.action.Result, &r) == nil {
		d.out.quote("The agent got:", r.Stdout)
	}
	return nil
}

// approved is one call that the operator is asked about, and answers with yes.
func (d *demo) approved(ctx context.Context, tool string, args any, ledger func() (arrived, carried int)) (seen callSeen, err error) {
	type heard struct {
		a   answer
		err error
	}
	base, _ := ledger()
	hear, ended := make(chan heard, 1), make(chan struct{})
	go func() {
		defer close(ended)
		a, err := d.agent.ask(ctx, tool, args)
		hear <- heard{a, err}
	}()
	defer func() {
		if err != nil { // nobody may speak to the agent while this call does
			d.agent.kill()
		}
		<-ended
	}()
	card, err := d.op.card(ctx, tool, ended)
	if err != nil && !errors.Is(err, errAnswered) {
		return seen, err
	}
	if err == nil {
		seen.card = card
		seen.before, _ = ledger()
		seen.before -= base
		d.out.quote("The operator is shown:", fmt.Sprintf("%s\ncredential %s · effect %s · asked by process %d, %s\n%s", card.Summary, card.Credential,
			card.Effect, card.Agent.ProcessID, short(card.Agent.ExeDigest), strings.Join(card.Gaps, "\n")))
		if err := d.op.approve(ctx, card); err != nil {
			return seen, err
		}
		d.out.say("and approves it with the passphrase: this tool, this credential, until the run ends.")
	}
	h := <-hear
	if h.err != nil {
		return seen, h.err
	}
	seen.take(h.a)
	seen.arrived, seen.carried = ledger()
	seen.arrived -= base
	return seen, nil
}

// take reads the agent's answer: an action, or the refusal of one.
func (c *callSeen) take(a answer) {
	c.made, c.isError = true, a.IsError
	var e api.Error
	if json.Unmarshal(a.Document, &c.action, json.RejectUnknownMembers(true)) != nil {
		c.action = api.Action{}
		if json.Unmarshal(a.Document, &e, json.RejectUnknownMembers(true)) == nil {
			c.code = e.Code
		}
	}
	if c.action.Error != nil {
		c.code = c.action.Error.Code
	}
}

func (d *demo) revoke(ctx context.Context) error {
	var before api.Run
	if err := d.op.do(ctx, api.PathRunShow, api.IDArgs{ID: d.seen.run.id}, nil, &before); err != nil {
		return err
	}
	var r api.Revoked
	if err := d.op.do(ctx, api.PathRunRevoke, api.IDArgs{ID: d.seen.run.id}, nil, &r); err != nil {
		return err
	}
	d.seen.revoked = revokeSeen{was: before.State, state: r.Run.State, at: r.Run.RevokedAt, left: len(r.Left)}
	d.out.say("sp run revoke %s: no proof is asked for, losing authority is always allowed.", r.Run.ID)
	return nil
}

func (d *demo) callRevoked(ctx context.Context) error {
	base, _ := d.stage.service.ledger()
	a, err := d.agent.ask(ctx, api.ToolHTTP, api.HTTPArgs{Target: apiName, Method: "GET", Path: "/headers"})
	if err != nil {
		return err
	}
	d.seen.refused.take(a)
	d.seen.refused.arrived, _ = d.stage.service.ledger()
	d.seen.refused.arrived -= base
	d.out.quote("The call that was allowed a moment ago now answers:", a.Text)
	return nil
}

// short is the beginning of a digest, for people.
func short(digest string) string {
	if i := strings.IndexByte(digest, ':'); i > 0 && len(digest) > i+13 {
		return digest[:i+13] + "…"
	}
	return digest
}
