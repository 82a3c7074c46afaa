package main_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/auditlog"
	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// host is an MCP host in a process of its own, "agent", that started the wrapper. This test speaks through it.
type host struct {
	t     *testing.T
	w     *world
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	errs  *shared
	dir   string // the server's
	label string
	next  int
	noted []string // notifications that came between answers
}

// shared is a buffer that one goroutine fills and another reads.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// lookPart finds a real program, or skips by its name; where all must be there it fails.
func lookPart(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("SALLYPORT_REAL") == "require" {
		t.Fatalf("%s is required and not found", name)
	}
	if err != nil {
		t.Skip(name + ": not installed")
	}
	return path
}

// lookPython finds an interpreter that is no launcher of another one (a version manager's shim), with few packages: of more
// files than the gateway measures it says so, and would see no change of them.
func lookPython(t *testing.T) string {
	t.Helper()
	if path := "/usr/bin/python3"; exec.Command(path, "-c", "").Run() == nil {
		return path
	}
	out, err := exec.Command(lookPart(t, "python3"), "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// tool is a tools/list entry.
type tool map[string]any

func plainTool(name string) tool {
	return tool{"name": name, "description": "d", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{"marker": map[string]any{"type": "string"}}}}
}

// serverDir is a folder with a copy of the test's servers and its tools.
func serverDir(t *testing.T, tools ...tool) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/servers")); err != nil {
		t.Fatal(err)
	}
	dep := filepath.Join(dir, "node_modules", "dep")
	if err := os.MkdirAll(dep, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"package.json":                    `{"name":"test","version":"1.0.0","type":"module","main":"server.mjs","dependencies":{"dep":"1.0.0"}}`,
		"package-lock.json":               `{"name":"test","version":"1.0.0","lockfileVersion":3,"packages":{"node_modules/dep":{"version":"1.0.0"}}}`,
		"node_modules/dep/package.json":   `{"name":"dep","version":"1.0.0","type":"module","main":"index.js"}`,
		"node_modules/dep/index.js":       "export const word = 'one'\n",
		"node_modules/.package-lock.json": `{"lockfileVersion":3}`,
		"sallyport.py":                    example(t, "python"),
		"sallyport.mjs":                   example(t, "js"),
	} {
		save(t, filepath.Join(dir, name), text)
	}
	setTools(t, dir, tools...)
	return dir
}

// example is a program of docs/supervised-servers.md.
func example(t *testing.T, language string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/supervised-servers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "```"+language+"\n")
	text, _, end := strings.Cut(text, "```")
	if !ok || !end {
		t.Fatalf("docs/supervised-servers.md has no example in %s", language)
	}
	return text
}

func save(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func setTools(t *testing.T, dir string, tools ...tool) {
	t.Helper()
	b, err := json.Marshal(tools, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(dir, "tools.json"), string(b))
}

// rebuild changes the revision in a server's file.
func rebuild(t *testing.T, path, revision string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{`"`, `'`} {
		for _, old := range "ABCD" {
			b = bytes.Replace(b, []byte(" = "+q+string(old)+q+"\n"), []byte(" = "+q+revision+q+"\n"), 1)
		}
	}
	save(t, path, string(b))
}

// newHost starts an agent with a wrapper of argv in dir. pre are words before "sp": a launcher between the two.
func newHost(t *testing.T, w *world, dir string, flags, argv []string) *host {
	t.Helper()
	h := &host{t: t, w: w, dir: dir, lines: make(chan string, 1000), errs: &shared{}, next: 100,
		label: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))}
	h.label = h.label[max(0, len(h.label)-55):] + "-" + filepath.Base(dir)
	args := slices.Concat([]string{"sp", "mcp", "--label", h.label}, flags, []string{"--"}, argv)
	h.start(args)
	return h
}

