// Package clientcfg writes the gateway's entry into the configuration of agents' clients, and takes it out again.
//
// The entry is named sallyport and starts `sp mcp` by an absolute path; it carries no environment and no secret. What else
// the file holds stays byte for byte as it was: comments, order, spacing, unknown keys, keys that somebody added to the
// entry itself. Only places found by a parser are touched, and the result is read again before it is written: a file that
// cannot be read, or that would not say afterwards what it should, is refused and left alone.
package clientcfg

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Entry is the name of ours among a client's servers.
const Entry = "sallyport"

// ErrUnknownClient is returned by Lookup.
var ErrUnknownClient = errors.New("unknown client")

// System is the machine as the client sees it.
type System struct {
	GOOS   string
	Home   string              // the user's, absolute
	Getenv func(string) string // some clients let a variable move their folder
}

// moved is the folder that the variable names, else the one below the user's home. A relative value counts as unset.
func (s System) moved(variable string, fallback ...string) string {
	if dir := s.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(append([]string{s.Home}, fallback...)...)
}

// appData is where desktop programs keep their settings.
func (s System) appData() string {
	if s.GOOS == "darwin" {
		return filepath.Join(s.Home, "Library", "Application Support")
	}
	return s.moved("XDG_CONFIG_HOME", ".config")
}

// Client is one program that starts MCP servers.
type Client struct {
	Name   string // as in `sp install NAME`
	Title  string // as people call it
	Reload string // what makes a running one take the change
	table  string // the key that holds the servers
	file   func(System) string
	edit   func(src []byte, table string, want []member) ([]byte, error)
	extra  []member // besides command and args
}

// member is a key of the entry. The value is a string or a []string.
type member struct {
	key   string
	value any
}

// Clients are those we know, in the order in which they are listed.
func Clients() []Client {
	const servers = "mcpServers"
	return []Client{
		{"claude", "Claude Code", "start `claude` anew (`claude mcp list` shows sallyport)", servers,
			func(s System) string { return filepath.Join(s.moved("CLAUDE_CONFIG_DIR"), ".claude.json") }, editJSON, nil},
		{"claude-desktop", "Claude Desktop", "quit Claude Desktop and start it anew", servers,
			func(s System) string { return filepath.Join(s.appData(), "Claude", "claude_desktop_config.json") }, editJSON, nil},
		{"cursor", "Cursor", "in Cursor's settings, under MCP, switch sallyport on", servers,
			func(s System) string { return filepath.Join(s.Home, ".cursor", "mcp.json") }, editJSON, nil},
		{"vscode", "VS Code", "run `MCP: List Servers` in the command palette, choose sallyport, start it", "servers",
			func(s System) string { return filepath.Join(s.appData(), "Code", "User", "mcp.json") }, editJSON, []member{{"type", "stdio"}}},
		{"codex", "Codex", "start `codex` anew (`codex mcp list` shows sallyport)", "mcp_servers",
			func(s System) string { return filepath.Join(s.moved("CODEX_HOME", ".codex"), "config.toml") }, editTOML, nil},
		{"gemini", "Gemini CLI", "start `gemini` anew (`gemini mcp list` shows sallyport)", servers,
			func(s System) string { return filepath.Join(s.moved("GEMINI_CLI_HOME"), ".gemini", "settings.json") }, editJSON, nil},
		{"zed", "Zed", "nothing to do: Zed reads its settings as they change", "context_servers",
			func(s System) string { return filepath.Join(s.zedConfig(), "zed", "settings.json") }, editJSON, nil},
		{"windsurf", "Windsurf", "in Cascade, under MCP servers, press Refresh", servers,
			func(s System) string { return filepath.Join(s.Home, ".codeium", "windsurf", "mcp_config.json") }, editJSON, nil},
		{"copilot", "Copilot CLI", "start `copilot` anew (`/mcp show` lists sallyport)", servers,
			func(s System) string { return filepath.Join(s.moved("COPILOT_HOME", ".copilot"), "mcp-config.json") }, editJSON,
			[]member{{"type", "local"}, {"tools", []string{"*"}}}},
	}
}

// zedConfig is ~/.config on macOS too.
func (s System) zedConfig() string {
	if s.GOOS == "darwin" {
		return filepath.Join(s.Home, ".config")
	}
	return s.moved("XDG_CONFIG_HOME", ".config")
}

// Names are the names of all clients.
func Names() []string {
	var names []string
	for _, c := range Clients() {
		names = append(names, c.Name)
	}
	return names
}

// Lookup finds a client by its name.
func Lookup(name string) (Client, error) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, fmt.Errorf("%w: %q", ErrUnknownClient, name)
	}
	return all[i], nil
}

// Install works out the client's file with our entry in it. command is sp's absolute path.
func (c Client) Install(s System, command string) (Change, error) {
	if !filepath.IsAbs(command) {
		return Change{}, fmt.Errorf("install entry: %q is no absolute path", command)
	}
	if err := plain(command); err != nil {
		return Change{}, fmt.Errorf("install entry: %w", err)
	}
	want := append(slices.Clone(c.extra), member{"command", command}, member{"args", []string{"mcp"}})
	return c.change(s, want)
}

// Remove works out the client's file without our entry.
func (c Client) Remove(s System) (Change, error) {
	return c.change(s, nil)
}

func (c Client) change(s System, want []member) (Change, error) {
	ch, err := read(c.file(s))
	if err != nil {
		return Change{}, err
	}
	ch.Key = c.table + "." + Entry
	if ch.New, err = c.edit(ch.Old, c.table, want); err != nil {
		return Change{}, fmt.Errorf("edit %s: %w", ch.Path, err)
	}
	return ch, nil
}

// plain refuses a path that a configuration file cannot hold in clear text.
func plain(path string) error {
	for _, r := range path {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return fmt.Errorf("%q holds what is no text", path)
		}
	}
	return nil
}
