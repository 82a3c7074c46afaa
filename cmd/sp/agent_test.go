package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sallyport/gateway/home"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agentMain is an agent in a process of its own: `agent sp …`, `agent mcp STEPS`, `agent raw LINES`,
// `agent crash TOOL ARGS`.
func agentMain(args []string) int {
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: agent sp ARG… | mcp FILE | raw FILE")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch args[0] {
	case "mcp":
		err = agentMCP(ctx, args[1])
	case "host":
		err = agentHost(args[1:])
	case "crash":
		err = agentCrash(args[1], args[2])
	case "survive":
		err = agentSurvive(args[1], args[2])
	case "raw":
		err = agentRaw(args[1])
	default:
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		// A pipe of the agent's own: whoever holds the other end of sp's stdin is whose run it is.
		cmd.Stdin, cmd.Stdout, cmd.Stderr = struct{ io.Reader }{os.Stdin}, os.Stdout, os.Stderr
		err = cmd.Run()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}

// agentMCP is a client that keeps one shim open. Its steps, one a line: TOOL JSON calls and prints the answer as one
// line of JSON; `tell FIFO` and `hear FIFO` meet the script. @ACT in JSON is the action that the answer before named.
func agentMCP(ctx context.Context, file string) error {
	steps, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	shim := exec.Command("sp", "mcp")
	shim.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: shim}, nil)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer session.Close()
	last := ""
	for line := range strings.Lines(string(steps)) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "":
		case "tell", "hear":
			err = meet(verb, rest)
		default:
			err = callTool(ctx, session, verb, strings.ReplaceAll(rest, "@ACT", last), &last)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

func callTool(ctx context.Context, s *mcp.ClientSession, tool, args string, last *string) error {
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: jsontext.Value(args)})
	if err != nil {
		return err
	}
	out := struct {
		Tool       string   `json:"tool"`
		IsError    bool     `json:"isError"`
		Structured any      `json:"structured"`
		Text       []string `json:"text"`
	}{tool, res.IsError, res.StructuredContent, nil}
	if doc, ok := res.StructuredContent.(map[string]any); ok {
		if id, ok := doc["id"].(string); ok && doc["agentRun"] != nil {
			*last = id
		}
	}
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			out.Text = append(out.Text, t.Text)
		}
	}
	b, err := json.Marshal(out, json.Deterministic(true))
	fmt.Printf("%s\n", b)
	return err
}

func meet(verb, fifo string) error {
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if verb == "tell" {
		_, err = f.Write([]byte{'\n'})
		return err
	}
	if err := f.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = f.Read(make([]byte, 1))
	return err
}

// agentRaw sends each line to the agents' door on a connection of its own, and prints what comes back. A line may say
// `@big N`: N bytes without an end.
func agentRaw(file string) error {
	lines, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(lines) {
		if n, big := strings.CutPrefix(strings.TrimSpace(string(line)), "@big "); big {
			size, err := strconv.Atoi(n)
			if err != nil {
				return err
			}
			line = bytes.Repeat([]byte{'x'}, size)
		}
		c, err := dialDoor()
		if err != nil {
			return err
		}
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write(line); err != nil && !errors.Is(err, syscall.EPIPE) { // refused before its end
			return err
		}
		answer, err := bufio.NewReader(c).ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("after %.40q: %w", line, err)
		}
		os.Stdout.Write(answer)
		c.Close()
	}
	return nil
}

// dialDoor connects to the agents' door, wherever that is for this user.
func dialDoor() (net.Conn, error) {
	h, err := home.Find(os.Getenv)
	if err != nil {
		return nil, err
	}
	for _, path := range h.AgentSockets() {
		var c net.Conn
		if c, err = net.Dial("unix", path); err == nil {
			return c, nil
		}
	}
	return nil, err
}
