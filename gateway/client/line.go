package client

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
)

// line is one connection of the agents' door. Its reader, started by newLine,
// ends when the connection does, and then everybody who waits is told.
type line struct {
	conn   net.Conn
	pushed func(api.Push) // takes what the gateway says unasked, in the reader's goroutine; nil: nothing is expected
	write  chan struct{}  // holds one token; whoever took it may write
	done   chan struct{}  // closed when the reader has ended

	mu      sync.Mutex
	waiting map[string]chan api.Response // nil once the line has ended
	cause   *api.Error                   // what the gateway said of the connection as a whole
}

func newLine(conn net.Conn, pushed func(api.Push)) *line {
	l := &line{
		conn:    conn,
		pushed:  pushed,
		write:   make(chan struct{}, 1),
		done:    make(chan struct{}),
		waiting: make(map[string]chan api.Response),
	}
	l.write <- struct{}{}
	go l.read()
	return l
}

// ended says that no answer can come any more.
func (l *line) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting == nil
}

// ask sends frame and waits for the answer with its id. sent is false only if the
// gateway cannot have read the whole frame.
func (l *line) ask(ctx context.Context, id string, frame []byte) (r api.Response, sent bool, err error) {
	answer, err := l.expect(id)
	if err != nil {
		return r, false, err
	}
	defer l.forget(id)
	if err := l.send(ctx, frame); err != nil {
		return r, false, err
	}
	r, err = l.await(ctx, answer)
	return r, true, err
}

// expect makes room for what is answered to id: two answers at most, of which the first is a forward.
func (l *line) expect(id string) (chan api.Response, error) {
	answer := make(chan api.Response, 2)
	l.mu.Lock()
	if l.waiting == nil {
		l.mu.Unlock()
		return nil, l.broken(false)
	}
	l.waiting[id] = answer
	l.mu.Unlock()
	return answer, nil
}

// await waits for an answer to what was sent.
func (l *line) await(ctx context.Context, answer chan api.Response) (api.Response, error) {
	select {
	case r, ok := <-answer:
		if !ok {
			return r, l.broken(true)
		}
		return r, nil
	case <-ctx.Done():
		return api.Response{}, ctx.Err()
	}
}

func (l *line) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
}

// broken is the error of a call whose connection ended before its answer came.
func (l *line) broken(sent bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return l.cause
	}
	if !sent {
		return api.Fail("gateway_unreachable", "the connection broke before the request was sent")
	}
	return api.Fail("gateway_restarted", "")
}

// send writes one whole frame. A frame that was cut short ends the line: nothing can follow it.
func (l *line) send(ctx context.Context, frame []byte) error {
	select {
	case <-l.write:
	case <-l.done:
		return l.broken(false)
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.write <- struct{}{} }()
	l.conn.SetWriteDeadline(time.Time{}) // fails only on a closed connection, which the write tells
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		l.conn.SetWriteDeadline(time.Unix(1, 0))
		close(late)
	})
	n, err := l.conn.Write(frame)
	if !stop() {
		<-late // else the next writer could be hit by our deadline
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil: // the other end is closed; what it said before is still to be read
		l.conn.SetReadDeadline(time.Now().Add(time.Second))
		<-l.done
		return l.broken(false)
	case n > 0:
		l.conn.Close()
	}
	return err
}

// read hands each answer to whoever waits for it, until the connection ends.
func (l *line) read() {
	defer close(l.done)
	s := bufio.NewScanner(l.conn)
	s.Buffer(make([]byte, 0, 64<<10), api.FrameLimit)
	for s.Scan() {
		var r api.Response
		if err := json.Unmarshal(s.Bytes(), &r, json.RejectUnknownMembers(true)); err != nil {
			l.end(api.Fail("internal", "the gateway's answer is not understood"))
			return
		}
		if r.Push != nil && l.pushed != nil {
			l.pushed(*r.Push)
			continue
		}
		if r.ID == "" {
			l.end(r.Error)
			return
		}
		l.deliver(r)
	}
	l.end(nil)
}

func (l *line) deliver(r api.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// An answer that nobody waits for is a late one: its caller has gone.
	c, ok := l.waiting[r.ID]
	if !ok {
		return
	}
	if r.Forward == nil {
		delete(l.waiting, r.ID)
	}
	select {
	case c <- r:
	default: // a second forward; the gateway says one
	}
}

// end closes the connection and tells everybody who waits.
func (l *line) end(cause *api.Error) {
	l.conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = cause
	for _, c := range l.waiting {
		close(c)
	}
	l.waiting = nil
}
