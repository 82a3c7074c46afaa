package mcpshim

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Codes of our own. -32000 and -32001 make the TypeScript SDK connect again, so ours keep away from them.
const (
	codeClosing = -32010 // the session is ending
	codeTooMany = -32011 // too many requests are unanswered
)

// messageLimit is the longest text of a protocol error, in bytes.
const messageLimit = 300

// wire is one message to the host.
type wire struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  *wireError     `json:"error,omitzero"`
}

type wireError struct {
	Code    int64          `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

// line is the message's JSON and a newline; JSON holds none in itself. The id keeps its bytes.
func (w wire) line() []byte {
	b, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		wire
	}{"2.0", w}, jsontext.PreserveRawStrings(true))
	if err != nil { // the SDK or the gateway gave what is no JSON
		id := w.ID
		w = wire{ID: id, Error: &wireError{Code: jsonrpc.CodeInternalError, Message: "the answer cannot be written as JSON"}}
		return w.line()
	}
	return append(b, '\n')
}

// wire is the answer to a line that was refused.
func (f *fault) wire() wire {
	id := f.id
	if id == nil {
		id = jsontext.Value("null")
	}
	return wire{ID: id, Error: &wireError{Code: f.code, Message: f.text}}
}

// wireErrorOf translates the SDK's error. The SDK leaves some without a code (a request before initialize, a second or a
// malformed initialize), has codes of its own near those that make hosts connect again, and quotes whole params.
func wireErrorOf(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Code: jsonrpc.CodeInvalidRequest, Message: strings.ToValidUTF8(err.Error(), "?")}
	if len(w.Message) > messageLimit {
		w.Message = strings.ToValidUTF8(w.Message[:messageLimit], "") + " ..."
	}
	var coded *jsonrpc.Error
	if errors.As(err, &coded) {
		w.Data = jsontext.Value(coded.Data)
		switch {
		case coded.Code <= -32000 && coded.Code > -32010:
			w.Code = codeClosing
		case coded.Code != 0:
			w.Code = coded.Code
		}
	}
	return w
}
