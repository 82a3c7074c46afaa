package peer

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// A real client program: node, which starts its servers over socketpairs, by
// itself, through a shell, or through npx.
func TestOwnerNode(t *testing.T) {
	node := program(t, "node")
	npx := program(t, "npx")
	const code = `const [how, npx, file, ...args] = process.argv.slice(1);
const line = [file, ...args].join(" ") + "; true";
const stdio = how.endsWith("null") ? "ignore" : "pipe";
const {spawn} = require("child_process");
if (how.startsWith("npx")) spawn(npx, ["-c", line], {stdio});
else if (how.startsWith("shell")) spawn(line, {stdio, shell: true});
else spawn(file, args, {stdio});`
	for _, tc := range []struct {
		how    string
		passed int // processes between the shim and node
	}{{"direct", 0}, {"direct null", 0}, {"shell", 1}, {"shell null", 1}, {"npx", 2}, {"npx null", 2}} {
		t.Run(tc.how, func(t *testing.T) {
			s := newShim(t)
			x := spawn(t, node, append([]string{"-e", code, "--", tc.how, npx}, s.args(false)...), func(x *exec.Cmd) {
				x.Dir = t.TempDir()
				x.Env = append(os.Environ(), "npm_config_update_notifier=false", "HOME="+x.Dir)
			})
			_, o, passed := s.owner()
			if o.PID != x.Process.Pid || len(passed) != tc.passed {
				t.Errorf("owner %d %q, passed %v, want %d by %d", o.PID, o.Args, passed, x.Process.Pid, tc.passed)
			}
		})
	}
}

// program finds a real program, or skips with its name.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	missing := fmt.Sprintf("%s: not installed", name)
	if os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}
