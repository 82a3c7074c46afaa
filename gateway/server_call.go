package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/launch"
)

// The relay: a tools/call of a supervised server. It walks the one road; to execute it is to tell the wrapper "forward" and
// to wait for its report.

// relayAsk is a wrapper's call before and after it was bound.
type relayAsk struct {
	server  *server
	conn    *agentConn
	held    *hold          // its part of the servers' room, while it waits for a card
	line    string         // the id of the wrapper's line, on which forward is answered
	meant   string         // the epoch it names
	request string         // the host's own id
	args    jsontext.Value // canonical, integers as they were written; nil: none

	// Bound: what the catalog said when the call came.
	shown, current, contract string
	defaults                 []api.Default // of fields that the call leaves out
}

// parseRelay reads a wrapper's call.
func (a *agentConn) parseRelay(r api.ActionRequest, line string) parsed {
	q := parsed{key: r.IdempotencyKey}
	bad := func(s string) parsed {
		q.fault = api.Fail("invalid_request", s)
		return q
	}
	s := a.g.serverOf(a)
	switch {
	case s == nil:
		return bad("executionEpoch: only a wrapper's call has one, after server.started")
	case r.Tool != "" || len(r.Args) > 0 || r.IdempotencyKey != "" || r.WaitSeconds != 0 || r.Reason != "":
		return bad("a call with executionEpoch has params, and nothing else of another call")
	case len(r.RequestID) > 128:
		return bad("requestId: at most 128 bytes")
	}
	q.relay = &relayAsk{server: s, conn: a, line: line, meant: r.ExecutionEpoch, request: escape(r.RequestID, 160)}
	q.target = s.label
	var p struct {
		Name string         `json:"name"`
		Args jsontext.Value `json:"arguments"`
		X    jsontext.Value `json:",unknown"`
	}
	if err := relayable(r.Params); err != nil {
		return bad("params: " + err.Error())
	}
	if err := json.Unmarshal(r.Params, &p); err != nil || p.Name == "" || len(p.Name) > 256 {
		return bad("params: an object with the tool's name")
	}
	q.tool = p.Name
	if len(p.Args) > 0 {
		if err := p.Args.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
			return bad("params: arguments are no JSON")
		}
		q.relay.args = p.Args
	}
	return q
}

// relayable refuses a document nested deeper than any of ours may be.
func relayable(doc []byte) error {
	d := jsontext.NewDecoder(strings.NewReader(string(doc)))
	for {
		if _, err := d.ReadToken(); err != nil {
			if errors.Is(err, io.EOF) && d.InputOffset() > 0 {
				return nil
			}
			return errors.New("not one JSON document")
		}
		if d.StackDepth() > api.DepthLimit {
			return fmt.Errorf("nested deeper than %d", api.DepthLimit)
		}
	}
}

// bindRelay resolves a tool against the catalog that its server has now.
func (p *plan) bindRelay() {
	q := p.relay
	s := q.server
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	p.authz = authz.Request{Tool: p.tool, Target: s.label, Effect: authz.Destructive, Confirm: authz.ConfirmNever, Unbound: authz.UnknownTool}
	p.operation = "tools/call " + escape(p.tool, 256)
	p.summary = "tools/call " + escape(p.tool, 256) + " of the supervised server " + s.label
	if len(q.args) > 0 {
		p.summary += "\n" + shownData("arguments", q.args)
	}
	q.shown = s.shown
	if !s.is(s.current) {
		return // rung 4 says so
	}
	in := s.current.inst
	q.current = in.revision.ID
	t, known := in.revision.Tools[p.tool]
	if !known {
		p.detail = "the server's tools/list names no such tool"
		return
	}
	p.authz.Bound, p.authz.Unbound = true, ""
	q.contract = t.ContractID()
	q.defaults = omitted(t, q.args)
	for _, d := range q.defaults {
		p.summary += "\nleft out: " + d.Field + "; the server declares the default " + d.Value + ", which is its claim"
	}
}

// omitted are the fields a call leaves out, with what their server claims of them.
func omitted(t launch.Tool, args jsontext.Value) []api.Default {
	var out []api.Default
	left := t.Omitted(args)
	for _, field := range slices.Sorted(maps.Keys(left)) {
		if len(out) == 64 {
			break
		}
		out = append(out, api.Default{Field: escape(field, 128), Value: escape(string(left[field]), 256)})
	}
	return out
}

// relayFacts are what Decide looks at of a supervised server. run.mu is held.
func (g *Gateway) relayFacts(f *authz.Facts, p *plan) {
	s := p.relay.server
	f.Approved = s.run.served.approved[s.label]
	f.Caller.Meant = p.relay.meant
	f.Caller.Down = !s.is(s.current)
	if e := s.current; e != nil {
		f.Caller.Epoch, f.Caller.State = e.id, e.state
		f.Caller.Unstable = len(e.inst.unstable) > 0
		f.Caller.Suspended = g.suspends.Load() && e.drift.Load()
		f.Catalog = authz.Catalog{Shown: p.relay.shown, Current: e.inst.revision.ID, Contract: p.relay.contract}
		if t, ok := e.inst.revision.Tools[p.tool]; ok {
			f.Catalog.Contract = t.ContractID()
		}
		if p.authz.Bound && f.Catalog.Contract != p.relay.contract {
			f.Request.Bound, f.Request.Unbound = false, authz.CatalogStale // composed for another contract
		}
	}
}

