package mcpshim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/gateway/api"
)

const (
	statusWaitLimit = 40                                     // seconds action_status may wait
	progressEvery   = 10 * time.Second                       // between two progress notifications
	answerLimit     = (api.WaitLimit + 10) * time.Second     // the gateway answers "pending" before; past this it hangs
	noAnswer        = "the gateway did not answer in time"   // ... and we do not know what came of the call
	hostGone        = "the host ended the session meanwhile" // said to nobody, as a rule
)

// shim turns tool calls into calls at the door.
type shim struct {
	door Door
	conn *conn
	over <-chan struct{} // closed when calls in flight must end
}

// call runs one tools/call. Every end of it is a result; none is a protocol error.
func (s *shim) call(ctx context.Context, name string, does run, r *mcp.CallToolRequest) *mcp.CallToolResult {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(ctx, cancel, r.Extra) })
	a := s.answer(ctx, name, does, jsontext.Value(r.Params.Arguments))
	cancel(nil)
	watch.Wait() // no progress after the answer
	return a.result()
}

// watch tells progress until ctx ends, and ends it when the time or the session is over.
func (s *shim) watch(ctx context.Context, cancel context.CancelCauseFunc, extra *mcp.RequestExtra) {
	limit, tick := time.NewTimer(answerLimit), time.NewTicker(progressEvery)
	defer limit.Stop()
	defer tick.Stop()
	for start := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.over:
			cancel(errors.New(hostGone))
			return
		case <-limit.C:
			cancel(errors.New(noAnswer))
			return
		case <-tick.C:
			s.conn.progress(extra, int(time.Since(start).Seconds()), "waiting for the gateway; the operator may have to approve this call")
		}
	}
}

// answer survives a panic: two of three known hosts do not start a server again.
func (s *shim) answer(ctx context.Context, name string, does run, args jsontext.Value) (a answer) {
	defer func() {
		if recover() != nil { // the value may hold what came from the gateway; the stack does not
			fmt.Fprintf(os.Stderr, "sp mcp: %s failed\n%s", name, debug.Stack())
			a = refusal(api.Fail("internal", "the shim failed; what came of the call is not known"))
		}
	}()
	if k := args.Kind(); k == 0 || k == 'n' {
		args = jsontext.Value("{}")
	}
	return does(s, ctx, args)
}

func (s *shim) http(ctx context.Context, args jsontext.Value) answer {
	var a struct {
		Key  *string        `json:"idempotencyKey"`
		Why  string         `json:"reason"`
		Body *string        `json:"bodyFile"`
		Out  *string        `json:"outputFile"`
		Rest jsontext.Value `json:",embed"`
	}
	r := api.ActionRequest{Tool: api.ToolHTTP}
	switch err := json.Unmarshal(args, &a); {
	case err != nil:
		return refusal(api.Fail("invalid_request", "arguments are an object; idempotencyKey, reason, bodyFile and outputFile are strings"))
	case a.Key != nil && *a.Key == "":
		return refusal(api.Fail("invalid_request", "idempotencyKey is empty"))
	case a.Key != nil:
		r.IdempotencyKey = *a.Key
	}
	r.Reason = a.Why
	if r.Args = a.Rest; r.Args == nil {
		r.Args = jsontext.Value("{}")
	}
	if a.Out != nil {
		if _, err := os.Lstat(*a.Out); err == nil || *a.Out == "" {
			return refusal(api.Fail("invalid_request", "outputFile: a path where there is nothing yet"))
		}
	}
	if a.Body != nil {
		args, err := s.sendBody(ctx, r.Args, *a.Body)
		if err != nil {
			return refusal(err)
		}
		r.Args = args
	}
	if a.Out == nil {
		return s.act(ctx, r)
	}
	return s.actInto(ctx, r, *a.Out)
}

