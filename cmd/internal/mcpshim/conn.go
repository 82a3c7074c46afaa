package mcpshim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	queueLength = 64 // lines that wait for the host to read
	tellLimit   = 20 // refused lines told on stderr: a full pipe that nobody reads would hold us
)

// conn is the SDK's transport and connection. Two goroutines belong to it: readLines ends when the host leaves or, at its
// next line, after Close; writeLines ends by Close or when out breaks. Read gives io.EOF only after Close and never at the
// host's EOF, at which the SDK would drop what is unanswered.
type conn struct {
	in    *lines
	out   io.Writer
	calls *calls
	next  chan *jsonrpc.Request // what the SDK reads
	queue chan []byte           // what the writer writes, newline included

	gone    chan struct{} // the host has left: in ended or out broke
	broken  chan struct{} // out cannot be written
	closed  chan struct{} // Close was called
	flushed chan struct{} // the writer has ended
	leave   func()        // closes gone
	finish  func()        // closes closed
}

func newConn(in io.Reader, out io.Writer) *conn {
	c := &conn{
		in: newLines(in), out: out, calls: newCalls(),
		next: make(chan *jsonrpc.Request), queue: make(chan []byte, queueLength),
		gone: make(chan struct{}), broken: make(chan struct{}), closed: make(chan struct{}), flushed: make(chan struct{}),
	}
	c.leave = sync.OnceFunc(func() { close(c.gone) })
	c.finish = sync.OnceFunc(func() { close(c.closed) })
	return c
}

// Connect implements mcp.Transport.
func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection: a pipe has one session.
func (c *conn) SessionID() string { return "" }

// Close implements mcp.Connection. What is queued is still written.
func (c *conn) Close() error {
	c.finish()
	return nil
}

// Read implements mcp.Connection.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-c.next:
		return r, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection: an answer goes out under the host's id.
func (c *conn) Write(_ context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.IsCall() {
			return errors.New("write message: this server asks nothing of the host")
		}
		c.send(wire{Method: m.Method, Params: jsontext.Value(m.Params)})
	case *jsonrpc.Response:
		n, _ := m.ID.Raw().(int64)
		c.calls.answer(n, func(id jsontext.Value) {
			c.send(wire{ID: id, Result: jsontext.Value(m.Result), Error: wireErrorOf(m.Error)})
		})
	}
	return nil
}

// readLines hands the host's lines to the server. A line that is refused costs that line alone.
func (c *conn) readLines() {
	defer c.leave()
	for refused := 0; ; {
		line, err := c.in.next()
		var f *fault
		switch {
		case errors.Is(err, errLineTooLong):
			f = &fault{jsonrpc.CodeInvalidRequest, "a line is at most 16 MiB", nil}
		case err != nil:
			return
		default:
			f = c.take(line)
		}
		if f != nil {
			if refused++; refused <= tellLimit {
				fmt.Fprintf(os.Stderr, "sp mcp: line refused: %s (%d)\n", f.text, f.code)
			}
			c.send(f.wire())
		}
		select {
		case <-c.closed:
			return
		default:
		}
	}
}

// take hands one line to the server, or says what is wrong with it.
func (c *conn) take(line []byte) *fault {
	m, f := parse(line)
	switch {
	case f != nil:
		return f
	case m.method == "": // a blank line, or an answer to nothing we asked
		return nil
	case m.id == nil && m.method == "notifications/cancelled":
		c.cancel(m.params)
		return nil
	case m.id == nil:
		c.give(&jsonrpc.Request{Method: m.method, Params: []byte(m.params)})
		return nil
	case m.method == "server/discover", m.method == "subscriptions/listen": // revision 2026-07-28
		return &fault{jsonrpc.CodeMethodNotFound, m.method + " is not served here; send initialize (MCP " + newestRevision + " or older)", m.id}
	}
	k, f := c.calls.enter(m)
	if f != nil {
		return f
	}
	id, err := jsonrpc.MakeID(float64(k.number))
	if err != nil {
		return &fault{jsonrpc.CodeInternalError, "the request cannot be numbered", m.id}
	}
	c.give(&jsonrpc.Request{ID: id, Method: m.method, Params: []byte(m.params), Extra: k.extra})
	return nil
}

// give returns when the SDK has taken r, which it does at once, or when the connection is closed.
func (c *conn) give(r *jsonrpc.Request) {
	select {
	case c.next <- r:
	case <-c.closed:
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
	key, err := idKey(p.RequestID)
	if err != nil {
		return
	}
	if n := c.calls.cancel(key); n != 0 {
		c.give(&jsonrpc.Request{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%d}`, n)})
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
		c.send(wire{Method: "notifications/progress", Params: params})
	}
}

// send queues one line. It waits while the host does not read, and drops the line once nobody ever will.
func (c *conn) send(w wire) {
	select {
	case c.queue <- w.line():
	case <-c.broken:
	case <-c.closed:
	}
}

// writeLines is the one writer of out: whole lines, one Write each.
func (c *conn) writeLines() {
	defer close(c.flushed)
	write := func(line []byte) bool {
		_, err := c.out.Write(line)
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
