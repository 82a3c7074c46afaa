package jsonline

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestParse(t *testing.T) {
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	cases := []struct {
		name, line string
		code       int64  // 0: taken
		id         string // of the message, or of the fault
		key        string
		method     string
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 0, `1`, "n1", "ping"},
		{"spaces and CR", " {\"jsonrpc\":\"2.0\" , \"id\" :1,\"method\":\"ping\"}\t\r", 0, `1`, "n1", "ping"},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 0, ``, "", "notifications/initialized"},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, 0, `1`, "n1", "ping"},
		{"any order", `{"params":{},"method":"ping","id":1,"jsonrpc":"2.0"}`, 0, `1`, "n1", "ping"},
		{"escaped method", `{"jsonrpc":"2.0","id":1,"method":"p\u0069ng"}`, 0, `1`, "n1", "ping"},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`, 0, `1`, "n1", ""},
		{"error response", `{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}`, 0, `"x"`, "sx", ""},
		{"error response without id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`, 0, `null`, "", ""},
		{"blank", " \t\r", 0, ``, "", ""},

		{"2^53+1", `{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}`, 0, `9007199254740993`, "n9007199254740993", "m"},
		{"past 64 bits", `{"jsonrpc":"2.0","id":340282366920938463463374607431768211457,"method":"m"}`, 0, `340282366920938463463374607431768211457`, "n340282366920938463463374607431768211457", "m"},
		{"string 1", `{"jsonrpc":"2.0","id":"1","method":"m"}`, 0, `"1"`, "s1", "m"},
		{"string 1 escaped", `{"jsonrpc":"2.0","id":"\u0031","method":"m"}`, 0, `"\u0031"`, "s1", "m"},
		{"negative", `{"jsonrpc":"2.0","id":-7,"method":"m"}`, 0, `-7`, "n-7", "m"},
		{"zero", `{"jsonrpc":"2.0","id":0,"method":"m"}`, 0, `0`, "n0", "m"},
		{"empty string", `{"jsonrpc":"2.0","id":"","method":"m"}`, 0, `""`, "s", "m"},
		{"1.5", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, -32600, ``, "", ""},
		{"1.0", `{"jsonrpc":"2.0","id":1.0,"method":"m"}`, -32600, ``, "", ""},
		{"1e3", `{"jsonrpc":"2.0","id":1e3,"method":"m"}`, -32600, ``, "", ""},
		{"-0", `{"jsonrpc":"2.0","id":-0,"method":"m"}`, -32600, ``, "", ""},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"m"}`, -32600, ``, "", ""},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"m"}`, -32600, ``, "", ""},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, -32600, ``, "", ""},

		{"garbage", `hello`, -32700, ``, "", ""},
		{"BOM", "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, -32700, ``, "", ""},
		{"half", `{"jsonrpc":"2.0","id":1,`, -32700, ``, "", ""},
		{"two objects", `{"jsonrpc":"2.0","id":1,"method":"a"}{"jsonrpc":"2.0","id":2,"method":"b"}`, -32700, ``, "", ""},
		{"two objects and a space", `{"jsonrpc":"2.0","id":1,"method":"a"} {"jsonrpc":"2.0","id":2,"method":"b"}`, -32700, ``, "", ""},
		{"trailing comma", `{"jsonrpc":"2.0","id":1,"method":"ping",}`, -32700, ``, "", ""},
		{"comment", `{"jsonrpc":"2.0","id":1,"method":"ping"} // x`, -32700, ``, "", ""},
		{"bad UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", -32700, ``, "", ""},
		{"lone surrogate", `{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, -32700, ``, "", ""},
		{"NUL", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\x00b\"}", -32700, ``, "", ""},
		{"NaN", `{"jsonrpc":"2.0","id":NaN,"method":"m"}`, -32700, ``, "", ""},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":` + deep + `}}`, -32700, ``, "", ""},

		{"array", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, ``, "", ""},
		{"string", `"x"`, -32600, ``, "", ""},
		{"null", `null`, -32600, ``, "", ""},
		{"empty object", `{}`, -32600, ``, "", ""},
		{"key twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, -32600, ``, "", ""},
		{"key twice by escape", `{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}`, -32600, ``, "", ""},
		{"key twice within", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1,"x":2}}}`, -32600, ``, "", ""},
		{"no version", `{"id":1,"method":"ping"}`, -32600, `1`, "", ""},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, `1`, "", ""},
		{"version number", `{"jsonrpc":2.0,"id":"a","method":"ping"}`, -32600, `"a"`, "", ""},
		{"unknown member", `{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}`, -32600, `1`, "", ""},
		{"other case", `{"jsonrpc":"2.0","ID":1,"method":"ping"}`, -32600, ``, "", ""},
		{"no method", `{"jsonrpc":"2.0","id":1}`, -32600, `1`, "", ""},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, -32600, `1`, "", ""},
		{"method number", `{"jsonrpc":"2.0","id":1,"method":7}`, -32600, `1`, "", ""},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, -32600, `1`, "", ""},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, -32600, `1`, "", ""},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, -32600, ``, "", ""},
		{"params array", `{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`, -32602, `1`, "", ""},
		{"params string", `{"jsonrpc":"2.0","id":1,"method":"a","params":"x"}`, -32602, `1`, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, f := Parse([]byte(c.line))
			switch {
			case c.code == 0 && f != nil:
				t.Fatalf("refused: %d %s", f.Code, f.Text)
			case c.code != 0 && f == nil:
				t.Fatalf("taken as %+v", m)
			case f != nil:
				if f.Code != c.code || string(f.ID) != c.id {
					t.Fatalf("fault %d %q of id %s, want %d of id %s", f.Code, f.Text, f.ID, c.code, c.id)
				}
			case string(m.ID) != c.id || m.Key != c.key || m.Method != c.method:
				t.Fatalf("got %+v", m)
			}
		})
	}
}

// FuzzParse: nothing makes it panic; what is taken is one strict object, its id comes back byte for byte in an answer,
// and its params are an object; a refusal is a line that any JSON reader takes.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		initialize, initialized, `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"_meta":{"progressToken":1.25}}}`,
		`{"jsonrpc":"2.0","id":"1","result":{}}`, `[]`, "\ufeff{}", `{}{}`, `{"a":1,"a":2}`, `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, "\xff", `{"jsonrpc":"2.0","id":"\u2028","method":"m"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, bad := Parse(line)
		if bad != nil {
			out := bad.Wire().Line()
			var r struct {
				Version string         `json:"jsonrpc"`
				ID      jsontext.Value `json:"id"`
				Error   struct {
					Code    int64  `json:"code"`
					Message string `json:"message"`
				} `json:"error"`
			}
			if err := json.Unmarshal(out, &r, json.RejectUnknownMembers(true)); err != nil || r.ID == nil || r.Error.Code > -32600 || strings.Count(string(out), "\n") != 1 {
				t.Fatalf("refusal %q: %v", out, err)
			}
			return
		}
		if m.Method == "" {
			return
		}
		if !jsontext.Value(line).IsValid() {
			t.Fatalf("took invalid JSON %q", line)
		}
		if m.Params != nil && m.Params.Kind() != '{' {
			t.Fatalf("params %s", m.Params)
		}
		ProgressToken(m.Params)
		if m.ID == nil {
			return
		}
		out := string(Wire{ID: m.ID, Result: jsontext.Value("{}")}.Line())
		if want := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}` + "\n"; out != want {
			t.Fatalf("answer %q, want %q", out, want)
		}
	})
}

const (
	initialize  = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)
