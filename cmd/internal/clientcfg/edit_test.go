package clientcfg

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
)

const (
	sp      = "/opt/sp"
	nothing = "(an empty file)"
)

var want = []member{{"command", sp}, {"args", []string{"mcp"}}}

// golden is a file before, with the entry, and after its removal; empty after: as before.
type golden struct{ name, before, with, after string }

var goldenJSON = []golden{
	{name: "no file", with: "{\n  \"mcpServers\": {\n    \"sallyport\": {\n      \"command\": \"/opt/sp\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n", after: "{\n  \"mcpServers\": {}\n}\n"},
	{"others, tabs, comments, a trailing comma",
		"// mine\n{\n\t\"theme\": \"dark\", // yes\n\t/* servers */\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"x\", \"x-unknown\": [1, 2,]}, // keep\n\t\t// last\n\t},\n}\n",
		"// mine\n{\n\t\"theme\": \"dark\", // yes\n\t/* servers */\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"x\", \"x-unknown\": [1, 2,]}, // keep\n\t\t// last\n\t\t\"sallyport\": {\n\t\t\t\"command\": \"/opt/sp\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t},\n\t},\n}\n", ""},
	{"the last member has a comment, and no comma",
		"{\n  \"a\": 1 // one\n}",
		"{\n  \"a\": 1, // one\n  \"mcpServers\": {\n    \"sallyport\": {\n      \"command\": \"/opt/sp\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}",
		"{\n  \"a\": 1, // one\n  \"mcpServers\": {}\n}"},
	{"CRLF and a byte order mark",
		"\xEF\xBB\xBF{\r\n    \"mcpServers\": {\r\n        \"b\": {}\r\n    }\r\n}\r\n",
		"\xEF\xBB\xBF{\r\n    \"mcpServers\": {\r\n        \"b\": {},\r\n        \"sallyport\": {\r\n            \"command\": \"/opt/sp\",\r\n            \"args\": [\"mcp\"]\r\n        }\r\n    }\r\n}\r\n", ""},
	{"all on one line",
		`{"a":[1,{"b":null}],"mcpServers":{"x":{}}}`,
		"{\"a\":[1,{\"b\":null}],\"mcpServers\":{\"x\":{}, \"sallyport\": {\n      \"command\": \"/opt/sp\",\n      \"args\": [\"mcp\"]\n    }}}", ""},
	{"an older path, and keys that somebody added",
		"{\n  \"mcpServers\": {\n    \"sallyport\": {\n      \"env\": {\"SALLYPORT_HOME\": \"/x\"}, // mine\n      \"command\": \"/old/sp\",\n      \"args\": [\"mcp\"],\n      \"timeout\": 600000\n    },\n    \"z\": {}\n  }\n}\n",
		"{\n  \"mcpServers\": {\n    \"sallyport\": {\n      \"env\": {\"SALLYPORT_HOME\": \"/x\"}, // mine\n      \"command\": \"/opt/sp\",\n      \"args\": [\"mcp\"],\n      \"timeout\": 600000\n    },\n    \"z\": {}\n  }\n}\n",
		"{\n  \"mcpServers\": {\n    \"z\": {}\n  }\n}\n"},
	{"an entry without anything", "{\"mcpServers\": {\"sallyport\": {}}}\n", "{\"mcpServers\": {\"sallyport\": {\n  \"command\": \"/opt/sp\",\n  \"args\": [\"mcp\"]\n}}}\n", "{\"mcpServers\": {}}\n"},
	{"numbers, escapes and emoji stay as they are",
		"{\n  \"n\": 1e+3, \"big\": 12345678901234567890.10, \"s\": \"\\u00e9\\/\\ud83d\\ude00\",\n  \"mcpServers\": {}\n}\n",
		"{\n  \"n\": 1e+3, \"big\": 12345678901234567890.10, \"s\": \"\\u00e9\\/\\ud83d\\ude00\",\n  \"mcpServers\": {\n    \"sallyport\": {\n      \"command\": \"/opt/sp\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n", ""},
	{"a name spelt with escapes is ours", `{"mcpServers": {"sally\u0070ort": {"command": "\/opt\/sp", "args": [ "mcp" ]}}}`, `{"mcpServers": {"sally\u0070ort": {"command": "\/opt\/sp", "args": [ "mcp" ]}}}`, `{"mcpServers": {}}`},
	{"what looks like ours in a text or a comment is none",
		"{\n  \"h\": \"\\\"mcpServers\\\": {\\\"sallyport\\\": 1}\", /* \"mcpServers\": {} */\n  \"mcpServers\": { }\n}\n",
		"{\n  \"h\": \"\\\"mcpServers\\\": {\\\"sallyport\\\": 1}\", /* \"mcpServers\": {} */\n  \"mcpServers\": {\n    \"sallyport\": {\n      \"command\": \"/opt/sp\",\n      \"args\": [\"mcp\"]\n    }\n   }\n}\n",
		"{\n  \"h\": \"\\\"mcpServers\\\": {\\\"sallyport\\\": 1}\", /* \"mcpServers\": {} */\n  \"mcpServers\": {}\n}\n"},
}

