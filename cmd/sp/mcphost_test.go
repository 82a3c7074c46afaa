package main_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// agentHost is a host of MCP servers: `agent host pipe|socket CMD…` starts CMD, passes on what it reads, and leaves the
// server's stdout to whoever started it. It ends with the server, and as the server did; at the end of its own stdin it
// closes the server's. A line `!again` does so and starts the server anew; `!HABIT` ends the server as a known client
// does, and the host with it. They were observed; see docs/mcp.md.
func agentHost(args []string) error {
	server, in, ended, err := hosted(args)
	if err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(os.Stdin); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	for {
		select {
		case err := <-ended:
			if args[1] != "sh" {
				return err
			}
			ended = nil // a launcher; what it launched may live on
		case line, ok := <-lines:
			habit, leaves := strings.CutPrefix(line, "!")
			switch {
			case !ok:
				in.Close()
				if ended == nil {
					return nil
				}
				return <-ended
			case habit == "again\n":
				in.Close()
				if err := <-ended; err != nil {
					return err
				}
				if server, in, ended, err = hosted(args); err != nil {
					return err
				}
			case leaves:
				return leave(strings.TrimSpace(habit), server, in, ended)
			default:
				io.WriteString(in, line) // a server that is gone ends this
			}
		}
	}
}

// hosted starts the server on a stdin of this process's making.
func hosted(args []string) (p *os.Process, in *os.File, ended chan error, err error) {
	theirs, ours, err := os.Pipe()
	if args[0] == "socket" { // as Node starts its children
		var fds [2]int
		if fds, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); err == nil {
			syscall.CloseOnExec(fds[0])
			theirs, ours = os.NewFile(uintptr(fds[1]), "stdin"), os.NewFile(uintptr(fds[0]), "host")
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	server := exec.Command(args[1], args[2:]...)
	server.Stdin, server.Stdout, server.Stderr = theirs, os.Stdout, os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Codex's way; the others' makes no difference here
	if err := server.Start(); err != nil {
		return nil, nil, nil, err
	}
	theirs.Close()
	ended = make(chan error, 1)
	go func() { ended <- server.Wait() }()
	return server.Process, ours, ended, nil
}

// leave ends a server as the named client does.
func leave(habit string, p *os.Process, in *os.File, ended <-chan error) error {
	within := func(d time.Duration) bool {
		select {
		case <-ended:
			return true
		case <-time.After(d):
			return false
		}
	}
	switch habit {
	case "claude": // its stdin stays open
		p.Signal(syscall.SIGINT)
		if !within(100*time.Millisecond) && p.Signal(syscall.SIGTERM) == nil && !within(400*time.Millisecond) {
			p.Kill()
		}
	case "codex":
		in.Close()
		syscall.Kill(-p.Pid, syscall.SIGTERM)
		if !within(6 * time.Millisecond) {
			p.Kill()
		}
	case "gemini":
		p.Signal(syscall.SIGTERM)
	case "eof": // what a grandchild behind `sh -c` gets
		in.Close()
	case "zed":
		p.Kill()
	case "vscode": // ten seconds, then the whole tree
		in.Close()
		if !within(10 * time.Second) {
			syscall.Kill(-p.Pid, syscall.SIGKILL)
		}
	case "hangup": // the terminal is closed
		p.Signal(syscall.SIGHUP)
	case "crash", "crash-pipe": // hard, and a helper that it started has a copy of the server's stdin
		helper := exec.Command("sleep", "3600")
		helper.ExtraFiles = []*os.File{in}
		if err := helper.Start(); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return nil
}
