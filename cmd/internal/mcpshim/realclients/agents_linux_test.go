package realclients_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// agents are the clients, and where they come from.
var agents = []struct{ name, from string }{
	{"claude", "npm i @anthropic-ai/claude-code@2.1.197"},
	{"codex", "npm i @openai/codex@0.171.0"},
	{"gemini", "npm i @google/gemini-cli@0.61.0"},
}

// step is what the scripted model does next.
type step map[string]any

func call(tool string, args map[string]any) step { return step{"tool": tool, "args": args} }

// report is what the driver saw of one client's life.
type report struct {
	Exit  int `json:"exit"`
	Calls []struct {
		Name    string `json:"name"`
		Offered bool   `json:"offered"`
	} `json:"calls"`
	Results []struct {
		Text string `json:"text"`
	} `json:"results"`
	Servers []struct {
		PID      int      `json:"pid"`
		Command  []string `json:"cmd"`
		Survived bool     `json:"survived"`
	} `json:"servers"`
	Stdout string `json:"stdout_tail"`
	Stderr string `json:"stderr_tail"`

	dir string // HOME, logs and request bodies
}

// TestAgents plays with each agent, all at once, what a session may bring: calls through an approval over HTTP and SSH; a
// card that waits 70 s; a client killed with a write in flight. No agent, no file of it and no request to its model ever
// holds the secret. The agents reach spd by its socket's path alone: their network is a namespace of their own.
func TestAgents(t *testing.T) {
	part(t, "python3", "apt: python3")
	part(t, "unshare", "apt: util-linux")
	if out, err := exec.CommandContext(t.Context(), "unshare", "-rn", "true").CombinedOutput(); err != nil {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatalf("no network namespace: %v\n%s", err, out)
		}
		t.Skipf("agents: no network namespace can be had here: %v\n%s", err, out)
	}
	bins := map[string]string{}
	for _, a := range agents {
		bins[a.name] = part(t, a.name, a.from)
	}
	s := newStage(t)
	for _, a := range agents {
		s.target(a.name, 0)
		s.target("late-"+a.name, 70*time.Second)
		s.shell("host-" + a.name)
	}
	var all sync.WaitGroup
	for i, a := range agents {
		n := 100 * (i + 1)
		all.Go(func() { s.calls(a.name, bins[a.name], n) })
		all.Go(func() { s.late(a.name, bins[a.name], n+10) })
		all.Go(func() { s.killed(a.name, bins[a.name], n+20) })
		all.Go(func() { s.lists(a.name, bins[a.name]) })
	}
	all.Wait()
}

// calls: HTTP, then SSH, each through a card of its own.
func (s *stage) calls(name, bin string, n int) {
	r := s.play(name, bin, nil,
		call("http_request", map[string]any{"url": s.url(name, n, "echo"), "method": "POST", "body": "x"}),
		call("ssh_exec", map[string]any{"target": "host-" + name, "argv": []string{"ledger", fmt.Sprint(n + 1), "answer"}}),
		step{"say": "done"})
	if r == nil {
		return
	}
	if r.Exit != 0 || len(r.Calls) != 2 || !r.Calls[0].Offered || !r.Calls[1].Offered || len(r.Results) != 2 ||
		!strings.Contains(r.Results[0].Text, fmt.Sprintf("done %d", n)) || !strings.Contains(r.Results[1].Text, fmt.Sprintf("done %d", n+1)) {
		s.t.Errorf("%s: %+v", name, r)
	}
	if a, b := s.far.count(n), s.far.count(n+1); a != 1 || b != 1 {
		s.t.Errorf("%s: the service saw %d, the host %d", name, a, b)
	}
	s.clean(name, r)
}

// late: the call answers "pending" with its action, which is asked for until the operator has said yes, 70 s after the card
// was shown.
func (s *stage) late(name, bin string, n int) {
	const again = "${last_result:act_[0-9A-Z]+}"
	status := call("action_status", map[string]any{"action": again, "waitSeconds": 40})
	r := s.play(name, bin, nil,
		call("http_request", map[string]any{"url": s.url("late-"+name, n, "echo"), "method": "POST", "body": "x"}),
		status, status, status, // on a busy machine the card itself comes late; what has ended is told at once
		step{"say": "done"})
	if r == nil {
		return
	}
	if r.Exit != 0 || len(r.Results) != 4 || !strings.Contains(r.Results[0].Text, "pending") || !strings.Contains(r.Results[3].Text, fmt.Sprintf("done %d", n)) {
		s.t.Errorf("%s, late: %+v", name, r)
	}
	if a := s.far.count(n); a != 1 {
		s.t.Errorf("%s, late: the service saw %d", name, a)
	}
	s.clean(name, r)
}

