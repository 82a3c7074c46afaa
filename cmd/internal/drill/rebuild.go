package drill

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

//go:embed rebuild_server.py
var rebuildServer string

// ErrNoPython: the drill's own server can't run here.
var ErrNoPython = errors.New("the drill's own server wants python3; install it, or name a server of yours: sp drill rebuild -- CMD")

// Rebuild rebuilds a supervised server under a running client, and answers what became of catalog, identity and authority:
// six steps, five failures that are easily forgotten, and a call that leaves out an argument. The error is ErrBad where an
// answer is not good. Of a server of the caller's own only what changes nothing is tried.
func Rebuild(ctx context.Context, o Options) error {
	if len(o.Command) == 0 {
		if o.python = findPython(); o.python == "" {
			return ErrNoPython
		}
	}
	s, err := NewStage(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	r := NewReport("rebuild", o)
	type part struct {
		name, about string
		play        func(*rebuild, context.Context) error
	}
	parts := []part{
		{"Six steps", "Revision A is approved and acts; B is built and takes its place the way it does in daily work.", (*rebuild).sixSteps},
		{"The build succeeds, the old process runs on", "", (*rebuild).oldProcess},
		{"The process is restarted, the list of tools stays the same", "", (*rebuild).sameList},
		{"The schema changes, the client ignores list_changed", "", (*rebuild).ignored},
		{"A restart while a write waits for its answer", "", (*rebuild).inFlight},
		{"The path stays, what it loads changes", "", (*rebuild).otherTree},
		{"A call leaves out an argument", "", (*rebuild).omitted},
	}
	if len(o.Command) > 0 {
		parts = []part{{"A restart of " + strings.Join(o.Command, " "), "Nothing is approved, so nothing of it is called.", (*rebuild).strangers}}
	}
	for i, p := range parts {
		if o.moments != nil && !slices.Contains(o.moments, p.name) {
			continue
		}
		c := &rebuild{s: s, p: r.Begin(p.name, p.about), label: fmt.Sprintf("drill-%d", i+1), dir: filepath.Join(s.Dir, fmt.Sprintf("server-%d", i+1)), data: filepath.Join(s.Dir, fmt.Sprintf("data-%d", i+1))}
		if err := c.hold(ctx, p.play); err != nil {
			c.p.Judge(false, "Could the drill be held?", "no: %v", err)
		}
	}
	if err := s.checked(r.Begin("The log", "")); err != nil {
		return err
	}
	if err := r.Finish(o); err != nil {
		return err
	}
	if !r.Good {
		return ErrBad
	}
	return nil
}

// checked holds the whole log against its own rules.
func (s *Stage) checked(p *Part) error {
	items, err := s.Records()
	if err != nil {
		return err
	}
	v := event.Check(slices.Values(items))
	p.Judge(len(v.Breaches) == 0, "Does the log keep what a gateway promises?", "%d records, breaches: %v", len(items), v.Breaches)
	return nil
}

// findPython is an interpreter that is no launcher of another one.
func findPython() string {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if out, err := exec.Command(name, "-c", "import sys; print(sys.executable)").Output(); err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}

// rebuild is one part: one client, one server in a folder of its own.
type rebuild struct {
	s     *Stage
	p     *Part
	label string
	dir   string // of the server's files
	data  string // of its ledger
	a     *Actor
}

func (c *rebuild) hold(ctx context.Context, play func(*rebuild, context.Context) error) error {
	defer func() {
		if c.a != nil {
			c.a.Close()
		}
	}()
	return play(c, ctx)
}

// start writes the server's files and starts it below a wrapper and a client.
func (c *rebuild) start(ctx context.Context, reload string) error {
	command := c.s.o.Command
	if len(command) == 0 {
		if err := errors.Join(os.Mkdir(c.dir, 0o700), os.Mkdir(c.data, 0o700)); err != nil {
			return fmt.Errorf("make server: %w", err)
		}
		text := rebuildServer
		if c.s.o.careless {
			text = strings.Replace(text, `OMITTED = "preview"`, `OMITTED = "production"`, 1)
		}
		if err := errors.Join(save(c.dir, "server.py", text), save(c.dir, "part.py", "WORD = \"one\"\n")); err != nil {
			return err
		}
		command = []string{c.s.o.python, filepath.Join(c.dir, "server.py"), c.data}
	}
	st := *c.s
	st.o.Command = append([]string{c.s.o.SP, "mcp", "--label", c.label, "--reload", reload, "--exit-within", "2s", "--children", "die", "--"}, command...)
	a, err := st.Start(ctx)
	c.a = a
	return err
}

// save puts a file in its place at once, as builds do.
func save(dir, name, text string) error {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	return nil
}

// build makes revision B of the server: the same path, the same tool, another handler, and one more required field.
func (c *rebuild) build() error {
	text := strings.Replace(rebuildServer, `REVISION = "A"`, `REVISION = "B"`, 1)
	return save(c.dir, "server.py", strings.Replace(text, "EXTRA = []", `EXTRA = ["reason"]`, 1))
}

// answer is what the client was told of a call.
type answer struct {
	Code     string `json:"error"`
	Outcome  string `json:"outcome"`
	Reason   string `json:"reason"`
	Retry    string `json:"retry"`
	Next     string `json:"next"`
	Approved string `json:"approvedEpoch"`
	Current  string `json:"currentEpoch"`
	Old      string `json:"oldEpoch"`
	New      string `json:"newEpoch"`
	Revision string `json:"revision"`
	Part     string `json:"part"`
	Target   string `json:"target"`
}

func (c *rebuild) call(ctx context.Context, tool string, args map[string]string) (answer, error) {
	if err := c.a.Ask(tool, args); err != nil {
		return answer{}, err
	}
	return c.told(ctx)
}

func (c *rebuild) told(ctx context.Context) (answer, error) {
	r, err := c.a.Heard(ctx)
	if err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal(r.Document, &a); err != nil {
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	return a, nil
}

// list lets the client fetch the tools again.
func (c *rebuild) list(ctx context.Context) ([]string, error) {
	if err := say(c.a.orders, order{List: true}); err != nil {
		return nil, err
	}
	r, err := c.a.Heard(ctx)
	return r.Tools, err
}

// approved calls until the call is not refused for want of an approval, approving the tool's card once.
func (c *rebuild) approved(ctx context.Context, tool string, args map[string]string) (answer, api.Approval, error) {
	a, err := c.call(ctx, tool, args)
	if err != nil || a.Code != "not_authorized" && a.Code != "authorization_stale" {
		return a, api.Approval{}, err
	}
	card, err := c.s.Card(ctx, tool, c.label)
	if err != nil {
		return a, card, err
	}
	if err := c.s.Approve(ctx, card); err != nil {
		return a, card, err
	}
	a, err = c.call(ctx, tool, args)
	return a, card, err
}

// wrote are the writes that happened.
func (c *rebuild) wrote() []string {
	b, err := os.ReadFile(filepath.Join(c.data, "ledger"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// starts are the server's starts as the log has them.
func (c *rebuild) starts() (out []event.ServerStarted, err error) {
	items, err := c.s.Records()
	for _, i := range items {
		if e, ok := i.Event.(event.ServerStarted); ok && e.ServerLabel == c.label {
			out = append(out, e)
		}
	}
	return out, err
}

// started waits for the server's n-th start.
func (c *rebuild) started(ctx context.Context, n int) (e event.ServerStarted, err error) {
	return e, c.s.Until(ctx, fmt.Sprintf("start %d of the server", n), func() (bool, error) {
		all, err := c.starts()
		if len(all) >= n {
			e = all[n-1]
		}
		return len(all) >= n, err
	})
}

// calls are the server's calls as the log has them: those that were let through.
func (c *rebuild) calls(tool string) (out []event.ToolCalled, err error) {
	items, err := c.s.Records()
	for _, i := range items {
		if e, ok := i.Event.(event.ToolCalled); ok && e.ServerLabel == c.label && e.Tool == tool {
			out = append(out, e)
		}
	}
	return out, err
}
