package mcpshim

import (
	"context"
	"encoding/json"
	"runtime/debug"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/gateway/api"
)

// newestRevision is the newest MCP revision with a handshake.
const newestRevision = "2025-11-25"

const instructions = `You act through a gateway that holds the credentials and performs the action itself; you get the result, never a secret.
Start with list_targets. A first call may wait for the operator's approval: a result "pending" names an action; ask action_status for it and do not send the call again.
After sent_unconfirmed, too, never repeat a call by yourself: it may have taken effect. A refusal says what to do next.`

// tool is one row of the table. Schemas are literal JSON, never reflected, in the subset that every host takes: object,
// properties, one type each, items, enum, required, description. The gateway checks the arguments.
type tool struct {
	name        string
	title       string
	description string
	reads       bool // the hints: reads and stays here, or may do anything anywhere
	schema      string
	run         func(s *shim, ctx context.Context, args jsontext.Value) answer
}

func tools() []tool {
	return []tool{
		{"list_targets", "List targets", "List the API origins and SSH hosts you may ask to act on, with the requests their rules allow.", true,
			`{"type":"object","properties":{}}`, (*shim).targets},
		{api.ToolHTTP, "HTTP request", "Send one HTTP request through the gateway, which adds the credential. Give url, or target and path. Redirects are not followed. Answers status, headers and body.", false,
			`{"type":"object","properties":{
"url":{"type":"string","description":"Full https URL. Alternative to target and path."},
"target":{"type":"string","description":"Name of an http target of list_targets; needs path."},
"path":{"type":"string","description":"Path on the target, starting with a slash, without a query."},
"method":{"type":"string","description":"HTTP method; GET if absent."},
"query":{"type":"object","properties":{},"description":"Query parameters: an object whose values are strings."},
"headers":{"type":"object","properties":{},"description":"Request headers: an object whose values are strings. Authorization is the gateway's to set."},
"body":{"type":"string","description":"Request body, sent as given."},
"bodyFile":{"type":"string","description":"Path of a local file whose bytes are the request body, in body's place."},
"outputFile":{"type":"string","description":"Path of a new local file to write the answer's body to, for long ones."},
"credential":{"type":"string","description":"Name of the credential, only where several would match."},
"idempotencyKey":{"type":"string","description":"Your own unique key for this write: the same key never sends it twice."}}}`, (*shim).http},
		{api.ToolSSH, "SSH command", "Run one command on an SSH host through the gateway, which logs in. Answers exit status, stdout and stderr.", false,
			`{"type":"object","properties":{
"target":{"type":"string","description":"Name of an ssh target of list_targets."},
"argv":{"type":"array","items":{"type":"string"},"description":"Program and arguments, passed on exactly. Either argv or shell."},
"shell":{"type":"string","description":"A line for the host's login shell, where the host allows it. Always asks the operator."},
"stdin":{"type":"string","description":"Standard input of the command."},
"timeoutSeconds":{"type":"integer","description":"Limit for connecting and running, in seconds."}},
"required":["target"]}`, (*shim).ssh},
		{api.ToolJob, "Start SSH job", "Start a command on an SSH host that outlives this session. Answers at once with a job; ask action_status for its exit status and output, end it with action_cancel.", false,
			`{"type":"object","properties":{
"target":{"type":"string","description":"Name of an ssh target of list_targets."},
"argv":{"type":"array","items":{"type":"string"},"description":"Program and arguments, passed on exactly."},
"stdin":{"type":"string","description":"Standard input of the command."}},
"required":["target","argv"]}`, (*shim).job},
		{api.ToolUpload, "Upload file", "Write a local file to an SSH host, in a folder its rules allow. What lies there is replaced whole, or stays as it was.", false,
			`{"type":"object","properties":{
"target":{"type":"string","description":"Name of an ssh target of list_targets."},
"path":{"type":"string","description":"Absolute path on the host."},
"file":{"type":"string","description":"Path of the local file."},
"mode":{"type":"string","description":"Permissions in octal; 0600 if absent."}},
"required":["target","path","file"]}`, (*shim).upload},
		{api.ToolDownload, "Download file", "Read a file from an SSH host, from a folder its rules allow, into a new local file.", false,
			`{"type":"object","properties":{
"target":{"type":"string","description":"Name of an ssh target of list_targets."},
"path":{"type":"string","description":"Absolute path on the host."},
"outputFile":{"type":"string","description":"Path of a new local file."}},
"required":["target","path","outputFile"]}`, (*shim).download},
		{"action_status", "Action status", "Look up an earlier action of this session by its id: pending, running, or done with its result. Of an accepted one, the remote job is asked for.", true,
			`{"type":"object","properties":{
"action":{"type":"string","description":"The id, act_ and 26 characters."},
"waitSeconds":{"type":"integer","description":"Wait up to this long for the end of the action: 0 to 40."},
"cursor":{"type":"string","description":"To read along what a running action puts out: 0 at first, then the cursor of the last answer."}},
"required":["action"]}`, (*shim).status},
		{"action_cancel", "Cancel action", "Call back an earlier action of this session: what was not sent is dropped, what was sent is stopped as far as it can be, the remote job of an accepted one is asked to stop. The answer says what is known; it may have taken effect all the same.", false,
			`{"type":"object","properties":{
"action":{"type":"string","description":"The id, act_ and 26 characters."}},
"required":["action"]}`, (*shim).cancel},
		{"session_status", "Session status", "Tell which run and epoch this session is, whether the vault is ready, and which grants it holds.", true,
			`{"type":"object","properties":{}}`, (*shim).session},
	}
}

// newServer builds the SDK's server over the table.
func newServer(s *shim) *mcp.Server {
	name, version := "gateway", "unknown"
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Path != "" { // the module's name is the product's
		name, version = b.Main.Path, b.Main.Version
	}
	older := []string{newestRevision, "2025-06-18", "2025-03-26", "2024-11-05"}
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: version}, &mcp.ServerOptions{
		Instructions: instructions, SupportedProtocolVersions: older,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	for _, t := range tools() {
		acts := !t.reads
		server.AddTool(&mcp.Tool{Name: t.name, Title: t.title, Description: t.description, InputSchema: json.RawMessage(t.schema),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.reads, IdempotentHint: t.reads, DestructiveHint: &acts, OpenWorldHint: &acts},
		}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.call(ctx, t, r), nil
		})
	}
	return server
}
