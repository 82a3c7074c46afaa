package wrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"sallyport/cmd/internal/mcpshim/jsonline"
)

// child is one started server: a process, what was given to it and what it owes. Fields below "the loop's" are the loop's.
type child struct {
	cmd    *exec.Cmd
	in     *queue        // to its stdin
	stdin  *os.File      // our end
	stdout *os.File      // our end
	fed    chan struct{} // closed when nothing more is written to it
	read   chan struct{} // closed when no line can come any more
	exited chan struct{} // closed when the process has ended; until reap it is a zombie, and its number nobody else's
	reaped sync.Once

	conversation // the loop's
}

// conversation is what one child was told and asked.
type conversation struct {
	epoch   string              // "" until the gateway made one
	owed    map[string]*request // requests given to the child, by the key of the id they have there
	asked   map[string]bool     // requests of the child's that the host has not answered
	greeted bool                // the handshake is done, or none is needed
	closing bool                // its end was begun by us
}

// request is something the child was asked. done gets the answer in the loop; lost is called if none can come any more.
type request struct {
	done func(message)
	lost func()
}

// starter starts processes on one thread that lives as long as we do: the kernel ends a child when the thread that started
// it ends (PDEATHSIG), not when the process does.
type starter chan func()

func newStarter() starter {
	s := make(starter)
	go func() {
		runtime.LockOSThread()
		for f := range s {
			f()
		}
	}()
	return s
}

// start executes argv without a shell, in a process group of its own. stderr is drained to errs.
func (s starter) start(argv []string, dir string, env []string, errs io.Writer) (*child, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make pipe: %w", err), inR.Close(), inW.Close())
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make pipe: %w", err), inR.Close(), inW.Close(), outR.Close(), outW.Close())
	}
	k := &child{cmd: exec.Command(argv[0], argv[1:]...), in: newQueue(), stdin: inW, stdout: outR,
		fed: make(chan struct{}), read: make(chan struct{}), exited: make(chan struct{}),
		conversation: conversation{owed: make(map[string]*request), asked: make(map[string]bool)}}
	k.cmd.Dir, k.cmd.Env = dir, env
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = inR, outW, errW
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(k.cmd.SysProcAttr)
	failed := make(chan error)
	s <- func() { failed <- k.cmd.Start() }
	err = <-failed
	for _, f := range []*os.File{inR, outW, errW} { // the child has its own
		f.Close()
	}
	if err != nil {
		for _, f := range []*os.File{inW, outR, errR} {
			f.Close()
		}
		return nil, fmt.Errorf("start server: %w", err)
	}
	go func() {
		defer errR.Close()
		drain(errR, errs)
	}()
	go func() {
		defer close(k.fed)
		k.in.run(inW, func() {})
		inW.Close()
	}()
	go func() {
		awaitExit(k.cmd)
		close(k.exited)
	}()
	return k, nil
}

// drain copies whole writes of the server's stderr to ours, and goes on reading where ours takes no more.
func drain(from io.Reader, to io.Writer) {
	buf := make([]byte, 32<<10)
	for broken := false; ; {
		n, err := from.Read(buf)
		if n > 0 && !broken {
			if _, err := to.Write(buf[:n]); err != nil {
				broken = true
			}
		}
		if err != nil {
			return
		}
	}
}

// tooLong stands for a line that was not kept.
var tooLong = []byte("too long")

// listen reads the child's lines until its stdout ends.
func (k *child) listen(take func(line []byte), pace func()) {
	defer close(k.read)
	for r := jsonline.NewReader(k.stdout); ; {
		pace()
		line, err := r.Next()
		switch {
		case err == nil:
			take(line)
		case errors.Is(err, jsonline.ErrTooLong):
			take(tooLong)
		default:
			return
		}
	}
}

// wait waits for the child to end, or d.
func (k *child) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-k.exited:
		return true
	case <-t.C:
		return false
	}
}

// reap takes the zombie away and lets go of the pipes. The child has exited.
func (k *child) reap() {
	k.reaped.Do(func() {
		k.in.finish()
		k.cmd.Wait() // its error is the state
		k.stdin.Close()
		k.stdout.Close()
	})
}

// pid is the child's number, its own until reap.
func (k *child) pid() int { return k.cmd.Process.Pid }

// quote shows text of others on one line of a terminal.
func quote(s string) string {
	q := fmt.Sprintf("%+q", s)
	return strings.TrimSuffix(strings.TrimPrefix(q, `"`), `"`)
}
