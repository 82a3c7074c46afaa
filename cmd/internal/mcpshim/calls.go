package mcpshim

import (
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callLimit is how many requests may be unanswered at once.
const callLimit = 256

// call is a request that has not been answered.
type call struct {
	number    int64             // what the SDK knows it by
	id        jsontext.Value    // what the host knows it by
	key       string            // equal for equal ids
	token     jsontext.Value    // the progressToken as it came; nil if none was given
	extra     *mcp.RequestExtra // its handler is given this pointer, and nothing else that names the call
	handshake bool              // initialize cannot be cancelled
	cancelled bool              // the host wants to hear nothing more of it
}

// calls are the requests in flight.
type calls struct {
	drained chan struct{} // closed once refuse was called and nothing is unanswered

	mu      sync.Mutex
	last    int64
	open    map[int64]*call
	byKey   map[string]*call // ids that the host may cancel, and not use again yet
	refused bool             // no new ones
}

func newCalls() *calls {
	return &calls{drained: make(chan struct{}), open: map[int64]*call{}, byKey: map[string]*call{}}
}

// enter numbers a request.
func (c *calls) enter(m message) (*call, *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.byKey[m.key] != nil: // answered with null: the id means the other request
		return nil, &fault{jsonrpc.CodeInvalidRequest, "a request with this id is still unanswered", nil}
	case c.refused:
		return nil, &fault{codeClosing, "the session is ending; nothing was sent", m.id}
	case len(c.open) >= callLimit:
		return nil, &fault{codeTooMany, "too many requests are unanswered; wait for one to end", m.id}
	}
	c.last++
	k := &call{number: c.last, id: m.id, key: m.key, token: progressToken(m.params), extra: new(mcp.RequestExtra), handshake: m.method == "initialize"}
	c.open[k.number], c.byKey[k.key] = k, k
	return k, nil
}

// cancel marks the call with this id and says its number; 0 if there is none to cancel.
func (c *calls) cancel(key string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byKey[key]
	if k == nil || k.handshake {
		return 0
	}
	k.cancelled = true
	delete(c.byKey, key)
	return k.number
}

// answer runs send with the call's id unless the host wants no answer, then forgets the call. The id is free before the
// host can see the answer, and drained waits until send has returned.
func (c *calls) answer(number int64, send func(id jsontext.Value)) {
	c.mu.Lock()
	k := c.open[number]
	wanted := k != nil && !k.cancelled
	if wanted {
		delete(c.byKey, k.key)
	}
	c.mu.Unlock()
	if wanted {
		send(k.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, number)
	c.settle()
}

// token is the progress token of the call whose handler was given extra; nil if the host wants no progress (any more).
func (c *calls) token(extra *mcp.RequestExtra) jsontext.Value {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.open {
		if k.extra == extra && !k.cancelled {
			return k.token
		}
	}
	return nil
}

// refuse takes no further request.
func (c *calls) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.refused {
		c.refused = true
		c.settle()
	}
}

// settle closes drained when the last call has gone. mu is held; after refuse nothing enters, so this happens once.
func (c *calls) settle() {
	if c.refused && len(c.open) == 0 {
		close(c.drained)
	}
}

// progressToken returns params._meta.progressToken as it came, if it is a string or a number.
func progressToken(params jsontext.Value) jsontext.Value {
	var p struct {
		Meta struct {
			Token jsontext.Value `json:"progressToken"`
		} `json:"_meta"`
	}
	if params == nil || json.Unmarshal(params, &p) != nil {
		return nil // the server says what is wrong with _meta
	}
	if k := p.Meta.Token.Kind(); k != '"' && k != '0' {
		return nil
	}
	return p.Meta.Token
}
