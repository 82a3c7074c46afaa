package mcpshim

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// message is one line from the host. At most one of method and answer is set; neither means a blank line.
type message struct {
	id     jsontext.Value // the bytes as they came; nil for a notification
	key    string         // equal for equal ids: "s" + the string's content, or "n" + the digits
	method string
	params jsontext.Value // an object, or nil
	answer bool           // a response; we ask nothing, so it is nobody's
}

// fault is a protocol error. id is the request's where it could be read, else nil and sent as null.
type fault struct {
	code int64
	text string
	id   jsontext.Value
}

// parse reads one line strictly: UTF-8, one JSON object, no name twice at any depth, "jsonrpc":"2.0", no member that
// JSON-RPC 2.0 does not name, an id that is a string or an integer, params that are an object.
// Batches (arrays) are refused: MCP had them in one revision and dropped them.
func parse(line []byte) (message, *fault) {
	line = bytes.Trim(line, " \t\r\n")
	if len(line) == 0 {
		return message{}, nil
	}
	// The whole line first, so that what cannot be parsed is told apart from what is not a request.
	if err := json.Unmarshal(line, new(jsontext.Value)); err != nil {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return message{}, &fault{jsonrpc.CodeInvalidRequest, "a name stands twice in one object", nil}
		}
		return message{}, &fault{jsonrpc.CodeParseError, "the line is not one JSON value in UTF-8", nil}
	}
	if line[0] != '{' {
		return message{}, &fault{jsonrpc.CodeInvalidRequest, "a message is one JSON object", nil}
	}
	var e struct {
		Version jsontext.Value `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Method  jsontext.Value `json:"method"`
		Params  jsontext.Value `json:"params"`
		Result  jsontext.Value `json:"result"`
		Error   jsontext.Value `json:"error"`
		Unknown jsontext.Value `json:",embed"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return message{}, &fault{jsonrpc.CodeInvalidRequest, "the message cannot be read", nil}
	}
	m := message{answer: e.Result != nil || e.Error != nil}
	refuse := func(code int64, text string) (message, *fault) { return message{}, &fault{code, text, m.id} }
	if e.ID != nil {
		key, err := idKey(e.ID)
		if err != nil && !(m.answer && e.ID.Kind() == 'n') { // the answer to a line whose id could not be read
			return refuse(jsonrpc.CodeInvalidRequest, err.Error())
		}
		m.id, m.key = e.ID, key
	}
	switch {
	case e.Unknown != nil:
		return refuse(jsonrpc.CodeInvalidRequest, "the message has a member that JSON-RPC 2.0 does not know")
	case string(e.Version) != `"2.0"`:
		return refuse(jsonrpc.CodeInvalidRequest, `"jsonrpc" is not "2.0"`)
	case m.answer && (e.Method != nil || e.Params != nil || e.ID == nil || (e.Result != nil && e.Error != nil)):
		return refuse(jsonrpc.CodeInvalidRequest, "the message is neither a request nor a response")
	case m.answer:
		return m, nil
	case e.Method.Kind() != '"':
		return refuse(jsonrpc.CodeInvalidRequest, `"method" is not a string`)
	}
	if err := json.Unmarshal(e.Method, &m.method); err != nil || m.method == "" {
		return refuse(jsonrpc.CodeInvalidRequest, `"method" is empty`)
	}
	switch e.Params.Kind() {
	case '{':
		m.params = e.Params
	case 0, 'n': // absent; some writers send null for it
	default:
		return refuse(jsonrpc.CodeInvalidParams, `"params" is not an object`)
	}
	return m, nil
}

// idKey checks an id. JSON-RPC 2.0, section 4: a string or a number without a fraction; MCP forbids null.
func idKey(id jsontext.Value) (string, error) {
	switch id.Kind() {
	case '"':
		var s string
		if err := json.Unmarshal(id, &s); err != nil {
			return "", fmt.Errorf(`"id" cannot be read`)
		}
		return "s" + s, nil
	case '0':
		for i, b := range id {
			if (b < '0' || b > '9') && !(b == '-' && i == 0 && len(id) > 1 && id[1] != '0') {
				return "", fmt.Errorf(`"id" is a number that is no plain integer`)
			}
		}
		return "n" + string(id), nil
	}
	return "", fmt.Errorf(`"id" is neither a string nor an integer`)
}