var goldenTOML = []golden{
	{"no file", "", "[mcp_servers.sallyport]\ncommand = \"/opt/sp\"\nargs = [\"mcp\"]\n", ""},
	{"others, comments, odd spacing",
		"# mine\nmodel='o3'   # yes\n\n[mcp_servers . \"a\"]\n command = 'x' \n[mcp_servers.a.env]\nK = \"\"\"v\n[mcp_servers.sallyport]\n\"\"\"\n\n[[rules]]\nn = 1_000\n",
		"# mine\nmodel='o3'   # yes\n\n[mcp_servers . \"a\"]\n command = 'x' \n[mcp_servers.a.env]\nK = \"\"\"v\n[mcp_servers.sallyport]\n\"\"\"\n\n[[rules]]\nn = 1_000\n\n[mcp_servers.sallyport]\ncommand = \"/opt/sp\"\nargs = [\"mcp\"]\n", ""},
	{"no newline at the end, CRLF and a byte order mark", "\xEF\xBB\xBFa = 1\r\nb = 2", "\xEF\xBB\xBFa = 1\r\nb = 2\r\n\r\n[mcp_servers.sallyport]\r\ncommand = \"/opt/sp\"\r\nargs = [\"mcp\"]\r\n", "\xEF\xBB\xBFa = 1\r\nb = 2\r\n"},
	{"an older path, and keys that somebody added, in the middle",
		"[mcp_servers.sallyport] # ours\nargs = [\n  \"mcp\", # only\n]\ntool_timeout_sec = 120\n'command'   = '/old/sp' # old\n\n[mcp_servers.sallyport.env]\nA = \"b\"\n\n# next\n[z]\ny = 1\n",
		"[mcp_servers.sallyport] # ours\nargs = [\n  \"mcp\", # only\n]\ntool_timeout_sec = 120\n'command' = \"/opt/sp\" # old\n\n[mcp_servers.sallyport.env]\nA = \"b\"\n\n# next\n[z]\ny = 1\n",
		"\n# next\n[z]\ny = 1\n"},
	{"inline tables",
		"mcp_servers = { a = { command = \"x\" } } # all\n[z]\n",
		"mcp_servers = { a = { command = \"x\" }, sallyport = { command = \"/opt/sp\", args = [\"mcp\"] } } # all\n[z]\n", ""},
	{"an empty inline table", "mcp_servers = {}\n", "mcp_servers = { sallyport = { command = \"/opt/sp\", args = [\"mcp\"] }}\n", "mcp_servers = { }\n"},
	{"an inline entry", "[mcp_servers]\nsallyport = { command = \"/old\", cwd = \"/\" }\nb = { command = \"y\" }\n",
		"[mcp_servers]\nsallyport = { command = \"/opt/sp\", cwd = \"/\", args = [\"mcp\"] }\nb = { command = \"y\" }\n", "[mcp_servers]\nb = { command = \"y\" }\n"},
	{"an inline entry, the first of its table", "mcp_servers = { sallyport = { command = \"/old\", args = [\"mcp\"] }, b = {} }\n", "mcp_servers = { sallyport = { command = \"/opt/sp\", args = [\"mcp\"] }, b = {} }\n", "mcp_servers = { b = {} }\n"},
	{"dotted keys", "mcp_servers.sallyport.command = \"/old\"\nmcp_servers.b.command = \"y\"\n",
		"mcp_servers.sallyport.command = \"/opt/sp\"\nmcp_servers.sallyport.args = [\"mcp\"]\nmcp_servers.b.command = \"y\"\n", "mcp_servers.b.command = \"y\"\n"},
	{"dotted keys of others", "mcp_servers.b.command = \"y\"\n", "mcp_servers.b.command = \"y\"\n\n[mcp_servers.sallyport]\ncommand = \"/opt/sp\"\nargs = [\"mcp\"]\n", ""},
	{"only a table below the entry", "[mcp_servers.sallyport.env]\nA = \"b\"\n", "[mcp_servers.sallyport.env]\nA = \"b\"\n\n[mcp_servers.sallyport]\ncommand = \"/opt/sp\"\nargs = [\"mcp\"]\n", nothing},
	{"dates, floats and big numbers stay", "d = 1979-05-27T07:32:00Z\nf = +1e6\nn = 0xDEAD_BEEF\n", "d = 1979-05-27T07:32:00Z\nf = +1e6\nn = 0xDEAD_BEEF\n\n[mcp_servers.sallyport]\ncommand = \"/opt/sp\"\nargs = [\"mcp\"]\n", ""},
}

