package wrap

import (
	"context"
	"io"
	"sync"
	"syscall"
	"time"

	"sallyport/gateway/api"
)

const (
	exitLeast  = 100 * time.Millisecond // for a child's own end, once its stdin is closed, of which nothing is expected
	signalWait = 500 * time.Millisecond // after TERM, and after KILL
	flushWait  = 100 * time.Millisecond // for lines on their way into a server that does not read
	endWait    = 3 * time.Second        // for the gateway to end a child, beyond what the child is expected to need
)

// ending is how far a session's end has come: calls in flight drain, then the child is ended, then the loop.
type ending struct {
	reason   string // eof, signal
	begun    bool   // no start is under way any more
	closing  bool   // the child is being ended
	finished bool
	err      error
}

// end begins the end of the session. The first reason stands.
func (w *wrapper) end(reason string) {
	if w.ending != nil {
		return
	}
	w.ending = &ending{reason: reason}
	for _, m := range w.unwait() { // it will not be sent any more
		if m.method == "tools/call" {
			w.reply(m, w.refusal(m.id, api.Fail("not_sent", "the session ended before anything of it was sent")))
		} else {
			w.reply(m, failure(m.id, codeEnding, "the session is ending"))
		}
	}
	if !w.starting {
		w.ending.begin(w)
	}
}

func (e *ending) begin(w *wrapper) {
	e.begun = true
	w.after(drainLimit, func() { e.close(w) })
}

// step goes on with the end where it can, and says whether it is over. Called after everything that happens.
func (e *ending) step(w *wrapper) bool {
	if e.begun && !e.closing && w.idle() {
		e.close(w)
	}
	return e.finished
}

// idle says that no answer is to be waited for; a subscription has none.
func (w *wrapper) idle() bool {
	return len(w.open) == len(w.listens)
}

func (e *ending) close(w *wrapper) {
	if e.closing {
		return
	}
	e.closing = true
	k, link := w.kid, w.link
	if w.files != nil {
		w.files.close()
	}
	if k == nil {
		e.finished = true
		return
	}
	k.closing = true
	go func() {
		w.kin.end(w.ctx, k, link, w.cfg, e.reason)
		w.post(func() { e.finished = true })
	}()
}

// kin starts and ends processes, and takes away what its own leave behind.
type kin struct {
	starter
	mu  sync.Mutex
	own map[int]bool // started here and not reaped
}

func newKin() *kin { return &kin{starter: newStarter(), own: make(map[int]bool)} }

func (n *kin) start(argv []string, dir string, env []string, errs io.Writer) (*child, error) {
	n.mu.Lock() // a child that ends at once must be known as ours before anybody sees its zombie
	defer n.mu.Unlock()
	k, err := n.starter.start(argv, dir, env, errs)
	if err == nil {
		n.own[k.pid()] = true
	}
	return k, err
}

func (n *kin) reap(k *child) {
	k.reap()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.own, k.pid())
}

// end closes the child's stdin and has the gateway do the rest, which records it. Without a gateway it is done here.
func (n *kin) end(ctx context.Context, k *child, link Link, cfg Config, reason string) {
	k.hangUp()
	if link != nil {
		ctx, cancel := context.WithTimeout(ctx, cfg.ExitWithin+endWait)
		defer cancel()
		_, err := link.End(ctx, api.ServerEnd{ExecutionEpoch: k.epoch, Reason: reason})
		if err == nil && k.wait(signalWait) {
			n.reap(k)
			return
		}
	}
	n.terminate(k, cfg)
}

// terminate ends the child in the same order as the gateway would.
func (n *kin) terminate(k *child, cfg Config) {
	k.hangUp()
	by := k.wait(max(cfg.ExitWithin, exitLeast))
	// The child is not reaped yet, so its number still names its group.
	group := func(s syscall.Signal) {
		if cfg.Children != "keep" || !by {
			syscall.Kill(-k.pid(), s)
		}
	}
	group(syscall.SIGTERM)
	if !k.wait(signalWait) {
		group(syscall.SIGKILL)
		k.wait(signalWait)
	}
	if cfg.Children != "keep" {
		group(syscall.SIGKILL)
		n.clear(cfg, k.pid())
	}
	if k.wait(signalWait) {
		n.reap(k)
	}
}

// clear kills what a child left behind, where nothing else can be below us.
func (n *kin) clear(cfg Config, ended int) {
	if cfg.Alone && cfg.Children != "keep" {
		n.sweep(ended, cfg.Serving)
	}
}

// hangUp closes the child's stdin, when it has read what was written.
func (k *child) hangUp() {
	k.in.finish()
	select {
	case <-k.fed:
	case <-time.After(flushWait):
		k.stdin.Close()
	}
}
