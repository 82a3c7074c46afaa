package mcpshim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// A long result comes in pages of at most textLimit bytes and a few lines, whole characters each; together they are the
// result. structuredContent has it whole at once.
func TestPages(t *testing.T) {
	body := strings.Repeat("0123456789 äöü €\n", 4000)
	result, err := json.Marshal(api.HTTPResult{Status: 200, Body: body, BodyEncoding: "utf-8", BodyComplete: true})
	if err != nil {
		t.Fatal(err)
	}
	act := api.Action{ID: "act_1", Tool: api.ToolHTTP, Target: "gh", State: api.Done, Outcome: "confirmed", Result: result}
	d := &fakeDoor{
		act:    func(context.Context, api.ActionRequest) (api.Action, error) { return act, nil },
		status: func(context.Context, api.StatusRequest) (api.Action, error) { return act, nil },
		save: func(_ api.Action, path string) (int64, error) {
			return int64(len(body)), os.WriteFile(path, []byte(body), 0o600)
		},
	}
	s := connect(t, d, nil)
	var got strings.Builder
	name, args := "http_request", `{"url":"https://x/","reason":"to see"}`
	for page := 0; ; page++ {
		if page > 20 {
			t.Fatal("no end")
		}
		var doc api.Action
		res, text := callTool(t, s, name, args, &doc)
		if res.IsError || len(text) > textLimit+512 || string(doc.Result) == "" {
			t.Fatalf("page %d: %d bytes", page, len(text))
		}
		head, part, ok := strings.Cut(text, "\n\n")
		if !ok {
			t.Fatalf("page %d: %.200s", page, text)
		}
		got.WriteString(part)
		at := regexp.MustCompile(`cursor: (text:\d+) `).FindStringSubmatch(head)
		if at == nil {
			break
		}
		name, args = "action_status", fmt.Sprintf(`{"action":"act_1","cursor":%q}`, at[1])
	}
	if _, whole, _ := strings.Cut(got.String(), "\n\n"); whole != body {
		t.Errorf("the pages hold %d bytes of a body of %d", len(whole), len(body))
	}
	if d.acts[0].Reason != "to see" || d.asked[0].Cursor != "" {
		t.Errorf("the door got %+v %+v", d.acts[0], d.asked[0])
	}
	for _, far := range []string{"text:99999999", "text:0"} {
		var doc api.Action
		if res, _ := callTool(t, s, "action_status", `{"action":"act_1","cursor":"`+far+`"}`, &doc); res.IsError {
			t.Errorf("cursor %s: %+v", far, res)
		}
	}
	path := filepath.Join(t.TempDir(), "out")
	var doc api.Action
	if _, text := callTool(t, s, "action_status", fmt.Sprintf(`{"action":"act_1","outputFile":%q}`, path), &doc); !strings.Contains(text, path) {
		t.Errorf("%.300s", text)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != body {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
