package realclients_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// conforms are the suite's scenarios that a server of tools alone, over stdio, can be asked; docs/mcp-conformance.md says
// why not the others.
var conforms = map[string][]string{
	"2025-11-25": {"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress"},
	"2026-07-28": {"tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress", "server-stateless", "caching",
		"server-sse-multiple-streams", "input-required-result-unsupported-methods", "input-required-result-ignore-extra-params"},
}

// beyond are the checks of those scenarios that such a server can't pass, with what the suite says of them.
// docs/mcp-conformance.md says why.
var beyond = map[string]string{
	"sep-2575-http-server-header-mismatch-400":                   "FAILURE",
	"sep-2575-server-rejects-undeclared-capability":              "FAILURE",
	"sep-2575-missing-capability-http-400":                       "FAILURE",
	"sep-2575-server-sends-prompts-list-changed-on-subscription": "SKIPPED",
	"sep-2575-server-sends-tools-list-changed-on-subscription":   "WARNING",
	"sep-2549-prompts-list-caching-hints":                        "FAILURE",
	"sep-2549-resources-list-caching-hints":                      "FAILURE",
	"sep-2549-resources-templates-list-caching-hints":            "FAILURE",
	"sep-2549-resources-read-caching-hints":                      "SKIPPED",
}

// slowTimers is what Node.js is to import so that its timers take the time that an expression in ms says: programs from
// elsewhere count on machines that are not busy.
func slowTimers(expression string) string {
	return "data:text/javascript,const%20t=setTimeout;globalThis.setTimeout=Object.assign((f,ms,...a)=>t(f," + expression + ",...a),t)"
}

// TestConformance runs the suite, which knows HTTP alone, through a bridge to the real sp mcp.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := part(t, "conformance", "npm i @modelcontextprotocol/conformance@0.2.0-alpha.12")
	s := newStage(t)
	s.target("conform", 0)
	s.target("late-conform", 35*time.Second)
	var all sync.WaitGroup
	slots := make(chan struct{}, 6) // some wait half a minute and do nothing
	for revision, scenarios := range conforms {
		for _, scenario := range scenarios {
			all.Go(func() {
				slots <- struct{}{}
				t.Run(revision+"/"+scenario, func(t *testing.T) { s.conforms(t, suite, revision, scenario) })
				<-slots
			})
		}
	}
	all.Wait()
}

// conforms runs one scenario and holds each of its checks to what it is to come to.
func (s *stage) conforms(t *testing.T, suite, revision, scenario string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	results := t.TempDir()
	cmd := exec.CommandContext(ctx, suite, "server", "--url", s.bridge(t), "--scenario", scenario, "--spec-version", revision, "--timeout", "600000", "-o", results)
	// The suite gives a stream's first line half a second, and a call ten, while ours tells its progress every ten. What it
	// listens to for as long as it waits is stretched less.
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "NODE_OPTIONS=--import=" + slowTimers("ms<700?ms*200:ms*16")}
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatalf("%v\n%s", err, out)
	}
	passed := 0
	for _, c := range checksIn(t, results) {
		want := "SUCCESS"
		if w := beyond[c.ID]; w != "" {
			want = w
		}
		if c.Status != want && c.Status != "INFO" {
			t.Errorf("%s: %s, want %s: %s", c.ID, c.Status, want, c.Message)
		}
		if c.Status == "SUCCESS" {
			passed++
		}
	}
	if passed == 0 {
		t.Errorf("nothing passed: %v\n%s", err, out)
	}
}

// check is what the suite says of one requirement.
type check struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"errorMessage"`
}

// checksIn reads what the suite wrote.
func checksIn(t *testing.T, dir string) (all []check) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("results: %q, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestConformanceIsListed: each scenario of the suite is run, or docs/mcp-conformance.md says why it is not.
func TestConformanceIsListed(t *testing.T) {
	suite := part(t, "conformance", "npm i @modelcontextprotocol/conformance@0.2.0-alpha.12")
	doc, err := os.ReadFile("../../../../docs/mcp-conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), suite, "list", "--server").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := regexp.MustCompile(`(?m)^ +- ([a-z0-9-]+) \[([^\]]*)\]`).FindAllStringSubmatch(string(out), -1)
	if len(names) < 60 {
		t.Fatalf("%d scenarios: %s", len(names), out)
	}
	for _, m := range names {
		for revision, run := range conforms {
			if strings.Contains(m[2], revision) && !slices.Contains(run, m[1]) && !listed(string(doc), m[1]) {
				t.Errorf("%s (%s) is neither run nor listed", m[1], revision)
			}
		}
	}
	for id := range beyond {
		if !strings.Contains(string(doc), "`"+id+"`") {
			t.Errorf("%s: no reason is given", id)
		}
	}
}

// listed says that a name stands in doc, or a pattern for it such as `resources-*`.
func listed(doc, name string) bool {
	for _, m := range regexp.MustCompile("`([a-z0-9*-]+)`").FindAllStringSubmatch(doc, -1) {
		if ok, err := filepath.Match(m[1], name); ok && err == nil {
			return true
		}
	}
	return false
}
