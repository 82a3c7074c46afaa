// Package jsonline is JSON-RPC 2.0, one message a line, as the shim and the wrapper read and write it: strictly, and with
// every id as the bytes that came.
package jsonline

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codes of JSON-RPC 2.0, section 5.1, that a line may be refused with.
const (
	CodeParse    = -32700
	CodeRequest  = -32600
	CodeMethod   = -32601
	CodeParams   = -32602
	CodeInternal = -32603
)

// Message is one line. It is a request (Method and ID), a notification (Method), an answer (ID, and Result or Error), or
// the zero Message for a blank line.
type Message struct {
	ID     jsontext.Value // the bytes as they came; nil for a notification
	Key    string         // equal for equal ids: "s" + the string's content, or "n" + the digits
	Method string
	Params jsontext.Value // an object, or nil
	Result jsontext.Value
	Error  jsontext.Value
}

// Answer says that the message answers a request of ours.
func (m Message) Answer() bool { return m.Result != nil || m.Error != nil }

// Fault is a protocol error. ID is the request's where it could be read, else nil and sent as null.
type Fault struct {
	Code int64
	Text string
	ID   jsontext.Value
}

// Parse reads one line strictly: UTF-8, one JSON object, no name twice at any depth, "jsonrpc":"2.0", no member that
// JSON-RPC 2.0 does not name, an id that is a string or an integer, params that are an object.
// Batches (arrays) are refused: MCP had them in one revision and dropped them.
func Parse(line []byte) (Message, *Fault) {
	line = bytes.Trim(line, " \t\r\n")
	if len(line) == 0 {
		return Message{}, nil
	}
	// The whole line first, so that what cannot be parsed is told apart from what is not a request.
	if err := json.Unmarshal(line, new(jsontext.Value)); err != nil {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return Message{}, &Fault{CodeRequest, "a name stands twice in one object", nil}
		}
		return Message{}, &Fault{CodeParse, "the line is not one JSON value in UTF-8", nil}
	}
	if line[0] != '{' {
		return Message{}, &Fault{CodeRequest, "a message is one JSON object", nil}
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
		return Message{}, &Fault{CodeRequest, "the message cannot be read", nil}
	}
	m := Message{Result: e.Result, Error: e.Error}
	refuse := func(code int64, text string) (Message, *Fault) { return Message{}, &Fault{code, text, m.ID} }
	if e.ID != nil {
		key, err := IDKey(e.ID)
		if err != nil && !(m.Answer() && e.ID.Kind() == 'n') { // the answer to a line whose id could not be read
			return refuse(CodeRequest, err.Error())
		}
		m.ID, m.Key = e.ID, key
	}
	switch {
	case e.Unknown != nil:
		return refuse(CodeRequest, "the message has a member that JSON-RPC 2.0 does not know")
	case string(e.Version) != `"2.0"`:
		return refuse(CodeRequest, `"jsonrpc" is not "2.0"`)
	case m.Answer() && (e.Method != nil || e.Params != nil || e.ID == nil || (e.Result != nil && e.Error != nil)):
		return refuse(CodeRequest, "the message is neither a request nor a response")
	case m.Answer():
		return m, nil
	case e.Method.Kind() != '"':
		return refuse(CodeRequest, `"method" is not a string`)
	}
	if err := json.Unmarshal(e.Method, &m.Method); err != nil || m.Method == "" {
		return refuse(CodeRequest, `"method" is empty`)
	}
	switch e.Params.Kind() {
	case '{':
		m.Params = e.Params
	case 0, 'n': // absent; some writers send null for it
	default:
		return refuse(CodeParams, `"params" is not an object`)
	}
	return m, nil
}

// IDKey checks an id and returns its Key. JSON-RPC 2.0, section 4: a string or a number without a fraction; MCP forbids
// null.
func IDKey(id jsontext.Value) (string, error) {
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

// ProgressToken returns params._meta.progressToken as it came, if it is a string or a number, else nil.
func ProgressToken(params jsontext.Value) jsontext.Value {
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