func TestGolden(t *testing.T) {
	check := func(edit func([]byte, string, []member) ([]byte, error), table string, all []golden) {
		for _, g := range all {
			with, err := edit([]byte(g.before), table, want)
			if err != nil || string(with) != g.with {
				t.Errorf("%s: install: %v\n%s\nwant\n%s", g.name, err, with, g.with)
				continue
			}
			if again, err := edit(with, table, want); err != nil || !bytes.Equal(again, with) {
				t.Errorf("%s: the second time: %v\n%s", g.name, err, again)
			}
			after := g.after
			switch after {
			case "":
				after = g.before
			case nothing:
				after = ""
			}
			gone, err := edit(with, table, nil)
			if err != nil || string(gone) != after {
				t.Errorf("%s: remove: %v\n%q\nwant\n%q", g.name, err, gone, after)
			}
			if again, err := edit(gone, table, nil); err != nil || !bytes.Equal(again, gone) {
				t.Errorf("%s: removed twice: %v\n%s", g.name, err, again)
			}
		}
	}
	check(editJSON, "mcpServers", goldenJSON)
	check(editTOML, "mcp_servers", goldenTOML)
}

// TestRefused: what can't be understood is an error, and says why.
func TestRefused(t *testing.T) {
	deep := strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20)
	for src, why := range map[string]string{
		`{"a": }`:                                "invalid",
		`{"a": 1`:                                "unexpected EOF",
		`{} {}`:                                  "after top-level value",
		"{\"a\": \"\xff\"}":                      "UTF-8",
		"\xff\xfe{\x00}\x00":                     "",
		`[]`:                                     "no object",
		`"x"`:                                    "no object",
		`{"a": ` + deep + `}`:                    "levels deep",
		`{"mcpServers": []}`:                     "mcpServers is no object",
		`{"mcpServers": null}`:                   "mcpServers is no object",
		`{"mcpServers": "x"}`:                    "mcpServers is no object",
		`{"mcpServers":{},"mcpServers":{}}`:      `"mcpServers" stands there twice`,
		`{"mcpServers":{},"mcp\u0053ervers":{}}`: `"mcpServers" stands there twice`,
		`{"mcpServers":{"sallyport":{},"sallyport":{}}}`:           `"sallyport" stands there twice`,
		`{"mcpServers":{"sallyport":{"command":"a","command":1}}}`: `"command" stands there twice`,
		`{"mcpServers":{"sallyport":7}}`:                           "no object",
		`{"mcpServers":{"sallyport":{"url":"https://a.example"}}}`: `has "url"`,
	} {
		if out, err := editJSON([]byte(src), "mcpServers", want); err == nil || !strings.Contains(err.Error(), why) || out != nil && !bytes.Equal(out, []byte(src)) {
			t.Errorf("%.80s: %v, want %q", src, err, why)
		}
	}
	for src, why := range map[string]string{
		"a = ":                             "line 1",
		"a = 1\na = 2":                     "",
		"[mcp_servers]\n[mcp_servers]":     "",
		"a = \"\xff\"":                     "",
		"a = " + deep:                      "",
		"\xff\xfea\x00":                    "",
		"mcp_servers = 1":                  "mcp_servers is no table",
		"mcp_servers = []":                 "mcp_servers is no table",
		"[[mcp_servers]]\na = 1":           "mcp_servers is no table",
		"[mcp_servers]\nsallyport = 1":     "sallyport is no table",
		"[[mcp_servers.sallyport]]\na = 1": "sallyport is no table",
		"[mcp_servers.sallyport]\nurl = 'https://a.example'": `has "url"`,
	} {
		if _, err := editTOML([]byte(src), "mcp_servers", want); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.80s: %v, want %q", src, err, why)
		}
	}
}

