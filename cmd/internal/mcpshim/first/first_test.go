package first

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The answers' meaning is held to the SDK's by mcpshim's tests; here is what a line must be to be answered, and what stays
// as it was.
func TestAnswer(t *testing.T) {
	const (
		hello   = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`
		told    = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		list    = `{"jsonrpc":"2.0","id":"b","method":"tools/list","params":{"_meta":{"progressToken":1}}}`
		said    = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		nothing = "-"
	)
	agreed := Session{Version: "2025-06-18"}
	for _, c := range []struct {
		name, line string
		before     Session
		id         string // nothing: not answered
		after      Session
	}{
		{"initialize", hello, Session{}, "1", agreed},
		{"and spaces", " " + strings.ReplaceAll(hello, ":", "\t: ") + " \r\n", Session{}, "1", agreed},
		{"unknown revision", strings.Replace(hello, "2025-06-18", "2031-01-01", 1), Session{}, "1", Session{Version: newest}},
		{"twice", hello, agreed, nothing, agreed},
		{"no capabilities", strings.Replace(hello, `"capabilities"`, `"x"`, 1), Session{}, nothing, Session{}},
		{"initialized", told, agreed, "", Session{"2025-06-18", true}},
		{"another notification", strings.Replace(told, "initialized", "cancelled", 1), agreed, nothing, agreed},
		{"list", list, agreed, `"b"`, agreed},
		{"list without a handshake", list, Session{}, nothing, Session{}},
		{"second page", strings.Replace(list, `"_meta"`, `"cursor":"x","_meta"`, 1), agreed, nothing, agreed},
		{"ping", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, Session{}, `9007199254740993`, Session{}},
		{"call", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, agreed, nothing, agreed},
		{"discover", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + said + `}}`, Session{}, "1", Session{}},
		{"stateless list", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + said + `}}`, Session{}, "1", Session{}},
		{"stateless ping", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + said + `}}`, Session{}, nothing, Session{}},
		{"discover, no meta", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, Session{}, nothing, Session{}},
		{"discover, client no object", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + said[:len(said)-1] + `,"io.modelcontextprotocol/clientInfo":7}}}`, Session{}, nothing, Session{}},

		{"another version", strings.Replace(hello, `"2.0"`, `"2.1"`, 1), Session{}, nothing, Session{}},
		{"no version", `{"id":1,"method":"ping"}`, Session{}, nothing, Session{}},
		{"another member", `{"jsonrpc":"2.0","id":1,"method":"ping","x":1}`, Session{}, nothing, Session{}},
		{"a name twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`, Session{}, nothing, Session{}},
		{"a name twice within", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":1}}}`, Session{}, nothing, Session{}},
		{"escape", `{"jsonrpc":"2.0","id":"\u0031","method":"ping"}`, Session{}, nothing, Session{}},
		{"past ASCII", `{"jsonrpc":"2.0","id":"é","method":"ping"}`, Session{}, nothing, Session{}},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, Session{}, nothing, Session{}},
		{"id -1", `{"jsonrpc":"2.0","id":-1,"method":"ping"}`, Session{}, nothing, Session{}},
		{"id 01", `{"jsonrpc":"2.0","id":01,"method":"ping"}`, Session{}, nothing, Session{}},
		{"id 1.5", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, Session{}, nothing, Session{}},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, Session{}, nothing, Session{}},
		{"cut", hello[:len(hello)-1], Session{}, nothing, Session{}},
		{"more", hello + "{}", Session{}, nothing, Session{}},
		{"NUL", hello + "\x00", Session{}, nothing, Session{}},
		{"comma", `{"jsonrpc":"2.0","id":1,"method":"ping",}`, Session{}, nothing, Session{}},
		{"deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`, Session{}, nothing, Session{}},
		{"empty", "", Session{}, nothing, Session{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.before
			id, result, ok := s.Answer([]byte(c.line))
			if s != c.after {
				t.Errorf("session %+v, want %+v", s, c.after)
			}
			if ok != (c.id != nothing) || (ok && string(id) != c.id) {
				t.Fatalf("id %q, ok %v", id, ok)
			}
			if ok && (id != nil) != json.Valid(result) {
				t.Errorf("result %q", result)
			}
		})
	}
}

func TestPlainJSON(t *testing.T) {
	for _, v := range []string{`{}`, `{"a":[]}`, `{"a":[1,-0.5e+10,2E-3,true,false,null,"",{"b":{}}] }`, "\t{ \"a\" : [ 1 , 2 ] } \n"} {
		if _, ok := object([]byte(v)); !ok || !json.Valid([]byte(v)) {
			t.Errorf("%s refused", v)
		}
	}
	for _, v := range []string{``, `1`, `[]`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":tru}`, `{"a":00}`, `{"a":[1 2]}`, `{"a":[1,]}`, `{"a":"` + "\n" + `"}`, `{"a":"`, `{a:1}`, `{"a":-}`} {
		if _, ok := object([]byte(v)); ok {
			t.Errorf("%s taken", v)
		}
	}
}

// Tools is one line, and what stands in the source.
func TestToolsInOneLine(t *testing.T) {
	var got, want []any
	if err := json.Unmarshal([]byte(Tools()), &got); err != nil || strings.Contains(Tools(), "\n") {
		t.Fatalf("%v in %s", err, Tools())
	}
	if err := json.Unmarshal([]byte(tools), &want); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if !slices.Equal(a, b) || len(got) == 0 {
		t.Errorf("%s, want %s", a, b)
	}
}
