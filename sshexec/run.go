package sshexec

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// OutputLimit bounds stdout and stderr together, in bytes: a command that writes more is ended.
const OutputLimit = 64 << 20

// Run executes cmd, which m must cover, and writes its output to out and errw. A command that writes more than
// OutputLimit is ended like one whose time is over. Nothing is written to them after Run has returned. cmd.Timeout is
// counted from here; ctx may be shorter.
//
// ctx is looked at right before the exec request is written, and no write of the
// request begins after Run has returned. When ctx ends later the command is
// signalled (TERM, then KILL), the channel closed, and what is known reported; a
// host that does not answer the request or the close loses the connection, within
// a second in all (see Grace).
func (c *Conn) Run(ctx context.Context, cmd Command, m Match, out, errw io.Writer) Result {
	if c.l == nil {
		return givenBack()
	}
	if !m.covers(cmd, c.shell) {
		return Result{Outcome: Denied, Reason: "rule_mismatch", Detail: "the rule was matched for another command or login shell"}
	}
	ctx, cancel := context.WithTimeout(ctx, cmd.Timeout())
	defer cancel()
	return c.exec(ctx, cmd.line, cmd.stdin, out, errw)
}

// givenBack is the answer of a Conn after Put.
func givenBack() Result {
	return Result{Outcome: NotSent, Reason: "dial_failed", Detail: "the connection was given back"}
}

func (c *Conn) exec(ctx context.Context, line string, stdin []byte, out, errw io.Writer) Result {
	s, r, ok := c.begin(ctx, "exec", line)
	if !ok {
		return r
	}
	ctx, full := context.WithCancelCause(ctx)
	defer full(nil)
	room := newRoom(OutputLimit, func() { full(errFull) })
	return c.l.follow(ctx, s, func(ctx context.Context) { feed(ctx, s.ch, stdin) }, out, errw, room)
}

// begin takes the session that Dial opened, or opens another, and asks for exec or a subsystem (RFC 4254, section 6.5).
func (c *Conn) begin(ctx context.Context, what, name string) (*session, Result, bool) {
	s := c.s
	c.s = nil
	if s == nil {
		var err error
		if s, err = c.l.open(ctx); err != nil {
			return nil, notSent(ctx, "the host opens no session"), false
		}
	}
	r, accepted := c.l.request(ctx, s, what, name)
	if !accepted {
		s.end(c.l)
	}
	return s, r, accepted
}

func notSent(ctx context.Context, detail string) Result {
	r := Result{Outcome: NotSent, Reason: "dial_failed", Detail: detail}
	if ctx.Err() != nil {
		r.Detail = "ended before anything was sent"
		if reasonOf(ctx) == "deadline" {
			r.Reason = "deadline"
		}
	}
	return r
}

var errEnded = errors.New("ended before the write")

// request writes the request and waits for the host's word on it. If it was not accepted, the Result says how.
func (l *link) request(ctx context.Context, s *session, what, name string) (Result, bool) {
	type answer struct {
		ok  bool
		err error
	}
	got := make(chan answer, 1)
	before := l.w.nc.written.Load()
	payload := ssh.Marshal(struct{ Name string }{name})
	started := l.work.run(func() {
		if ctx.Err() != nil {
			got <- answer{err: errEnded}
			return
		}
		s.armed.Store(true)
		ok, err := s.ch.SendRequest(what, true, payload)
		got <- answer{ok, err}
	})
	if !started {
		return notSent(ctx, "the connection is gone"), false
	}
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done():
		// The answer is mostly on its way. The request may also wait behind a key
		// exchange: then only the end of the connection keeps it from leaving later.
		t := time.AfterFunc(l.grace.Close, l.kill)
		a = <-got
		t.Stop()
	}
	switch {
	case errors.Is(a.err, errEnded):
		return notSent(ctx, ""), false
	case a.err == nil && a.ok:
		return Result{}, true
	case a.err == nil:
		return Result{Outcome: FailedRemote, Sent: true, Reason: "exec_refused", Detail: "the host refused to run it"}, false
	}
	// Only when nothing runs any more is the count of bytes final.
	l.kill()
	_ = l.w.conn.Wait()
	if l.w.nc.written.Load() == before {
		return notSent(ctx, "the connection was gone before the request was written"), false
	}
	return unconfirmed(ctx, "connection_lost"), false
}

