package drill

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// Actor is a running client as the drill sees it: its server below it, and beside that a survivor, which is `sp call -`
// whose stdin the drill holds open too, so that it can try to act when its client is gone.
type Actor struct {
	PID    int
	Tools  []string
	Server *peer.Process
	Below  []*peer.Process // every process below the client when it was ready, without the survivor

	s        *Stage
	cmd      *exec.Cmd
	orders   io.WriteCloser
	replies  chan reply // closed at its end
	gone     chan struct{}
	survivor *os.File // its stdin; its answers come by tries
	tries    *bufio.Reader
	out      *os.File
}

// Start starts a client of the drill's server command and waits until it has the server's tools.
func (s *Stage) Start(ctx context.Context) (a *Actor, err error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start client: %w", err)
	}
	defer inR.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		inW.Close()
		return nil, fmt.Errorf("start client: %w", err)
	}
	defer outW.Close()
	a = &Actor{s: s, replies: make(chan reply, 16), gone: make(chan struct{}), survivor: inW, out: outR, tries: bufio.NewReader(outR)}
	command := s.o.Command
	if len(command) == 0 {
		command = []string{s.o.SP, "mcp"}
	}
	args := append(append([]string{}, s.o.Client...), s.o.SP)
	a.cmd = exec.Command(s.clientProgram(), append(args, command...)...)
	a.cmd.Env, a.cmd.Dir, a.cmd.Stderr = s.Env(), s.Dir, s.o.Log
	a.cmd.ExtraFiles = []*os.File{inR, inW, outW}
	a.cmd.WaitDelay = time.Second // who outlives it may hold its stderr
	a.orders, err = a.cmd.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = a.cmd.StdoutPipe(); err == nil {
			if err = a.cmd.Start(); err == nil {
				a.PID = a.cmd.Process.Pid
				go a.hear(out)
			}
		}
	}
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, fmt.Errorf("start client: %w", err)
	}
	if err := a.ready(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// hear ends with the client's stdout, and then with the client.
func (a *Actor) hear(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = reply{Fault: "the client wrote what is no reply"}
		}
		a.replies <- r
	}
	close(a.replies)
	a.cmd.Wait()
	close(a.gone)
}

// ready waits for the client's first line and pins what runs below it.
func (a *Actor) ready(ctx context.Context) error {
	first, err := a.Heard(ctx)
	if err != nil {
		return fmt.Errorf("start client and server: %w", err)
	}
	a.Tools = first.Tools
	me, err := peer.Find(a.PID)
	if err != nil {
		return fmt.Errorf("look at client: %w", err)
	}
	defer me.Close()
	below, err := me.Descendants()
	if err != nil {
		return fmt.Errorf("look below client: %w", err)
	}
	for _, p := range below {
		switch p.Facts().PID {
		case first.Survivor:
			p.Close()
			continue
		case first.Server:
			a.Server = p
		}
		a.Below = append(a.Below, p)
	}
	if a.Server == nil {
		return errors.New("start client and server: the server is not below the client")
	}
	return nil
}

// Ask lets the client call a tool of the server's. The reply comes by Heard.
func (a *Actor) Ask(tool string, arguments any) error {
	args, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	return say(a.orders, order{Tool: tool, Arguments: jsontext.Value(args)})
}

// Heard waits for the client's next line.
func (a *Actor) Heard(ctx context.Context) (reply, error) {
	limit := time.NewTimer(a.s.o.patience())
	defer limit.Stop()
	select {
	case r, ok := <-a.replies:
		switch {
		case !ok:
			return r, errors.New("the client has ended")
		case r.Fault != "":
			return r, errors.New(r.Fault)
		}
		return r, nil
	case <-limit.C:
		return reply{}, errors.New("the client says nothing")
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// Kill ends the client hard, and returns when it is gone.
func (a *Actor) Kill() error {
	if err := a.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill client: %w", err)
	}
	<-a.gone
	return nil
}

// Try lets the survivor make a call and returns what it was told: an outcome or a code.
func (a *Actor) Try(tool string, args any) (told string, action string, err error) {
	line, err := json.Marshal(struct {
		Tool string `json:"tool"`
		Args any    `json:"args"`
	}{tool, args})
	if err != nil {
		return "", "", err
	}
	if _, err := a.survivor.Write(append(line, '\n')); err != nil {
		return "", "", fmt.Errorf("let survivor act: %w", err)
	}
	a.out.SetReadDeadline(time.Now().Add(a.s.o.patience()))
	b, err := a.tries.ReadBytes('\n')
	if err != nil {
		return "", "", fmt.Errorf("hear survivor: %w", err)
	}
	var doc struct {
		ID      string `json:"id"`
		State   string `json:"state"`
		Outcome string `json:"outcome"`
		Code    string `json:"error"`
		Action  string `json:"action"`
	}
	var act api.Action
	if json.Unmarshal(b, &act) == nil && act.ID != "" {
		return act.Outcome, act.ID, nil
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return "", "", fmt.Errorf("hear survivor: %w", err)
	}
	return doc.Code, doc.Action, nil
}

// Close ends whatever of the client's is left.
func (a *Actor) Close() {
	if a.cmd.Process != nil {
		a.cmd.Process.Kill()
	}
	a.orders.Close()
	a.survivor.Close() // the survivor ends by it
	a.out.Close()
	for range a.replies { // unread ones; ends with the client
	}
	<-a.gone
	for _, p := range a.Below {
		if _, err := p.Condition(); err == nil {
			p.Signal(os.Kill)
		}
		p.Close()
	}
}
