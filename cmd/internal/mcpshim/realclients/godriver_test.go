package realclients_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// driverEnv makes this test binary a client of the Go SDK over the server that its arguments name. It speaks the lines of
// testdata/sdk.mjs.
const driverEnv = "SALLYPORT_TEST_GO_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(driverEnv) != "" {
		if err := goDriver(os.Args[1], os.Args[2:]...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(inspectorEnv) != "" {
		if err := inspectorDriver(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func goDriver(command string, args ...string) error {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { say(map[string]any{"listChanged": true}) },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			say(map[string]any{"id": r.Params.ProgressToken, "progress": r.Params.Progress})
		},
	})
	shim := exec.Command(command, args...)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: shim}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	go func() {
		session.Wait()
		say(map[string]any{"closed": true})
	}()
	init := session.InitializeResult()
	say(map[string]any{"connected": true, "pid": shim.Process.Pid, "era": init.ProtocolVersion,
		"listChangedDeclared": init.Capabilities.Tools != nil && init.Capabilities.Tools.ListChanged})

	flying := map[int]context.CancelFunc{}
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var w wish
		if err := json.Unmarshal(line, &w); err != nil {
			return err
		}
		if w.Op == "abort" {
			flying[w.Call]()
			continue
		}
		call, cancel := context.WithCancel(ctx)
		flying[w.ID] = cancel
		go func() {
			var res any
			var err error
			if w.Op == "list" {
				res, err = session.ListTools(call, nil)
			} else {
				if w.Timeout > 0 {
					call, cancel = context.WithTimeout(call, time.Duration(w.Timeout)*time.Millisecond)
					defer cancel()
				}
				p := &mcp.CallToolParams{Name: w.Name, Arguments: w.Args}
				if w.Progress {
					p.SetProgressToken(w.ID)
				}
				res, err = session.CallTool(call, p)
			}
			if err != nil {
				say(map[string]any{"id": w.ID, "ok": false, "error": err.Error()})
				return
			}
			say(map[string]any{"id": w.ID, "ok": true, "result": res})
		}()
	}
}

// wish is a line to a driver.
type wish struct {
	ID       int            `json:"id"`
	Op       string         `json:"op"` // list, call, abort
	Name     string         `json:"name,omitempty"`
	Args     jsontext.Value `json:"args,omitempty"`
	Timeout  int            `json:"timeout,omitzero"` // milliseconds; 0: the client's own
	Progress bool           `json:"progress,omitzero"`
	Call     int            `json:"call,omitzero"` // what is to be aborted
	Once     bool           `json:"once,omitzero"` // it is going to be aborted, which the Inspector's connections can't do
}
