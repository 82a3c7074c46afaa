package mcpshim

import (
	"context"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/gateway/api"
)

// connect starts a shim and the SDK's own client on it.
func connect(t *testing.T, d Door, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Run(context.Background(), first.Session{}, inR, outW, d) }()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(context.Background(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return s
}

// callTool returns the result, its text and its structuredContent decoded into doc.
func callTool(t *testing.T, s *mcp.ClientSession, name, args string, doc any) (*mcp.CallToolResult, string) {
	t.Helper()
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	b, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := jsonv2.Unmarshal(b, doc, jsonv2.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("structuredContent %s: %v", b, err)
	}
	return res, res.Content[0].(*mcp.TextContent).Text
}

// The schemas keep to the subset, and every hint is on the wire.
func TestToolList(t *testing.T) {
	h := startShim(t, &fakeDoor{})
	h.handshake()
	h.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct {
		Tools []struct {
			Name        string         `json:"name"`
			Title       string         `json:"title"`
			Description string         `json:"description"`
			Schema      map[string]any `json:"inputSchema"`
			Hints       map[string]any `json:"annotations"`
		} `json:"tools"`
	}
	if r := h.hear(); jsonv2.Unmarshal(r.Result, &list, jsonv2.RejectUnknownMembers(true)) != nil {
		t.Fatalf("%s", r.Result)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if !regexp.MustCompile(`^[a-z0-9_]{1,24}$`).MatchString(tool.Name) || tool.Title == "" || tool.Description == "" {
			t.Errorf("%+v", tool)
		}
		if tool.Schema["type"] != "object" {
			t.Errorf("%s: root is %v", tool.Name, tool.Schema["type"])
		}
		checkSchema(t, tool.Name, tool.Schema)
		reads := !slices.Contains([]string{api.ToolHTTP, api.ToolSSH, api.ToolJob, api.ToolUpload, api.ToolDownload, "action_cancel"}, tool.Name)
		want := map[string]any{"readOnlyHint": reads, "idempotentHint": reads, "destructiveHint": !reads, "openWorldHint": !reads}
		if tool.Name == api.ToolAccess { // it changes what this session may do, and nothing else
			want = map[string]any{"readOnlyHint": false, "idempotentHint": false, "destructiveHint": false, "openWorldHint": false}
		}
		for k, v := range want {
			if tool.Hints[k] != v {
				t.Errorf("%s: %s = %v, want %v", tool.Name, k, tool.Hints[k], v)
			}
		}
	}
	slices.Sort(names)
	if want := []string{"action_cancel", "action_status", "http_request", "job_start", "list_targets", "request_access", "session_status", "ssh_download", "ssh_exec", "ssh_upload"}; !slices.Equal(names, want) {
		t.Errorf("tools %s", names)
	}
}

func checkSchema(t *testing.T, where string, s map[string]any) {
	t.Helper()
	for key, v := range s {
		switch key {
		case "type":
			if _, ok := v.(string); !ok {
				t.Errorf("%s: type %v", where, v)
			}
		case "description":
			if v == "" {
				t.Errorf("%s: empty description", where)
			}
		case "required":
			for _, name := range v.([]any) {
				if s["properties"].(map[string]any)[name.(string)] == nil {
					t.Errorf("%s: requires unknown %v", where, name)
				}
			}
		case "items":
			checkSchema(t, where+"[]", v.(map[string]any))
		case "properties":
			for name, p := range v.(map[string]any) {
				checkSchema(t, where+"."+name, p.(map[string]any))
			}
		default:
			t.Errorf("%s: keyword %s", where, key)
		}
	}
}

// firstTools is first.Tools.
func firstTools(t *testing.T) (list []struct {
	Name   string         `json:"name"`
	Schema jsontext.Value `json:"inputSchema"`
	Rest   jsontext.Value `json:",embed"`
}) {
	t.Helper()
	if err := jsonv2.Unmarshal([]byte(first.Tools()), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func schemaOf(t *testing.T, tool string) jsontext.Value {
	t.Helper()
	for _, x := range firstTools(t) {
		if x.Name == tool {
			return x.Schema
		}
	}
	t.Fatalf("no tool %s", tool)
	return nil
}

// What each schema offers, the gateway's own structs take, and the other way round.
func TestSchemasMatchTheDoor(t *testing.T) {
	for _, c := range []struct {
		tool string
		args any
		more []string // the shim takes these out
	}{{api.ToolHTTP, &api.HTTPArgs{}, []string{"idempotencyKey", "bodyFile", "outputFile", "reason"}}, {api.ToolSSH, &api.SSHArgs{}, []string{"reason"}}, {api.ToolUpload, &api.TransferArgs{}, []string{"file", "reason"}}, {api.ToolDownload, &api.TransferArgs{}, []string{"outputFile", "reason"}}, {"action_status", &api.StatusRequest{}, []string{"outputFile"}}, {"action_cancel", &api.CancelRequest{}, nil}, {api.ToolAccess, &api.AccessArgs{}, nil}} {
		var s struct {
			Properties map[string]struct {
				Type string `json:"type"`
			} `json:"properties"`
		}
		if err := jsonv2.Unmarshal(schemaOf(t, c.tool), &s); err != nil {
			t.Fatal(err)
		}
		sample := map[string]any{"string": "x", "integer": 3, "array": []string{"x"}, "object": map[string]string{"k": "v"}}
		args := map[string]any{}
		for name, p := range s.Properties {
			if !slices.Contains(c.more, name) {
				args[name] = sample[p.Type]
			}
		}
		b, err := jsonv2.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if err := jsonv2.Unmarshal(b, c.args, jsonv2.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: %v", c.tool, err)
		}
		back, err := jsonv2.Marshal(c.args)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := jsonv2.Unmarshal(back, &fields); err != nil || len(fields) != len(args) {
			t.Errorf("%s: the door has %d of %d fields", c.tool, len(fields), len(args))
		}
	}
}

func TestCallForwardsArguments(t *testing.T) {
	d := &fakeDoor{act: func(_ context.Context, r api.ActionRequest) (api.Action, error) {
		return api.Action{ID: "act_1", Tool: r.Tool, Target: "gh", State: api.Done, Outcome: "confirmed"}, nil
	}}
	h := startShim(t, d)
	h.handshake()
	for _, c := range []struct{ tool, args, wantArgs, wantKey string }{
		{"http_request", `{"url":"https://x/","n":9007199254740993,"idempotencyKey":"k-1","unknown":[1.50]}`, `{"url":"https://x/","n":9007199254740993,"unknown":[1.50]}`, "k-1"},
		{"http_request", `{"idempotencyKey":"k"}`, `{}`, "k"},
		{"http_request", `{}`, `{}`, ""},
		{"http_request", `null`, `{}`, ""},
		{"job_start", `{"reason":"to see","target":"h","argv":["a"]}`, `{"target":"h","argv":["a"]}`, ""},
		{"request_access", `{"target":"h","reason":"to see"}`, `{"target":"h","reason":"to see"}`, ""},
		{"ssh_exec", `{"target":"h","argv":["a","b c"],"idempotencyKey":"stays"}`, `{"target":"h","argv":["a","b c"],"idempotencyKey":"stays"}`, ""},
	} {
		h.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + c.tool + `","arguments":` + c.args + `}}`)
		if res := h.tool(h.hear()); res.IsError {
			t.Fatalf("%s: %+v", c.args, res)
		}
		r := d.acts[len(d.acts)-1]
		got := jsontext.Value(slices.Clone(r.Args))
		if err := got.Compact(); err != nil {
			t.Fatal(err)
		}
		if r.Tool != c.tool || string(got) != c.wantArgs || r.IdempotencyKey != c.wantKey || r.WaitSeconds != api.WaitLimit {
			t.Errorf("%s %s: the door got %s key %q wait %d", c.tool, c.args, r.Args, r.IdempotencyKey, r.WaitSeconds)
		}
	}
}

// Wrong arguments that the shim itself reads are refused without the door, as results that a model can read.
func TestRefusedArguments(t *testing.T) {
	d := &fakeDoor{}
	h := startShim(t, d)
	h.handshake()
	for _, c := range [][2]string{
		{"http_request", `{"idempotencyKey":7}`}, {"http_request", `{"idempotencyKey":""}`}, {"http_request", `[1]`}, {"http_request", `"x"`},
		{"ssh_exec", `["x"]`}, {"ssh_exec", `1`},
		{"action_status", `{}`}, {"action_status", `{"action":7}`}, {"action_status", `{"action":"a","waitSeconds":41}`},
		{"action_status", `{"action":"a","waitSeconds":-1}`}, {"action_status", `{"action":"a","waitSeconds":1.5}`}, {"action_status", `{"action":"a","cursor":1}`},
		{"action_status", `{"action":"a","cursor":"text:-1"}`}, {"action_status", `{"action":"a","cursor":"text:x"}`}, {"action_status", `{"action":"a","outputFile":"/"}`}, {"ssh_exec", `{"target":"h","reason":7}`},
		{"action_cancel", `{}`}, {"action_cancel", `{"action":7}`}, {"action_cancel", `{"action":"a","waitSeconds":1}`},
		{"request_access", `{}`}, {"request_access", `{"target":7}`}, {"request_access", `{"target":"t","argv":["x"]}`},
		{"list_targets", `{"x":1}`}, {"list_targets", `[]`}, {"session_status", `{"Action":"a"}`},
	} {
		h.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + c[0] + `","arguments":` + c[1] + `}}`)
		res := h.tool(h.hear())
		var e api.Error
		if err := jsonv2.Unmarshal(res.Structured, &e, jsonv2.RejectUnknownMembers(true)); err != nil || !res.IsError || e.Code != "invalid_request" || e.Next != api.NextFix {
			t.Errorf("%s %s: %+v", c[0], c[1], res)
		}
	}
	if used, _ := d.uses(); used != 0 {
		t.Errorf("the door was used %d times", used)
	}
}

// A denial is a tool result with all that the agent needs, for people and for programs.
func TestDenial(t *testing.T) {
	want := api.Fail("authorization_stale", "")
	want.Action, want.ApprovedEpoch, want.CurrentEpoch = "act_9", "ep_old", "ep_new"
	d := &fakeDoor{act: func(context.Context, api.ActionRequest) (api.Action, error) { return api.Action{}, want }}
	var got api.Error
	res, text := callTool(t, connect(t, d, nil), "ssh_exec", `{"target":"h"}`, &got)
	if !res.IsError || got != *want {
		t.Errorf("isError %v, document %+v", res.IsError, got)
	}
	for _, part := range []string{want.Code, want.Reason, want.Retry, want.Next, "act_9", "ep_old", "ep_new"} {
		if !strings.Contains(text, part) {
			t.Errorf("text lacks %q: %s", part, text)
		}
	}
}

func TestDoorFailures(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{{api.Fail("gateway_unreachable", ""), "gateway_unreachable"}, {io.ErrUnexpectedEOF, "sent_unconfirmed"}} {
		d := &fakeDoor{act: func(context.Context, api.ActionRequest) (api.Action, error) { return api.Action{}, c.err }}
		var got api.Error
		if res, text := callTool(t, connect(t, d, nil), "http_request", `{}`, &got); !res.IsError || got.Code != c.want || !strings.HasPrefix(text, c.want) {
			t.Errorf("%v: %+v, %s", c.err, got, text)
		}
	}
	d := &fakeDoor{targets: func(context.Context) ([]api.Target, error) { panic("secret in a panic") }}
	var got api.Error
	if res, text := callTool(t, connect(t, d, nil), "list_targets", `{}`, &got); !res.IsError || got.Code != "internal" || strings.Contains(text, "secret") {
		t.Errorf("panic: %+v, %s", got, text)
	}
}

func TestListings(t *testing.T) {
	d := &fakeDoor{
		targets: func(context.Context) ([]api.Target, error) {
			return []api.Target{{Name: "gh", Kind: "http", Origin: "https://api.github.com", Methods: []string{"GET /repos/**"}, Confirm: "click"}, {Name: "web1", Kind: "ssh", Host: "web1:22", Confirm: "never"}}, nil
		},
		session: func(context.Context) (api.Session, error) {
			return api.Session{AgentRun: "run_1", ExecutionEpoch: "ep_1", State: "active", Vault: "ready", Grants: []api.Grant{{ID: "gr_1", ToolScope: []string{"ssh_exec"}, CredentialScope: []string{"k"}, ExpiresWhen: "agent-run-ends"}}}, nil
		},
		status: func(context.Context, api.StatusRequest) (api.Action, error) {
			return api.Action{ID: "act_1", Tool: api.ToolSSH, State: api.Running}, nil
		},
	}
	s := connect(t, d, nil)
	var list struct {
		Targets []api.Target `json:"targets"`
	}
	if res, text := callTool(t, s, "list_targets", `{}`, &list); res.IsError || len(list.Targets) != 2 || !strings.Contains(text, "https://api.github.com") || !strings.Contains(text, "GET /repos/**") || !strings.Contains(text, "web1:22") {
		t.Errorf("%s %+v", text, list)
	}
	var me api.Session
	if res, text := callTool(t, s, "session_status", `{}`, &me); res.IsError || me.AgentRun != "run_1" || !strings.Contains(text, "run_1") || !strings.Contains(text, "gr_1") {
		t.Errorf("%s %+v", text, me)
	}
	var a api.Action
	if res, text := callTool(t, s, "action_status", `{"action":"act_1","waitSeconds":40}`, &a); res.IsError || a.State != api.Running || !strings.Contains(text, "act_1") {
		t.Errorf("%s %+v", text, a)
	}
	if want := (api.StatusRequest{Action: "act_1", WaitSeconds: 40}); d.asked[0] != want {
		t.Errorf("asked %+v", d.asked[0])
	}
	d.targets = func(context.Context) ([]api.Target, error) { return nil, nil }
	if res, text := callTool(t, s, "list_targets", `{}`, &list); res.IsError || len(list.Targets) != 0 || text == "" {
		t.Errorf("%q", text)
	}
}

// Calls run beside each other: a slow one holds no other.
func TestCallsAreConcurrent(t *testing.T) {
	first := make(chan struct{})
	var once sync.Once
	d := &fakeDoor{act: func(ctx context.Context, r api.ActionRequest) (api.Action, error) {
		if r.Tool == api.ToolSSH {
			<-first
		} else {
			once.Do(func() { close(first) })
		}
		return api.Action{ID: "act_1", Tool: r.Tool, State: api.Done, Outcome: "confirmed"}, nil
	}}
	h := startShim(t, d)
	h.handshake()
	h.say(sshCall, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"http_request","arguments":{}}}`)
	h.tool(h.hear())
	h.tool(h.hear())
}
