package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/vault"
)

// outcome is what is known of an executed call. word is one of 04's; its zero value says that we do not know.
type outcome struct {
	word      string
	reason    string // a code, where word is not a plain success
	fail      *api.Error
	flags     []string
	reflected int
	result    []byte
	file      *keptFile // where the result's body is, if it is long
	job       string    // what the remote side calls the job it started
	status    int
	exit      *int
	signal    string
	sent      int64
	received  int64
	oldEpoch  string // of a call that was lost in a transition of its server
	newEpoch  string
}

// settled gives the outcome its word and, where that is no success, the error that says what to do.
func (o *outcome) settled(word, reason, detail string) {
	o.word = word
	if api.Succeeded(word) {
		return
	}
	o.reason = reason
	if reason == "" || api.Lookup(reason).Name != reason {
		o.reason = word // an executor's finer word stays in the detail
	}
	o.fail = api.Fail(o.reason, detail)
}

// event is the outcome as the log keeps it.
func (o *outcome) event(a api.Action) event.ToolFinished {
	return event.ToolFinished{Action: a.ID, Run: a.AgentRun, Epoch: a.ExecutionEpoch, Outcome: o.word, Reason: o.reason, Status: o.status,
		Exit: o.exit, Signal: o.signal, Flags: o.flags, Reflected: o.reflected, Sent: o.sent, Received: o.received, JobID: a.JobID,
		OldEpoch: o.oldEpoch, NewEpoch: o.newEpoch}
}

// execute lends the plaintext to one executor for the length of one callback. It runs past the gate only.
func (g *Gateway) execute(c *call, p *plan) outcome {
	var out outcome
	var err error
	switch {
	case p.relay != nil:
		return g.executeRelay(c, p)
	case p.onHost():
		err = g.executeHost(c, p, &out)
	default:
		err = g.vault.With(c.ctx, p.secret, func(s vault.Secret) error { return g.executeHTTP(c, p, s, &out) })
	}
	switch {
	case err == nil:
	case out.word != "":
		g.complain("execute", err)
	case errors.Is(err, vault.ErrLocked), errors.Is(err, vault.ErrStale), errors.Is(err, vault.ErrUnknown):
		out.settled("not_sent", "not_sent", "the credential was withdrawn before anything was sent")
	default:
		g.complain("execute", err)
		out.settled("sent_unconfirmed", "", "the gateway failed in the middle of the call")
	}
	return out
}

// callLimit bounds one HTTP exchange, from the dial to the last byte.
const callLimit = 5 * time.Minute

func (g *Gateway) executeHTTP(c *call, p *plan, s vault.Secret, out *outcome) error {
	ctx, cancel := context.WithTimeout(c.ctx, callLimit)
	defer cancel()
	body := &stream{spill: func() (*fileWriter, error) { return newFile(g.cfg.Home.Files(), c.id) }}
	g.acts.show(c.id, &streams{out: body})
	inj := httpexec.Injection{Credential: p.secret.Name, Version: p.secret.Version, Secret: s.Bytes(), IdempotencyKey: p.upstreamKey(c.id),
		Keep: keeper{g, p.secret, event.TokenKept{Credential: p.secret.Name, Action: c.id, Run: p.run, Epoch: c.epoch.id}}}
	r, err := g.http.Do(ctx, c.dial, p.http, p.httpMatch, inj, body)
	out.settled(r.Outcome.String(), r.Reason, r.Detail)
	out.job = r.JobID
	out.status, out.sent, out.received, out.reflected = r.Code, r.Sent, r.Received, r.Hits
	for _, f := range []struct {
		is   bool
		flag string
	}{{r.Hits > 0, "reflected"}, {r.Truncated, "output_truncated"}, {r.Withheld, "scrub_withheld"}} {
		if f.is {
			out.flags = append(out.flags, f.flag)
		}
	}
	if r.Code == 0 {
		body.drop() // a host that spoke unasked said nothing
		return err
	}
	res := api.HTTPResult{Status: r.Code, Headers: r.Headers, BodyComplete: r.Complete}
	res.Body, res.BodyEncoding = bodyText(body.bytes())
	file, ferr := body.kept()
	switch {
	case file != nil:
		out.file, res.BodyFile, res.Body, res.BodyEncoding = file, &c.id, "", "utf-8"
	case body.over():
		res.BodyComplete = false
		if !r.Truncated {
			out.flags = append(out.flags, "output_truncated")
		}
	}
	out.result = encode(res)
	return errors.Join(err, ferr)
}

// joined is a context that ends with either.
func joined(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() { stop(); cancel() }
}

// text shows a command's output; bytes that are no text become U+FFFD.
func text(b []byte) string {
	s := string(b)
	if validText(s) {
		return s
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// upstreamKey is what an API that takes an idempotency key is sent: derived from the run and the caller's own key, else
// the action's id.
func (p *plan) upstreamKey(action string) string {
	if p.key != "" {
		action = ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", p.run, p.key, action))
	return "sp-" + hex.EncodeToString(sum[:16])
}

// effectHash stands for the effect key where only the gateway reads it.
func (p *plan) effectHash() []byte {
	if p.effectKey == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(p.effectKey))
	return sum[:]
}

// bytesOut is the size of what the caller supplied: a body, a command's stdin, a file.
func (p *plan) bytesOut() int64 {
	switch {
	case p.relay != nil:
		return int64(len(p.relay.args))
	case p.onHost():
		return int64(len(p.host.supplied()))
	}
	return int64(len(p.http.Body()))
}
