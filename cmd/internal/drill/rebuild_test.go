package drill

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// rebuildOptions are those of `sp drill rebuild`.
func rebuildOptions(t *testing.T, parts ...string) Options {
	t.Helper()
	if findPython() == "" {
		if os.Getenv("SALLYPORT_REAL") == "require" {
			t.Fatal("python3 is required and not found")
		}
		t.Skip("python3: not installed")
	}
	o, _ := drillOptions(t)
	o.moments = parts
	return o
}

// saved is the report as it was written, in both forms.
func saved(t *testing.T, o Options) (r Report, md string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(o.Report, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	m, err := os.ReadFile(filepath.Join(o.Report, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	return r, string(m)
}

// `sp drill rebuild`: the six steps, the five failures and the omitted argument are all answered, and well.
func TestRebuild(t *testing.T) {
	t.Parallel()
	o := rebuildOptions(t)
	if err := Rebuild(context.Background(), o); err != nil {
		t.Fatalf("%v\n%s", err, o.Out)
	}
	r, md := saved(t, o)
	if !r.Good || r.Drill != "rebuild" || len(r.Parts) != 8 {
		t.Fatalf("report: good %t, %s, %d parts", r.Good, r.Drill, len(r.Parts))
	}
	asked := map[string]bool{}
	for _, p := range r.Parts {
		for _, a := range p.Answers {
			asked[a.Question] = true
			if a.Answer == "" || !strings.Contains(md, cell(a.Question)) {
				t.Errorf("%s: %q is not answered in both forms", p.Name, a.Question)
			}
		}
	}
	for _, q := range []string{
		"1. Which code was started?", "1. What was approved, for whom?", "2. Does the log name the epoch and the grant of the write?",
		"4. Was the replacement observed?", "5. Is the call of before refused, because the epoch changed?", "5. Did it reach the new code?",
		"6. Does the log name epoch B and a new grant after a new approval?", "Is it said that files changed and the process did not?",
		"Which code answered?", "With the same tools?", "Is a call of the old shape refused, and told why?", "What was the client told of the write?",
		"How often did the write happen?", "Is it another identity, though its entry is the same file?", "What does the running code do with a call that leaves it out?",
		"Does the log keep what a gateway promises?",
	} {
		if !asked[q] {
			t.Errorf("not asked: %s", q)
		}
	}
}

// Where the old grant still reaches the server, because nothing was replaced, the drill says so.
func TestRebuildNotReplaced(t *testing.T) {
	t.Parallel()
	o := rebuildOptions(t, "Six steps", "The process is restarted, the list of tools stays the same", "A restart while a write waits for its answer")
	o.spare = true
	if err := Rebuild(context.Background(), o); !errors.Is(err, ErrBad) {
		t.Fatalf("%v\n%s", err, o.Out)
	}
	r, _ := saved(t, o)
	bad := map[string]bool{}
	for _, p := range r.Parts {
		for _, a := range p.Answers {
			bad[a.Question] = bad[a.Question] || a.Verdict == Bad
		}
	}
	for _, q := range []string{"5. Is the call of before refused, because the epoch changed?", "5. Did it reach the new code?",
		"Is a call that was prepared before refused, and told why?", "What was the client told of the write?"} {
		if !bad[q] {
			t.Errorf("passed: %s\n%s", q, o.Out)
		}
	}
}

// Code that does with an omitted argument what its schema does not say is found by the running code alone.
func TestRebuildCarelessCode(t *testing.T) {
	t.Parallel()
	o := rebuildOptions(t, "A call leaves out an argument")
	o.careless = true
	if err := Rebuild(context.Background(), o); !errors.Is(err, ErrBad) {
		t.Fatalf("%v\n%s", err, o.Out)
	}
}

// Of a server of the caller's nothing is approved.
func TestRebuildOfAnotherServer(t *testing.T) {
	t.Parallel()
	o := rebuildOptions(t)
	dir := t.TempDir()
	if err := errors.Join(save(dir, "server.py", rebuildServer), save(dir, "part.py", "WORD = 1\n")); err != nil {
		t.Fatal(err)
	}
	o.Command = []string{findPython(), filepath.Join(dir, "server.py"), dir}
	if err := Rebuild(context.Background(), o); err != nil {
		t.Fatalf("%v\n%s", err, o.Out)
	}
	if _, err := os.Stat(filepath.Join(dir, "ledger")); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the server was called")
	}
}