// sendBody sends a file's bytes, which this process may read and the gateway may not, and names them in the arguments.
func (s *shim) sendBody(ctx context.Context, args jsontext.Value, path string) (jsontext.Value, *api.Error) {
	var a map[string]jsontext.Value
	if json.Unmarshal(args, &a) != nil {
		return nil, api.Fail("invalid_request", "arguments are an object")
	}
	ref, err := s.door.SendFile(ctx, path)
	if err != nil {
		return nil, s.doorError(ctx, err, "not_sent")
	}
	if a["bodyRef"], err = json.Marshal(ref); err != nil {
		return nil, api.Fail("internal", "the arguments can't be written")
	}
	if args, err = json.Marshal(a); err != nil {
		return nil, api.Fail("internal", "the arguments can't be written")
	}
	return args, nil
}

// actInto sends a call and writes the body that came to a new file.
func (s *shim) actInto(ctx context.Context, r api.ActionRequest, path string) answer {
	r.WaitSeconds = api.WaitLimit
	a, err := s.door.Act(ctx, r)
	if err != nil {
		return refusal(s.doorError(ctx, err, "sent_unconfirmed"))
	}
	return s.into(ctx, a, path)
}

// into tells an action and writes the body that came, if one did, to a new file.
func (s *shim) into(ctx context.Context, a api.Action, path string) answer {
	said := told(a)
	if a.State != api.Done || len(a.Result) == 0 {
		return said
	}
	n, err := s.door.SaveBody(ctx, a, path)
	if err != nil {
		said.text = s.doorError(ctx, err, "internal").Error() + "\n" + said.text
		return said
	}
	said.text = fmt.Sprintf("the body, %d bytes, is in %s\n", n, path) + said.text
	return said
}

func (s *shim) ssh(ctx context.Context, args jsontext.Value) answer {
	return s.command(ctx, api.ToolSSH, args)
}

func (s *shim) job(ctx context.Context, args jsontext.Value) answer {
	return s.command(ctx, api.ToolJob, args)
}

// command sends a call whose arguments are the gateway's, but for the reason.
func (s *shim) command(ctx context.Context, tool string, args jsontext.Value) answer {
	var a struct {
		Why  string         `json:"reason"`
		Rest jsontext.Value `json:",embed"`
	}
	if json.Unmarshal(args, &a) != nil {
		return refusal(api.Fail("invalid_request", "arguments are an object; reason is a string"))
	}
	if a.Rest == nil {
		a.Rest = jsontext.Value("{}")
	}
	return s.act(ctx, api.ActionRequest{Tool: tool, Args: a.Rest, Reason: a.Why})
}

func (s *shim) upload(ctx context.Context, args jsontext.Value) answer {
	var a struct {
		File string         `json:"file"`
		Why  string         `json:"reason"`
		Rest jsontext.Value `json:",embed"`
	}
	if json.Unmarshal(args, &a) != nil || a.File == "" || len(a.Rest) == 0 {
		return refusal(api.Fail("invalid_request", "ssh_upload takes target, path, file, mode and reason, strings"))
	}
	sent, err := s.sendBody(ctx, a.Rest, a.File)
	if err != nil {
		return refusal(err)
	}
	return s.act(ctx, api.ActionRequest{Tool: api.ToolUpload, Args: sent, Reason: a.Why})
}

func (s *shim) download(ctx context.Context, args jsontext.Value) answer {
	var a struct {
		Out  string         `json:"outputFile"`
		Why  string         `json:"reason"`
		Rest jsontext.Value `json:",embed"`
	}
	if json.Unmarshal(args, &a) != nil || a.Out == "" || len(a.Rest) == 0 {
		return refusal(api.Fail("invalid_request", "ssh_download takes target, path, outputFile and reason, strings"))
	}
	if _, err := os.Lstat(a.Out); err == nil {
		return refusal(api.Fail("invalid_request", "outputFile: a path where there is nothing yet"))
	}
	return s.actInto(ctx, api.ActionRequest{Tool: api.ToolDownload, Args: a.Rest, Reason: a.Why}, a.Out)
}

// access asks for a grant; its reason is an argument of it.
func (s *shim) access(ctx context.Context, args jsontext.Value) answer {
	var a api.AccessArgs
	if json.Unmarshal(args, &a, json.RejectUnknownMembers(true)) != nil || a.Target == "" {
		return refusal(api.Fail("invalid_request", "request_access takes target and reason, strings"))
	}
	return s.act(ctx, api.ActionRequest{Tool: api.ToolAccess, Args: args})
}