func (h *host) start(args []string) {
	h.t.Helper()
	h.cmd = exec.Command(filepath.Join(h.w.bin, "agent"), args...)
	h.cmd.Env = append(slices.Clone(h.w.env), "LEDGER="+filepath.Join(h.dir, "ledger"), "PYTHONDONTWRITEBYTECODE=1")
	h.cmd.Dir = h.dir
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		h.t.Fatal(err)
	}
	out, w, err := os.Pipe() // no copying goroutine of exec's that an orphan could hold up
	if err != nil {
		h.t.Fatal(err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	h.cmd.Stdout, h.cmd.Stderr = w, errW
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	w.Close()
	errW.Close()
	go io.Copy(h.errs, errR)
	go func() {
		defer close(h.lines)
		for r := bufio.NewReaderSize(out, 1<<20); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			h.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	h.t.Cleanup(func() {
		h.in.Close()
		ended := make(chan struct{})
		go func() { h.cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(patience):
			syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		out.Close()
		errR.Close()
		if h.t.Failed() {
			h.t.Logf("stderr of %s:\n%.6000s", h.label, h.errs)
		}
	})
}

func (h *host) say(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

// hear waits for a line; "" at the end of the output.
func (h *host) hear() string {
	h.t.Helper()
	select {
	case l := <-h.lines:
		return l
	case <-time.After(patience):
		h.t.Fatalf("no line came; stderr:\n%.4000s", h.errs)
		return ""
	}
}

// reply is an answer to the host.
type reply struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Result struct {
		IsError bool           `json:"isError"`
		Doc     map[string]any `json:"structuredContent"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Rest jsontext.Value `json:",embed"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	raw string
}

func (r reply) text() string {
	if len(r.Result.Content) == 0 {
		return ""
	}
	return r.Result.Content[0].Text
}

// code is the gateway's word in a refused call, "" of one that the server answered.
func (r reply) code() string {
	code, _ := r.Result.Doc["error"].(string)
	return code
}

// ask sends a request and returns its id.
func (h *host) ask(method, params string) string {
	h.t.Helper()
	h.next++
	id := fmt.Sprint(h.next)
	h.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	return id
}

// answer waits for one answer; what comes before it is kept in noted.
func (h *host) answer(id string) reply {
	h.t.Helper()
	for {
		l := h.hear()
		if l == "" {
			h.t.Fatalf("the wrapper has ended; stderr:\n%.4000s", h.errs)
		}
		var r reply
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			h.t.Fatalf("%v: %s", err, l)
		}
		if r.raw = l; r.Method == "" && string(r.ID) == id {
			return r
		}
		h.noted = append(h.noted, l)
	}
}

func (h *host) request(method, params string) reply {
	h.t.Helper()
	return h.answer(h.ask(method, params))
}

// greet does the handshake and lists the tools.
func (h *host) greet() {
	h.t.Helper()
	h.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	h.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	h.list()
}

func (h *host) list() reply {
	h.t.Helper()
	return h.request("tools/list", `{}`)
}

func (h *host) call(name, args string) reply {
	h.t.Helper()
	return h.request("tools/call", `{"name":"`+name+`","arguments":`+args+`}`)
}

// granted calls a tool, approves its card if there is one, and calls again.
func (h *host) granted(name, args string) reply {
	h.t.Helper()
	r := h.call(name, args)
	if r.code() != "not_authorized" && r.code() != "authorization_stale" {
		return r
	}
	h.approve(name)
	return h.call(name, args)
}

// card waits for the card of a tool of this host's server.
func (h *host) card(name string) (card api.Approval) {
	h.t.Helper()
	h.until("a card of "+name, func() bool {
		var cards []api.Approval
		if h.w.operator(api.PathApprovalList, struct{}{}, &cards) != nil {
			return false
		}
		i := slices.IndexFunc(cards, func(c api.Approval) bool { return c.Tool == name && c.Target == h.label })
		if i >= 0 {
			card = cards[i]
		}
		return i >= 0
	})
	return card
}

func (h *host) approve(name string) {
	h.t.Helper()
	c := h.card(name)
	if err := h.w.operator(api.PathApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"}, nil); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) until(what string, f func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("never: %s; stderr:\n%.4000s", what, h.errs)
		}
	}
}

// wrote are the lines of the server's ledger.
func (h *host) wrote() []string {
	b, err := os.ReadFile(filepath.Join(h.dir, "ledger"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// status waits for a line of the wrapper's stderr that begins so, and returns its fields.
func (h *host) status(begin string, nth int) []string {
	h.t.Helper()
	var found []string
	h.until(begin, func() bool {
		n := 0
		for l := range strings.Lines(h.errs.String()) {
			if strings.HasPrefix(l, begin) && strings.HasSuffix(l, "\n") {
				if n++; n == nth {
					found = strings.Fields(l)
					return true
				}
			}
		}
		return false
	})
	return found
}

// events are the log's so far.
func (w *world) events(t *testing.T) (out []event.Event) {
	t.Helper()
	pub, err := os.ReadFile(filepath.Join(w.dir, "audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range auditlog.Read(os.DirFS(filepath.Join(w.dir, "audit")), pub, w.made.ReaderIdentity) {
		if err != nil {
			t.Fatal(err)
		}
		ev, err := event.Decode(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}
