package realclients_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modules is the folder that holds an npm package: the one of a program in PATH, or npm's own.
func modules(t *testing.T, pkg, version string) string {
	t.Helper()
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		dirs = append(dirs, filepath.Dir(dir), filepath.Join(filepath.Dir(dir), "lib/node_modules"))
	}
	for _, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, pkg, "package.json"))
		if err == nil && strings.Contains(string(b), `"version": "`+version+`"`) {
			return dir
		}
	}
	if os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatalf("%s@%s: required and not found", pkg, version)
	}
	t.Skipf("%s: not found (npm i %s@%s, and its node_modules/.bin in PATH)", pkg, pkg, version)
	return ""
}

// sdks are the clients of the matrix: what starts them, before the server's command.
func sdks(t *testing.T) map[string][]string {
	node := part(t, "node", "https://nodejs.org")
	dir := modules(t, "@modelcontextprotocol/sdk", "1.32.2")
	if v2 := modules(t, "@modelcontextprotocol/client", "2.4.0"); v2 != dir {
		t.Fatalf("the SDKs lie in two places, %s and %s", dir, v2)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	js := []string{"env", "SDK_MODULES=" + dir, node, "testdata/sdk.mjs"}
	for _, program := range []string{"mcpdo", "mcp-inspector"} {
		part(t, program, "npm i @modelcontextprotocol/inspector@2.12.0")
	}
	return map[string][]string{
		"ts-v1":        append(js[:4:4], "v1"),
		"ts-v2-legacy": append(js[:4:4], "legacy"),
		"ts-v2-auto":   append(js[:4:4], "auto"),
		"go":           {"env", driverEnv + "=1", self},
		"inspector":    {"env", inspectorEnv + "=1", self},
	}
}
