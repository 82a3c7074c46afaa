package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sallyport/cmd/internal/mcpshim/jsonline"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// Config says what is supervised, and how.
type Config struct {
	Label      string
	Command    []string // executed as it is, without a shell
	Dir        string   // absolute
	Env        []string // "NAME=value"; EnvSocket is added
	Reload     string   // none, restart
	Workers    int      // processes that may read the pipe; 0: one
	ExitWithin time.Duration
	Children   string // die, keep, "": nothing is expected
	Alone      bool   // Adopt was called: whatever child this process has is the server's, or a gateway
	// Open connects to the gateway. pushed takes what it says unasked.
	Open func(ctx context.Context, pushed func(api.Push)) (Link, error)
	// Serving pins the gateways that can be reached: they may have been started below us, and are not the server's. nil: none.
	Serving func(context.Context) ([]*peer.Listener, error)
}

// Host is the process that speaks MCP to the server, and the stream for people.
type Host struct {
	In   io.Reader
	Out  io.Writer
	Err  io.Writer
	Gone <-chan struct{} // closed when the process has ended, though a helper may hold In open; nil: nobody knows
}

const (
	drainLimit = 300 * time.Millisecond // from the host's end until the server's stdin is closed
	heldLimit  = 256                    // messages that wait for a server
)

// wrapper is one session. Its fields belong to the loop; other goroutines post to it.
type wrapper struct {
	cfg  Config
	errs io.Writer
	host *queue
	ctx  context.Context // of requests to the gateway

	news chan func()
	over chan struct{} // closed when the loop has ended

	supervised
	agreed
	listed
	waiting
	requests
	ending *ending // nil: the session goes on
}

// requests are those that the host waits for, by the key of its id.
type requests struct {
	open    map[string]bool
	calls   map[string]*relay     // of those, the tools/calls that the gateway was asked about
	listens map[string]*listening // and the subscriptions
}

// Run serves one host until its input ends, it has gone, its output breaks or ctx ends, and then ends the server in the fixed order.
func Run(ctx context.Context, cfg Config, h Host) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	w := &wrapper{cfg: cfg, errs: h.Err, host: newQueue(), ctx: life, news: make(chan func()), over: make(chan struct{}),
		requests: requests{open: make(map[string]bool), calls: make(map[string]*relay), listens: make(map[string]*listening)}}
	w.kin = newKin()
	if cfg.Alone {
		defer w.kin.inherit()()
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.host.run(h.Out, func() { w.post(func() { w.end("eof") }) })
	}()
	go w.readHost(h.In)
	w.launch("supervisor", nil)
	stop, gone := ctx.Done(), h.Gone
	for done := false; !done; {
		select {
		case f := <-w.news:
			f()
		case <-stop:
			stop = nil
			w.end("signal")
		case <-gone:
			gone = nil
			w.end("eof")
		}
		done = w.ending != nil && w.ending.step(w)
	}
	close(w.over)
	if w.link != nil {
		w.link.Close()
	}
	w.host.finish()
	select {
	case <-written:
	case <-time.After(drainLimit): // nobody reads the last lines
	}
	for _, end := range []any{h.In, h.Out} {
		if e, ok := end.(io.Closer); ok {
			e.Close()
		}
	}
	w.sayCounts()
	return w.ending.err
}

// sayCounts tells what was not passed on.
func (w *wrapper) sayCounts() {
	if w.dropped+w.late > 0 {
		w.say("sp mcp: not passed on: %d lines that were no JSON-RPC, %d answers for or of what had ended", w.dropped, w.late)
	}
}

// post hands news to the loop. After the loop's end nothing is done with it.
func (w *wrapper) post(f func()) {
	select {
	case w.news <- f:
	case <-w.over:
	}
}

// after posts f in d, unless the session ends first.
func (w *wrapper) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() { w.post(f) })
}

// say writes one line for people.
func (w *wrapper) say(format string, args ...any) {
	fmt.Fprintf(w.errs, format+"\n", args...)
}

// readHost posts the host's lines, and waits where the server does not take more.
func (w *wrapper) readHost(in io.Reader) {
	for r := jsonline.NewReader(in); ; {
		line, err := r.Next()
		switch {
		case errors.Is(err, jsonline.ErrTooLong):
			w.post(func() { w.host.put(failure(nil, jsonline.CodeRequest, "a line is at most 16 MiB")) })
		case err != nil:
			w.post(func() { w.end("eof") })
			return
		default:
			taken := make(chan *queue, 1)
			w.post(func() {
				w.fromHost(line)
				var q *queue
				if w.kid != nil {
					q = w.kid.in
				}
				taken <- q
			})
			select {
			case q := <-taken:
				if q != nil {
					q.room()
				}
			case <-w.over:
				return
			}
		}
	}
}
