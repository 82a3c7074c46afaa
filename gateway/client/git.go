package client

import (
	"context"

	"sallyport/gateway/api"
)

// Git asks for one request of git. It returns when the host serves it (state running), when it has ended, or pending
// after api.WaitLimit seconds. The action's bytes then move by Stream, over this client's connection alone.
func (c *Client) Git(ctx context.Context, g api.GitArgs) (api.Action, error) {
	return c.action(ctx, api.MethodGit, g)
}

// Stream sends bytes to a git action, or asks for what came.
func (c *Client) Stream(ctx context.Context, r api.StreamRequest) (p api.StreamPart, err error) {
	err = c.resultOf(ctx, api.MethodStream, r, &p)
	return p, err
}
