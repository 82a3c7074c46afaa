package cli

import (
	"context"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// files are the local files of one call: sp reads and writes them with its own rights, and the gateway gets bytes alone.
type files struct {
	body, output string // paths; empty: none
}

// send puts the body's bytes before the call and names them in its arguments.
func (c *caller) send(ctx context.Context, r api.ActionRequest) (api.ActionRequest, error) {
	if c.files.output != "" {
		if _, err := os.Lstat(c.files.output); err == nil {
			return r, api.Fail("invalid_request", "--output: "+c.files.output+" is there already")
		}
	}
	if c.files.body == "" {
		return r, nil
	}
	var args map[string]jsontext.Value
	if json.Unmarshal(r.Args, &args) != nil {
		return r, api.Fail("invalid_request", "--body-file: the arguments must be a JSON object")
	}
	ref, err := c.agent.SendFile(ctx, c.files.body)
	if err != nil {
		return r, err
	}
	if args["bodyRef"], err = json.Marshal(ref); err == nil {
		r.Args, err = json.Marshal(args, json.Deterministic(true))
	}
	return r, err
}

// save writes the body that came to the file that was asked for.
func (c *caller) save(ctx context.Context, x api.Action) error {
	if c.files.output == "" || x.State != api.Done || len(x.Result) == 0 {
		return nil
	}
	n, err := c.agent.SaveBody(ctx, x, c.files.output)
	if err != nil {
		return err
	}
	c.say("sp: the body, %d bytes, is in %s", n, escape(c.files.output))
	return nil
}
