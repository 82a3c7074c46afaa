package gateway

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// What a host's call and a server's pages hold is somebody else's: it passes through the strict pass as it is, and nothing
// beside it does.
func TestServerDocumentsPass(t *testing.T) {
	many := `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"a":null,"A":1},`, 40_000), ",") + `]}`
	for _, c := range []struct {
		line string
		ok   bool
	}{
		{`{"id":"1","method":"call","params":{"executionEpoch":"ep_1","params":{"name":"x","arguments":{"a":null,"A":1}}}}`, true},
		{`{"id":"1","method":"server.catalog","params":{"executionEpoch":"ep_1","pages":[` + many + `]}}`, true},
		{`{"id":"1","method":"server.report","params":{"action":"a","outcome":"confirmed","reply":{"x":null}}}`, true},
		{`{"id":"1","method":"call","params":{"tool":"http_request","args":{"a":null}}}`, false},
		{`{"id":"1","method":"call","params":{"args":{"params":{"a":null}}}}`, false},
		{`{"id":"1","method":"call","params":{"params":{"a":1,"a":2}}}`, false},
		{`{"id":"1","method":"call","params":{"params":{"a":"` + "\xff" + `"}}}`, false},
		{`{"id":"1","method":"call","Params":{"params":{"a":null}}}`, false},
		{`{"id":"1","method":"call","params":{"params":null},"x":null}`, false},
	} {
		var r api.Request
		if fault := decodeRaw([]byte(c.line), &r, "/params/params", "/params/pages", "/params/reply"); (fault == nil) != c.ok {
			t.Errorf("%.120s: %v, want %v", c.line, fault, c.ok)
		}
	}
}

// Two calls are one plan only if every argument is the same, whatever stands around them.
func TestServerCallDigests(t *testing.T) {
	g := &Gateway{servers: newServers()}
	a := &agentConn{g: g}
	s := &server{label: "l", conn: a, run: newRun(owner{}, now().Wall)}
	g.servers.by[a] = s
	sum := func(params string) string {
		q := a.parseRelay(api.ActionRequest{ExecutionEpoch: "ep_1", Params: jsontext.Value(params)}, "1")
		if q.fault != nil {
			t.Fatalf("%s: %v", params, q.fault)
		}
		return bind(q, nil).authz.Digest
	}
	base := sum(`{"name":"x","arguments":{"n":9007199254740993,"a":null}}`)
	for params, same := range map[string]bool{
		`{"arguments":{"a":null, "n":9007199254740993},"name":"x","_meta":{"progressToken":7}}`: true,
		`{"name":"x","arguments":{"n":9007199254740992,"a":null}}`:                              false,
		`{"name":"x","arguments":{"n":9007199254740993}}`:                                       false,
		`{"name":"y","arguments":{"n":9007199254740993,"a":null}}`:                              false,
		`{"name":"x"}`: false,
	} {
		if got := sum(params); (got == base) != same {
			t.Errorf("%s: same %v, want %v", params, got == base, same)
		}
	}
	for _, params := range []string{``, `[]`, `{}`, `{"name":""}`, `{"name":7}`, `{"name":"x","arguments":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`} {
		if q := a.parseRelay(api.ActionRequest{ExecutionEpoch: "ep_1", Params: jsontext.Value(params)}, "1"); q.fault == nil {
			t.Errorf("%s: taken", params)
		}
	}
	for _, r := range []api.ActionRequest{{Tool: "x"}, {IdempotencyKey: "k"}, {WaitSeconds: 1}, {Reason: "r"}, {RequestID: strings.Repeat("7", 129)}} {
		r.ExecutionEpoch, r.Params = "ep_1", jsontext.Value(`{"name":"x"}`)
		if q := a.parseRelay(r, "1"); q.fault == nil {
			t.Errorf("%+v: taken", r)
		}
	}
}
