package wrap

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/jsonline"
)

// message is one line in either direction, read as far as passing it on needs. The shim's own reader refuses members that
// JSON-RPC does not name; a wrapper passes them on.
type message struct {
	line   []byte         // as it came, without its newline
	id     jsontext.Value // the bytes as they came; nil of a notification
	key    string         // equal for equal ids
	method string         // "" of an answer
	params jsontext.Value
	result jsontext.Value // of an answer, nil if it is an error
	fault  jsontext.Value // the error of an answer
}

var (
	errNotJSON    = errors.New("the line is not one JSON object in UTF-8 with each name once")
	errNotMessage = errors.New("the line is no JSON-RPC 2.0 message")
)

// read takes a line that is one JSON-RPC message. A member that JSON-RPC does not name is no fault, unless a reader that
// does not tell upper from lower case would take it for one that it does name: who reads next must see the same message.
func read(line []byte) (message, error) {
	var e struct {
		Version jsontext.Value            `json:"jsonrpc"`
		ID      jsontext.Value            `json:"id"`
		Method  jsontext.Value            `json:"method"`
		Params  jsontext.Value            `json:"params"`
		Result  jsontext.Value            `json:"result"`
		Error   jsontext.Value            `json:"error"`
		Rest    map[string]jsontext.Value `json:",embed"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return message{}, errNotJSON
	}
	for name := range e.Rest {
		for _, known := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if strings.EqualFold(name, known) {
				return message{}, errNotMessage
			}
		}
	}
	m := message{line: line, params: e.Params, result: e.Result, fault: e.Error}
	if string(e.Version) != `"2.0"` {
		return message{}, errNotMessage
	}
	if e.ID != nil && e.ID.Kind() != 'n' {
		key, err := jsonline.IDKey(e.ID)
		if err != nil {
			return message{}, errNotMessage
		}
		m.id, m.key = e.ID, key
	}
	if answer := e.Result != nil || e.Error != nil; answer {
		if e.Method != nil || e.Result != nil && (e.Error != nil || m.id == nil) {
			return message{}, errNotMessage
		}
		return m, nil
	}
	if e.Method.Kind() != '"' || json.Unmarshal(e.Method, &m.method) != nil || m.method == "" || e.ID != nil && m.id == nil {
		return message{}, errNotMessage
	}
	return m, nil
}

// blank says that a line holds nothing.
func blank(line []byte) bool { return len(bytes.Trim(line, " \t\r\n")) == 0 }

// codes of protocol errors of our own. The TypeScript SDK connects again on -32000 and -32001.
const (
	codeEnding   = -32010 // the session is ending
	codeTooMany  = -32011 // too much waits
	codeDown     = -32012 // no server runs
	codeReplaced = -32013 // the server that was asked has ended
	codeAgain    = -32014 // the server speaks otherwise than was agreed: connect again
)

// failure is the line that answers a request with a protocol error.
func failure(id jsontext.Value, code int64, text string) []byte {
	if id == nil {
		id = jsontext.Value("null")
	}
	return wire(jsonline.Wire{ID: id, Error: &jsonline.Error{Code: code, Message: text}})
}

func wire(w jsonline.Wire) []byte { return bytes.TrimSuffix(w.Line(), []byte("\n")) }