// killed: the client dies with a write in flight. The write is made once, its end is recorded, its run gives nothing more.
func (s *stage) killed(name, bin string, n int) {
	when := filepath.Join(s.dir, "kill-"+name)
	go func() {
		select {
		case <-s.far.arrived(n):
			os.WriteFile(when, nil, 0o600)
		case <-s.t.Context().Done():
		}
	}()
	r := s.play(name, bin, []string{"--kill-when", when},
		call("http_request", map[string]any{"url": s.url(name, n, "hold"), "method": "POST", "body": "x"}),
		step{"say": "done"})
	if r == nil {
		return
	}
	if len(r.Results) != 0 || r.Exit == 0 {
		s.t.Errorf("%s, killed: %+v", name, r)
	}
	var act api.Action
	s.until(name+": an orphaned run", func() bool {
		all := s.actions(name)
		i := slices.IndexFunc(all, func(a api.Action) bool { return a.State == "running" })
		if i < 0 {
			return false
		}
		act = all[i]
		return s.run(act.AgentRun).State == "orphaned"
	})
	s.far.release(n)
	s.until(name+": the result, late", func() bool {
		var now api.Action
		err := s.look(api.PathActionShow, map[string]string{"id": act.ID}, &now)
		return err == nil && now.State == api.Done && now.Outcome == "confirmed"
	})
	if a := s.far.count(n); a != 1 {
		s.t.Errorf("%s, killed: the service saw %d", name, a)
	}
	s.clean(name, r)
}

// lists: after sp install the client itself says that it has us.
func (s *stage) lists(name, bin string) {
	home := filepath.Join(s.dir, "list-"+name)
	if err := os.MkdirAll(home, 0o700); err != nil {
		s.t.Error(err)
		return
	}
	run := func(argv ...string) string {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "unshare", append([]string{"-rn"}, argv...)...)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "PATH=" + filepath.Dir(bin) + ":" + s.bin + ":" + os.Getenv("PATH"), "TERM=dumb", "GEMINI_API_KEY=dummy", "GEMINI_CLI_TRUST_WORKSPACE=true",
			"ANTHROPIC_API_KEY=sk-ant-dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.t.Errorf("%v: %v\n%s", argv, err, out)
		}
		return string(out)
	}
	run("sp", "install", name)
	out := run(bin, "mcp", "list")
	if !strings.Contains(out, "sallyport") || !strings.Contains(out, filepath.Join(s.bin, "sp")) || name == "claude" && !strings.Contains(out, "Connected") {
		s.t.Errorf("%s mcp list: %s", name, out)
	}
	run("sp", "install", name, "--remove")
	if out := run(bin, "mcp", "list"); strings.Contains(out, "sallyport") {
		s.t.Errorf("%s mcp list, after --remove: %s", name, out)
	}
}

// play runs one agent with a script; nil: it did not come to a report.
func (s *stage) play(name, bin string, options []string, steps ...step) *report {
	dir, err := os.MkdirTemp(s.dir, "play")
	if err != nil {
		s.t.Error(err)
		return nil
	}
	script, err := json.Marshal(steps)
	if err != nil {
		s.t.Error(err)
		return nil
	}
	file := filepath.Join(dir, "script.json")
	if err := os.WriteFile(file, script, 0o600); err != nil {
		s.t.Error(err)
		return nil
	}
	keep := filepath.Join(dir, "keep")
	args := append([]string{"testdata/run_agent.py", name, "--bin", filepath.Dir(bin), "--script", file, "--mcp", "sp", "--no-network",
		"--keep", keep, "--timeout", "400", "--linger", "60", "--server-env", "SALLYPORT_HOME=" + s.dir}, options...)
	// A client that has to wait longer than a second or two for its servers goes on without them; here it waits.
	switch name {
	case "claude":
		args = append(args, "--client-env", "MCP_CONNECTION_NONBLOCKING=0", "--client-env", "MCP_CONNECT_TIMEOUT_MS=60000")
	case "codex":
		args = append(args, "--server-set", "required=true", "--server-set", "startup_timeout_sec=60")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", append(args, "--", filepath.Join(s.bin, "sp"), "mcp")...)
	cmd.Env = append(s.env(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends what it started
	cmd.WaitDelay = time.Minute
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("%s: %v\n%s", name, err, stderr.String())
		return nil
	}
	r := &report{dir: keep}
	if err := json.Unmarshal(out, r); err != nil {
		s.t.Errorf("%s: %v\n%s", name, err, out)
		return nil
	}
	return r
}

// clean: nothing of the server is left, and neither the model nor the client's disk got the secret in any form.
func (s *stage) clean(name string, r *report) {
	if len(r.Servers) == 0 {
		s.t.Errorf("%s: no shim was seen", name)
	}
	for _, p := range r.Servers {
		if p.Survived {
			s.t.Errorf("%s: %v (%d) is left over", name, p.Command, p.PID)
		}
	}
	files, bodies := 0, false
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		bodies = bodies || d.Name() == "bodies.jsonl" && len(b) > 0
		if forms := found(b); len(forms) > 0 {
			s.t.Errorf("%s: %s holds the secret: %q", name, path, forms)
		}
		return nil
	})
	if err != nil || !bodies {
		s.t.Errorf("%s: %d files searched, bodies %v: %v", name, files, bodies, err)
	}
}
