package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"sallyport/gateway/api"
)

// A supervised server's own program starts the gateway, which so stands below the wrapper. Neither the end of that server, nor
// the end of the next one and of its wrapper, is the gateway's.
func TestGatewayBelowServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("supervised servers are recognised through /proc")
	}
	t.Parallel()
	w := bareWorld(t)
	h := python(t, w, nil, plainTool("later"))
	h.greet()
	gate := filepath.Join(h.dir, "gate")
	h.granted("later", fmt.Sprintf(`{"gate":%q,"argv":[%q,"up"]}`, gate, filepath.Join(w.bin, "sp")))
	w.kill()
	save(t, gate, "")
	h.until("sp up", func() bool { _, err := os.Stat(gate + ".done"); return err == nil })
	out, err := os.ReadFile(gate + ".done")
	var pid int
	if err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscanf(string(out), "the gateway is up: pid %d", &pid); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		syscall.Kill(pid, syscall.SIGKILL)
		h.gone(pid)
	})
	serves := func(after string) {
		t.Helper()
		var s api.Status
		if err := w.operator(api.PathStatus, struct{}{}, &s); err != nil || s.PID != pid {
			t.Fatalf("after %s the gateway is pid %d, want %d: %v", after, s.PID, pid, err)
		}
	}
	if r := h.call("later", `{}`); r.code() == "gateway_unreachable" || r.code() == "gateway_restarted" {
		t.Fatal(r.raw)
	}
	h.status("server started:", 2)
	serves("the first server's end")
	h.leave()
	serves("the wrapper's end")
}
