package realclients_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// bridge serves one sp mcp over HTTP, for the suite alone: a request's line goes in; what belongs to it comes out, as one
// document or as a stream.
func (s *stage) bridge(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "sp"), "mcp")
	cmd.Env, cmd.Stderr = s.env(), t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &bridged{in: in, wait: map[string]chan []byte{}, tools: map[string]tool{
		"test_simple_text":                       {"session_status", `{}`},
		"test_error_handling":                    {"ssh_exec", `{}`},
		"test_logging_tool":                      {"session_status", `{}`},
		"test_streaming_elicitation":             {"http_request", fmt.Sprintf(`{"url":%q}`, s.url("conform", 1, "answer"))},
		"test_input_required_result_elicitation": {"session_status", `{}`},
		"test_tool_with_progress":                {"http_request", fmt.Sprintf(`{"url":%q}`, s.url("late-conform", 2, "answer"))},
	}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			b.came(line)
		}
	}()
	web := httptest.NewServer(b)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		in.Close()
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	return web.URL + "/mcp"
}

// tool is one of ours that is called in the place of one that the suite wants a server to have.
type tool struct{ name, args string }

type bridged struct {
	tools map[string]tool // by the suite's name

	mu   sync.Mutex
	in   io.Writer
	wait map[string]chan []byte // by what a line says that it belongs to: an id or a token
}

// message is what the bridge has to know of a line.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Error  *struct {
		Code int `json:"code"`
	} `json:"error"`
	Params struct {
		Name  string         `json:"name"`
		Token jsontext.Value `json:"progressToken"`
		Meta  struct {
			Token        jsontext.Value `json:"progressToken"`
			Subscription jsontext.Value `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	} `json:"params"`
}

func (b *bridged) came(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range []jsontext.Value{m.ID, m.Params.Token, m.Params.Meta.Subscription} {
		if c := b.wait[string(of)]; of != nil && c != nil {
			c <- line
			return
		}
	}
}

// send gives a request to the server; what belongs to it comes through the channel, which is nil for a notification.
func (b *bridged) send(m message, body []byte) (chan []byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var c chan []byte
	if m.ID != nil {
		c = make(chan []byte, 64)
		b.wait[string(m.ID)] = c
		if m.Params.Meta.Token != nil {
			b.wait[string(m.Params.Meta.Token)] = c
		}
	}
	_, err := b.in.Write(append(body, '\n'))
	return c, err
}

// renamed is the body with our tool in the place of the suite's.
func (b *bridged) renamed(m message, body []byte) ([]byte, error) {
	ours, ok := b.tools[m.Params.Name]
	if !ok || m.Method != "tools/call" {
		return body, nil
	}
	var whole, params map[string]jsontext.Value
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(whole["params"], &params); err != nil {
		return nil, err
	}
	params["name"], params["arguments"] = jsontext.Value(`"`+ours.name+`"`), jsontext.Value(ours.args)
	var err error
	if whole["params"], err = json.Marshal(params); err != nil {
		return nil, err
	}
	return json.Marshal(whole)
}

func (b *bridged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m message
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err == nil {
		body, err = b.renamed(m, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	lines, err := b.send(m, body)
	if err != nil || lines == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	modern := r.Header.Get("MCP-Protocol-Version") >= "2026-07-28"
	for streams := false; ; {
		select {
		case line := <-lines:
			var a message
			last := json.Unmarshal(line, &a) == nil && a.Method == ""
			switch {
			case streams:
			case last:
				w.Header().Set("Content-Type", "application/json")
				if a.Error != nil && modern {
					w.WriteHeader(statusOf(a.Error.Code))
				}
				w.Write(line)
				return
			default:
				w.Header().Set("Content-Type", "text/event-stream")
				streams = true
			}
			fmt.Fprintf(w, "event: message\ndata: %s\n", line) // line ends one itself
			http.NewResponseController(w).Flush()
			if last {
				return
			}
		case <-r.Context().Done(): // over HTTP, a request is taken back by closing its stream
			if modern {
				b.send(message{}, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, m.ID))
			}
			return
		}
	}
}

// statusOf is how HTTP says an error of the stateless revision.
func statusOf(code int) int {
	if code == -32601 {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}
