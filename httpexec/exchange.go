package httpexec

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"sallyport/gateway/scrub"
)

const (
	// From this size the answer is read while the body is still being written: past
	// the sockets' buffers both ends could wait for each other.
	bigBody = 64 << 10
	// How long an answer is waited for once the request can't be written to its end:
	// servers refuse a long body with a status and hang up.
	graceAfterReset = time.Second
	// 1xx answers before the final one.
	maxInterim = 8
)

// exchange is one request and its answer on one connection.
type exchange struct {
	conn  *conn
	req   *http.Request
	set   *scrub.Set
	limit int64
	body  io.Writer

	capture *capture // nil: nothing is captured

	wrote chan struct{} // closed when the request is written or can't be
	werr  error         // then valid
}

// run does the exchange. reuse: the connection is clean and may serve another.
func (x *exchange) run(ctx, dial context.Context) (r Result, reuse bool, err error) {
	c := x.conn
	c.wire.sent.Store(0)
	c.wire.received.Store(0)
	c.wire.gate = func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.wire.sent.Load() == 0 {
			return dial.Err()
		}
		return nil
	}
	stop := context.AfterFunc(ctx, c.close)

	x.wrote = make(chan struct{})
	if x.req.ContentLength < bigBody {
		x.write()
	} else {
		go x.write()
	}
	resp, err := x.answer()
	clean := false
	if err == nil {
		r, clean, err = x.show(resp)
	} else {
		r, err = Result{Reason: SentUnconfirmed.String(), Detail: lostDetail(err)}, nil
	}
	if !x.written() {
		c.close() // the answer came first: the rest of the request is not wanted
	}
	<-x.wrote
	c.wire.gate = nil
	reuse = stop() && clean && x.werr == nil
	r.Sent, r.Received = c.wire.sent.Load(), c.wire.received.Load()
	switch {
	case r.Sent == 0: // also if the host spoke unasked
		f := stopped(ctx, dial)
		if f == nil {
			f = &failure{NotSent, NotSent.String(), "connection lost before anything was sent"}
		}
		return f.result(), false, err
	case resp != nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.Detail = "no answer before the deadline"
	case ctx.Err() != nil:
		r.Detail = "cancelled before an answer came"
	}
	return r, reuse, err
}

// write sends the request. If that fails, a reader waits only as long as an answer to
// what was sent can be on its way.
func (x *exchange) write() {
	defer close(x.wrote)
	x.werr = x.req.Write(x.conn.bw)
	if x.werr == nil {
		x.werr = x.conn.bw.Flush()
	}
	if x.werr != nil {
		wait := time.Now()
		if x.conn.wire.sent.Load() > 0 {
			wait = wait.Add(graceAfterReset)
		}
		x.conn.tcp.SetReadDeadline(wait)
	}
}

func (x *exchange) written() bool {
	select {
	case <-x.wrote:
		return true
	default:
		return false
	}
}

var errInterim = errors.New("only interim answers")

// answer waits for the final status line and header. 101 counts as final.
func (x *exchange) answer() (*http.Response, error) {
	src := x.conn.src
	for range maxInterim {
		src.open, src.left = false, maxHeader
		resp, err := http.ReadResponse(x.conn.br, x.req)
		src.open = true
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
	return nil, errInterim
}

// lostDetail says in safe words why no answer could be read.
func lostDetail(err error) string {
	var op net.Error
	switch {
	case errors.Is(err, errHeaderSize):
		return "the answer's header is longer than 32 KiB"
	case errors.Is(err, errInterim):
		return "only interim answers came"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.As(err, &op):
		return "the connection ended before an answer came"
	default:
		return "the answer can't be read as HTTP"
	}
}
