package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// exitLimit is how long a server is waited for after its client's death; hosts that wait longest give it ten seconds.
const exitLimit = 10 * time.Second

// When the client is killed.
const (
	beforeSend  = "before the call is sent"
	afterAccept = "after the service accepted the call, before it answered"
	afterAnswer = "after the client had the answer"
)

// ErrBad is the error of a drill whose answers are not all good.
var ErrBad = errors.New("not every answer is good")

// Crash kills a client hard at three moments and answers what became of everything it had a part in. The error is ErrBad
// where an answer is not good; any other says that the drill could not be held.
func Crash(ctx context.Context, o Options) error {
	s, err := NewStage(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	r := NewReport("crash", o)
	moments := o.moments
	if moments == nil {
		moments = []string{beforeSend, afterAccept, afterAnswer}
	}
	for i, m := range moments {
		c := &crash{s: s, p: r.Begin("The client is killed "+m, ""), moment: m, path: fmt.Sprintf("/jobs/drill-%d", i+1)}
		if err := c.hold(ctx); err != nil {
			c.p.Judge(false, "Could the drill be held?", "no: %v", err)
		}
	}
	if err := r.Finish(o); err != nil {
		return err
	}
	if !r.Good {
		return ErrBad
	}
	return nil
}

// crash is one moment.
type crash struct {
	s      *Stage
	p      *Part
	moment string
	path   string // of the one write, at the ledger

	a       *Actor
	calls   bool // the server offers http_request
	run     string
	card    string // of the write
	action  string // the write's; "" if it never was one
	killed  time.Time
	release func()
}

func (c *crash) hold(ctx context.Context) (err error) {
	c.release = func() {}
	if c.a, err = c.s.Start(ctx); err != nil {
		return err
	}
	defer c.a.Close()
	defer func() { c.release() }()
	c.calls = slices.Contains(c.a.Tools, api.ToolHTTP)
	if c.calls {
		if err := c.lead(ctx); err != nil {
			return err
		}
	} else {
		c.p.Tell("Which call was under way?", "none: the server offers no %s, so its process alone is looked at", api.ToolHTTP)
	}
	if err := c.kill(ctx); err != nil {
		return err
	}
	if !c.calls {
		return nil
	}
	return errors.Join(c.aftermath(ctx), c.contain(ctx), c.read())
}

// request is a call of the ledger's.
func (c *crash) request(method, path string) map[string]string {
	return map[string]string{"method": method, "url": c.s.Ledger.URL() + path}
}

// lead brings the session to the moment. The survivor is made known to the gateway as part of the client's run first.
func (c *crash) lead(ctx context.Context) error {
	known := make(chan error, 1)
	go func() {
		told, _, err := c.a.Try(api.ToolHTTP, c.request("GET", "/jobs/none"))
		if err == nil && told != "confirmed" {
			err = fmt.Errorf("the survivor's first call came to %s", told)
		}
		known <- err
	}()
	if _, err := c.approve(ctx); err != nil {
		return err
	}
	if err := <-known; err != nil {
		return err
	}
	if c.moment == afterAccept {
		c.release = c.s.Ledger.Hold(c.path)
	}
	write := c.request("POST", c.path)
	write["idempotencyKey"] = c.correlation()
	if err := c.a.Ask(api.ToolHTTP, write); err != nil {
		return err
	}
	if c.moment == beforeSend {
		card, err := c.s.Card(ctx, api.ToolHTTP, "")
		c.run, c.card = card.AgentRun, card.ID
		return err
	}
	card, err := c.approve(ctx)
	if err != nil {
		return err
	}
	c.run, c.card = card.AgentRun, card.ID
	if c.moment == afterAccept {
		return c.s.Until(ctx, "the call at the service", func() (bool, error) { return len(c.writes(c.path)) > 0, nil })
	}
	r, err := c.a.Heard(ctx)
	if err == nil && r.IsError {
		err = fmt.Errorf("the call was refused: %s", r.Document)
	}
	return err
}

func (c *crash) approve(ctx context.Context) (api.Approval, error) {
	card, err := c.s.Card(ctx, api.ToolHTTP, "")
	if err != nil {
		return card, err
	}
	return card, c.s.Approve(ctx, card)
}

func (c *crash) writes(path string) []Entry {
	all, _ := c.s.Ledger.Arrived("POST", path)
	return all
}

// kill ends the client and looks at what it leaves.
func (c *crash) kill(ctx context.Context) error {
	me, err := peer.Find(c.a.PID)
	if err != nil {
		return fmt.Errorf("look at client: %w", err)
	}
	defer me.Close()
	look := func(when string) {
		c.p.Look(when, "client", me)
		for _, p := range c.a.Below {
			role := "below the client"
			if p == c.a.Server {
				role = "server"
			}
			c.p.Look(when, role, p)
		}
	}
	look("before")
	c.killed = time.Now()
	if !c.s.o.spare {
		if err := c.a.Kill(); err != nil {
			return err
		}
	}
	within := c.s.o.Within
	if within == 0 {
		within = exitLimit
	}
	wait := max(within, exitLimit)
	if c.s.o.spare {
		wait = within
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	const eof, exit = "Did the end of its input reach the server?", "How long did the server take to exit?"
	select {
	case <-c.a.Server.Gone():
		took := time.Since(c.killed)
		c.p.Judge(true, eof, "yes, or it saw who feeds it die: it ended by itself, no signal was sent")
		c.p.Judge(took <= within, exit, "%d ms, expected within %v", took.Milliseconds(), within)
	case <-limit.C:
		c.p.Judge(false, eof, "no, or it does not heed it: it still runs")
		c.p.Judge(false, exit, "it still runs after %v, expected within %v", wait, within)
	case <-ctx.Done():
		return ctx.Err()
	}
	look("after")
	c.leftovers(ctx)
	return nil
}

// leftovers tells who is left of what ran below the client, by process state: a zombie is not, though kill -0 finds it.
// They are then ended, gently first.
func (c *crash) leftovers(ctx context.Context) {
	var left []*peer.Process
	said := ""
	for _, p := range c.a.Below {
		if x, err := p.Condition(); err == nil {
			left = append(left, p)
			said += fmt.Sprintf(" pid %d (%s, state %c)", p.Facts().PID, p.Facts().Comm, x.State)
		}
	}
	if len(left) == 0 {
		c.p.Judge(true, "Which processes are left of it?", "none, by process state")
		return
	}
	c.p.Judge(false, "Which processes are left of it?", "%d:%s", len(left), said)
	for _, p := range left {
		how := "it had ended"
		for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			if p.Signal(s) != nil {
				break
			}
			limit := time.NewTimer(2 * time.Second)
			select {
			case <-p.Gone():
				how = fmt.Sprintf("ended by %v", s)
			case <-limit.C:
				how = fmt.Sprintf("still there after %v", s)
				continue
			case <-ctx.Done():
			}
			limit.Stop()
			break
		}
		c.p.Tell("How did it end?", "pid %d: %s", p.Facts().PID, how)
	}
}

// aftermath tells what became of the call, while nobody waits for it.
func (c *crash) aftermath(ctx context.Context) error {
	const became, counted = "What became of the call?", "How many writes arrived at the service?"
	if c.moment == beforeSend {
		err := c.s.Until(ctx, "the card's end", func() (bool, error) {
			cards, err := c.s.Cards(ctx)
			return !slices.ContainsFunc(cards, func(x api.Approval) bool { return x.ID == c.card }), err
		})
		if err != nil {
			return err
		}
		c.p.Judge(true, became, "it was never sent: its card %s is withdrawn, nobody can approve it any more", c.card)
		c.p.Judge(len(c.writes(c.path)) == 0, counted, "%d, expected 0", len(c.writes(c.path)))
		return nil
	}
	c.release()
	var act api.Action
	err := c.s.Until(ctx, "the call's result", func() (bool, error) {
		var all []api.Action
		err := c.s.Operator(ctx, api.PathActionList, api.ListArgs{AgentRun: c.run}, &all)
		i := slices.IndexFunc(all, func(x api.Action) bool { return x.JobID == c.job() })
		if i >= 0 {
			act = all[i]
		}
		return i >= 0 && act.State == api.Done, err
	})
	if err != nil {
		return err
	}
	c.action = act.ID
	c.p.Judge(act.Outcome == "accepted", became, "action %s: %s, job %s, recorded though its client is gone", act.ID, act.Outcome, act.JobID)
	c.p.Judge(len(c.writes(c.path)) == 1, counted, "%d, expected 1", len(c.writes(c.path)))
	return nil
}

// correlation is the caller's own id of the write.
func (c *crash) correlation() string { return "crash-" + c.job() }

// job is the id under which the ledger knows the write.
func (c *crash) job() string { return c.path[len("/jobs/"):] }

// contain revokes the run and lets the survivor try to act, before and after.
func (c *crash) contain(ctx context.Context) error {
	told, _, err := c.a.Try(api.ToolHTTP, c.request("POST", c.path+"-survivor"))
	if err != nil {
		return err
	}
	c.p.Judge(told == "run_orphaned", "Could a process that outlives the client still act?", "it tried a write and was told %s", told)
	asked := time.Now()
	if !c.s.o.noRevoke {
		if err := c.s.Operator(ctx, api.PathRunRevoke, api.IDArgs{ID: c.run}, nil); err != nil {
			return err
		}
	}
	told, _, err = c.a.Try(api.ToolHTTP, c.request("POST", c.path+"-survivor"))
	if err != nil {
		return err
	}
	took := time.Since(asked)
	items, err := c.s.Records()
	if err != nil {
		return err
	}
	denied := uint64(0)
	for _, it := range items {
		if e, ok := it.Event.(event.AuthorizationDenied); ok && e.Run == c.run && e.Reason == "run_revoked" {
			denied = it.Seq
		}
	}
	c.p.Judge(told == "run_revoked" && denied > 0, "Does revoking change what it can do, at once?",
		"its next call was told %s, %d ms after the revocation was asked for; the refusal is record %d", told, took.Milliseconds(), denied)
	n := len(c.writes(c.path + "-survivor"))
	c.p.Judge(n == 0, "Did anything of the survivor's arrive at the service?", "%d writes, expected 0", n)
	if c.action == "" {
		c.p.Tell("Can the remote job be cancelled?", "there is none")
		return nil
	}
	var act api.Action
	if err := c.s.Operator(ctx, api.PathActionCancel, api.IDArgs{ID: c.action}, &act); err != nil {
		return err
	}
	state := c.s.Ledger.State(c.path)
	c.p.Judge(state == "cancelled", "Can the remote job be cancelled?", "by its id %s, without the client: action %s is %s, the service says %s", c.job(), act.ID, act.Outcome, state)
	return nil
}

// read asks the log: who owned what, and does it hold together.
func (c *crash) read() error {
	items, err := c.s.Records()
	if err != nil {
		return err
	}
	owner, submitted, key, ended := 0, 0, "", false
	for _, it := range items {
		switch e := it.Event.(type) {
		case event.RunOpened:
			if e.Run == c.run {
				owner = e.Agent.ProcessID
			}
		case event.ToolCalled:
			if e.Run == c.run && e.Action == c.action {
				submitted, key = e.Peer.ProcessID, e.IdempotencyKey
			}
		case event.ApprovalExpired:
			ended = ended || e.Approval == c.card
		case event.AuthorizationDenied:
			if e.Run == c.run && c.action == "" {
				submitted = e.Peer.ProcessID
			}
		}
	}
	c.p.Judge(owner == c.a.PID, "Does the Sessions log name the owner?", "run %s belongs to process %d; the client was process %d", c.run, owner, c.a.PID)
	if c.action == "" {
		c.p.Judge(ended, "Does the log tell the end of what was asked?", "the card %s ended unanswered, and no intent was written", c.card)
		c.p.Judge(submitted != 0, "Does the Activity log name the owner?", "the refused attempts stand under run %s, last by process %d", c.run, submitted)
	} else {
		below := slices.ContainsFunc(c.a.Below, func(p *peer.Process) bool { return p.Facts().PID == submitted })
		c.p.Judge(below, "Does the Activity log name the owner?", "action %s of run %s was submitted by process %d, below the client", c.action, c.run, submitted)
		at := ""
		if w := c.writes(c.path); len(w) > 0 {
			at = w[0].Key
		}
		c.p.Judge(key == c.correlation() && at != "" && c.s.Ledger.State(c.path) != "", "Is the operation at the service found by its id?",
			"the log had %s before anything was sent; the service got it as %s, and has it as job %s, %s", key, at, c.job(), c.s.Ledger.State(c.path))
	}
	v := event.Check(slices.Values(items))
	c.p.Judge(len(v.Breaches) == 0, "Does the log keep what a gateway promises?", "%d breaches in %d calls", len(v.Breaches), v.Calls)
	return nil
}