// FuzzJSON: an edit that is made keeps what else there is, by meaning, and is made once.
func FuzzJSON(f *testing.F) {
	for _, g := range goldenJSON {
		f.Add([]byte(g.before))
		f.Add([]byte(g.with))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		with, err := editJSON(src, "mcpServers", want)
		if err != nil {
			return
		}
		if again, err := editJSON(with, "mcpServers", want); err != nil || !bytes.Equal(again, with) {
			t.Fatalf("second: %v\n%q\n%q", err, with, again)
		}
		gone, err := editJSON(with, "mcpServers", nil)
		if err != nil {
			t.Fatalf("remove: %v\n%q", err, with)
		}
		was, is, then := meaning(t, src), meaning(t, with), meaning(t, gone)
		if was == nil { // a name stands there twice, somewhere
			return
		}
		servers, _ := was["mcpServers"].(map[string]any)
		if servers == nil {
			servers = map[string]any{}
			was["mcpServers"] = servers
		}
		entry, _ := servers[Entry].(map[string]any)
		if entry == nil {
			entry = map[string]any{}
		}
		servers[Entry], entry["command"], entry["args"] = entry, sp, []any{"mcp"}
		if !reflect.DeepEqual(is, was) {
			t.Fatalf("with it: %v\n%q", is, with)
		}
		if delete(servers, Entry); !reflect.DeepEqual(then, was) {
			t.Fatalf("without it: %v\n%q", then, gone)
		}
	})
}

// meaning is what a strict decoder reads; nil: it refuses, for names that stand there twice.
func meaning(t *testing.T, src []byte) map[string]any {
	_, body := cutMark(src)
	if len(bytes.TrimSpace(body)) == 0 {
		return map[string]any{}
	}
	plain, err := hujson.Standardize(bytes.Clone(body))
	if err != nil {
		t.Fatalf("%v\n%q", err, src)
	}
	var doc map[string]any
	if json.Unmarshal(plain, &doc) != nil {
		return nil
	}
	return doc
}

// FuzzTOML: an edit that is made is one that a decoder reads as meant; nothing panics.
func FuzzTOML(f *testing.F) {
	for _, g := range goldenTOML {
		f.Add([]byte(g.before))
		f.Add([]byte(g.with))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		with, err := editTOML(src, "mcp_servers", want)
		if err != nil {
			return
		}
		if again, err := editTOML(with, "mcp_servers", want); err != nil || !bytes.Equal(again, with) {
			t.Fatalf("second: %v\n%q\n%q", err, with, again)
		}
		if gone, err := editTOML(with, "mcp_servers", nil); err == nil {
			_, body := cutMark(gone)
			if err := toml.Unmarshal(body, &map[string]any{}); err != nil {
				t.Fatalf("%v\n%q", err, gone)
			}
		}
	})
}
