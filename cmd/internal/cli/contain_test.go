package cli

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// Without --pid nothing is signalled and nobody is asked for a proof; with it the process that was shown is named by its
// key, and a verdict that is not "contained" is exit 1.
func TestContainSignals(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	w.fds[3] = "pass"
	w.want(0, "", "run", "contain", run1)
	if w.asked[len(w.asked)-1].path != api.PathRunContain || w.asked[len(w.asked)-1].env.Proof != nil {
		t.Errorf("asked: %+v", w.asked)
	}
	out, _ := w.want(exitFailed, "", "run", "contain", run1, "--pid", "4713", "--kill", "--json", "--passphrase-fd", "3")
	last := w.asked[len(w.asked)-1]
	var args api.TerminateArgs
	if err := json.Unmarshal(last.env.Args, &args); err != nil {
		t.Fatal(err)
	}
	if last.path != api.PathRunTerminate || last.env.Proof == nil || !args.Kill || len(args.Processes) != 1 || args.Processes[0] != (api.ProcessRef{ProcessID: 4713, Key: "boot:8"}) {
		t.Errorf("asked: %s %+v", last.path, args)
	}
	var c api.Contained
	if err := json.Unmarshal([]byte(out), &c); err != nil || len(c.Steps) != 4 || c.Processes[1].State != "blocked_in_io" {
		t.Errorf("document: %v %s", err, out)
	}
}

// A pid that is none of the run's, and --kill without a name, are refused here: nothing is sent.
func TestContainRefuses(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	w.fds[3] = "pass"
	_, errs := w.want(exitFailed, "", "run", "contain", run1, "--pid", "4714", "--passphrase-fd", "3")
	if !strings.Contains(errs, "nothing was signalled") || w.asked[len(w.asked)-1].path != api.PathRunContain {
		t.Errorf("stderr %q, asked %+v", errs, w.asked)
	}
	w.want(exitUsage, "", "run", "contain", run1, "--kill")
}
