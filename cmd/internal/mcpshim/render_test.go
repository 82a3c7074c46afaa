package mcpshim

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/jsonline"
	"sallyport/gateway/api"
)

// Which ends of an action are errors to the model, and what its text says first.
func TestTold(t *testing.T) {
	http := jsontext.Value(`{"status":200,"headers":{"content-type":"text/plain","a":"b"},"body":"hello\nworld","bodyEncoding":"utf-8","bodyFile":null,"bodyComplete":true}`)
	cases := []struct {
		name  string
		a     api.Action
		isErr bool
		parts []string
	}{
		{"http", api.Action{Tool: api.ToolHTTP, State: api.Done, Outcome: "confirmed", Target: "gh", Result: http}, false,
			[]string{"confirmed: http_request on gh, action act_1\n", "HTTP 200\na: b\ncontent-type: text/plain\n\nhello\nworld"}},
		{"http 500 is a result", api.Action{Tool: api.ToolHTTP, State: api.Done, Outcome: "confirmed", Result: jsontext.Value(strings.Replace(string(http), "200", "500", 1))}, false, []string{"HTTP 500"}},
		{"incomplete", api.Action{Tool: api.ToolHTTP, State: api.Done, Outcome: "confirmed", Flags: []string{"output_truncated", "reflected"},
			Result: jsontext.Value(strings.Replace(string(http), "true", "false", 1))}, false, []string{"flags: output_truncated, reflected\n", "not complete"}},
		{"binary", api.Action{Tool: api.ToolHTTP, State: api.Done, Outcome: "confirmed",
			Result: jsontext.Value(`{"status":200,"headers":{},"body":"AAEC/w==","bodyEncoding":"base64","bodyFile":null,"bodyComplete":true}`)}, false, []string{"binary, 4 bytes", "AAEC/w=="}},
		{"ssh", api.Action{Tool: api.ToolSSH, State: api.Done, Outcome: "confirmed", Result: jsontext.Value(`{"exitStatus":3,"signal":null,"stdout":"out","stderr":"err"}`)}, false,
			[]string{"exit status 3\n\nstdout:\nout\nstderr:\nerr"}},
		{"ssh signal", api.Action{Tool: api.ToolSSH, State: api.Done, Outcome: "failed_remote", Result: jsontext.Value(`{"exitStatus":-1,"signal":"KILL","stdout":"","stderr":""}`)}, true,
			[]string{"failed_remote: ", "killed by signal KILL"}},
		{"another shape", api.Action{Tool: api.ToolSSH, State: api.Done, Outcome: "confirmed", Result: jsontext.Value(`{"x":1}`)}, false, []string{`{"x":1}`}},
		{"redirect", api.Action{Tool: api.ToolHTTP, State: api.Done, Outcome: "redirect_not_followed", Result: http}, false, []string{"redirect_not_followed: "}},
		{"accepted", api.Action{Tool: "job_start", State: api.Done, Outcome: "accepted", JobID: "j-7"}, false, []string{"accepted: ", "job: j-7\n"}},
		{"pending", api.Action{State: api.Pending}, false, []string{"pending: action act_1", "approval", "action_status", "do not send the call again"}},
		{"running", api.Action{State: api.Running}, false, []string{"pending: action act_1", "running"}},
		{"unknown outcome", api.Action{State: api.Done, Outcome: "sent_unconfirmed"}, true,
			[]string{"sent_unconfirmed: ", "may have taken effect", "next: ask_operator\n", "action: act_1\n", "outcome: sent_unconfirmed\n"}},
		{"own error", api.Action{State: api.Done, Outcome: "not_sent", Error: api.Fail("dial_failed", "no route")}, true, []string{"dial_failed: no route\n", "action: act_1\n", "outcome: not_sent\n"}},
		{"denied", api.Action{State: api.Done, Outcome: "denied", Error: api.Fail("run_revoked", "")}, true, []string{"run_revoked: ", "outcome: denied\n"}},
		{"done, not recorded", api.Action{Tool: api.ToolSSH, State: api.Done, Outcome: "confirmed", Error: api.Fail("not_recorded", "")}, false, []string{"confirmed: ", "not_recorded: "}},
		{"word of tomorrow", api.Action{State: api.Done, Outcome: "teleported"}, true, []string{"teleported: ", "not known"}},
		{"zero", api.Action{}, true, []string{"unknown: ", "not known", "outcome: unknown\n"}},
		{"done without outcome", api.Action{State: api.Done}, true, []string{"unknown: "}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.a.ID = "act_1"
			got := told(c.a)
			r := got.result()
			if r.IsError != c.isErr {
				t.Errorf("isError %v", r.IsError)
			}
			at := 0
			for _, p := range c.parts {
				i := strings.Index(got.text[at:], p)
				if i < 0 {
					t.Fatalf("text lacks %q after byte %d: %s", p, at, got.text)
				}
				at += i
			}
			doc, err := json.Marshal(r.StructuredContent)
			if err != nil {
				t.Fatal(err)
			}
			var back api.Action
			if err := json.Unmarshal(doc, &back, json.RejectUnknownMembers(true)); err != nil || back.ID != "act_1" || back.Outcome != c.a.Outcome {
				t.Errorf("document %s: %v", doc, err)
			}
		})
	}
	if (answer{}).result().IsError != true {
		t.Error("the zero answer is no error")
	}
}

// A result that is no JSON spoils neither the line nor the session.
func TestBrokenResult(t *testing.T) {
	r := told(api.Action{ID: "act_1", Tool: api.ToolHTTP, State: api.Done, Outcome: "confirmed", Result: jsontext.Value(`{"a":`)}).result()
	if !r.IsError || r.StructuredContent != nil {
		t.Errorf("%+v", r)
	}
	line := string(jsonline.Wire{ID: jsontext.Value("7"), Result: jsontext.Value(`{"a":`)}.Line())
	if !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,`) {
		t.Errorf("line %s", line)
	}
}
