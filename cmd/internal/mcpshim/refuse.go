package mcpshim

import (
	"strings"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/cmd/internal/mcpshim/jsonline"
)

// undeclared are the methods of what this server does not declare. The SDK's server answers some of them all the same,
// with empty lists; a host shall not take it for more than a server of tools.
var undeclared = []string{"prompts/", "resources/", "completion/", "logging/"}

// refused says what is wrong with a request that must not reach the SDK; nil for any other.
func (e *era) refused(m jsonline.Message) *jsonline.Error {
	if e == e.c.modern {
		switch version := metaOf(m.Params).Version; {
		case version == "": // a discover, then: its method is known, its _meta says too little
			return &jsonline.Error{Code: jsonline.CodeParams, Message: "_meta names no io.modelcontextprotocol/protocolVersion"}
		case version != first.Stateless: // the SDK says which there are
			return nil
		}
	}
	for _, of := range undeclared {
		if strings.HasPrefix(m.Method, of) {
			return &jsonline.Error{Code: jsonline.CodeMethod, Message: "no such method: this server has tools alone"}
		}
	}
	return nil
}
