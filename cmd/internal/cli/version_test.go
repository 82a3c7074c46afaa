package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestVersion(t *testing.T) {
	w := newWorld(t)
	out, _ := w.want(0, "", "version", "--json")
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"version", "commit", "modified", "go", "os", "arch", "logFormat"} {
		if _, ok := v[key]; !ok {
			t.Errorf("no %s in %s", key, out)
		}
	}
	line, _ := w.want(0, "", "version")
	again, _ := w.want(0, "", "--version")
	if !strings.HasPrefix(line, "sp ") || line != again {
		t.Errorf("%q %q", line, again)
	}
}

// Each shell that is here reads its completion script without a word, and the script asks sp itself.
func TestCompletion(t *testing.T) {
	w := newWorld(t)
	for shell, check := range map[string][]string{"bash": {"bash", "-n"}, "zsh": {"zsh", "-n"}, "fish": {"fish", "--no-execute"}, "powershell": nil} {
		out, _ := w.want(0, "", "completion", shell)
		contains(t, shell, out, "__complete")
		if check == nil {
			continue
		}
		if _, err := exec.LookPath(check[0]); err != nil {
			if os.Getenv("SALLYPORT_REAL") == "require" {
				t.Errorf("%s: %v", shell, err)
			}
			continue
		}
		path := filepath.Join(t.TempDir(), "sp")
		if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.Command(check[0], append(check[1:], path)...).CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("%s: %v\n%s", shell, err, said)
		}
	}
	out, _ := w.want(0, "", "__complete", "serv")
	contains(t, "command", out, "service")
	out, _ = w.want(0, "", "__complete", "service", "")
	contains(t, "subcommand", out, "install", "uninstall", "status")
	w.want(2, "", "completion", "tcsh")
}
