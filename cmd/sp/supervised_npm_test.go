package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// script is a conversation whose answers are the same each time.
type script struct {
	name  string
	argv  func(dir string) []string
	tools map[string]string // called and their arguments
	lists []string          // other requests
}

var published = []script{
	{"server-everything", func(string) []string { return []string{"mcp-server-everything", "stdio"} },
		map[string]string{"echo": `{"message":"héllo \u00e9 9007199254740993"}`, "get-sum": `{"a":2,"b":40}`}, []string{"prompts/list", "resources/templates/list", "ping"}},
	{"server-filesystem", func(dir string) []string { return []string{"mcp-server-filesystem", dir} },
		map[string]string{"read_text_file": `{"path":"DIR/a.txt"}`, "list_directory": `{"path":"DIR"}`}, []string{"ping"}},
	{"server-memory", func(dir string) []string {
		return []string{"env", "MEMORY_FILE_PATH=" + filepath.Join(dir, "memory.json"), "mcp-server-memory"}
	}, map[string]string{"create_entities": `{"entities":[{"name":"x","entityType":"y","observations":["z"]}]}`, "read_graph": `{}`}, []string{"ping"}},
}

// TestTransparency holds the answers of published servers, asked directly, against those through the wrapper, also with npx
// or a shell in between: they are the same bytes, but for listChanged in the answer to initialize.
func TestTransparency(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("supervised servers are recognised through /proc")
	}
	lookPart(t, "node")
	for _, s := range published {
		lookPart(t, strings.Replace(s.name, "server-", "mcp-server-", 1))
	}
	w := bareWorld(t)
	t.Run("all", func(t *testing.T) {
		for _, s := range published {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				wrapped(t, w, s, func(argv []string) []string { return argv })
			})
		}
		t.Run("npx", func(t *testing.T) {
			t.Parallel()
			lookPart(t, "npx")
			wrapped(t, w, published[0], func(argv []string) []string { return append([]string{"npx", "--no-install"}, argv...) })
		})
		t.Run("shell", func(t *testing.T) {
			t.Parallel()
			wrapped(t, w, published[0], func(argv []string) []string { return []string{"sh", "-c", strings.Join(argv, " ") + "; true"} })
		})
	})
}

// modules are where npm put the servers: npx finds what it may run without installing from its working directory.
func modules(t *testing.T) string {
	t.Helper()
	exe, err := exec.LookPath("mcp-server-everything")
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	before, _, ok := strings.Cut(exe, "/node_modules/")
	if err != nil || !ok {
		t.Skip("npm: mcp-server-everything lies in no node_modules")
	}
	return filepath.Join(before, "node_modules")
}

func wrapped(t *testing.T, w *world, s script, through func([]string) []string) {
	t.Helper()
	answers := func(kind string) []string {
		dir := filepath.Join(t.TempDir(), "d") // of the same name in both
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(dir, "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		save(t, filepath.Join(data, "a.txt"), "one\ntwo é\n")
		if err := os.Symlink(modules(t), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		h := &host{t: t, w: w, dir: dir, lines: make(chan string, 1000), errs: &shared{}, next: 100, label: strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")}
		argv := through(s.argv(data))
		if kind == "wrapped" {
			argv = append([]string{"sp", "mcp", "--label", h.label, "--"}, argv...)
		}
		h.start(argv)
		args := func(tool string) string { return strings.ReplaceAll(s.tools[tool], "DIR", data) }
		out := []string{h.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`).raw}
		h.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		out = append(out, h.list().raw)
		for _, method := range s.lists {
			out = append(out, h.request(method, `{}`).raw)
		}
		h.next = 500
		for _, tool := range sortedKeys(s.tools) {
			if kind == "wrapped" {
				if r := h.call(tool, args(tool)); r.code() != "not_authorized" {
					t.Fatalf("%s: %s", tool, r.raw)
				}
				h.approve(tool)
				h.next--
			}
			r := h.call(tool, args(tool))
			if r.code() != "" || r.Error != nil {
				t.Fatalf("%s: %s", tool, r.raw)
			}
			out = append(out, strings.ReplaceAll(r.raw, data, "DIR"))
		}
		return out
	}
	direct, through2 := answers("direct"), answers("wrapped")
	for i := range direct {
		want := direct[i]
		if i == 0 {
			want = forced(want)
		}
		if got := through2[i]; got != want {
			t.Errorf("answer %d:\n   direct %.600s\n  wrapped %.600s", i, want, got)
		}
	}
}

// forced is the one edit of an answer to initialize.
func forced(line string) string {
	switch {
	case strings.Contains(line, `"tools":{"listChanged":true`):
		return line
	case strings.Contains(line, `"tools":{}`):
		return strings.Replace(line, `"tools":{}`, `"tools":{"listChanged":true}`, 1)
	}
	return fmt.Sprintf("unexpected: %s", line)
}
