package cli

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

func finished(outcome string) api.Action {
	return api.Action{ID: act1, Tool: api.ToolHTTP, State: api.Done, Outcome: outcome}
}

// The exit status is the outcome's; the document is printed whatever it is.
func TestCallExit(t *testing.T) {
	withError := finished("not_sent")
	withError.Error = api.Fail("gateway_restarted", "")
	usageError := finished("")
	usageError.Error = api.Fail("invalid_request", "")
	for name, tt := range map[string]struct {
		answer api.Response
		exit   int
	}{
		"confirmed":             {api.Response{Action: ptr(finished("confirmed"))}, 0},
		"accepted":              {api.Response{Action: ptr(finished("accepted"))}, 0},
		"redirect_not_followed": {api.Response{Action: ptr(finished("redirect_not_followed"))}, 0},
		"failed_remote":         {api.Response{Action: ptr(finished("failed_remote"))}, 1},
		"sent_unconfirmed":      {api.Response{Action: ptr(finished("sent_unconfirmed"))}, 1},
		"cancelled":             {api.Response{Action: ptr(finished("cancelled"))}, 1},
		"no outcome":            {api.Response{Action: ptr(finished(""))}, 1},
		"code decides":          {api.Response{Action: ptr(withError)}, 1},
		"code of usage":         {api.Response{Action: ptr(usageError)}, 2},
		"locked":                {api.Response{Error: api.Fail("vault_locked", "")}, 4},
		"revoked":               {api.Response{Error: api.Fail("run_revoked", "")}, 1},
		"invalid":               {api.Response{Error: api.Fail("invalid_request", "")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.agents(func(r api.Request) api.Response { a := tt.answer; a.ID = r.ID; return a })
			out, errs := w.want(tt.exit, "", "call", "http_request", `{"url":"https://a.example/"}`)
			if errs != "" || strings.Count(out, "\n") != 1 {
				t.Errorf("stdout %q, stderr %q", out, errs)
			}
			want, err := json.Marshal(tt.answer.Action)
			if tt.answer.Error != nil {
				want, err = json.Marshal(tt.answer.Error)
			}
			if err != nil || out != string(want)+"\n" {
				t.Errorf("stdout %q, want %q", out, want)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestCallNobodyThere(t *testing.T) {
	w := newWorld(t)
	out, errs := w.want(5, "", "call", "http_request", "{}")
	contains(t, "stdout", out, `"error":"gateway_unreachable"`, "sp up")
	if errs != "" {
		t.Errorf("stderr %q", errs)
	}
}

func TestCallSendsArgsAsTheyAre(t *testing.T) {
	w := newWorld(t)
	got := make(chan api.Request, 1)
	w.agents(func(r api.Request) api.Response {
		got <- r
		return api.Response{ID: r.ID, Error: api.Fail("invalid_request", "")}
	})
	w.want(2, "", "call", "http_request", `{"url":"a","url":"b"}`, "--idempotency-key", "k1")
	r := <-got
	if want := `{"tool":"http_request","args":{"url":"a","url":"b"},"idempotencyKey":"k1","waitSeconds":1}`; string(r.Params) != want || r.Method != "call" {
		t.Errorf("%s %s, want %s", r.Method, r.Params, want)
	}
	out, _ := w.want(2, "", "call", "http_request", `{"url":`)
	contains(t, "stdout", out, `"error":"invalid_request"`)
}

// What is no JSON is told in words for whoever typed it, and is no call.
func TestCallNoJSON(t *testing.T) {
	w := newWorld(t)
	w.agents(func(r api.Request) api.Response {
		t.Errorf("%s %s was sent", r.Method, r.Params)
		return api.Response{ID: r.ID, Error: api.Fail("internal", "")}
	})
	for args, says := range map[string]string{
		`{"url":`: "it ends too early", ``: "it ends too early", `{url:1}`: "byte 2 is wrong there", `{'url':1}`: "byte 2 is wrong there",
		`{} {}`: "something follows the value at byte 3", `{"url":"` + "\xff" + `"}`: "byte 9 is wrong there", `{"a":1,}`: "byte 8 is wrong there",
	} {
		out, _ := w.want(2, "", "call", "http_request", args)
		contains(t, args, out, `"error":"invalid_request"`, "the arguments are no JSON: "+says)
		lacks(t, args, out, "jsontext", "json:", "unexpected EOF", "unmarshal")
	}
	for line, says := range map[string]string{
		`{"tool":1,"args":{}}`: "tool is no string", `{"tool":"x","args":{},"idempotencyKey":{}}`: "idempotencyKey is no string",
		`{"tool":"x","args":{]}`: "byte 21 is wrong there", `{"tool":"x"`: "it ends too early",
	} {
		out, _ := w.want(2, line, "call", "-")
		contains(t, line, out, "the line is no call: "+says)
		lacks(t, line, out, "jsontext", "json:", "unmarshal", "Go ")
	}
}

// Tools that only look answer as they do over MCP.
func TestCallLooks(t *testing.T) {
	w := newWorld(t)
	w.agents(func(r api.Request) api.Response {
		a := api.Response{ID: r.ID}
		switch r.Method + " " + string(r.Params) {
		case "targets {}", "targets ":
			a.Result = jsontext.Value(`[{"name":"web","kind":"ssh","host":"h:22","confirm":"never"}]`)
		case "session {}", "session ":
			a.Result = jsontext.Value(`{"agentRun":"` + run1 + `","executionEpoch":"` + ep1 + `","state":"active","vault":"ready","grants":[]}`)
		case `status {"action":"` + act1 + `"}`:
			a.Action = ptr(finished("failed_remote"))
		case `status {"action":"` + act2 + `","waitSeconds":40}`:
			a.Error = api.Fail("action_unknown", "")
		default:
			t.Errorf("%s %s", r.Method, r.Params)
		}
		return a
	})
	for _, tt := range []struct {
		tool, args string
		exit       int
		says       string
	}{
		{"list_targets", "{}", 0, `{"targets":[{"name":"web"`},
		{"session_status", " {} ", 0, `{"agentRun":"` + run1},
		{"action_status", `{"action":"` + act1 + `"}`, 1, `"outcome":"failed_remote"`},
		{"action_status", `{"action":"` + act2 + `","waitSeconds":40}`, 1, `"error":"action_unknown"`},
		{"list_targets", `{"a":1}`, 2, "list_targets takes no arguments"},
		{"session_status", `[]`, 2, "session_status takes no arguments"},
		{"action_status", `{}`, 2, `action_status takes {\"action\":ID}`},
		{"action_status", `{"action":1}`, 2, "action_status takes"},
		{"action_status", `{"action":"x","waitSeconds":41}`, 2, "from 0 to 40"},
	} {
		out, _ := w.want(tt.exit, "", "call", tt.tool, tt.args)
		contains(t, tt.tool, out, tt.says)
	}
	out, _ := w.want(2, "", "call", "list_targets", "{}", "--idempotency-key", "k")
	contains(t, "key", out, "takes no idempotency key")
	out, _ = w.want(0, `{"tool":"list_targets","args":{}}`, "call", "-")
	contains(t, "a line", out, `{"targets":[{"name":"web"`)
}

// A call that waits for a person says so once, on stderr, and goes on waiting.
func TestCallWaits(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	w.agents(func(r api.Request) api.Response {
		n := asked.Add(1)
		x := api.Action{ID: act1, State: api.Pending}
		if r.Method == api.MethodStatus {
			var p api.StatusRequest
			if err := json.Unmarshal(r.Params, &p); err != nil || p.Action != act1 || p.WaitSeconds < 1 || p.WaitSeconds > api.WaitLimit {
				t.Errorf("status params %s", r.Params)
			}
		}
		switch n {
		case 1, 2:
		case 3:
			x.State = api.Running
		default:
			x = finished("confirmed")
		}
		return api.Response{ID: r.ID, Action: &x}
	})
	out, errs := w.want(0, "", "call", "http_request", "{}")
	contains(t, "stdout", out, `"outcome":"confirmed"`)
	if strings.Count(errs, "waits for approval") != 1 || !strings.Contains(errs, act1) || !strings.Contains(errs, "sp approve") {
		t.Errorf("stderr %q", errs)
	}
	if asked.Load() != 4 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestCallPending(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	w.agents(func(r api.Request) api.Response {
		asked.Add(1)
		return api.Response{ID: r.ID, Action: &api.Action{ID: act1, State: api.Pending}}
	})
	start := time.Now()
	out, _ := w.want(0, "", "call", "http_request", "{}", "--wait", "1500ms")
	contains(t, "stdout", out, `"state":"pending"`)
	if n := asked.Load(); n > 20 {
		t.Errorf("an eager gateway was asked %d times in %s", n, time.Since(start))
	}
	asked.Store(0)
	w.want(0, "", "call", "http_request", "{}", "--wait", "0")
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// sp call -: one answer a line, in order, over one connection; the first other status is the exit.
func TestCallLines(t *testing.T) {
	w := newWorld(t)
	w.agents(func(r api.Request) api.Response {
		var p api.ActionRequest
		if err := json.Unmarshal(r.Params, &p, jsontext.AllowDuplicateNames(true)); err != nil {
			t.Error(err)
		}
		a := api.Response{ID: r.ID}
		switch p.Tool {
		case "locked":
			a.Error = api.Fail("vault_locked", "")
		case "failed":
			a.Action = ptr(finished("failed_remote"))
		default:
			x := finished("confirmed")
			x.Result = jsontext.Value(fmt.Sprintf(`{"n":%s,"id":%q,"key":%q}`, p.Args, r.ID, p.IdempotencyKey))
			a.Action = &x
		}
		return a
	})
	in := strings.Join([]string{
		`{"tool":"ok","args":1}`,
		`{"tool":"ok","args":2,"idempotencyKey":"k"}`,
		`{"tool":"locked","args":{}}`,
		`nonsense`,
		``,
		`{"tool":"ok","args":3,"more":1}`,
		`{"tool":"ok","tool":"locked","args":3}`,
		`{"tool":"ok"}`,
		`{"tool":"ok","args":1} {}`,
		`{"tool":"ok","args":1`,
		`["ok"]`,
		`{"tool":"failed","args":{"a":1,"a":2}}`,
		strings.Repeat("x", api.FrameLimit+1),
		`{"tool":"ok","args":4}`,
	}, "\n")
	out, _ := w.want(4, in, "call", "-")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	want := []string{`"n":1,"id":"1"`, `"n":2,"id":"2","key":"k"`, "vault_locked", "invalid_request", "invalid_request", "invalid_request",
		"invalid_request", "args is missing", "something follows", "invalid_request", "no JSON object", "failed_remote", "frame_too_large", `"n":4,"id":"5"`}
	if len(lines) != len(want) {
		t.Fatalf("%d answers to %d lines:\n%s", len(lines), len(want), out)
	}
	for i, l := range lines {
		contains(t, fmt.Sprint("line ", i+1), l, want[i])
		if !jsontext.Value(l).IsValid() {
			t.Errorf("line %d is no JSON: %s", i+1, l)
		}
	}
	if out, errs := w.want(0, "", "call", "-"); out != "" || errs != "" {
		t.Errorf("no line: %q %q", out, errs)
	}
	w.want(0, "{\"tool\":\"ok\",\"args\":1}\n{\"tool\":\"ok\",\"args\":1}\n", "call", "-")
}
