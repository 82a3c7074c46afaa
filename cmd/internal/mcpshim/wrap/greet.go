package wrap

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/jsonline"
)

// agreed is what host and server know of each other. A later server is told the same, and must say the same.
type agreed struct {
	asked      string // "initialize" or "server/discover": what was answered last; "" nothing yet
	ask        []byte // the host's line
	answer     jsontext.Value
	done       []byte // the host's notifications/initialized
	probe      bool   // server/discover was asked
	legacyOnly bool   // the server ended when it was
	last       int    // number of our own last request
}

// errDiffers: the new server can't go on where the old one was.
var errDiffers = errors.New("the server speaks another protocol version or has other capabilities than before")

func (w *wrapper) agreedAny() bool { return w.asked != "" }

// modern says that the host speaks a revision without a handshake, in which each request carries its own.
func (w *wrapper) modern() bool { return w.asked == "server/discover" }

// initialized passes the answer to initialize on.
func (w *wrapper) initialized(m, a message) {
	w.agree("initialize", m, a)
	w.reply(m, forceListChanged(a.line))
}

// discovered passes the answer to server/discover on. There is no second half: the server may be asked at once.
func (w *wrapper) discovered(m, a message) {
	w.probe = false
	w.agree("server/discover", m, a)
	w.reply(m, forceListChanged(a.line))
	if w.modern() && w.kid != nil {
		w.subscribe(w.kid)
		w.refetch(w.kid)
	}
}

func (w *wrapper) agree(method string, m, a message) {
	if a.result != nil {
		w.agreed.asked, w.ask, w.answer = method, m.line, a.result
	}
}

// lostHandshake is the end of a server that was being greeted by the host. The next one, if there is one, is greeted again.
func (w *wrapper) lostHandshake(m message) {
	switch {
	case m.method == "server/discover" && w.legacyOnly, !w.starting && m.method == "server/discover":
		w.reply(m, failure(m.id, jsonline.CodeMethod, "the server ended when it was asked for server/discover; send initialize"))
	case w.starting:
		w.hold(m)
	default:
		w.reply(m, failure(m.id, codeDown, w.down))
	}
}

// greet makes a new process of the server ready: the handshake of the one before is repeated, nothing else.
func (w *wrapper) greet(k *child) {
	if !w.agreedAny() {
		w.ready(k)
		return
	}
	old, _ := read(w.ask)
	if w.asked == "initialize" && w.done == nil { // the host is in the middle of it
		w.replay(k, old, func() { w.ready(k) })
		return
	}
	w.replay(k, old, func() {
		if w.asked == "initialize" {
			k.in.put(w.done)
		} else {
			w.subscribe(k)
		}
		w.refetch(k)
		w.ready(k)
	})
}

// replay asks k what the host asked the server before it, and goes on if the answer agrees.
func (w *wrapper) replay(k *child, old message, then func()) {
	id := w.ownID()
	line, ok := withID(old.line, id)
	if !ok {
		return
	}
	r := &request{lost: func() {}}
	r.done = func(a message) {
		if w.kid != k {
			return
		}
		if err := same(w.answer, a); err != nil {
			w.reconnect(err)
			return
		}
		then()
	}
	w.give(k, ownKey(id), line, r)
}

// same compares two answers to initialize or server/discover by what was negotiated.
func same(before jsontext.Value, a message) error {
	if a.result == nil {
		return fmt.Errorf("%w: it refuses the handshake: %s", errDiffers, quote(string(a.fault)))
	}
	x, y := negotiated(before), negotiated(a.result)
	if x == "" || x != y {
		return errDiffers
	}
	return nil
}

// negotiated is the part of an answer that binds, as canonical JSON (RFC 8785).
func negotiated(result jsontext.Value) string {
	var n struct {
		Version      jsontext.Value `json:"protocolVersion,omitzero"`
		Versions     jsontext.Value `json:"supportedVersions,omitzero"`
		Capabilities jsontext.Value `json:"capabilities,omitzero"`
	}
	if json.Unmarshal(result, &n) != nil {
		return ""
	}
	v, err := json.Marshal(n)
	if err != nil || (*jsontext.Value)(&v).Canonicalize() != nil {
		return ""
	}
	return string(v)
}

// reconnect ends the session: what was negotiated is not changed under a host's feet.
func (w *wrapper) reconnect(err error) {
	w.say("sp mcp: %v; connect again", err)
	for _, m := range w.unwait() {
		w.reply(m, failure(m.id, codeAgain, err.Error()+"; connect again"))
	}
	w.end("eof")
	w.ending.err = fmt.Errorf("replace server: %w", err)
}

// ownPrefix begins the ids of our own requests: no host will choose it.
const ownPrefix = "sallyport-"

func (w *wrapper) ownID() jsontext.Value {
	w.last++
	return jsontext.Value(`"` + ownPrefix + strconv.Itoa(w.last) + `"`)
}

// ownKey is the key of an own id: it has no escapes.
func ownKey(id jsontext.Value) string { return "s" + string(id[1:len(id)-1]) }
