package gateway

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"sallyport/gateway/api"
	"sallyport/sshexec"
)

// git is the one action whose bytes flow both ways while it runs: between its caller, who sends and asks for them line by
// line, and the host. It walks the same road as every other; only what is in flight when it is let through differs.

// gitPipe stands between the two. Its caller's bytes wait in in; the host's wait in out and errw, up to gitRoom.
type gitPipe struct {
	in   *io.PipeReader
	feed *io.PipeWriter

	mu        sync.Mutex
	cond      *sync.Cond
	out, errw bytes.Buffer
	ended     bool // the host, or the call, is over: no more bytes come
	gone      bool // the caller is: nobody takes them
	started   chan struct{}
	stop      context.CancelFunc // ends the call; set while it is served
}

const gitRoom = 1 << 20 // bytes of each output that wait for the caller

func newGitPipe() *gitPipe {
	p := &gitPipe{started: make(chan struct{})}
	p.in, p.feed = io.Pipe()
	p.cond = sync.NewCond(&p.mu)
	return p
}

// close lets go of both sides, and ends the call: nobody is there to take what it brings.
func (p *gitPipe) close() {
	p.mu.Lock()
	p.gone, p.ended = true, true
	stop := p.stop
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
	p.cond.Broadcast()
	p.feed.CloseWithError(io.ErrClosedPipe)
	p.in.Close()
}

// serve notes what ends the call, and tells whether the caller is still there.
func (p *gitPipe) serve(stop context.CancelFunc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop = stop
	close(p.started)
	return !p.gone
}

// end says that no more comes from the host.
func (p *gitPipe) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.cond.Broadcast()
	p.in.Close()
}

// gitSide is one output of the host.
type gitSide struct {
	p *gitPipe
	b *bytes.Buffer
}

// Write waits until the caller has taken what is there.
func (s gitSide) Write(b []byte) (int, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for s.b.Len() >= gitRoom && !s.p.gone {
		s.p.cond.Wait()
	}
	if s.p.gone {
		return 0, io.ErrClosedPipe
	}
	s.b.Write(b)
	s.p.cond.Broadcast()
	return len(b), nil
}

// part waits for bytes of the host, and takes what there is.
func (p *gitPipe) part() api.StreamPart {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.out.Len() == 0 && p.errw.Len() == 0 && !p.ended {
		p.cond.Wait()
	}
	x := api.StreamPart{Data: bytes.Clone(p.out.Next(gitRoom)), Err: bytes.Clone(p.errw.Next(gitRoom))}
	x.EOF = p.ended && p.out.Len() == 0 && p.errw.Len() == 0
	p.cond.Broadcast()
	return x
}

// serveGit joins the caller and the host. The bytes are not searched for secrets: a search holds back the end of what it
// has seen, and git waits for it. So no credential that is ever shown to a host may serve git; keys sign here.
func (g *Gateway) serveGit(ctx context.Context, p *plan, conn *sshexec.Conn, out *outcome) {
	pipe := p.host.pipe
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !pipe.serve(cancel) {
		cancel() // the caller left before
	}
	defer context.AfterFunc(ctx, pipe.close)() // a caller that takes nothing must not hold up the call's end, nor a revocation
	r := conn.Git(ctx, p.host.git, p.way.match, pipe.in, gitSide{pipe, &pipe.out}, gitSide{pipe, &pipe.errw})
	pipe.end()
	out.hostSettled(r)
	if r.Outcome == sshexec.Confirmed {
		out.exit = &r.ExitStatus
		out.result = encode(api.SSHResult{ExitStatus: r.ExitStatus})
	}
}

// git walks one request of git and answers when its host serves it, when it has ended, or as pending after the wait.
func (a *agentConn) git(ctx context.Context, params []byte) api.Response {
	q := parsed{tool: api.ToolGit}
	wait := q.parseGit(params)
	who, err := a.g.identify(ctx, a.proc, a.g.log.w.Load() != nil)
	if err != nil {
		a.g.complain("identify", err)
		return api.Response{Error: a.denied(ctx, who, api.MethodGit, q.tool, a.unidentified(err))}
	}
	pipe, id := newGitPipe(), newID("act_")
	q.host.pipe = pipe
	if !a.pipes.add(id, pipe) {
		return api.Response{Error: a.denied(ctx, who, api.MethodGit, q.tool, api.Fail("busy", "this connection serves as many git requests as it may"))}
	}
	ended := make(chan api.Action, 1)
	a.g.task(func() {
		act := a.g.walk(ctx, who, q, id)
		pipe.end()
		ended <- act
	})
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case act := <-ended:
		return answerOf(act)
	case <-pipe.started:
	case <-t.C:
	case <-ctx.Done():
		pipe.close()
		return api.Response{Error: api.Fail("gateway_restarted", "")}
	}
	act, _ := a.g.acts.get(id)
	return api.Response{Action: &act}
}

// stream moves bytes of a git action that this connection asked for. The bytes pass no rung of their own: the action does,
// and its end, whatever it is, ends them.
func (a *agentConn) stream(ctx context.Context, params []byte) api.Response {
	var r api.StreamRequest
	if fault := decode(params, &r); fault != nil {
		return api.Response{Error: a.denied(ctx, caller{proc: a.proc}, api.MethodStream, "", fault)}
	}
	pipe := a.pipes.get(r.Action)
	if pipe == nil {
		return api.Response{Error: a.denied(ctx, caller{proc: a.proc}, api.MethodStream, "", api.Fail("action_unknown", ""))}
	}
	if len(r.Data) > 0 {
		_, _ = pipe.feed.Write(r.Data) // that the host takes no more its own end says
	}
	if r.EOF {
		pipe.feed.Close()
	}
	x := api.StreamPart{}
	if r.Read {
		x = pipe.part()
	}
	return api.Response{Result: encode(x)}
}

// gitPipes are one connection's.
type gitPipes struct {
	mu sync.Mutex
	by map[string]*gitPipe
}

const gitsLimit = 4 // requests of git on one connection, over its life

func (s *gitPipes) add(id string, p *gitPipe) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) >= gitsLimit {
		return false
	}
	if s.by == nil {
		s.by = map[string]*gitPipe{}
	}
	s.by[id] = p
	return true
}

func (s *gitPipes) get(id string) *gitPipe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[id]
}

func (s *gitPipes) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.by {
		p.close()
	}
}
