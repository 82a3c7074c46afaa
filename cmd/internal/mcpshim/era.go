package mcpshim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/cmd/internal/mcpshim/jsonline"
)

// era is one session of the SDK's server: its transport and its connection. The SDK takes no handshake after a discover
// on one session, and real hosts do just that when a probe takes too long; so each era of the protocol has its own.
//
// The session is made by the first request that is not answered beforehand (first). Read gives io.EOF only after the
// host's connection is closed, and never at the host's EOF, at which the SDK would drop what is unanswered.
type era struct {
	c      *conn
	server func() *mcp.Server // one for both eras
	next   chan *jsonrpc.Request

	// readLines's alone.
	begun bool

	mu      sync.Mutex
	session *mcp.ServerSession
	over    bool // none may begin any more
}

func newEra(c *conn, server func() *mcp.Server) *era {
	return &era{c: c, server: server, next: make(chan *jsonrpc.Request)}
}

// begin makes the session, and repeats to it the handshake that was answered without it.
func (e *era) begin() error {
	if e.begun {
		return nil
	}
	e.begun = true
	e.mu.Lock()
	if e.over {
		e.mu.Unlock()
		return errors.New("the session is ending")
	}
	var err error
	e.session, err = e.server().Connect(context.Background(), e, nil) // it ends by Read alone
	e.mu.Unlock()
	if err != nil || e != e.c.legacy || e.c.said.Version == "" {
		return err
	}
	// Nothing of the host's is needed behind: what it is and can, the gateway does not ask.
	id, err := jsonrpc.MakeID(float64(0)) // no call has the number 0: its answer goes nowhere
	if err != nil {
		return err
	}
	e.give(&jsonrpc.Request{ID: id, Method: "initialize", Params: fmt.Appendf(nil,
		`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"host","version":"0"}}`, e.c.said.Version)})
	if e.c.said.Told {
		e.give(&jsonrpc.Request{Method: "notifications/initialized"})
	}
	return nil
}

// ask hands a request to the session.
func (e *era) ask(k *call, m jsonline.Message) *jsonline.Fault {
	id, err := jsonrpc.MakeID(float64(k.number))
	if err == nil {
		err = e.begin()
	}
	if err != nil {
		e.c.calls.answer(k.number, func(jsontext.Value) {})
		return &jsonline.Fault{Code: codeClosing, Text: "the request cannot be taken: " + err.Error(), ID: m.ID}
	}
	e.give(&jsonrpc.Request{ID: id, Method: m.Method, Params: []byte(m.Params), Extra: k.extra})
	return nil
}

// initialized passes the host's word on, now or when the session begins.
func (e *era) initialized() {
	e.c.said.Told = true
	if e.begun {
		e.give(&jsonrpc.Request{Method: "notifications/initialized"})
	}
}

// withdraw ends the context of a request that was handed over.
func (e *era) withdraw(number int64) {
	e.give(&jsonrpc.Request{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%d}`, number)})
}

// give returns when the SDK has taken r, which it does at once, or when the connection is closed.
func (e *era) give(r *jsonrpc.Request) {
	select {
	case e.next <- r:
	case <-e.c.closed:
	}
}

// end waits for the session to have ended, after the connection was closed, and lets none begin.
func (e *era) end() {
	e.mu.Lock()
	e.over = true
	s := e.session
	e.mu.Unlock()
	if s != nil {
		s.Wait()
	}
}

// Connect implements mcp.Transport.
func (e *era) Connect(context.Context) (mcp.Connection, error) { return e, nil }

// SessionID implements mcp.Connection: a pipe has no name.
func (e *era) SessionID() string { return "" }

// Close implements mcp.Connection.
func (e *era) Close() error { return nil }

// Read implements mcp.Connection.
func (e *era) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-e.next:
		return r, nil
	case <-e.c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection: an answer goes out under the host's id.
func (e *era) Write(_ context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.IsCall() {
			return errors.New("write message: this server asks nothing of the host")
		}
		e.c.send(jsonline.Wire{Method: m.Method, Params: jsontext.Value(m.Params)})
	case *jsonrpc.Response:
		n, _ := m.ID.Raw().(int64)
		e.c.calls.answer(n, func(id jsontext.Value) {
			e.c.send(jsonline.Wire{ID: id, Result: jsontext.Value(m.Result), Error: wireErrorOf(m.Error)})
		})
	}
	return nil
}

// modern says whose request m is: one that names a revision without a handshake in its _meta, or asks for such.
func modern(m jsonline.Message) bool {
	if m.Method == "server/discover" {
		return true
	}
	return metaOf(m.Params).Version >= first.Stateless
}

// meta is what a request of the modern era says of itself.
type meta struct {
	Version      string         `json:"io.modelcontextprotocol/protocolVersion"`
	Capabilities jsontext.Value `json:"io.modelcontextprotocol/clientCapabilities"`
	Client       jsontext.Value `json:"io.modelcontextprotocol/clientInfo"`
}

// metaOf reads params._meta; the zero meta where there is none, or none that can be read.
func metaOf(params jsontext.Value) meta {
	var p struct {
		Meta meta `json:"_meta"`
	}
	if params == nil || json.Unmarshal(params, &p) != nil {
		return meta{}
	}
	return p.Meta
}
