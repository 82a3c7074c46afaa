package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

// Server is a wrapper's one connection: a supervised server's epochs live and end with it, so it is never dialled again
// behind the caller's back. It is safe for concurrent use. Errors are *api.Error, as a Client's.
type Server struct {
	line *line
	path string
	last atomic.Uint64
}

// DialServer connects a wrapper to the agents' door. pushed is called for each push, one after the other, and must not wait.
func DialServer(ctx context.Context, h home.Home, pushed func(api.Push)) (*Server, error) {
	conn, err := dialAgent(ctx, h.AgentSockets())
	if err != nil {
		return nil, err
	}
	return &Server{line: newLine(conn, pushed), path: conn.RemoteAddr().String()}, nil
}

// Socket is the path of agent.sock.
func (s *Server) Socket() string { return s.path }

// Done is closed when the connection has ended.
func (s *Server) Done() <-chan struct{} { return s.line.done }

// Close ends the connection, and with it every epoch of it.
func (s *Server) Close() error {
	err := s.line.conn.Close()
	<-s.line.done
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}

// Plan has the gateway measure what would be executed.
func (s *Server) Plan(ctx context.Context, p api.ServerPlan) (api.ServerPlanned, error) {
	var out api.ServerPlanned
	err := s.result(ctx, api.MethodServerPlan, p, &out)
	return out, err
}

// Started names the child of the last plan.
func (s *Server) Started(ctx context.Context, pid int) (api.ServerState, error) {
	var out api.ServerState
	err := s.result(ctx, api.MethodServerStarted, api.ServerStarted{ProcessID: pid}, &out)
	return out, err
}

// Catalog hands over a whole tools/list.
func (s *Server) Catalog(ctx context.Context, c api.ServerCatalog) (api.ServerState, error) {
	var out api.ServerState
	err := s.result(ctx, api.MethodServerCatalog, c, &out)
	return out, err
}

// Report tells what came of a forwarded call.
func (s *Server) Report(ctx context.Context, r api.ServerReport) error {
	var out struct{}
	return s.result(ctx, api.MethodServerReport, r, &out)
}

// End has the gateway end a child. It returns when that is done.
func (s *Server) End(ctx context.Context, e api.ServerEnd) (api.ServerEnded, error) {
	var out api.ServerEnded
	err := s.result(ctx, api.MethodServerEnd, e, &out)
	return out, err
}

// Forwarded is a call that may go to the child, once.
type Forwarded struct {
	api.Forward
	// Wait waits for the call's second answer, which follows the report.
	Wait func(context.Context) (api.Action, error)
}

// Call asks whether a call of the child's tool may be forwarded. Forwarded is nil if the gateway has answered it for good.
func (s *Server) Call(ctx context.Context, r api.ActionRequest) (*Forwarded, api.Action, error) {
	id, frame, err := s.frame(api.MethodCall, r)
	if err != nil {
		return nil, api.Action{}, err
	}
	answer, err := s.line.expect(id)
	if err != nil {
		return nil, api.Action{}, err
	}
	if err := s.line.send(ctx, frame); err != nil {
		s.line.forget(id)
		if ctx.Err() != nil {
			err = stopped(api.MethodCall, false)
		}
		return nil, api.Action{}, err
	}
	next := func(ctx context.Context) (api.Response, error) {
		a, err := s.line.await(ctx, answer)
		switch {
		case err != nil && ctx.Err() != nil:
			err = stopped(api.MethodCall, true)
		case err == nil && a.Error != nil:
			err = a.Error
		case err == nil && a.Action == nil && a.Forward == nil:
			err = api.Fail("internal", "the gateway answered a call without an action")
		}
		if err != nil || a.Forward == nil {
			s.line.forget(id)
		}
		return a, err
	}
	first, err := next(ctx)
	switch {
	case err != nil:
		return nil, api.Action{}, err
	case first.Forward == nil:
		return nil, *first.Action, nil
	}
	return &Forwarded{*first.Forward, func(ctx context.Context) (api.Action, error) {
		last, err := next(ctx)
		s.line.forget(id)
		if err == nil && last.Action == nil {
			err = api.Fail("internal", "the gateway forwarded one call twice")
		}
		if err != nil {
			return api.Action{}, err
		}
		return *last.Action, nil
	}}, api.Action{}, nil
}

func (s *Server) frame(method string, params any) (id string, frame []byte, err error) {
	p, err := json.Marshal(params, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return "", nil, api.Fail("invalid_request", "the request is no JSON: "+err.Error())
	}
	id = strconv.FormatUint(s.last.Add(1), 10)
	frame, err = encode(api.Request{ID: id, Method: method, Params: p})
	return id, frame, err
}

func (s *Server) result(ctx context.Context, method string, params, out any) error {
	id, frame, err := s.frame(method, params)
	if err != nil {
		return err
	}
	r, sent, err := s.line.ask(ctx, id, frame)
	switch {
	case err != nil && ctx.Err() != nil:
		return stopped(method, sent)
	case err != nil:
		return err
	case r.Error != nil:
		return r.Error
	}
	if err := json.Unmarshal(r.Result, out, json.RejectUnknownMembers(true)); err != nil {
		return api.Fail("internal", "the gateway's answer to "+method+" is not understood: "+err.Error())
	}
	return nil
}
