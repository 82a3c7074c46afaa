package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/home"
)

// child is the agent's process, and everything that ever came out of it.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	wire   bytes.Buffer // what the shim sent to it
	stdout bytes.Buffer
	stderr said // its own and the shim's
	tools  []string
	ended  bool
}

// agentEnv is the whole environment of the agent, and so of its shim: where the gateway is, and nothing that opens anything.
func agentEnv(dir string) []string {
	return []string{home.EnvHome + "=" + dir, "TMPDIR=" + os.TempDir()}
}

// startChild starts the agent from file, which runs shim (a program and its arguments). The agent lives until close.
func startChild(ctx context.Context, file, dir string, shim ...string) (*child, error) {
	c := &child{cmd: exec.Command(file, append([]string{AgentCommand}, shim...)...)}
	c.cmd.Env = agentEnv(dir)
	c.cmd.Stderr = &c.stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	c.out = bufio.NewReader(io.TeeReader(out, &c.stdout))
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	a, err := c.hear(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start agent: %w", err), c.close())
	}
	c.tools = a.Tools
	return c, nil
}

// ask has the agent call a tool and waits for its answer. One call at a time.
func (c *child) ask(ctx context.Context, tool string, args any) (answer, error) {
	b, err := json.Marshal(args)
	if err == nil {
		err = writeLine(c.in, order{tool, b})
	}
	if err != nil {
		return answer{}, fmt.Errorf("ask agent: %w", err)
	}
	return c.hear(ctx)
}

// hear reads one answer. An agent that is still silent when ctx ends is killed: there is no other way to be heard.
func (c *child) hear(ctx context.Context) (answer, error) {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	var a answer
	b, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(b, &a, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return a, fmt.Errorf("hear agent: %w", err)
	}
	c.wire.Write(a.Wire)
	if a.Fault != "" {
		return a, fmt.Errorf("hear agent: %s", a.Fault)
	}
	return a, nil
}

// goodbye is how long the agent and its shim may take to leave. The shim needs 0.3 s.
const goodbye = 10 * time.Second

func (c *child) kill() { c.cmd.Process.Kill() }

// close ends the agent as a client ends: its stdin is closed, it closes its shim's, both leave.
func (c *child) close() error {
	if c.ended {
		return nil
	}
	c.ended = true
	c.in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	_, err := c.hear(ctx) // the last of the wire
	if _, rest := io.Copy(io.Discard, c.out); err == nil {
		err = rest
	}
	if err := errors.Join(err, c.cmd.Wait()); err != nil {
		return fmt.Errorf("end agent: %w", err)
	}
	return nil
}

// anotherProgram copies our own file into dir and adds a line at its end, which changes nothing but its digest.
//
// The gateway knows sp and spd by their bytes and takes them for launchers: what they do belongs to the run of whoever
// started them. The agent stands for somebody else's program, so it must not have our bytes, or the run would be the
// shell's in which the demo was started.
func anotherProgram(exe, dir string) (path string, err error) {
	from, err := os.Open(exe)
	if err != nil {
		return "", fmt.Errorf("copy program: %w", err)
	}
	defer from.Close()
	path = filepath.Join(dir, AgentCommand)
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return "", fmt.Errorf("copy program: %w", err)
	}
	_, err = io.Copy(to, from)
	if err == nil {
		_, err = io.WriteString(to, "\nan agent, and not spd\n")
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return "", fmt.Errorf("copy program: %w", err)
	}
	return path, nil
}
