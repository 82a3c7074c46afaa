package mcpshim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary a shim on its real standard streams. Its value is what the child does.
const childEnv = "MCPSHIM_TEST_CHILD"

func child() int {
	in, out, err := TakeStdio()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch os.Getenv(childEnv) {
	case "noise": // everything that prints, while the protocol goes on
		fmt.Println("noise from fmt")
		os.Stdout.WriteString("noise from os\n")
		syscall.Write(1, []byte("noise from the descriptor\n"))
		cmd := exec.Command("sh", "-c", "echo noise from a child")
		cmd.Stdout = os.Stdout
		cmd.Run() // fails where stderr is closed
	case "env":
		fmt.Fprintf(os.Stderr, "MCPGODEBUG=%q GODEBUG=%q\n", os.Getenv("MCPGODEBUG"), os.Getenv("GODEBUG"))
	}
	said, in := Begun(in)
	if err := Run(context.Background(), said, in, out, cannedDoor()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childShim starts the test binary as a shim on pipes that stay open.
func childShim(t *testing.T, what string, env ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.ReadCloser, stderr *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, exe)
	cmd.Dir = "/"
	cmd.Env = append([]string{childEnv + "=" + what, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "USER=nobody"}, env...)
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, out, stderr
}

// M01, M28: initialize on a pipe that stays open is answered, with a bare environment and in /.
func TestProcessAnswersOnOpenPipe(t *testing.T) {
	cmd, in, out, stderr := childShim(t, "noise")
	defer in.Close()
	if _, err := io.WriteString(in, initialize+"\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatalf("read: %v; stderr: %s", err, stderr)
	}
	if got := string(buf[:n]); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"init","result":{`) || strings.Count(got, "\n") != 1 {
		t.Fatalf("first line: %q", got)
	}
	in.Close()
	rest, err := io.ReadAll(out)
	if err != nil || len(rest) != 0 {
		t.Fatalf("more output: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v; stderr: %s", err, stderr)
	}
	for _, noise := range []string{"noise from fmt", "noise from os", "noise from the descriptor", "noise from a child"} {
		if !strings.Contains(stderr.String(), noise) {
			t.Errorf("stderr lacks %q: %s", noise, stderr)
		}
	}
}

// The SDK panics before main on a malformed MCPGODEBUG, and hintomitempty=1 would drop hints from tools/list.
func TestProcessIgnoresDebugEnvironment(t *testing.T) {
	for _, v := range []string{"garbage", "hintomitempty=1,nowrapinvalidparams=1"} {
		cmd, in, out, stderr := childShim(t, "env", "MCPGODEBUG="+v, "GODEBUG=http2debug=2,panicnil=1")
		if _, err := io.WriteString(in, initialize+"\n"+initialized+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n"); err != nil {
			t.Fatalf("%v; stderr: %s", err, stderr)
		}
		in.Close()
		got, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("MCPGODEBUG=%s: %v; stderr: %s", v, err, stderr)
		}
		if n := strings.Count(string(got), `"readOnlyHint":false`); n != 7 {
			t.Errorf("MCPGODEBUG=%s: readOnlyHint false %d times in %s", v, n, got)
		}
		if !strings.Contains(stderr.String(), `MCPGODEBUG="" GODEBUG=""`) {
			t.Errorf("stderr: %s", stderr)
		}
	}
}

// M08: the host closes its end of stdout and keeps stdin open. The shim leaves by itself at its next line, without
// burning time.
func TestProcessStdoutClosed(t *testing.T) {
	cmd, in, out, stderr := childShim(t, "quiet")
	defer in.Close()
	out.Close()
	if _, err := io.WriteString(in, initialize+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil { // SIGPIPE or a non-zero exit would be an error
		t.Fatalf("%v; stderr: %s", err, stderr)
	}
	if cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); cpu > 5*time.Second {
		t.Errorf("the shim used %v of processor time", cpu)
	}
}

// A host that closed its end of stderr: diagnostics go nowhere, and the shim lives on.
func TestProcessStderrClosed(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = []string{childEnv + "=noise", "PATH=" + os.Getenv("PATH")}
	cmd.Stderr = w
	cmd.Stdin = strings.NewReader(strings.Repeat("garbage\n", 3) + initialize + "\n")
	out, err := cmd.Output()
	w.Close()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n := strings.Count(string(out), "\n"); n != 4 || !strings.Contains(string(out), `"id":"init","result"`) {
		t.Errorf("%d lines: %s", n, out)
	}
}
