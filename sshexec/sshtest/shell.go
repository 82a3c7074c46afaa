package sshtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Exec is one command as the host's login shell gets it.
type Exec struct {
	Line           string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exit is how a command ends. The zero value is status 0.
type Exit struct {
	Status uint32
	Signal string // exit-signal in place of exit-status
	None   bool   // the channel is closed without a word
	Hold   bool   // the output stays open after the exit message
}

// Shell runs one command. ctx ends when the client closes the channel or sends a
// signal; then context.Cause is a SignalError.
type Shell func(ctx context.Context, e Exec) Exit

// SignalError is the name of a signal the client sent, without SIG.
type SignalError string

func (s SignalError) Error() string { return "signal " + string(s) }

// RealShell runs the line by shell -c in dir, in a process group of its own and
// with an environment that holds nothing but PATH and HOME.
func RealShell(shell, dir string) Shell {
	return func(ctx context.Context, e Exec) Exit {
		c := exec.CommandContext(ctx, shell, "-c", e.Line)
		c.Dir, c.Env = dir, []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir}
		c.Stdout, c.Stderr = e.Stdout, e.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
		c.WaitDelay = time.Second
		in, err := c.StdinPipe()
		if err != nil {
			return Exit{Status: 255}
		}
		if err := c.Start(); err != nil {
			return Exit{Status: 127}
		}
		// Ends with the channel: not waited for, as a shell does not wait for its terminal.
		go func() {
			_, _ = io.Copy(in, e.Stdin)
			_ = in.Close()
		}()
		var x *exec.ExitError
		switch err := c.Wait(); {
		case errors.As(err, &x) && x.ExitCode() >= 0:
			return Exit{Status: uint32(x.ExitCode())}
		case err != nil:
			return Exit{Signal: "KILL"}
		}
		return Exit{}
	}
}

// Builtins is a shell with a handful of harmless commands and POSIX single
// quotes: cat, echo, false, hostname, printf, true, uname, uptime, whoami, and
// systemctl status|restart of an imaginary nginx. It runs nothing on the machine.
func Builtins(_ context.Context, e Exec) Exit {
	argv, err := split(e.Line)
	if err != nil || len(argv) == 0 {
		_, _ = fmt.Fprintln(e.Stderr, "sh: syntax error")
		return Exit{Status: 2}
	}
	say := func(s string) Exit {
		_, _ = fmt.Fprintln(e.Stdout, s)
		return Exit{}
	}
	switch argv[0] {
	case "cat":
		_, _ = io.Copy(e.Stdout, e.Stdin)
		return Exit{}
	case "echo":
		return say(strings.Join(argv[1:], " "))
	case "false":
		return Exit{Status: 1}
	case "true":
		return Exit{}
	case "hostname":
		return say("demo-host")
	case "printf":
		return printf(e, argv[1:])
	case "systemctl":
		return systemctl(e, argv[1:])
	case "uname":
		return say("Linux demo-host 6.1.0 x86_64 GNU/Linux")
	case "uptime":
		return say(" 09:41:00 up 12 days,  3:04,  1 user,  load average: 0.08, 0.03, 0.01")
	case "whoami":
		return say("demo")
	}
	_, _ = fmt.Fprintf(e.Stderr, "sh: %s: not found\n", argv[0])
	return Exit{Status: 127}
}

// printf knows formats whose one verb is %s, used once for each argument.
func printf(e Exec, argv []string) Exit {
	if len(argv) == 0 || strings.Count(argv[0], "%") != 1 || !strings.Contains(argv[0], "%s") {
		_, _ = fmt.Fprintln(e.Stderr, "printf: unknown format")
		return Exit{Status: 1}
	}
	for _, a := range argv[1:] {
		_, _ = io.WriteString(e.Stdout, strings.Replace(argv[0], "%s", a, 1))
	}
	return Exit{}
}

func systemctl(e Exec, argv []string) Exit {
	if len(argv) != 2 || argv[1] != "nginx" {
		_, _ = fmt.Fprintln(e.Stderr, "Unit not found.")
		return Exit{Status: 4}
	}
	switch argv[0] {
	case "status":
		_, _ = fmt.Fprintln(e.Stdout, "● nginx.service - A high performance web server\n     Active: active (running)")
		return Exit{}
	case "restart":
		return Exit{}
	}
	_, _ = fmt.Fprintln(e.Stderr, "Unknown operation.")
	return Exit{Status: 1}
}

// split reads words as a POSIX shell does, as far as quotes and backslashes go.
// Everything else that is special to a shell is an error.
func split(line string) ([]string, error) {
	var argv []string
	var word strings.Builder
	started := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			n := strings.IndexByte(line[i+1:], '\'')
			if n < 0 {
				return nil, errors.New("unterminated quote")
			}
			word.WriteString(line[i+1 : i+1+n])
			started = true
			i += n + 1
		case c == '\\' && i+1 < len(line):
			word.WriteByte(line[i+1])
			started = true
			i++
		case c == ' ' || c == '\t':
			if started {
				argv = append(argv, word.String())
			}
			word.Reset()
			started = false
		case strings.IndexByte("\n;&|<>()$`\"\\*?[#~{}!", c) >= 0:
			return nil, errors.New("not a plain command")
		default:
			word.WriteByte(c)
			started = true
		}
	}
	if started {
		argv = append(argv, word.String())
	}
	return argv, nil
}