// relayCall walks a wrapper's call. It is answered when it has ended.
func (a *agentConn) relayCall(ctx context.Context, r api.ActionRequest, line string, held *hold) api.Response {
	q := a.parseRelay(r, line)
	who, err := a.g.identify(ctx, a.proc, a.g.log.w.Load() != nil)
	if err != nil {
		a.g.complain("identify", err)
		return api.Response{Error: a.denied(ctx, who, api.MethodCall, q.tool, a.unidentified(err))}
	}
	if q.relay != nil {
		who = q.relay.caller(who)
	}
	ended := make(chan api.Action, 1)
	id := newID("act_")
	held.keep()
	a.g.task(func() { ended <- a.g.walk(ctx, who, q, id); held.drop() })
	select {
	case act := <-ended:
		return answerOf(act)
	case <-ctx.Done():
		a.g.task(func() { a.g.late(<-ended) })
		return api.Response{Error: api.Fail("gateway_restarted", "")}
	}
}

// caller is the wrapper, speaking for its server's current epoch; for itself while there is none.
func (q *relayAsk) caller(who caller) caller {
	s := q.server
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	who.run = s.run
	if s.current != nil {
		who.epoch = s.current
	}
	return who
}

// reportWait is how long the wrapper's word is waited for when a call is called back or its child is gone.
const (
	reportWait = time.Second
	epochWait  = 2 * time.Second // for the epoch that comes after
)

// executeRelay tells the wrapper to forward the call, once, and waits for its report.
func (g *Gateway) executeRelay(c *call, p *plan) (out outcome) {
	s, in := p.relay.server, c.epoch.inst
	w := &relayed{report: make(chan api.ServerReport, 1)}
	s.run.mu.Lock()
	stands := s.current == c.epoch && c.epoch.state == authz.Live
	if stands {
		in.calls[c.id] = w
	}
	s.run.mu.Unlock()
	if !stands || c.dial.Err() != nil {
		out.settled("not_sent", "not_sent", "the server's epoch ended before anything was forwarded")
		return out
	}
	defer in.done(s.run, c.id)
	s.conn.answer(api.Response{ID: p.relay.line, Forward: &api.Forward{Action: c.id, ExecutionEpoch: c.epoch.id}})
	select {
	case r := <-w.report:
		return g.relaySettled(c, p, r)
	case <-in.over: // its answer may be on its way all the same
	case <-s.conn.over:
		return g.relayLost(c, p, "its wrapper is gone")
	case <-c.ctx.Done():
		s.push(api.Push{Kind: api.PushCancel, Action: c.id})
	}
	t := time.NewTimer(reportWait)
	defer t.Stop()
	select {
	case r := <-w.report:
		return g.relaySettled(c, p, r)
	case <-s.conn.over:
	case <-t.C:
		if c.ctx.Err() != nil {
			s.conn.conn.Close() // a wrapper that says nothing might forward it still
		}
	}
	return g.relayLost(c, p, "")
}

// relaySettled takes the wrapper's word.
func (g *Gateway) relaySettled(c *call, p *plan, r api.ServerReport) (out outcome) {
	switch r.Outcome {
	case "confirmed":
		out.settled("confirmed", "", "")
		out.result, out.received = r.Reply, int64(len(r.Reply))
		if r.Failed {
			out.flags = append(out.flags, "tool_failed")
		}
		if len(r.Reply) == 0 {
			out.received = r.Length
			out.flags = append(out.flags, "output_truncated")
			out.result = encode(api.RelayLeftOut{Length: r.Length, Digest: r.Digest})
		}
	case "not_sent":
		out.settled("not_sent", "not_sent", "the wrapper wrote nothing of it to the server")
	default:
		return g.relayLost(c, p, "")
	}
	out.sent = p.bytesOut()
	return out
}

// relayLost is a call whose answer will not come. Where its epoch is over the error names the transition.
func (g *Gateway) relayLost(c *call, p *plan, why string) (out outcome) {
	s, in := p.relay.server, c.epoch.inst
	detail := "it was forwarded, and no answer came"
	if why != "" {
		detail += ": " + why
	}
	select {
	case <-in.over:
		out.oldEpoch = c.epoch.id
		out.newEpoch = s.next(c, epochWait)
		detail = "server execution epoch changed while the call was in flight"
	default:
	}
	out.settled("sent_unconfirmed", "", detail)
	out.fail.OldEpoch, out.fail.NewEpoch = out.oldEpoch, out.newEpoch
	out.sent = p.bytesOut()
	return out
}

// next waits for the epoch that follows the call's; empty if none comes in time.
func (s *server) next(c *call, wait time.Duration) string {
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		s.run.mu.Lock()
		e, changed := s.current, s.changed
		s.run.mu.Unlock()
		if e != c.epoch && e != nil {
			return e.id
		}
		select {
		case <-changed:
		case <-s.conn.over:
			return ""
		case <-c.ctx.Done():
			return ""
		case <-t.C:
			return ""
		}
	}
}

// callGrace is how long after a tools/call its server's own calls still pass for a part of it.
const callGrace = 2 * time.Second

// done notes that a forwarded call has ended.
func (in *instance) done(r *run, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(in.calls, id)
	at := boot()
	for old, t := range in.ended {
		if at-t >= callGrace {
			delete(in.ended, old)
		}
	}
	in.ended[id] = at
}

// during lists the tools/calls that the server's own call may be part of. run.mu must be held.
func (in *instance) during() (ids []string) {
	for id := range in.calls {
		ids = append(ids, id)
	}
	at := boot()
	for id, t := range in.ended {
		if at-t < callGrace {
			ids = append(ids, id)
		}
	}
	return ids
}

// sumRelay is what a relay's digest is over: a twin in a later epoch has the same one, so that a write nobody knows the end
// of stands in its way.
func (q *relayAsk) sum(put func([]byte)) {
	h := sha256.Sum256(q.args)
	put([]byte("relay " + hex.EncodeToString(h[:])))
}
