package wrap

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/jsonline"
)

// subscriptionKey names in _meta which subscriptions/listen a notification belongs to (revision 2026-07-28).
const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

// listening is one subscriptions/listen of the host's, served here: of tools the wrapper tells, of the rest the server.
type listening struct {
	id    jsontext.Value // the host's
	tools bool
	rest  map[string]jsontext.Value // what else it wants to hear of, asked of the server; nil: nothing
	own   string                    // key of the request that asks it
}

// listen serves subscriptions/listen.
func (w *wrapper) listen(m message) {
	var p struct {
		Want map[string]jsontext.Value `json:"notifications"`
	}
	if json.Unmarshal(m.params, &p) != nil || p.Want == nil {
		w.reply(m, failure(m.id, jsonline.CodeParams, "notifications is missing"))
		return
	}
	l := &listening{id: m.id, tools: string(p.Want["toolsListChanged"]) == "true"}
	delete(p.Want, "toolsListChanged")
	if len(p.Want) > 0 {
		l.rest = p.Want
	}
	w.listens[m.key] = l
	if l.rest == nil || w.kid == nil {
		w.acknowledge(l, nil)
		return
	}
	w.askListen(w.kid, l)
}

// acknowledge is the first notification of a subscription: what it will hear of.
func (w *wrapper) acknowledge(l *listening, more map[string]jsontext.Value) {
	agreed := make(map[string]jsontext.Value)
	for name, v := range more {
		agreed[name] = v
	}
	delete(agreed, "toolsListChanged")
	if l.tools {
		agreed["toolsListChanged"] = jsontext.Value("true")
	}
	w.host.put(w.notification("notifications/subscriptions/acknowledged", l, agreed))
}

func (w *wrapper) notification(method string, l *listening, agreed map[string]jsontext.Value) []byte {
	p, err := json.Marshal(struct {
		Meta   map[string]jsontext.Value `json:"_meta,omitzero"`
		Agreed map[string]jsontext.Value `json:"notifications,omitzero"`
	}{map[string]jsontext.Value{subscriptionKey: l.id}, agreed}, json.Deterministic(true))
	if err != nil {
		return failure(nil, jsonline.CodeInternal, "a notification can't be written")
	}
	return wire(jsonline.Wire{Method: method, Params: p})
}

// askListen asks the server for the rest of what a subscription wants. One that does not serve it is no fault of the host's.
func (w *wrapper) askListen(k *child, l *listening) {
	id := w.ownID()
	l.own = ownKey(id)
	p, err := json.Marshal(struct {
		Meta jsontext.Value            `json:"_meta,omitzero"`
		Want map[string]jsontext.Value `json:"notifications"`
	}{w.meta(), l.rest}, json.Deterministic(true))
	if err != nil {
		return
	}
	r := &request{lost: func() { l.own = "" }}
	r.done = func(a message) {
		if l.own == ownKey(id) {
			l.own = ""
			if a.fault != nil {
				w.acknowledge(l, nil)
			}
		}
	}
	w.give(k, l.own, wire(jsonline.Wire{ID: id, Method: "subscriptions/listen", Params: p}), r)
}

// subscribe asks a modern server to tell us of its tools, whether the host listens or not, and of what the host listens for.
func (w *wrapper) subscribe(k *child) {
	own := &listening{rest: map[string]jsontext.Value{"toolsListChanged": jsontext.Value("true")}}
	w.askListen(k, own)
	for _, l := range w.listens {
		if l.rest != nil {
			w.askListen(k, l)
		}
	}
}

// ofListen takes a notification that belongs to a subscription of ours, and passes it on under the host's id.
func (w *wrapper) ofListen(k *child, m message) (taken bool) {
	s, ok := find(m.line, "params", "_meta", subscriptionKey)
	if !ok {
		return false
	}
	key, err := jsonline.IDKey(m.line[s.from:s.to])
	if err != nil || k.owed[key] == nil {
		return false
	}
	for _, l := range w.listens {
		if l.own != key {
			continue
		}
		if m.method == "notifications/subscriptions/acknowledged" {
			var p struct {
				Agreed map[string]jsontext.Value `json:"notifications"`
			}
			json.Unmarshal(m.params, &p)
			w.acknowledge(l, p.Agreed)
		} else {
			w.host.put(put(m.line, s, string(l.id)))
		}
		return true
	}
	return true // our own subscription's
}

// tellListeners tells the host that the tools changed: each subscription that wants to know, or, in the revisions with a
// handshake, the connection.
func (w *wrapper) tellListeners() {
	const method = "notifications/tools/list_changed"
	for _, l := range w.listens {
		if l.tools {
			w.host.put(w.notification(method, l, nil))
		}
	}
	if !w.modern() && w.done != nil {
		w.host.put(wire(jsonline.Wire{Method: method}))
	}
}

// answerLine is the answer to a request of the host's.
func answerLine(id jsontext.Value, result []byte) []byte {
	return wire(jsonline.Wire{ID: id, Result: result})
}
