package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway"
	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
)

// TestLedger makes calls by real clients over a real shim and a real spd, to a service and a host that answer, stall and
// hang up, while clients, shims and spd are killed at random. In the end the log, what the clients were told, and what the
// far side saw must agree: nothing told as not sent was seen, nothing was seen twice, and what is confirmed was seen.
// 500 calls, 10,000 with SALLYPORT_LONG=1; the seed is printed, and SALLYPORT_SEED sets it.
func TestLedger(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found through /proc")
	}
	w := newWorld(t)
	calls, workers := 500, 8
	if os.Getenv("SALLYPORT_LONG") == "1" {
		calls = 10_000
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("SALLYPORT_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d, %d calls", seed, calls)
	var next, done atomic.Int64
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				n := int(next.Add(1))
				if n > calls {
					return
				}
				if !w.work(r, n, func() (int, bool) { m := int(next.Add(1)); return m, m <= calls }, &done) {
					return
				}
			}
		})
	}
	chaos := make(chan struct{})
	go func() {
		defer close(chaos)
		r := rand.New(rand.NewPCG(seed, 1<<32))
		for at := int64(calls / 20); int(done.Load()) < calls-workers && w.t.Context().Err() == nil; {
			if done.Load() < at {
				time.Sleep(time.Millisecond)
				continue
			}
			at += 60 + int64(r.IntN(100))
			w.restart()
		}
	}()
	all.Wait()
	<-chaos
	w.judge(calls)
}

// world is one home with its programs.
type world struct {
	t    *testing.T
	bin  string
	dir  string // home
	env  []string
	home home.Home
	made api.Created
	far  *ledger

	spd *exec.Cmd
	up  sync.RWMutex // held while spd is started anew

	mu   sync.Mutex
	told map[int]string // what each call's client was told: an outcome or a code; none: it was killed before
}

// bareWorld is a gateway with an empty vault, that the test's agent can reach.
func bareWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, bin: build(t), dir: filepath.Join(t.TempDir(), "h"), told: map[int]string{}}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(w.bin, "agent")); err != nil { // TestMain knows it by its name
		t.Fatal(err)
	}
	w.env = []string{"SALLYPORT_HOME=" + w.dir, "PATH=" + w.bin + ":" + os.Getenv("PATH"), "HOME=" + w.dir}
	if w.home, err = home.Find(func(k string) string { return map[string]string{home.EnvHome: w.dir}[k] }); err != nil {
		t.Fatal(err)
	}
	w.init()
	w.start()
	t.Cleanup(w.kill)
	return w
}

