package cli

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

const (
	firstWait = 1                      // seconds a call may take before sp looks whether it waits for a person
	leastWait = 250 * time.Millisecond // between two questions for a call's state
)

func (a *app) call() *cobra.Command {
	var (
		key, reason string
		wait        time.Duration
		own         files
	)
	cmd := &cobra.Command{
		Use:   "call TOOL JSON | call -",
		Short: "Make one tool call as an agent",
		Long: `Make one tool call as an agent, and print the whole action document, or the error
document, on stdout. Exit 0 for confirmed, accepted, redirect_not_followed and
pending, else the exit status of the code. TOOL is http_request, ssh_exec, job_start,
ssh_upload (with --body-file), ssh_download (with --output) or request_access; or
list_targets, session_status or action_status, which only look; or action_cancel. A
call that still waits for its card is given up when sp ends: --wait is how long the
operator has. A body over 1 MiB is not in the document: --output writes it to a file.

With "-" each line of stdin is one call, {"tool":…,"args":{…},"idempotencyKey":…,"reason":…},
answered by one line in the same order: one connection, so that one grant serves
them all. Exit 0 if every line's call would, else the first other status.`,
		Example: `  sp call http_request '{"url":"https://api.github.com/repos/o/r","method":"GET"}'
  sp call ssh_exec '{"target":"web","argv":["uptime"]}'
  sp call list_targets '{}'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "-" {
				return nil
			}
			return exactly("TOOL", "JSON")(cmd, args)
		},
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the call's `KEY`: with the same one it is never made twice")
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` for the operator: why this is wanted; the card shows it as the agent's own words")
	cmd.Flags().DurationVar(&wait, "wait", 40*time.Second, "answer pending after `TIME` (at least 1s)")
	cmd.Flags().StringVar(&own.body, "body-file", "", "http_request, ssh_upload: send the bytes of `FILE`")
	cmd.Flags().StringVar(&own.output, "output", "", "http_request, ssh_download: write what came to the new `FILE`, long ones whole")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := a.home()
		if err != nil {
			return err
		}
		agent := client.Agent(h)
		defer agent.Close()
		c := caller{app: a, agent: agent, wait: wait, files: own}
		if args[0] != "-" {
			return c.one(cmd.Context(), api.ActionRequest{Tool: args[0], Args: jsontext.Value(args[1]), IdempotencyKey: key, Reason: reason})
		}
		if key != "" {
			return usage("with - each line holds its own idempotencyKey")
		}
		if reason != "" {
			return usage("with - each line holds its own reason")
		}
		if own != (files{}) {
			return usage("--body-file and --output are for a single call")
		}
		return c.lines(cmd.Context(), a.in)
	}
	return cmd
}

// caller makes calls over one connection.
type caller struct {
	*app
	agent *client.Client
	wait  time.Duration
	files files
	told  bool // that a person is waited for
}

// one makes a call and prints its document. The error is the exit status.
func (c *caller) one(ctx context.Context, r api.ActionRequest) error {
	doc, exit, err := c.answer(ctx, r)
	if err != nil {
		var refused *api.Error
		if !errors.As(err, &refused) {
			return err
		}
		doc, exit = refused, api.Lookup(refused.Code).Exit
	}
	if err := c.document(doc); err != nil {
		return err
	}
	return status(exit)
}

// answer is what a tool answers, and the exit status that stands for it.
func (c *caller) answer(ctx context.Context, r api.ActionRequest) (doc any, exit int, err error) {
	if err := sound(r.Args); err != nil {
		return nil, 0, api.Fail("invalid_request", "the arguments are no JSON: "+err.Error())
	}
	if doc, exit, ok, err := c.look(ctx, r); ok {
		return doc, exit, err
	}
	r, err = c.send(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	x, err := c.act(ctx, r)
	if err == nil {
		err = c.save(ctx, x)
	}
	return x, outcomeExit(x), err
}

// act waits for the action as long as it may, and says once on stderr if a person is waited for.
func (c *caller) act(ctx context.Context, r api.ActionRequest) (api.Action, error) {
	end := time.Now().Add(c.wait)
	r.WaitSeconds = firstWait
	x, err := c.agent.Act(ctx, r)
	for err == nil && x.State != api.Done && x.Outcome == "" { // a job that was accepted may run for long
		if x.State == api.Pending && !c.told {
			c.told = true
			c.say("sp: %s waits for approval: the operator answers with `sp approvals` and `sp approve`", escape(x.ID))
		}
		left := int(time.Until(end) / time.Second)
		if left < 1 {
			break
		}
		asked := time.Now()
		x, err = c.agent.Status(ctx, api.StatusRequest{Action: x.ID, WaitSeconds: min(left, api.WaitLimit)})
		if err == nil && x.State != api.Done {
			pause(ctx, asked.Add(leastWait)) // an answer before its time must not make us ask in a circle
		}
	}
	return x, err
}

// pause waits until t or the end of ctx.
func pause(ctx context.Context, t time.Time) {
	ctx, cancel := context.WithDeadline(ctx, t)
	defer cancel()
	<-ctx.Done()
}

// outcomeExit is the exit status of an action as far as it is known.
func outcomeExit(x api.Action) int {
	switch {
	case x.State == api.Pending, x.State == api.Running, api.Succeeded(x.Outcome):
		return 0
	case x.Error != nil:
		return api.Lookup(x.Error.Code).Exit
	default:
		return api.Lookup(x.Outcome).Exit
	}
}

// status is the error of an exit status.
func status(code int) error {
	if code == 0 {
		return nil
	}
	return exitError(code)
}
