package mcpshim

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/cmd/internal/mcpshim/jsonline"
)

// FuzzFirst: a line that is answered beforehand is one that the strict reader takes, with the same id, of the same era, and
// whose handshake says the same.
func FuzzFirst(f *testing.F) {
	for _, seed := range []string{
		initialize, initialized, `{"jsonrpc":"2.0","id":0,"method":"ping","params":{}}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":{"progressToken":1.5e3}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + said + `}}`,
		` {"id" : 12 ,"jsonrpc":"2.0", "params":{` + said + `,"a":[1,-2.5E+7,true,null,{"b":""}]},"method":"tools/list"}` + "\r\n",
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, line []byte, agreed bool) {
		var s first.Session
		if agreed {
			s.Version = "2025-06-18"
		}
		before := s
		id, result, ok := s.Answer(bytes.Clone(line))
		if !ok {
			if s != before || id != nil && result != nil {
				t.Fatalf("%q is not answered, and %+v became %+v", line, before, s)
			}
			return
		}
		m, fault := jsonline.Parse(line)
		if fault != nil || !bytes.Equal(m.ID, id) || m.Answer() {
			t.Fatalf("%q: %+v, %+v; answered to %q", line, m, fault, id)
		}
		if id == nil {
			if m.Method != "notifications/initialized" || !s.Told {
				t.Fatalf("%q: %+v", line, s)
			}
			return
		}
		var doc struct {
			Type    string `json:"resultType"`
			Version string `json:"protocolVersion"`
		}
		if err := json.Unmarshal(result, &doc); err != nil {
			t.Fatalf("%q: %v in %s", line, err, result)
		}
		if (doc.Type == "complete") != modern(m) {
			t.Fatalf("%q: of the other era: %s", line, result)
		}
		var p struct {
			Version string `json:"protocolVersion"`
		}
		if m.Method == "initialize" {
			if err := json.Unmarshal(m.Params, &p); err != nil || (slices.Contains(first.Legacy(), p.Version) && doc.Version != p.Version) || s.Version != doc.Version {
				t.Fatalf("%q: %v, %s for %s", line, err, doc.Version, p.Version)
			}
		}
		if !slices.Contains([]string{"initialize", "ping", "tools/list", "server/discover"}, m.Method) {
			t.Fatalf("%q is answered: %s", line, result)
		}
	})
}
