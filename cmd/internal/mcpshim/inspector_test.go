package mcpshim

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// cannedDoor answers http_request with a page and refuses the rest.
func cannedDoor() *fakeDoor {
	return &fakeDoor{act: func(_ context.Context, r api.ActionRequest) (api.Action, error) {
		if r.Tool != api.ToolHTTP {
			return api.Action{}, api.Fail("vault_locked", "")
		}
		return api.Action{ID: "act_1", Tool: r.Tool, Target: "gh", State: api.Done, Outcome: "confirmed",
			Result: jsontext.Value(`{"status":200,"headers":{},"body":"hello inspector","bodyEncoding":"utf-8","bodyFile":null,"bodyComplete":true}`)}, nil
	}}
}

// inspector runs the MCP Inspector's CLI against this test binary as the shim and returns what it printed.
func inspector(t *testing.T, args ...string) string {
	t.Helper()
	bin, err := exec.LookPath("mcp-inspector")
	if err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatal("mcp-inspector: required and not found")
		}
		t.Skip("mcp-inspector: not found (npm i -g @modelcontextprotocol/inspector@2.12.0)")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append([]string{"--cli", "-e", childEnv + "=quiet", exe}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if _, exited := err.(*exec.ExitError); err != nil && !exited { // it exits non-zero for isError
		t.Fatal(err)
	}
	t.Logf("inspector %v: %v\n%s\n%s", args, err, out, stderr.String())
	return string(out)
}

func TestInspector(t *testing.T) {
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	out := inspector(t, "--method", "tools/list")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Tools) != len(firstTools(t)) {
		t.Errorf("tools/list: %v: %s", err, out)
	}
	var res toolResult
	out = inspector(t, "--method", "tools/call", "--tool-name", "http_request", "--tool-arg", "url=https://api.github.com/repos/x")
	if err := json.Unmarshal([]byte(out), &res); err != nil || res.IsError || len(res.Content) != 1 || !strings.Contains(res.Content[0].Text, "hello inspector") {
		t.Errorf("http_request: %v: %s", err, out)
	}
	out = inspector(t, "--method", "tools/call", "--tool-name", "ssh_exec", "--tool-arg", "target=h", `argv=["true"]`)
	if err := json.Unmarshal([]byte(out), &res); err != nil || !res.IsError || !strings.Contains(res.Content[0].Text, "vault_locked") {
		t.Errorf("ssh_exec: %v: %s", err, out)
	}
}
