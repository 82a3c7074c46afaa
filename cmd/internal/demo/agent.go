package demo

import (
	"bufio"
	"context"
	encjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// AgentCommand is the name under which spd is the demo's agent.
const AgentCommand = "demo-agent"

// order is one line to the agent: a tool to call.
type order struct {
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
}

// answer is one line from the agent. The first one, unasked, lists the tools; the last one, after its stdin ended, is
// empty but for Wire.
type answer struct {
	Tools    []string       `json:"tools,omitempty"`
	Text     string         `json:"text,omitempty"`     // what a model would read
	Document jsontext.Value `json:"document,omitempty"` // structuredContent
	IsError  bool           `json:"isError,omitzero"`
	Fault    string         `json:"fault,omitempty"` // the call could not be made
	Wire     []byte         `json:"wire,omitempty"`  // every byte that the shim sent since the last answer
}

// Agent is the program of the demo's agent: an MCP client that starts shim as its server and calls what it is told to,
// line by line, until in ends.
func Agent(ctx context.Context, in io.Reader, out, errw io.Writer, shim []string) (err error) {
	cmd := exec.CommandContext(ctx, shim[0], shim[1:]...)
	cmd.Stderr = errw
	toShim, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start shim: %w", err)
	}
	fromShim, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start shim: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start shim: %w", err)
	}
	wire := &tap{ReadCloser: fromShim}
	session, err := mcp.NewClient(&mcp.Implementation{Name: AgentCommand, Version: "1"}, nil).
		Connect(ctx, &mcp.IOTransport{Reader: wire, Writer: toShim}, nil)
	if err != nil {
		toShim.Close()
		return fmt.Errorf("connect: %w", errors.Join(err, cmd.Wait()))
	}
	say := func(a answer) error {
		a.Wire = wire.take()
		return writeLine(out, a)
	}
	if err = say(tools(ctx, session)); err == nil {
		err = obey(ctx, session, in, say)
	}
	return errors.Join(err, session.Close(), cmd.Wait(), say(answer{}))
}

func tools(ctx context.Context, s *mcp.ClientSession) (a answer) {
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		return answer{Fault: err.Error()}
	}
	for _, t := range list.Tools {
		a.Tools = append(a.Tools, t.Name)
	}
	return a
}

// obey makes one call a line.
func obey(ctx context.Context, s *mcp.ClientSession, in io.Reader, say func(answer) error) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o, json.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("read order: %w", err)
		}
		if err := say(call(ctx, s, o)); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
	return lines.Err()
}

func call(ctx context.Context, s *mcp.ClientSession, o order) answer {
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: o.Tool, Arguments: encjson.RawMessage(o.Arguments)})
	if err != nil {
		return answer{Fault: err.Error()}
	}
	var text strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	doc, err := encjson.Marshal(r.StructuredContent)
	if err != nil {
		return answer{Fault: err.Error()}
	}
	return answer{Text: text.String(), Document: doc, IsError: r.IsError}
}

// writeLine writes v as one line.
func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// tap keeps what is read through it.
type tap struct {
	io.ReadCloser
	mu   sync.Mutex
	kept []byte
}

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b[:n]...)
	return n, err
}

func (t *tap) take() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.kept
	t.kept = nil
	return b
}
