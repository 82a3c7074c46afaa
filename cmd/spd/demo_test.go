package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sallyport/cmd/internal/demo"
)

// TestMain lets the test's own file be spd: for the demo, which re-executes itself, and for its agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "sp", "mcp", "demo", demo.AgentCommand:
			main()
		}
	}
	os.Exit(m.Run())
}

// spd is this file as spd, with a temporary folder of its own that must be empty in the end.
func spd(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "t") // t.TempDir's is long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
		os.RemoveAll(dir)
	})
	cmd := exec.Command(exe, args...)
	cmd.Env = []string{"TMPDIR=" + dir}
	return cmd
}

func TestDemo(t *testing.T) {
	out, err := spd(t, "demo").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "checks held.") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDemoUsage(t *testing.T) {
	for _, args := range [][]string{{"demo", "x"}, {"demo", "--nope"}} {
		cmd := spd(t, args...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%v: exit %d\n%s", args, cmd.ProcessState.ExitCode(), out)
		}
	}
	out, err := spd(t, "demo", "--help").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--stay")) || bytes.Contains(out, []byte(demo.AgentCommand)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// spd links the agent's shim, whose first answers are given before main; a daemon has none to give.
func TestNoShim(t *testing.T) {
	cmd := spd(t, "mcp")
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	if out, _ := cmd.Output(); cmd.ProcessState.ExitCode() != 2 || len(out) > 0 {
		t.Errorf("exit %d, said %q", cmd.ProcessState.ExitCode(), out)
	}
}

// A reader that goes away leaves nothing behind, and changes no verdict.
func TestDemoWithoutReader(t *testing.T) {
	cmd := spd(t, "demo")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	r.Close()
	err = cmd.Run()
	w.Close()
	if err != nil {
		t.Error(err)
	}
}

func TestDemoStay(t *testing.T) {
	cmd := spd(t, "demo", "--stay")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for in := bufio.NewScanner(out); in.Scan(); {
		all.WriteString(in.Text() + "\n")
		if strings.Contains(in.Text(), "The operator's passphrase: ") {
			cmd.Process.Signal(os.Interrupt)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, all.String())
	}
}