func unconfirmed(ctx context.Context, reason string) Result {
	r := Result{Outcome: SentUnconfirmed, Sent: true, Reason: reason, Detail: "no exit-status and no exit-signal came"}
	if ctx.Err() != nil {
		r.Reason = reasonOf(ctx)
	}
	return r
}

// follow feeds and reads an accepted command until its end is known. feed ends with the context it is given. Without a
// room the outputs may take as long as ctx allows; their writers must give up when it ends.
func (l *link) follow(ctx context.Context, s *session, feed func(context.Context), out, errw io.Writer, room *room) Result {
	streams := []*sink{{w: out, r: s.ch, room: room}, {w: errw, r: s.ch.Stderr(), room: room}}
	both := make(chan struct{})
	var left atomic.Int32
	left.Store(int32(len(streams)))
	var work group
	for _, k := range streams {
		work.run(func() {
			k.drain(&l.w.nc.broken)
			if left.Add(-1) == 0 {
				close(both)
			}
		})
	}
	feeding, fed := context.WithCancel(ctx)
	work.run(func() { feed(feeding) })

	var x exit
	var known bool
	var told string
	grace, given := l.grace.Pipes, false
	select {
	case x = <-s.exit:
		known = true
	case <-s.closed:
		x, known = s.last()
	case <-ctx.Done():
		x, known, told = l.interrupt(s)
		grace, given = l.grace.Close, true
	}
	var ended bool
	switch {
	case !known:
	case room == nil && !given: // bytes for a caller who takes them as he can
		select {
		case <-both:
			ended = true
		case <-ctx.Done():
		}
	default:
		ended = await(both, grace)
	}
	fed()
	s.end(l)
	work.wait()
	if !known {
		x, known = s.last()
	}
	var r Result
	switch {
	case !known:
		r = unconfirmed(ctx, l.lost())
		r.Detail += told
	case x.signal != "":
		r = Result{Outcome: FailedRemote, Signal: x.signal, Reason: "exit_signal", Detail: "the command was ended by a signal" + told}
	default:
		r = Result{Outcome: Confirmed, ExitStatus: x.status}
	}
	r.Sent = true
	r.PipesHeld = known && !ended
	r.Ended = ended && !streams[0].cut && !streams[1].cut
	r.Truncated = streams[0].dropped || streams[1].dropped
	return r
}

// lost tells a dead connection from a channel that was closed without a word.
func (l *link) lost() string {
	if l.w.nc.broken.Load() {
		return "connection_lost"
	}
	return "no_exit_status"
}

// last is the exit message that has arrived, if any.
func (s *session) last() (exit, bool) {
	select {
	case x := <-s.exit:
		return x, true
	default:
		return exit{}, false
	}
}

// interrupt asks the host to end the command and gives it a moment to say so. The
// text is what must be told: OpenSSH refuses signals for root and forced commands.
func (l *link) interrupt(s *session) (x exit, known bool, told string) {
	for _, name := range []string{"TERM", "KILL"} {
		answer := make(chan bool, 1)
		if !l.work.run(func() {
			ok, err := s.ch.SendRequest("signal", true, ssh.Marshal(struct{ Signal string }{name}))
			answer <- ok && err == nil
		}) {
			x, known = s.last()
			return x, known, ""
		}
		t := time.NewTimer(l.grace.Signal)
		defer t.Stop()
		select {
		case ok := <-answer:
			if !ok {
				x, known = s.last()
				return x, known, "; the host refused the signal, the command may still run"
			}
		case <-t.C:
			x, known = s.last()
			return x, known, "; the host did not answer the signal, the command may still run"
		}
		select {
		case x = <-s.exit:
			return x, true, "; it was sent " + name
		case <-s.closed:
			x, known = s.last()
			return x, known, "; it was sent " + name
		case <-t.C:
		}
	}
	return exit{}, false, "; it was sent TERM and KILL"
}

// end closes the channel and returns when the host has closed it too; a host that
// does not loses the connection.
func (s *session) end(l *link) {
	l.work.run(func() { _ = s.ch.Close() }) // may block while the host reads nothing
	if !await(s.closed, l.grace.Close) {
		l.kill()
		<-s.closed
	}
}

// await reports whether c was closed within d.
func await(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}
