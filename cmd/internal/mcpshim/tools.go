package mcpshim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/cmd/internal/mcpshim/first"
	"sallyport/gateway/api"
)

// run carries out a tool's call. It never fails: what went wrong is an answer.
type run func(s *shim, ctx context.Context, args jsontext.Value) answer

// runs has one for each of first.Tools.
func runs() map[string]run {
	return map[string]run{
		"list_targets":   (*shim).targets,
		api.ToolHTTP:     (*shim).http,
		api.ToolSSH:      (*shim).ssh,
		api.ToolJob:      (*shim).job,
		api.ToolUpload:   (*shim).upload,
		api.ToolDownload: (*shim).download,
		api.ToolAccess:   (*shim).access,
		"action_status":  (*shim).status,
		"action_cancel":  (*shim).cancel,
		"session_status": (*shim).session,
	}
}

// newServer builds the SDK's server over first's list. A list that cannot be read is a bug that no session survives;
// a test reads it.
func newServer(s *shim) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: first.Name, Version: first.Version()}, &mcp.ServerOptions{
		Instructions: first.Instructions, SupportedProtocolVersions: append([]string{first.Stateless}, first.Legacy()...),
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	var list []struct {
		mcp.Tool
		Schema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal([]byte(first.Tools()), &list); err != nil {
		panic(fmt.Sprintf("read the list of tools: %v", err))
	}
	all := runs()
	for _, t := range list {
		does, ok := all[t.Name]
		if !ok {
			panic("no tool " + t.Name)
		}
		t.InputSchema = t.Schema
		server.AddTool(&t.Tool, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.call(ctx, t.Name, does, r), nil
		})
	}
	return server
}
