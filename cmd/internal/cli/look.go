package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// Tools that make no call: they are the agents' door's other methods, under
// the names that agents know from `sp mcp`, with the same documents.
const (
	toolTargets = "list_targets"
	toolSession = "session_status"
	toolStatus  = "action_status"
	toolCancel  = "action_cancel"
)

// statusLimit is how long action_status may wait, in seconds.
const statusLimit = 40

// look answers a tool that makes no call; ok is false where r is a call.
func (c *caller) look(ctx context.Context, r api.ActionRequest) (doc any, exit int, ok bool, err error) {
	switch r.Tool {
	case toolTargets, toolSession, toolStatus, toolCancel:
	default:
		return nil, 0, false, nil
	}
	if r.IdempotencyKey != "" {
		return nil, 0, true, api.Fail("invalid_request", r.Tool+" takes no idempotency key: it does nothing twice")
	}
	strict := json.RejectUnknownMembers(true)
	if r.Tool == toolStatus {
		var q api.StatusRequest
		if json.Unmarshal(r.Args, &q, strict) != nil || q.Action == "" || q.WaitSeconds < 0 || q.WaitSeconds > statusLimit {
			return nil, 0, true, api.Fail("invalid_request", fmt.Sprintf(`%s takes {"action":ID}, waitSeconds from 0 to %d, and a cursor`, r.Tool, statusLimit))
		}
		x, err := c.agent.Status(ctx, q)
		return x, outcomeExit(x), true, err
	}
	if r.Tool == toolCancel {
		var q api.CancelRequest
		if json.Unmarshal(r.Args, &q, strict) != nil || q.Action == "" {
			return nil, 0, true, api.Fail("invalid_request", r.Tool+` takes {"action":ID}`)
		}
		x, err := c.agent.Cancel(ctx, q)
		return x, outcomeExit(x), true, err
	}
	var none struct{}
	if json.Unmarshal(r.Args, &none, strict) != nil {
		return nil, 0, true, api.Fail("invalid_request", r.Tool+" takes no arguments: {}")
	}
	if r.Tool == toolSession {
		me, err := c.agent.Session(ctx)
		return me, 0, true, err
	}
	list, err := c.agent.Targets(ctx)
	return struct {
		Targets []api.Target `json:"targets"`
	}{list}, 0, true, err
}

// sound says what is wrong with text that is to be one JSON value; nil: it is one.
// Names that stand twice are for the gateway to refuse, and to record.
func sound(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadValue(); err != nil {
		return inWords(err)
	}
	if at := d.InputOffset(); len(bytes.TrimSpace(text[at:])) > 0 {
		return fmt.Errorf("something follows the value at byte %d", at+1)
	}
	return nil
}

// inWords says a decoder's error for whoever typed the text.
func inWords(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("it ends too early")
	case errors.As(err, &syntax):
		return fmt.Errorf("byte %d is wrong there", syntax.ByteOffset+1)
	default:
		return errors.New("it is not well formed")
	}
}
