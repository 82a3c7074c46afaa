package gateway

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sallyport/gateway/api"
)

// A child that executed a launcher after it was named is looked at as what it is now.
func TestServerExecutesLauncher(t *testing.T) {
	t.Parallel()
	_, w := newServerRig(t)
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	script := "while [ ! -e " + gate + " ]; do sleep 0.05; done\nexec sh -c 'cat; true'\n"
	if err := os.WriteFile(filepath.Join(dir, "server.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	c, st := w.launch(dir, "sh", "server.sh")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the launcher", func() bool {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.pid()))
		kids, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.pid()))
		return bytes.Contains(argv, []byte("cat; true")) && len(kids) > 0
	})
	if now := w.catalog(catalogA, false); now.State != api.ServerCatalogReady || now.ExecutionEpoch != st.ExecutionEpoch {
		t.Errorf("catalog: %s", encode(now))
	}
}
