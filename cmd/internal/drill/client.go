package drill

import (
	"bufio"
	"context"
	encjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// The client's descriptors beside stdin, stdout and stderr.
const (
	fdSurvivorIn  = 3 // the survivor's stdin
	fdSurvivorEnd = 4 // its other end, which makes the client its owner
	fdSurvivorOut = 5 // its stdout
)

// order is one line to the client: a tool to call, or to fetch the list of tools again. The answer comes when it comes.
type order struct {
	Tool      string         `json:"tool,omitempty"`
	Arguments jsontext.Value `json:"arguments,omitzero"`
	List      bool           `json:"list,omitzero"`
}

// reply is one line from the client. The first one, unasked, says what the server offers and who it is.
type reply struct {
	Tools    []string       `json:"tools,omitempty"`
	Server   int            `json:"server,omitzero"` // process ids
	Survivor int            `json:"survivor,omitzero"`
	Document jsontext.Value `json:"document,omitempty"` // a result's structuredContent
	IsError  bool           `json:"isError,omitzero"`
	Fault    string         `json:"fault,omitempty"` // the call could not be made
}

// Client is the program of a drill's client. args are: the program whose `call -` is the survivor, or "-" for none; then
// the server's command. It starts both, speaks MCP to the server, and calls what it is told to, until it is killed or its
// stdin ends.
func Client(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("the client wants a survivor's program and a server's command")
	}
	for fd := fdSurvivorIn; fd <= fdSurvivorOut; fd++ {
		unix.CloseOnExec(fd) // else the server would hold the survivor's ends too
	}
	first := reply{}
	if args[0] != "-" {
		survivor := exec.Command(args[0], "call", "-")
		survivor.Stdin, survivor.Stdout, survivor.Stderr = os.NewFile(fdSurvivorIn, "in"), os.NewFile(fdSurvivorOut, "out"), os.Stderr
		if err := survivor.Start(); err != nil {
			return fmt.Errorf("start survivor: %w", err)
		}
		first.Survivor = survivor.Process.Pid
		go survivor.Wait() // ends with it, or with this process
	}
	server := exec.Command(args[1], args[2:]...)
	server.Stderr = os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "drill-client", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer session.Close()
	first.Server = server.Process.Pid
	if first.Tools, err = list(ctx, session); err != nil {
		return err
	}
	if err := say(out, first); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("read order: %w", err)
		}
		r := reply{}
		if o.List {
			if r.Tools, err = list(ctx, session); err != nil {
				r.Fault = err.Error()
			}
		} else {
			r = call(ctx, session, o)
		}
		if err := say(out, r); err != nil {
			return err
		}
	}
	return lines.Err()
}

func list(ctx context.Context, s *mcp.ClientSession) (names []string, err error) {
	l, err := s.ListTools(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	for _, t := range l.Tools {
		names = append(names, t.Name)
	}
	return names, nil
}

func call(ctx context.Context, s *mcp.ClientSession, o order) reply {
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: o.Tool, Arguments: encjson.RawMessage(o.Arguments)})
	if err != nil {
		return reply{Fault: err.Error()}
	}
	doc, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return reply{Fault: err.Error()}
	}
	return reply{Document: doc, IsError: r.IsError}
}

func say(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
