package cli

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// lines makes one call a line.
func (c *caller) lines(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	var first error
	for ctx.Err() == nil {
		line, err := readLine(r)
		if err == io.EOF {
			return first
		}
		if err == nil {
			err = c.line(ctx, line)
		}
		var refused *api.Error
		if errors.As(err, &refused) { // the line itself is no call
			if err := c.document(refused); err != nil {
				return err
			}
			err = status(api.Lookup(refused.Code).Exit)
		}
		var exit exitError
		switch {
		case err == nil:
		case !errors.As(err, &exit):
			return err
		case first == nil:
			first = err
		}
	}
	return ctx.Err()
}

func (c *caller) line(ctx context.Context, line []byte) error {
	var r struct {
		Tool           string         `json:"tool"`
		Args           jsontext.Value `json:"args"`
		IdempotencyKey string         `json:"idempotencyKey"`
	}
	if err := json.Unmarshal(line, &r, json.RejectUnknownMembers(true)); err != nil {
		return api.Fail("invalid_request", "the line is no call: "+err.Error())
	}
	return c.one(ctx, api.ActionRequest{Tool: r.Tool, Args: r.Args, IdempotencyKey: r.IdempotencyKey})
}

// readLine reads one line without its newline; a line past the limit is read over and refused.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for long := false; ; {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > api.FrameLimit; !long {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || len(line) == 0 && !long):
			return nil, err
		case long:
			return nil, api.Fail("frame_too_large", "")
		default:
			return line, nil
		}
	}
}
