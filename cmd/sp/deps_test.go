package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// run runs a command in the module's folder without cgo.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}

// A reviewer verifies a log with a program that has no way to a secret: sp links
// no vault, no database, no executor, and of ours only what is listed here.
func TestDependencies(t *testing.T) {
	ours := map[string]string{
		"sallyport/cmd/sp":                            "sp",
		"sallyport/cmd/internal/cli":                  "its commands",
		"sallyport/cmd/internal/mcpshim":              "the agent's shim",
		"sallyport/cmd/internal/mcpshim/jsonline":     "its lines",
		"sallyport/cmd/internal/clientcfg":            "the entries in clients' settings",
		"sallyport/cmd/internal/drill":                "crashes, tried out",
		"sallyport/cmd/internal/confine":              "an agent kept from the gateway",
		"sallyport/cmd/internal/doctor":               "what a look at this machine finds",
		"sallyport/cmd/internal/release":              "which version this is",
		"sallyport/cmd/internal/release/stamp":        "as the linker was told",
		"sallyport/cmd/internal/service":              "the units of a gateway under a user of its own",
		"sallyport/cmd/internal/mcpshim/calmenv":      "its debug settings, off",
		"sallyport/cmd/internal/mcpshim/first":        "its first answers",
		"sallyport/cmd/internal/mcpshim/first/before": "given before main",
		"sallyport/cmd/internal/mcpshim/wrap":         "a server of others', supervised",
		"sallyport/auditlog":                          "bytes of the log",
		"sallyport/auditlog/event":                    "meaning of the log",
		"sallyport/auditlog/incident":                 "what it says of one run",
		"sallyport/gateway/api":                       "the wire",
		"sallyport/gateway/client":                    "the two doors",
		"sallyport/gateway/home":                      "where things lie",
		"sallyport/gateway/peer":                      "whose socket it is",
	}
	deps := strings.Fields(run(t, "go", "list", "-deps", "."))
	if len(deps) < 50 {
		t.Fatalf("only %d packages listed: %v", len(deps), deps)
	}
	seen := map[string]bool{}
	for _, d := range deps {
		seen[d] = true
		if strings.HasPrefix(d, "sallyport/") && ours[d] == "" {
			t.Errorf("sp links %s", d)
		}
		for _, no := range []string{"sqlite", "golang.org/x/crypto/ssh", "pressly/goose", "go-chi", "httpexec", "sshexec", "runtime/cgo"} {
			if d == "database/sql" || strings.Contains(d, no) {
				t.Errorf("sp links %s", d)
			}
		}
	}
	for d := range ours {
		if !seen[d] {
			t.Errorf("sp no longer links %s: take it off the list", d)
		}
	}
}

// sp is one static program: LD_PRELOAD has nothing to hook into.
func TestBuildsWithoutCgo(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "sp")
	run(t, "go", "build", "-o", exe, ".")
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasPrefix(b, []byte("\x7fELF")) && bytes.Contains(b, []byte("/ld-linux")) {
		t.Error("sp asks for a dynamic loader")
	}
	if out := run(t, exe, "version"); !strings.HasPrefix(out, "sp ") {
		t.Errorf("version says %q", out)
	}
	if runtime.GOOS == "linux" { // the first answers come before main, which has nothing to do but fail here
		mcp := exec.Command(exe, "mcp")
		mcp.Env = []string{"SALLYPORT_HOME=relative"}
		mcp.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
		if out, err := mcp.Output(); err == nil || string(out) != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
			t.Errorf("before main: %q, %v", out, err)
		}
	}
	endsOnce(t, exe)
	err = exec.Command(exe, "nonsense").Run()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Errorf("a wrong command ends with %v", err)
	}
}
