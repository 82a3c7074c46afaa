package mcpshim

import (
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/cmd/internal/mcpshim/jsonline"
)

// callLimit is how many requests may be unanswered at once.
const callLimit = 256

// call is a request that has not been answered.
type call struct {
	number    int64             // what the SDK knows it by, in either era
	era       *era              // whose session has it
	id        jsontext.Value    // what the host knows it by
	key       string            // equal for equal ids
	token     jsontext.Value    // the progressToken as it came; nil if none was given
	extra     *mcp.RequestExtra // its handler is given this pointer, and nothing else that names the call
	handshake bool              // initialize cannot be cancelled
	held      bool              // an open stream: no session has it, and nobody waits for its answer
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
	settled bool             // drained is closed
}

func newCalls() *calls {
	return &calls{drained: make(chan struct{}), open: map[int64]*call{}, byKey: map[string]*call{}}
}

// enter numbers a request.
func (c *calls) enter(m jsonline.Message, e *era) (*call, *jsonline.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.byKey[m.Key] != nil: // answered with null: the id means the other request
		return nil, &jsonline.Fault{Code: jsonline.CodeRequest, Text: "a request with this id is still unanswered"}
	case c.refused:
		return nil, &jsonline.Fault{Code: codeClosing, Text: "the session is ending; nothing was sent", ID: m.ID}
	case len(c.open) >= callLimit:
		return nil, &jsonline.Fault{Code: codeTooMany, Text: "too many requests are unanswered; wait for one to end", ID: m.ID}
	}
	c.last++
	k := &call{number: c.last, era: e, id: m.ID, key: m.Key, token: jsonline.ProgressToken(m.Params), extra: new(mcp.RequestExtra), handshake: m.Method == "initialize"}
	c.open[k.number], c.byKey[k.key] = k, k
	return k, nil
}

// cancel marks the call with this id and returns it; nil if there is none to cancel. A stream ends by it.
func (c *calls) cancel(key string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byKey[key]
	if k == nil || k.handshake {
		return nil
	}
	k.cancelled = true
	delete(c.byKey, key)
	if k.held {
		delete(c.open, k.number)
		c.settle()
	}
	return k
}

// hold makes a call a stream, which is open until it is cancelled and is not waited for.
func (c *calls) hold(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.held = true
	if c.refused {
		delete(c.open, k.number)
		c.settle()
	}
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
	if c.refused {
		return
	}
	c.refused = true
	for n, k := range c.open {
		if k.held {
			delete(c.open, n)
		}
	}
	c.settle()
}

// settle closes drained when the last call has gone. mu is held.
func (c *calls) settle() {
	if c.refused && len(c.open) == 0 && !c.settled {
		c.settled = true
		close(c.drained)
	}
}
