// Package client speaks to spd through one of its two doors. Before it says
// anything it checks that the socket's folder is private, that folder and socket
// are ours, and that the process which answers runs under our own uid.
//
// Every error of a method is an *api.Error. gateway_unreachable: nothing
// answered. gateway_restarted: the connection broke while an answer was awaited,
// so the call may have taken effect. A call is never repeated here unless its
// line demonstrably did not reach the gateway.
package client

import (
	"context"
	"net/http"

	"sallyport/gateway/api"
	"sallyport/gateway/home"
)

// Client is one of the two doors. It is safe for concurrent use.
type Client struct {
	agent    *door
	operator *http.Client
}

// Agent is the agents' door: one connection, dialled at first use and again at
// the first call after it broke. All calls share it; answers come in any order.
func Agent(h home.Home) *Client {
	return &Client{agent: &door{sockets: h.AgentSockets}}
}

// Operator is the operators' door: HTTP over the socket that operator.addr names.
func Operator(h home.Home) *Client {
	return Over(operatorTransport(h))
}

// Over is the operators' door through rt, which reaches the gateway by its own means.
func Over(rt http.RoundTripper) *Client {
	return &Client{operator: &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Act asks for one action and waits for it as long as r.WaitSeconds says. A
// pending action is no error. If ctx ends first the call is withdrawn: what was not
// sent is dropped, with its card, and what was sent goes on in the gateway. The error
// is not_sent or sent_unconfirmed.
func (c *Client) Act(ctx context.Context, r api.ActionRequest) (api.Action, error) {
	return c.action(ctx, api.MethodCall, r)
}

// Status asks for an action of the caller's own run.
func (c *Client) Status(ctx context.Context, r api.StatusRequest) (api.Action, error) {
	return c.action(ctx, api.MethodStatus, r)
}

// Cancel calls back an action of the caller's own run, and tells what is known of it then.
func (c *Client) Cancel(ctx context.Context, r api.CancelRequest) (api.Action, error) {
	return c.action(ctx, api.MethodCancel, r)
}

// Targets lists where the caller's run may ask to act.
func (c *Client) Targets(ctx context.Context) ([]api.Target, error) {
	var t []api.Target
	err := c.result(ctx, api.MethodTargets, &t)
	return t, err
}

// Session tells the caller who it is here and what it may do now.
func (c *Client) Session(ctx context.Context) (api.Session, error) {
	var s api.Session
	err := c.result(ctx, api.MethodSession, &s)
	return s, err
}

// Close ends the connection. Calls that wait for an answer end with
// gateway_restarted; later ones with gateway_unreachable.
func (c *Client) Close() error {
	if c.agent != nil {
		return c.agent.close()
	}
	c.operator.CloseIdleConnections()
	return nil
}
