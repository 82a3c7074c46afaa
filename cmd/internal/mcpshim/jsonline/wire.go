package jsonline

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Wire is one message to be written.
type Wire struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  *Error         `json:"error,omitzero"`
}

// Error is a protocol error, section 5.1.
type Error struct {
	Code    int64          `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

// Line is the message's JSON and a newline; JSON holds none in itself. The id keeps its bytes.
func (w Wire) Line() []byte {
	b, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		Wire
	}{"2.0", w}, jsontext.PreserveRawStrings(true))
	if err != nil { // somebody gave what is no JSON
		w = Wire{ID: w.ID, Error: &Error{Code: CodeInternal, Message: "the answer cannot be written as JSON"}}
		return w.Line()
	}
	return append(b, '\n')
}

// Wire is the answer to a line that was refused.
func (f *Fault) Wire() Wire {
	id := f.ID
	if id == nil {
		id = jsontext.Value("null")
	}
	return Wire{ID: id, Error: &Error{Code: f.Code, Message: f.Text}}
}
