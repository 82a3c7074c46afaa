package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// A process that takes a server's pipe over is told to the operator: that it happened, and nothing of whom.
func TestServerReplacementNotifies(t *testing.T) {
	t.Parallel()
	told := make(chan string, 64)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		told <- string(b)
	}))
	defer hook.Close()
	r, w := newServerRig(t)
	if _, refused := r.apply("[settings]\nnotify = [\"webhook "+hook.URL+"/x\"]\n", false); refused != "" {
		t.Fatal(refused)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nodemon.sh"), []byte(workerScript), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ready(dir, "sh", "nodemon.sh")
	w.done(adjust)
	s, old := r.only(t), w.epoch
	worker := r.serverState(s).ProcessID
	syscall.Kill(worker, syscall.SIGKILL)
	for p := w.push(api.PushEpoch); p.Server.ExecutionEpoch == old; {
		p = w.push(api.PushEpoch)
	}
	limit := time.After(2 * time.Minute)
	for {
		select {
		case got := <-told:
			if strings.Contains(got, `"waiting":1`) {
				continue // the card of its first call
			}
			if want := `{"text":"A server's process was replaced unexpectedly. See ` + "`sp server ls`" + `, or the console.","waiting":0,"replaced":1}`; got != want {
				t.Errorf("told %s, want %s", got, want)
			}
			return
		case <-limit:
			t.Fatal("nothing was told")
		}
	}
}
