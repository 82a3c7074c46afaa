package mcpshim

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"sallyport/cmd/internal/mcpshim/jsonline"
)

// Codes of our own. -32000 and -32001 make the TypeScript SDK connect again, so ours keep away from them.
const (
	codeClosing = -32010 // the session is ending
	codeTooMany = -32011 // too many requests are unanswered
)

// messageLimit is the longest text of a protocol error, in bytes.
const messageLimit = 300

// wireErrorOf translates the SDK's error. The SDK leaves some without a code (a request before initialize, a second or a
// malformed initialize), has codes of its own near those that make hosts connect again, and quotes whole params.
func wireErrorOf(err error) *jsonline.Error {
	if err == nil {
		return nil
	}
	w := &jsonline.Error{Code: jsonline.CodeRequest, Message: strings.ToValidUTF8(err.Error(), "?")}
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
