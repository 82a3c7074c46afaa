package realclients_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// conforms are the suite's scenarios that a server of tools alone, over stdio, can be asked; docs/mcp-conformance.md says
// why not the others.
var conforms = map[string][]string{
	"2025-11-25": {"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error"},
	"2026-07-28": {"tools-list", "tools-call-simple-text", "tools-call-error"},
}

// TestConformance runs the suite, which knows HTTP alone, through a bridge to the real sp mcp. Two tools that the suite
// wants a server to have are asked of ours under other names: one that answers text, and one that is refused.
func TestConformance(t *testing.T) {
	suite := part(t, "conformance", "npm i @modelcontextprotocol/conformance@0.2.0-alpha.12")
	dir, err := os.MkdirTemp("", "sp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sp := filepath.Join(dir, "sp")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", sp, "sallyport/cmd/sp")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build sp: %v\n%s", err, out)
	}
	for revision, scenarios := range conforms {
		for _, scenario := range scenarios {
			t.Run(revision+"/"+scenario, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, suite, "server", "--url", bridge(t, sp), "--scenario", scenario, "--spec-version", revision, "--timeout", "120000", "-o", t.TempDir())
				cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
				cmd.Dir = t.TempDir()
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "0 failed") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// renamed are the suite's tools and ours in their place.
var renamed = map[string]string{
	`"name":"test_simple_text"`:    `"name":"session_status"`,
	`"name":"test_error_handling"`: `"name":"ssh_exec"`,
}

// bridge serves one sp mcp over HTTP: a request's line goes in, the line with its id comes out.
func bridge(t *testing.T, sp string) string {
	t.Helper()
	cmd := exec.Command(sp, "mcp")
	cmd.Env, cmd.Stderr = []string{"SALLYPORT_HOME=" + t.TempDir(), "HOME=/"}, t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &bridged{in: in, wait: map[string]chan []byte{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			b.answer(line)
		}
	}()
	web := httptest.NewServer(b)
	t.Cleanup(func() {
		web.Close()
		in.Close()
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	return web.URL + "/mcp"
}

type bridged struct {
	mu   sync.Mutex
	in   io.Writer
	wait map[string]chan []byte // by id
}

func (b *bridged) answer(line []byte) {
	var m struct {
		ID jsontext.Value `json:"id"`
	}
	if json.Unmarshal(line, &m) != nil || m.ID == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.wait[string(m.ID)]; c != nil {
		c <- line
		delete(b.wait, string(m.ID))
	}
}

func (b *bridged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	for theirs, ours := range renamed {
		body = bytes.ReplaceAll(body, []byte(theirs), []byte(ours))
	}
	var m struct {
		ID jsontext.Value `json:"id"`
	}
	if json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	came := make(chan []byte, 1)
	b.mu.Lock()
	if m.ID != nil {
		b.wait[string(m.ID)] = came
	}
	_, err = b.in.Write(append(body, '\n'))
	b.mu.Unlock()
	if err != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	select {
	case line := <-came:
		w.Header().Set("Content-Type", "application/json")
		w.Write(line)
	case <-r.Context().Done():
	}
}
