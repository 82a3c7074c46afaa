package mcpshim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/cmd/internal/mcpshim/jsonline"
)

const (
	queueLength = 64 // lines that wait for the host to read
	tellLimit   = 20 // refused lines told on stderr: a full pipe that nobody reads would hold us
)

// conn is the host's side. Two goroutines belong to it: readLines ends when the host leaves or, at its next line, after
// close; writeLines ends by close or when out breaks. The two eras of MCP share it; readLines decides for each line whose
// it is, and alone touches them.
type conn struct {
	in     *jsonline.Reader
	out    io.Writer
	calls  *calls
	legacy *era          // revisions with a handshake
	modern *era          // 2026-07-28, where each request says all
	said   first.Session // legacy's, until it has begun
	queue  chan []byte

	stages
	leave func() // closes gone
	close func() // closes closed; what is queued is still written
}

// stages are closed as a connection comes to them.
type stages struct {
	spoke   chan struct{} // the first line has been written
	gone    chan struct{} // the host has left: in ended, whoever feeds it died, or out broke
	broken  chan struct{} // out cannot be written
	closed  chan struct{} // close was called
	flushed chan struct{} // the writer has ended
}

func newConn(said first.Session, in io.Reader, out io.Writer, server func(*conn) *mcp.Server) *conn {
	c := &conn{
		said: said, in: jsonline.NewReader(in), out: out, calls: newCalls(), queue: make(chan []byte, queueLength),
		stages: stages{spoke: make(chan struct{}), gone: make(chan struct{}), broken: make(chan struct{}), closed: make(chan struct{}), flushed: make(chan struct{})},
	}
	c.leave = sync.OnceFunc(func() { close(c.gone) })
	c.close = sync.OnceFunc(func() { close(c.closed) })
	once := sync.OnceValue(func() *mcp.Server { return server(c) })
	c.legacy, c.modern = newEra(c, once), newEra(c, once)
	return c
}

// readLines hands the host's lines to the server. A line that is refused costs that line alone.
func (c *conn) readLines() {
	defer c.leave()
	for refused := 0; ; {
		line, err := c.in.Next()
		var f *jsonline.Fault
		switch {
		case errors.Is(err, jsonline.ErrTooLong):
			f = &jsonline.Fault{Code: jsonline.CodeRequest, Text: "a line is at most 16 MiB"}
		case err != nil:
			return
		default:
			f = c.take(line)
		}
		if f != nil {
			if refused++; refused <= tellLimit {
				fmt.Fprintf(os.Stderr, "sp mcp: line refused: %s (%d)\n", f.Text, f.Code)
			}
			c.send(f.Wire())
		}
		select {
		case <-c.closed:
			return
		default:
		}
	}
}

// take answers one line or hands it to its era's session, or says what is wrong with it.
func (c *conn) take(line []byte) *jsonline.Fault {
	m, f := jsonline.Parse(line)
	switch {
	case f != nil:
		return f
	case m.Method == "": // a blank line, or an answer to nothing we asked
		return nil
	case m.ID == nil:
		c.note(m)
		return nil
	}
	e := c.legacy
	if modern(m) {
		e = c.modern
	}
	k, f := c.calls.enter(m, e)
	if f != nil {
		return f
	}
	if wrong := e.refused(m); wrong != nil {
		c.calls.answer(k.number, func(id jsontext.Value) { c.send(jsonline.Wire{ID: id, Error: wrong}) })
		return nil
	}
	if !e.begun {
		if _, result, ok := c.said.Answer(line); ok {
			c.calls.answer(k.number, func(id jsontext.Value) { c.send(jsonline.Wire{ID: id, Result: result}) })
			return nil
		}
	}
	if e == c.modern && m.Method == methodListen {
		c.listen(k, m)
		return nil
	}
	return e.ask(k, m)
}

// note takes a notification. Those that this server has no use for are dropped.
func (c *conn) note(m jsonline.Message) {
	switch m.Method {
	case "notifications/cancelled":
		c.cancel(m.Params)
	case "notifications/initialized":
		c.legacy.initialized()
	}
}

// cancel ends a call's context and drops its answer. An id that is not in flight is no fault: answer and cancel may cross.
func (c *conn) cancel(params jsontext.Value) {
	var p struct {
		RequestID jsontext.Value `json:"requestId"`
	}
	if params == nil || json.Unmarshal(params, &p) != nil {
		return
	}
	key, err := jsonline.IDKey(p.RequestID)
	if err != nil {
		return
	}
	if k := c.calls.cancel(key); k != nil && !k.held {
		k.era.withdraw(k.number)
	}
}

// progress tells the host that a call goes on, if it wants to know.
func (c *conn) progress(extra *mcp.RequestExtra, seconds int, text string) {
	token := c.calls.token(extra)
	if token == nil {
		return
	}
	params, err := json.Marshal(struct {
		Token    jsontext.Value `json:"progressToken"`
		Progress int            `json:"progress"`
		Message  string         `json:"message"`
	}{token, seconds, text})
	if err == nil {
		c.send(jsonline.Wire{Method: "notifications/progress", Params: params})
	}
}

// send queues one line. It waits while the host does not read, and drops the line once nobody ever will.
func (c *conn) send(w jsonline.Wire) {
	select {
	case c.queue <- w.Line():
	case <-c.broken:
	case <-c.closed:
	}
}

// writeLines is the one writer of out: whole lines, one Write each.
func (c *conn) writeLines() {
	defer close(c.flushed)
	spoke := sync.OnceFunc(func() { close(c.spoke) })
	write := func(line []byte) bool {
		_, err := c.out.Write(line)
		spoke()
		if err != nil {
			close(c.broken)
			c.leave()
		}
		return err == nil
	}
	for {
		select {
		case line := <-c.queue:
			if !write(line) {
				return
			}
		case <-c.closed:
			for {
				select {
				case line := <-c.queue:
					if !write(line) {
						return
					}
				default:
					return
				}
			}
		}
	}
}