// act sends a call. What the door cannot tell may have been sent.
func (s *shim) act(ctx context.Context, r api.ActionRequest) answer {
	r.WaitSeconds = api.WaitLimit
	a, err := s.door.Act(ctx, r)
	if err != nil {
		return refusal(s.doorError(ctx, err, "sent_unconfirmed"))
	}
	return told(a)
}

func (s *shim) status(ctx context.Context, args jsontext.Value) answer {
	var a struct {
		Action string  `json:"action"`
		Wait   int     `json:"waitSeconds"`
		Cursor string  `json:"cursor"`
		Out    *string `json:"outputFile"`
	}
	from := 0
	switch err := json.Unmarshal(args, &a, json.RejectUnknownMembers(true)); {
	case err != nil:
		return refusal(api.Fail("invalid_request", "action_status takes action, cursor and outputFile, strings, and waitSeconds, an integer"))
	case a.Action == "":
		return refusal(api.Fail("invalid_request", "action is missing"))
	case a.Wait < 0 || a.Wait > statusWaitLimit:
		return refusal(api.Fail("invalid_request", fmt.Sprintf("waitSeconds is from 0 to %d", statusWaitLimit)))
	}
	if at, ours := strings.CutPrefix(a.Cursor, textCursor); ours {
		n, err := strconv.ParseUint(at, 10, 31)
		if err != nil {
			return refusal(api.Fail("invalid_request", "cursor: one that an answer named"))
		}
		from, a.Cursor = int(n), ""
	}
	if a.Out != nil {
		if _, err := os.Lstat(*a.Out); err == nil || *a.Out == "" {
			return refusal(api.Fail("invalid_request", "outputFile: a path where there is nothing yet"))
		}
	}
	act, err := s.door.Status(ctx, api.StatusRequest{Action: a.Action, WaitSeconds: a.Wait, Cursor: a.Cursor})
	if err != nil {
		return refusal(s.doorError(ctx, err, "internal"))
	}
	if a.Out != nil {
		return s.into(ctx, act, *a.Out)
	}
	return toldFrom(act, from)
}

func (s *shim) cancel(ctx context.Context, args jsontext.Value) answer {
	var r api.CancelRequest
	if json.Unmarshal(args, &r, json.RejectUnknownMembers(true)) != nil || r.Action == "" {
		return refusal(api.Fail("invalid_request", "action_cancel takes action, a string"))
	}
	a, err := s.door.Cancel(ctx, r)
	if err != nil {
		return refusal(s.doorError(ctx, err, "internal"))
	}
	return told(a)
}

func (s *shim) targets(ctx context.Context, args jsontext.Value) answer {
	if bad := noArguments(args); bad != nil {
		return refusal(bad)
	}
	list, err := s.door.Targets(ctx)
	if err != nil {
		return refusal(s.doorError(ctx, err, "internal"))
	}
	return listed(list)
}

func (s *shim) session(ctx context.Context, args jsontext.Value) answer {
	if bad := noArguments(args); bad != nil {
		return refusal(bad)
	}
	me, err := s.door.Session(ctx)
	if err != nil {
		return refusal(s.doorError(ctx, err, "internal"))
	}
	return introduced(me)
}

func noArguments(args jsontext.Value) *api.Error {
	var none struct{}
	if json.Unmarshal(args, &none, json.RejectUnknownMembers(true)) != nil {
		return api.Fail("invalid_request", "this tool takes no arguments")
	}
	return nil
}

// doorError is the door's own error, or code with what is known of why no answer came.
func (s *shim) doorError(ctx context.Context, err error, code string) *api.Error {
	ending := false
	select {
	case <-s.over:
		ending = true
	default:
	}
	var e *api.Error
	if errors.As(err, &e) && !(ending && e.Code == "gateway_restarted") { // then it is us who closed the door
		return e
	}
	reason := "the connection to the gateway failed"
	switch {
	case ending:
		reason = hostGone
	case ctx.Err() != nil:
		reason = context.Cause(ctx).Error()
	}
	if code == "sent_unconfirmed" {
		reason += "; the call may have taken effect"
	}
	return api.Fail(code, reason)
}
