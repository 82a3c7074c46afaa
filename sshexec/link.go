package sshexec

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// link is one SSH connection and owner of every goroutine on it. ready and done
// order its fields, but for use.
type link struct {
	key    PoolKey
	target Target
	with   []uint64 // versions of the credentials it was opened with
	grace  Grace
	dial   context.Context    // of the handshake alone
	cancel context.CancelFunc // ends it

	ready chan struct{} // closed when the handshake is over: then w or err is set
	w     wire
	err   error
	done  chan struct{} // closed when no goroutine of the link is left

	work group
	use  use
}

// use is what the pool knows of a link, under the pool's lock.
type use struct {
	born    time.Time
	leases  int
	limit   int  // channels at a time; the host may teach us a lower one
	retired bool // takes no new lease
	dropped bool // closed by Drop: nobody may dial anew in its place
	idle    *time.Timer
}

// group is a WaitGroup that can be shut.
type group struct {
	mu   sync.Mutex
	shut bool
	wg   sync.WaitGroup
}

// run starts f unless the group is shut.
func (g *group) run(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.wg.Go(f)
	return true
}

func (g *group) wait() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.wg.Wait()
}

// serve starts what a live connection needs. gone is called when it has ended.
func (l *link) serve(every time.Duration, gone func()) {
	stop := make(chan struct{})
	l.work.run(func() { refuseAll(l.w.conn, l.w.chans, l.w.reqs) })
	l.work.run(func() { l.keepAlive(every, stop) })
	go func() {
		_ = l.w.conn.Wait()
		l.kill()
		close(stop)
		l.work.wait()
		l.w.below.wait()
		gone()
		close(l.done)
	}()
}

// keepAlive asks for a sign of life; a host that gives none for three periods is dead.
func (l *link) keepAlive(every time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		t := time.AfterFunc(3*every, l.kill)
		_, _, err := l.w.conn.SendRequest("keepalive@openssh.com", true, nil)
		t.Stop()
		if err != nil {
			return
		}
	}
}

// kill closes the socket (or ends the handshake). Everything else follows; wait on done.
func (l *link) kill() {
	l.cancel()
	select {
	case <-l.ready:
		if l.w.nc != nil {
			_ = l.w.nc.Close()
		}
	default:
	}
}

// session is one channel and what the host said about the command's end.
type session struct {
	ch     ssh.Channel
	armed  atomic.Bool   // the exec request is being written; an earlier exit message means nothing
	exit   chan exit     // holds at most one
	closed chan struct{} // the host closed the channel, or the link is gone
}

type exit struct {
	status int
	signal string
}

var errLinkGone = errors.New("connection closed")

// open asks for a session channel. The error is ctx's, an *ssh.OpenChannelError,
// or that of a dead link.
func (l *link) open(ctx context.Context) (*session, error) {
	type opened struct {
		s   *session
		err error
	}
	res := make(chan opened)
	started := l.work.run(func() {
		ch, reqs, err := l.w.conn.OpenChannel("session", nil)
		if err != nil {
			select {
			case res <- opened{err: err}:
			case <-ctx.Done():
			}
			return
		}
		s := &session{ch: ch, exit: make(chan exit, 1), closed: make(chan struct{})}
		select {
		case res <- opened{s: s}:
		case <-ctx.Done():
			_ = ch.Close() // nobody waits any more
		}
		s.watch(reqs)
	})
	if !started {
		return nil, errLinkGone
	}
	select {
	case o := <-res:
		return o.s, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// watch must read for as long as the channel lives: a full queue stops the whole link.
func (s *session) watch(reqs <-chan *ssh.Request) {
	for r := range reqs {
		if e, ok := parseExit(r); ok && s.armed.Load() {
			select {
			case s.exit <- e:
			default: // the first word counts
			}
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
	close(s.closed)
}

// parseExit reads exit-status and exit-signal, RFC 4254 section 6.10.
func parseExit(r *ssh.Request) (exit, bool) {
	switch r.Type {
	case "exit-status":
		var m struct{ Status uint32 }
		if ssh.Unmarshal(r.Payload, &m) == nil {
			return exit{status: int(m.Status)}, true
		}
	case "exit-signal":
		var m struct {
			Signal  string
			Core    bool
			Message string
			Lang    string
		}
		if ssh.Unmarshal(r.Payload, &m) == nil {
			return exit{signal: signalName(m.Signal)}, true
		}
	}
	return exit{}, false
}

// signalName keeps what looks like a signal's name; the host chose the text.
func signalName(s string) string {
	if s == "" || len(s) > 32 {
		return "unknown"
	}
	for _, r := range s {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '+' && r != '-' {
			return "unknown"
		}
	}
	return s
}
