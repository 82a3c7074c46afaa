package mcpshim

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/cmd/internal/mcpshim/jsonline"
)

const methodListen = "subscriptions/listen" // revision 2026-07-28

// ended is the answer of a stream that is over.
type (
	ended struct {
		Type string    `json:"resultType"`
		Meta endedMeta `json:"_meta"`
	}
	endedMeta struct {
		Subscription jsontext.Value `json:"io.modelcontextprotocol/subscriptionId"`
		Server       implementation `json:"io.modelcontextprotocol/serverInfo"`
	}
	implementation struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
)

// listen opens a stream of notifications. It is served here because what goes out on it bears the host's id, which the
// SDK does not know. This server's list never changes, so nothing follows the acknowledgement; the stream is open until
// the host cancels it or goes.
func (c *conn) listen(k *call, m jsonline.Message) {
	answer := func(result any, f *jsonline.Error) {
		doc, err := json.Marshal(result)
		if err != nil {
			f = &jsonline.Error{Code: jsonline.CodeInternal, Message: "the answer cannot be written"}
		}
		w := jsonline.Wire{Result: doc}
		if f != nil {
			w = jsonline.Wire{Error: f}
		}
		c.calls.answer(k.number, func(id jsontext.Value) { w.ID = id; c.send(w) })
	}
	if said := metaOf(m.Params); said.Version != first.Stateless || said.Capabilities.Kind() != '{' {
		k.era.ask(k, m) // it says which of them is wrong
		return
	}
	var p struct {
		Wanted *struct {
			Tools bool `json:"toolsListChanged"`
		} `json:"notifications"`
	}
	if json.Unmarshal(m.Params, &p) != nil || p.Wanted == nil {
		answer(nil, &jsonline.Error{Code: jsonline.CodeParams, Message: "notifications is missing, or no object"})
		return
	}
	type agreed struct {
		Tools bool `json:"toolsListChanged,omitzero"`
	}
	acknowledged, err := json.Marshal(struct {
		Meta struct {
			Subscription jsontext.Value `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
		Notifications agreed `json:"notifications"`
	}{struct {
		Subscription jsontext.Value `json:"io.modelcontextprotocol/subscriptionId"`
	}{m.ID}, agreed{p.Wanted.Tools}})
	if err != nil {
		answer(nil, &jsonline.Error{Code: jsonline.CodeInternal, Message: "the acknowledgement cannot be written"})
		return
	}
	if p.Wanted.Tools {
		c.calls.hold(k) // before the host can cancel it
	}
	c.send(jsonline.Wire{Method: "notifications/subscriptions/acknowledged", Params: acknowledged})
	if !p.Wanted.Tools { // nothing to listen for
		answer(ended{"complete", endedMeta{m.ID, implementation{first.Name, first.Version()}}}, nil)
	}
}
