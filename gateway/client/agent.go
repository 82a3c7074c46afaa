package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// door is the agents' side: it holds the line while there is one.
type door struct {
	sockets func() []string

	mu     sync.Mutex // held while dialling: one line at a time
	line   *line
	last   uint64 // of the ids given out
	closed bool
}

func (c *Client) action(ctx context.Context, method string, params any) (api.Action, error) {
	r, err := c.ask(ctx, method, params)
	if err != nil {
		return api.Action{}, err
	}
	if r.Action == nil {
		return api.Action{}, api.Fail("internal", "the gateway answered "+method+" without an action")
	}
	return *r.Action, nil
}

func (c *Client) result(ctx context.Context, method string, out any) error {
	return c.resultOf(ctx, method, struct{}{}, out)
}

func (c *Client) resultOf(ctx context.Context, method string, params, out any) error {
	r, err := c.ask(ctx, method, params)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Result, out, json.RejectUnknownMembers(true)); err != nil {
		return api.Fail("internal", "the gateway's answer to "+method+" is not understood: "+err.Error())
	}
	return nil
}

// ask sends one request and waits for its answer.
func (c *Client) ask(ctx context.Context, method string, params any) (api.Response, error) {
	if c.agent == nil {
		return api.Response{}, api.Fail("unknown_method", "this is the operators' door")
	}
	r, err := c.agent.ask(ctx, method, params)
	if err != nil {
		return api.Response{}, err
	}
	if r.Error != nil {
		return api.Response{}, r.Error
	}
	return r, nil
}

func (d *door) ask(ctx context.Context, method string, params any) (api.Response, error) {
	// The gateway judges the caller's args, also their faults: they pass as they are.
	p, err := json.Marshal(params, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return api.Response{}, api.Fail("invalid_request", "the request is no JSON: "+err.Error())
	}
	for again := true; ; again = false {
		l, id, fresh, err := d.connect(ctx)
		if err != nil {
			return api.Response{}, err
		}
		frame, err := encode(api.Request{ID: id, Method: method, Params: p})
		if err != nil {
			return api.Response{}, err
		}
		r, sent, err := l.ask(ctx, id, frame)
		switch {
		case err == nil:
			return r, nil
		case !sent && !fresh && again && ctx.Err() == nil:
			// The gateway restarted while nobody was speaking. Its end was closed
			// before the line's last byte was taken, so nothing was asked yet.
		case ctx.Err() != nil:
			if sent && method == api.MethodCall {
				l.withdraw(id)
			}
			return api.Response{}, stopped(method, sent)
		default:
			return api.Response{}, err
		}
	}
}

// encode makes one line of r.
func encode(r api.Request) ([]byte, error) {
	b, err := json.Marshal(r, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil, api.Fail("invalid_request", "the request is no JSON: "+err.Error())
	}
	if b = append(b, '\n'); len(b) > api.FrameLimit {
		return nil, api.Fail("frame_too_large", "")
	}
	return b, nil
}

// stopped is the error of a caller who would not wait any longer. What was sent goes on in the gateway.
func stopped(method string, sent bool) error {
	switch {
	case method != api.MethodCall:
		return api.Fail("gateway_unreachable", "the gateway did not answer in time")
	case sent:
		return api.Fail("sent_unconfirmed", "the caller stopped waiting; the gateway goes on with the call")
	default:
		return api.Fail("not_sent", "the caller stopped waiting before the request was sent")
	}
}

// connect returns the live line or a fresh one, and an id for the next request on it.
func (d *door) connect(ctx context.Context) (l *line, id string, fresh bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, "", false, api.Fail("gateway_unreachable", "this client is closed")
	}
	if d.line == nil || d.line.ended() {
		conn, err := dialAgent(ctx, d.sockets())
		if err != nil {
			return nil, "", false, err
		}
		d.line, fresh = newLine(conn, nil), true
	}
	d.last++
	return d.line, strconv.FormatUint(d.last, 10), fresh, nil
}

func (d *door) close() error {
	d.mu.Lock()
	l := d.line
	d.line, d.closed = nil, true
	d.mu.Unlock()
	if l == nil {
		return nil
	}
	err := l.conn.Close()
	<-l.done
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}
