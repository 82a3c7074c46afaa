package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

// process is sp as a process of its own.
func (w *world) process(args ...string) *exec.Cmd {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = []string{roleSP + "=1", home.EnvHome + "=" + w.dir, "PATH=" + os.Getenv("PATH")}
	cmd.Env = append(cmd.Env, w.setenv...)
	return cmd
}

// terminal is the master side of a terminal on which sp runs.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	cmd    *exec.Cmd
	done   chan struct{} // closed when everything shown was read

	mu   sync.Mutex
	cond *sync.Cond
	seen bytes.Buffer
	eof  bool
}

// onTerminal starts sp with a controlling terminal. stdin is that terminal, or nil for /dev/null.
func (w *world) onTerminal(stdin bool, args ...string) *terminal {
	t := w.t
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("pty: " + err.Error())
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	p := &terminal{t: t, master: master, slave: slave, cmd: w.process(args...), done: make(chan struct{})}
	p.cond = sync.NewCond(&p.mu)
	if stdin {
		p.cmd.Stdin = slave
	} else if w.stdin != nil {
		p.cmd.Stdin = w.stdin
	}
	p.cmd.Stdout, p.cmd.Stderr = slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		slave.Close()
		<-p.done
		master.Close()
	})
	return p
}

// read collects what the terminal shows, until nobody holds its other side.
func (p *terminal) read() {
	defer close(p.done)
	b := make([]byte, 4096)
	for {
		n, err := p.master.Read(b)
		p.mu.Lock()
		p.seen.Write(b[:n])
		p.eof = err != nil
		p.cond.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect waits until the terminal shows text, n times.
func (p *terminal) expect(text string, n int) {
	p.t.Helper()
	late := time.AfterFunc(time.Minute, func() { p.cmd.Process.Kill(); p.slave.Close() })
	defer late.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for strings.Count(p.seen.String(), text) < n {
		if p.eof {
			p.t.Fatalf("the terminal never showed %q %d times: %q", text, n, p.seen.String())
		}
		p.cond.Wait()
	}
}

func (p *terminal) echo() bool {
	p.t.Helper()
	s, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return s.Lflag&unix.ECHO != 0
}

// answer waits for the prompt and until its echo is off, and types text.
func (p *terminal) answer(prompt string, n int, text string) {
	p.t.Helper()
	p.expect(prompt, n)
	for i := 0; p.echo(); i++ { // the prompt is written just before
		if i > 1e6 {
			p.t.Fatal("the terminal still echoes")
		}
	}
	if _, err := p.master.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// end waits for sp and returns its exit status and all that was shown.
func (p *terminal) end() (int, string) {
	p.t.Helper()
	late := time.AfterFunc(time.Minute, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	p.cmd.Wait()
	if !p.echo() {
		p.t.Error("the terminal was left without echo")
	}
	p.slave.Close() // nobody else holds it now, so that the master comes to its end
	<-p.done
	return p.cmd.ProcessState.ExitCode(), p.seen.String()
}

func TestPromptForPassphrase(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	p := w.onTerminal(false, "unlock")
	p.answer("passphrase: ", 1, "correct horse\n")
	exit, shown := p.end()
	if exit != 0 || strings.Contains(shown, "horse") {
		t.Errorf("exit %d, shown %q", exit, shown)
	}
	if q := w.last(api.PathUnlock, nil); q.env.Proof.Value != "correct horse" {
		t.Error("what was typed is not what was sent")
	}
}

func TestPromptInterrupted(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	p := w.onTerminal(true, "unlock")
	p.answer("passphrase: ", 1, "half a pass\x03")
	exit, shown := p.end()
	if exit != 1 || !strings.Contains(shown, "interrupted") || w.count() != 0 {
		t.Errorf("exit %d, shown %q, %d commands", exit, shown, w.count())
	}
}

func TestPromptEmpty(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	p := w.onTerminal(true, "unlock")
	p.answer("passphrase: ", 1, "\n")
	if exit, shown := p.end(); exit != 1 || !strings.Contains(shown, "the passphrase is empty") || w.count() != 0 {
		t.Errorf("exit %d, shown %q, %d commands", exit, shown, w.count())
	}
}

func TestPromptTwice(t *testing.T) {
	w := newWorld(t)
	w.operator(answers{api.PathStatus: api.Status{Vault: "absent"}, api.PathInit: api.Fail("exists", "there is a vault")})
	p := w.onTerminal(true, "init")
	p.answer("new passphrase (8 characters or more): ", 1, "one horse\n")
	p.answer("again: ", 1, "two horses\n")
	if exit, shown := p.end(); exit != 1 || !strings.Contains(shown, "differ") || w.count() != 0 {
		t.Errorf("exit %d, shown %q, %d commands", exit, shown, w.count())
	}
	p = w.onTerminal(true, "init")
	p.answer("new passphrase (8 characters or more): ", 1, "one horse\n")
	p.answer("again: ", 1, "one horse\n")
	if exit, _ := p.end(); exit != 1 || w.last(api.PathInit, nil).env.Proof.Value != "one horse" {
		t.Errorf("exit %d", exit)
	}
}

// The value is asked for on the terminal only where stdin is one; a key of many lines never is.
func TestPromptForValue(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	p := w.onTerminal(true, "secret", "add", "gh", "--kind", "bearer")
	p.answer("gh (value): ", 1, "t0ken\n")
	p.answer("passphrase: ", 1, "correct horse\n")
	exit, shown := p.end()
	if exit != 0 || strings.Contains(shown, "t0ken") || strings.Contains(shown, "horse") {
		t.Errorf("exit %d, shown %q", exit, shown)
	}
	if q := w.last(api.PathCredentialAdd, nil); string(q.value) != "t0ken" || q.env.Proof.Value != "correct horse" {
		t.Errorf("value %q", q.value)
	}
	p = w.onTerminal(true, "secret", "add", "k", "--kind", "ssh-key")
	if exit, shown := p.end(); exit != 2 || !strings.Contains(shown, "give it on stdin") {
		t.Errorf("exit %d, shown %q", exit, shown)
	}
}

// The card stands on the terminal before the proof is asked for.
func TestPromptAfterCard(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	p := w.onTerminal(false, "approve", ap1)
	p.answer("passphrase: ", 1, "pass\n")
	exit, shown := p.end()
	card, ask := strings.Index(shown, "GET https://api.github.com/repos/o/r"), strings.Index(shown, "passphrase: ")
	if exit != 0 || card < 0 || ask < card {
		t.Errorf("exit %d, shown %q", exit, shown)
	}
}

// A listing on a terminal fits it, and what it shows of an id is taken.
func TestListingOnTerminal(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	exit, shown := w.onTerminal(false, "approvals").end()
	if exit != 0 || !strings.Contains(shown, "ap_000001 ") {
		t.Errorf("exit %d, shown %q", exit, shown)
	}
	for l := range strings.Lines(shown) {
		if !strings.Contains(l, "http_request") { // what is told below the table may wrap
			continue
		}
		if n := utf8.RuneCountInString(strings.TrimRight(l, "\r\n")); n > 80 {
			t.Errorf("%d characters: %q", n, l)
		}
	}
	if out, err := w.process("approvals").Output(); err != nil || !strings.Contains(string(out), ap1) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestDescriptors(t *testing.T) {
	w := newWorld(t)
	w.operator(sample())
	give := func(text string) *os.File {
		r, p, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(p, text)
		p.Close()
		t.Cleanup(func() { r.Close() })
		return r
	}
	cmd := w.process("secret", "add", "gh", "--kind", "bearer", "--passphrase-fd", "3")
	cmd.Stdin = strings.NewReader("t0ken\n")
	cmd.ExtraFiles = []*os.File{give("pass\n")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if q := w.last(api.PathCredentialAdd, nil); string(q.value) != "t0ken" || q.env.Proof.Value != "pass" {
		t.Error("value or proof is another")
	}
	cmd = w.process("unlock", "--passphrase-fd", "0")
	cmd.Stdin = strings.NewReader("from stdin\n")
	if out, err := cmd.CombinedOutput(); err != nil || w.last(api.PathUnlock, nil).env.Proof.Value != "from stdin" {
		t.Errorf("%v: %s", err, out)
	}
	// Descriptors that nobody opened for us are the runtime's, or nobody's.
	n := w.count()
	for fd := -1; fd < 12; fd++ {
		cmd := w.process("unlock", "--passphrase-fd", fmt.Sprint(fd))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal to ask at
		out, err := cmd.CombinedOutput()
		if err == nil || w.count() != n {
			t.Errorf("descriptor %d: %v, %s", fd, err, out)
		}
	}
}

// A client's initialize is answered on an open pipe with no gateway anywhere; EOF ends it.
func TestMCPWithoutGateway(t *testing.T) {
	w := newWorld(t)
	cmd := w.process("mcp")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, `"serverInfo"`) || !strings.Contains(line, `"id":1`) {
		t.Errorf("%q, %v", line, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("sp mcp ended with %v", err)
	}
}

// A line that never comes keeps nobody: SIGTERM ends sp call - at once, and so does Ctrl-C.
func TestCallLinesInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		w := newWorld(t)
		w.agents(func(r api.Request) api.Response {
			x := finished("confirmed")
			return api.Response{ID: r.ID, Action: &x}
		})
		cmd := w.process("call", "-")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		watchdog := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		defer watchdog.Stop()
		fmt.Fprintln(stdin, `{"tool":"ok","args":1}`)
		if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil { // it is idle now: its one line is answered
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != exitFailed {
			t.Errorf("%v: exit %d (%v)", sig, code, cmd.ProcessState)
		}
		stdin.Close()
	}
}
