package mcpshim

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/gateway/api"
)

// said is the _meta of a request in the modern era.
const said = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// doneDoor answers every call as done.
func doneDoor() *fakeDoor {
	return &fakeDoor{act: func(_ context.Context, r api.ActionRequest) (api.Action, error) {
		return api.Action{ID: "act_1", Tool: r.Tool, Target: "gh", State: api.Done, Outcome: "confirmed"}, nil
	}}
}

// M02: a probe of the modern era, then a handshake on the same process; both are served, in any order and side by side,
// before and after the server behind is built.
func TestM02DiscoverThenInitialize(t *testing.T) {
	h := startShim(t, doneDoor())
	discover := func(id string) {
		t.Helper()
		h.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"server/discover","params":{` + said + `}}`)
		var res struct {
			Type     string   `json:"resultType"`
			Versions []string `json:"supportedVersions"`
		}
		r := h.hear()
		if err := json.Unmarshal(r.Result, &res); err != nil || string(r.ID) != id || res.Type != "complete" || res.Versions[0] != first.Stateless || len(res.Versions) != 5 {
			t.Fatalf("discover: %+v", r)
		}
	}
	call := func(id, meta string, stateless bool) {
		t.Helper()
		h.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + meta + `"name":"ssh_exec","arguments":{"target":"h"}}}`)
		r := h.hear()
		if r.Error != nil || string(r.ID) != id || strings.Contains(string(r.Result), `"resultType":"complete"`) != stateless || strings.Contains(string(r.Result), "serverInfo") != stateless {
			t.Fatalf("call %s: %+v %s", id, r, r.Result)
		}
	}
	discover("1")
	h.handshake()
	discover("2")
	call("3", said+",", true)
	call("4", "", false)
	discover("5")
	call("6", said+",", true)
	call("7", "", false)
	h.say(initialize) // the legacy session has its handshake already
	if r := h.hear(); r.Error == nil || r.Error.Code != -32600 {
		t.Fatalf("second initialize: %+v", r)
	}
	call("8", "", false)
	h.in.Close()
	h.ends()
	h.silent()
}

// What is answered beforehand is what the SDK answers.
func TestFirstAnswers(t *testing.T) {
	for _, c := range []struct {
		name, method, params string
		before               []string
	}{
		{"initialize", "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, nil},
		{"initialize of an unknown revision", "initialize", `{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, nil},
		{"ping", "ping", `{}`, nil},
		{"tools/list", "tools/list", `{}`, []string{initialize, initialized}},
		{"discover", "server/discover", `{` + said + `}`, nil},
		{"stateless tools/list", "tools/list", `{` + said + `}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers := make([]jsontext.Value, 2)
			for i := range answers {
				h := startShim(t, &fakeDoor{})
				if i == 1 { // whatever has begun is answered by the SDK
					h.say(`{"jsonrpc":"2.0","id":"b","method":"no/such","params":{}}`, `{"jsonrpc":"2.0","id":"b2","method":"no/such","params":{`+said+`}}`)
					h.hear()
					h.hear()
				}
				for _, line := range c.before {
					h.say(line)
					if strings.Contains(line, `"id"`) {
						h.hear()
					}
				}
				h.say(`{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":` + c.params + `}`)
				r := h.hear()
				if r.Error != nil || string(r.ID) != "1" {
					t.Fatalf("%+v", r)
				}
				var doc map[string]any
				if err := json.Unmarshal(r.Result, &doc); err != nil {
					t.Fatal(err)
				}
				if c.name == "tools/list" { // of revision 2026-07-28, which the SDK says in every era
					delete(doc, "ttlMs")
					delete(doc, "cacheScope")
				}
				b, err := json.Marshal(doc, json.Deterministic(true))
				if err != nil {
					t.Fatal(err)
				}
				answers[i] = b
			}
			if string(answers[0]) != string(answers[1]) {
				t.Errorf("beforehand %s\n       SDK %s", answers[0], answers[1])
			}
		})
	}
}

// A request of the modern era that says too little, or a revision that is not there, is refused as the revision asks.
func TestStatelessRefusals(t *testing.T) {
	h := startShim(t, &fakeDoor{})
	for _, c := range []struct {
		method, params string
		code           int64
	}{
		{"tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, -32602},
		{"server/discover", `{}`, -32602},
		{"server/discover", `{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}`, -32602},
		{"server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01","io.modelcontextprotocol/clientCapabilities":{}}}`, -32022},
		{"initialize", `{` + said + `,"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`, -32601},
		{"ping", `{` + said + `}`, -32601},
		{"subscriptions/listen", `{` + said + `}`, -32602},
		{"subscriptions/listen", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{}}`, -32602},
		{"subscriptions/listen", `{"notifications":{}}`, -32600},
		{"tools/call", `{` + said + `,"name":"no_such"}`, -32602},
	} {
		h.say(`{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":` + c.params + `}`)
		if r := h.hear(); r.Error == nil || r.Error.Code != c.code || string(r.ID) != "1" {
			t.Errorf("%s %s: %+v", c.method, c.params, r)
		}
	}
}

// A server of tools alone has no other lists, in either era: not even empty ones.
func TestUndeclaredMethods(t *testing.T) {
	h := startShim(t, &fakeDoor{})
	h.handshake()
	for _, method := range []string{"prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/subscribe", "completion/complete", "logging/setLevel"} {
		for _, params := range []string{`{}`, `{` + said + `}`} {
			h.say(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
			if r := h.hear(); r.Error == nil || r.Error.Code != -32601 || string(r.ID) != "1" {
				t.Errorf("%s %s: %+v", method, params, r)
			}
		}
	}
}

// A stream of notifications is acknowledged under the host's own id, holds no ending, and ends by a cancel without a word.
func TestListen(t *testing.T) {
	h := startShim(t, &fakeDoor{})
	h.say(`{"jsonrpc":"2.0","id":9007199254740993,"method":"subscriptions/listen","params":{` + said + `,"notifications":{"toolsListChanged":true,"promptsListChanged":true}}}`)
	if r := h.hear(); r.Method != "notifications/subscriptions/acknowledged" || string(r.Params) != `{"_meta":{"io.modelcontextprotocol/subscriptionId":9007199254740993},"notifications":{"toolsListChanged":true}}` {
		t.Fatalf("%+v %s", r, r.Params)
	}
	h.say(`{"jsonrpc":"2.0","id":9007199254740993,"method":"server/discover","params":{` + said + `}}`)
	if r := h.hear(); r.Error == nil || r.Error.Code != -32600 {
		t.Fatalf("the stream's id is in use: %+v", r)
	}
	h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`)
	h.say(`{"jsonrpc":"2.0","id":"n","method":"subscriptions/listen","params":{` + said + `,"notifications":{}}}`)
	h.hear()
	if r := h.hear(); string(r.ID) != `"n"` || !strings.Contains(string(r.Result), `"io.modelcontextprotocol/subscriptionId":"n"`) || !strings.Contains(string(r.Result), `"resultType":"complete"`) {
		t.Fatalf("%+v %s", r, r.Result)
	}
	h.say(`{"jsonrpc":"2.0","id":"open","method":"subscriptions/listen","params":{` + said + `,"notifications":{"toolsListChanged":true}}}`)
	h.hear()
	h.in.Close()
	h.ends()
	h.silent()
}
