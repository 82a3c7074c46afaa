package drill

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// programs builds sp and spd once, as they are shipped.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sp-bin")
	if err != nil {
		return "", err
	}
	for name, cgo := range map[string]string{"sp": "0", "spd": "1"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), "sallyport/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, errors.New(string(out))
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := programs(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// drillOptions are those of `sp drill crash`, with the patience of a busy machine.
func drillOptions(t *testing.T) (Options, *bytes.Buffer) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes are found through /proc")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	out := new(bytes.Buffer)
	return Options{SP: filepath.Join(dir, "sp"), SPD: filepath.Join(dir, "spd"), Client: []string{"drill", "client"}, Version: "test",
		Within: time.Minute, Patience: 2 * time.Minute, Report: filepath.Join(t.TempDir(), "report"), Out: out, Log: t.Output()}, out
}

// questions are those that the report must answer.
var questions = []string{
	"Did the end of its input reach the server?", "How long did the server take to exit?", "Which processes are left of it?", "What became of the call?",
	"How many writes arrived at the service?", "Could a process that outlives the client still act?", "Does revoking change what it can do, at once?",
	"Can the remote job be cancelled?", "Does the Sessions log name the owner?", "Does the Activity log name the owner?", "Does the log keep what a gateway promises?",
}

// `sp drill crash` of our own shim: every answer is there and good, in both forms of the report, with processes before and after.
func TestCrash(t *testing.T) {
	t.Parallel()
	o, out := drillOptions(t)
	if err := Crash(context.Background(), o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r Report
	b, err := os.ReadFile(filepath.Join(o.Report, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	md, err := os.ReadFile(filepath.Join(o.Report, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.Good || len(r.Parts) != 3 || r.Drill != "crash" {
		t.Errorf("%s", b)
	}
	for _, p := range r.Parts {
		asked := map[string]bool{}
		for _, a := range p.Answers {
			asked[a.Question] = true
			if a.Verdict == Bad || a.Answer == "" || !strings.Contains(string(md), cell(a.Answer)) || !strings.Contains(out.String(), a.Answer) {
				t.Errorf("%s: %+v", p.Name, a)
			}
		}
		for _, q := range questions {
			if !asked[q] {
				t.Errorf("%s: not answered: %s", p.Name, q)
			}
		}
		when := map[string]int{}
		for _, x := range p.Processes {
			when[x.When+" "+x.Role]++
			if x.When == "before" && (x.ProcessID == 0 || x.PPID == 0 || x.PGID == 0 || len(x.Descriptors) < 3) {
				t.Errorf("%s: %+v", p.Name, x)
			}
		}
		if when["before client"] != 1 || when["before server"] != 1 || when["after server"] != 1 {
			t.Errorf("%s: processes %v", p.Name, when)
		}
	}
}

// A server that is not ours is looked at for what it leaves.
func TestCrashOfAnyServer(t *testing.T) {
	t.Parallel()
	o, out := drillOptions(t)
	o.Command = []string{"sh", "-c", `"$0" mcp; true`, o.SP} // a launcher between client and shim
	o.moments = []string{afterAccept}
	if err := Crash(context.Background(), o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Broken variants make it fail, for the right reason.
func TestCrashBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		breaks       func(*Options)
	}{
		{"a child that ignores the end of its input", "Which processes are left of it?", func(o *Options) {
			o.Command = []string{"sh", "-c", `sleep 1000 >/dev/null 2>&1 & exec "$0" mcp`, o.SP}
		}},
		{"a grant that is not voided", "Did anything of the survivor's arrive at the service?", func(o *Options) {
			o.spare, o.noRevoke, o.Within = true, true, time.Millisecond
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o, out := drillOptions(t)
			o.moments = []string{afterAnswer}
			c.breaks(&o)
			err := Crash(context.Background(), o)
			if !errors.Is(err, ErrBad) {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(out.String(), "[BAD ] "+c.answer) {
				t.Errorf("the reason is another one:\n%s", out)
			}
		})
	}
}
