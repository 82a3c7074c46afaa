package mcpshim

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"sallyport/cmd/internal/mcpshim/first"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must come. It is no measure of speed.
const patience = time.Minute

// rawHost speaks to a shim in bare lines over two pipes.
type rawHost struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *io.PipeReader
	lines chan string // closed at the end of the shim's output
	done  chan error  // what Run returned
	stop  context.CancelFunc
}

func startShim(t *testing.T, d Door) *rawHost {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	h := &rawHost{t: t, in: inW, out: outR, lines: make(chan string, 4096), done: make(chan error, 1), stop: stop}
	go func() {
		defer close(h.lines)
		r := bufio.NewReader(outR)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			h.lines <- line
		}
	}()
	go func() { h.done <- Run(ctx, first.Session{}, inR, outW, d) }()
	t.Cleanup(func() {
		stop()
		inW.Close()
		outR.Close()
	})
	return h
}

// say writes lines to the shim.
func (h *rawHost) say(lines ...string) {
	h.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(h.in, l+"\n"); err != nil {
			h.t.Fatalf("write to shim: %v", err)
		}
	}
}

// reply is a line from the shim.
type reply struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  jsontext.Value `json:"params"`
	Result  jsontext.Value `json:"result"`
	Error   *failed        `json:"error"`
}

type failed struct {
	Code    int64          `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data"`
}

func (f *failed) String() string {
	if f == nil {
		return "none"
	}
	return fmt.Sprintf("%d %s", f.Code, f.Message)
}

func (h *rawHost) hear() reply {
	h.t.Helper()
	select {
	case line, ok := <-h.lines:
		if !ok {
			h.t.Fatal("the shim's output ended")
		}
		return h.parse(line)
	case <-time.After(patience):
		h.t.Fatal("no line from the shim")
	}
	panic("unreachable")
}

func (h *rawHost) parse(line string) reply {
	h.t.Helper()
	var r reply
	if err := json.Unmarshal([]byte(line), &r, json.RejectUnknownMembers(true)); err != nil {
		h.t.Fatalf("the shim wrote %q: %v", line, err)
	}
	if r.Version != "2.0" {
		h.t.Fatalf("the shim wrote %q", line)
	}
	return r
}

// ends waits for Run to return nil.
func (h *rawHost) ends() {
	h.t.Helper()
	select {
	case err := <-h.done:
		if err != nil {
			h.t.Fatalf("Run = %v", err)
		}
	case <-time.After(patience):
		h.t.Fatal("Run does not return")
	}
}

// silent fails if the shim has written anything more until its output ended.
func (h *rawHost) silent() {
	h.t.Helper()
	for line := range h.lines {
		h.t.Errorf("unexpected line %q", line)
	}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// handshake does initialize and initialized.
func (h *rawHost) handshake() {
	h.t.Helper()
	h.say(initialize)
	if r := h.hear(); r.Error != nil || string(r.ID) != `"init"` {
		h.t.Fatalf("initialize: %+v", r)
	}
	h.say(initialized)
}

// toolResult is a tools/call result.
type toolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured jsontext.Value `json:"structuredContent"`
	IsError    bool           `json:"isError"`
}

// tool reads a reply as a tool's result.
func (h *rawHost) tool(r reply) toolResult {
	h.t.Helper()
	var res toolResult
	if r.Error != nil {
		h.t.Fatalf("protocol error %d %s", r.Error.Code, r.Error.Message)
	}
	if err := json.Unmarshal(r.Result, &res, json.RejectUnknownMembers(true)); err != nil {
		h.t.Fatalf("tool result %s: %v", r.Result, err)
	}
	if len(res.Content) != 1 || res.Content[0].Type != "text" {
		h.t.Fatalf("tool result %s", r.Result)
	}
	return res
}