func newWorld(t *testing.T) *world {
	far := newLedger(t) // it outlives the gateway
	w := bareWorld(t)
	w.far = far
	key := []byte("tok-5f2b9c71e04d4a6b")
	allow := func(addr string) []string { return []string{"--allow", "POST http://" + addr + "/**"} }
	for name, addr := range map[string]string{"ledger": strings.TrimPrefix(w.far.web.URL, "http://"), "deaf": w.far.deaf, "empty": w.far.empty} {
		w.sp(key, append([]string{"secret", "add", name, "--kind", "bearer", "--allow-network", "127.0.0.0/8"}, allow(addr)...)...)
	}
	w.sp(w.far.key, "secret", "add", "deploy", "--kind", "ssh-key")
	pub := filepath.Join(w.dir, "host.pub")
	if err := os.WriteFile(pub, []byte(strings.Join(w.far.host.HostKeys(), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.sp(nil, "host", "add", "web", "--address", w.far.host.Addr(), "--user", "deploy", "--credential", "deploy", "--host-key", pub,
		"--allow-network", "127.0.0.0/8", "--allow-argv", `["ledger","*","*"]`)
	go w.approve()
	return w
}

// init makes the vault, with a passphrase slot that opens in milliseconds.
func (w *world) init() {
	g, err := gateway.New(context.Background(), gateway.Config{Home: w.home, Version: "test", WorkFactor: 10})
	if err != nil {
		w.t.Fatal(err)
	}
	agents, err := peer.Listen(w.home.AgentSocket())
	if err != nil {
		w.t.Fatal(err)
	}
	operators, err := peer.Listen(filepath.Join(w.dir, "op"))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.home.PublishOperator(operators.Addr().String()); err != nil {
		w.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(context.Background(), agents, operators) }()
	err = w.operator(api.PathInit, struct{}{}, &w.made)
	g.Stop()
	if err := errors.Join(err, <-served); err != nil {
		w.t.Fatal(err)
	}
}

// operator is one proved command at the operators' door.
func (w *world) operator(path string, args, out any) error {
	c := client.Operator(w.home)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return c.Do(ctx, path, &api.Proof{Kind: "passphrase", Value: passphrase}, args, nil, out)
}

// sp runs a command of the operator's with a value on stdin.
func (w *world) sp(stdin []byte, args ...string) {
	w.t.Helper()
	pass, err := os.CreateTemp(w.t.TempDir(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	defer pass.Close()
	pass.WriteString(passphrase)
	pass.Seek(0, io.SeekStart)
	cmd := exec.Command(filepath.Join(w.bin, "sp"), append(args, "--passphrase-fd", "3")...)
	cmd.Env, cmd.Stdin, cmd.ExtraFiles = w.env, bytes.NewReader(stdin), []*os.File{pass}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("sp %v: %v\n%s", args, err, out)
	}
}

// start runs spd and opens its vault.
func (w *world) start() {
	w.spd = exec.Command(filepath.Join(w.bin, "spd"), "serve")
	w.spd.Env, w.spd.Stderr = w.env, w.t.Output()
	if err := w.spd.Start(); err != nil {
		w.t.Error(err)
		return
	}
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		var s api.Status
		if err = w.operator(api.PathUnlock, struct{}{}, &s); err == nil && s.PID == w.spd.Process.Pid {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Errorf("spd is not ready: %v", err)
}

// ready waits while spd is started anew.
func (w *world) ready() {
	w.up.RLock()
	defer w.up.RUnlock()
}

func (w *world) kill() {
	w.spd.Process.Kill()
	w.spd.Wait()
}

// restart kills spd in the middle of whatever it does, and starts it anew.
func (w *world) restart() {
	w.up.Lock()
	defer w.up.Unlock()
	w.kill()
	w.start()
}

// approve says yes to every card, for its run.
func (w *world) approve() {
	for w.t.Context().Err() == nil {
		var cards []api.Approval
		if w.operator(api.PathApprovalList, struct{}{}, &cards) != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		for _, c := range cards {
			w.operator(api.PathApprovalGrant, api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "run"}, nil)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// call is a random one of number n.
func (w *world) call(r *rand.Rand, n int) (tool string, args any) {
	how := []string{"answer", "answer", "answer", "answer", "stall", "cut", "head", "body"}[r.IntN(8)]
	switch k := r.IntN(12); {
	case k < 3:
		return api.ToolSSH, api.SSHArgs{Target: "web", Argv: []string{"ledger", strconv.Itoa(n), how}}
	case k == 3:
		return api.ToolHTTP, api.HTTPArgs{URL: fmt.Sprintf("http://%s/c/%d/deaf", w.far.deaf, n), Method: "POST", Body: "x"}
	case k == 4:
		return api.ToolHTTP, api.HTTPArgs{URL: fmt.Sprintf("http://%s/c/%d/empty", w.far.empty, n), Method: "POST", Body: "x"}
	}
	body := "x"
	if r.IntN(10) == 0 {
		body = strings.Repeat("x", 200_000)
	}
	return api.ToolHTTP, api.HTTPArgs{URL: fmt.Sprintf("%s/c/%d/%s", w.far.web.URL, n, how), Method: "POST", Body: body}
}

// work runs one client for up to 40 calls, beginning with n. The client or its shim may be killed at any moment.
func (w *world) work(r *rand.Rand, n int, more func() (int, bool), done *atomic.Int64) bool {
	mcp := r.IntN(2) == 0
	args := []string{"sp", "call", "-"}
	if mcp {
		args = []string{"sp", "mcp"}
	}
	cmd := exec.Command(filepath.Join(w.bin, "agent"), args...)
	cmd.Env = w.env
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Error(err)
		return false
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Error(err)
		return false
	}
	defer func() { in.Close(); cmd.Process.Kill(); cmd.Wait() }()
	answers := bufio.NewReaderSize(out, 1<<20)
	if mcp {
		io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
		if _, err := answers.ReadBytes('\n'); err != nil {
			w.t.Error("initialize:", err)
			return false
		}
	}
	for ok, left := true, 40; ok; left-- {
		if r.IntN(50) > 0 { // a few calls are made to a gateway that is not there
			w.ready()
		}
		if r.IntN(20) == 0 { // one of the two dies while the call is on its way
			victim := cmd.Process.Pid
			if shim := childOf(victim); r.IntN(2) == 0 && shim > 0 {
				victim = shim
			}
			time.AfterFunc(time.Duration(r.IntN(20_000))*time.Microsecond, func() {
				if p, err := os.FindProcess(victim); err == nil {
					p.Kill()
				}
				if victim != cmd.Process.Pid { // a client whose shim is gone does not wait for its answer for ever
					time.Sleep(stallTime)
					cmd.Process.Kill()
				}
			})
		}
		code := w.ask(r, n, mcp, in, answers)
		done.Add(1)
		if code == "" {
			return true // it is dead
		}
		w.mu.Lock()
		w.told[n] = code
		w.mu.Unlock()
		if left == 0 {
			return true
		}
		n, ok = more()
	}
	return false
}

// errorMark stands before a code that came without an action: the shim's or the client's own word, or a refusal.
const errorMark = "!"

// ask makes one call and returns what its client was told; empty: nothing any more.
func (w *world) ask(r *rand.Rand, n int, mcp bool, in io.Writer, out *bufio.Reader) string {
	tool, args := w.call(r, n)
	line := map[string]any{"tool": tool, "args": args}
	if mcp {
		line = map[string]any{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}}
	}
	b, err := json.Marshal(line)
	if err != nil {
		w.t.Error(err)
		return ""
	}
	if _, err := in.Write(append(b, '\n')); err != nil {
		return ""
	}
	answer, err := out.ReadBytes('\n')
	if err != nil {
		return ""
	}
	var doc struct {
		Error   any    `json:"error"`
		Outcome string `json:"outcome"`
		State   string `json:"state"`
	}
	if mcp {
		var m struct {
			Result struct {
				Doc any `json:"structuredContent"`
			} `json:"result"`
		}
		if err := json.Unmarshal(answer, &m); err != nil {
			w.t.Errorf("%s: %v", answer, err)
		}
		answer, _ = json.Marshal(m.Result.Doc)
	}
	if err := json.Unmarshal(answer, &doc); err != nil {
		w.t.Errorf("%s: %v", answer, err)
	}
	if code, ok := doc.Error.(string); ok {
		return errorMark + code
	}
	if doc.Outcome == "" {
		return doc.State
	}
	return doc.Outcome
}

// childOf is the first child of a process; 0 if it has none.
func childOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.Atoi(first)
	return n
}
