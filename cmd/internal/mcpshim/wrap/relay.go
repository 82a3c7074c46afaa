package wrap

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

const (
	replyLimit = 1 << 20         // bytes of a reply that the gateway is given
	epochWait  = 2 * time.Second // for the epoch after the one that died
	idLimit    = 128             // bytes of a host's id that the gateway takes
)

// relay is one tools/call on the gateway's road. Its line is given to one child, once.
type relay struct {
	m      message
	kid    *child // nil: none ran
	epoch  string // the child's, when it was asked
	action string // "" until the gateway forwards it
	sent   bool   // the line was given to the child
	silent bool   // the host wants to hear nothing more of it
	told   bool   // the gateway was given a report
	died   bool   // the child ended before it answered
	reply  []byte // the child's line
	end    *relayEnd
}

// relayEnd is the gateway's last word on a call.
type relayEnd struct {
	act api.Action
	err error
}

// call asks the gateway, which take has seen to be there, for one tools/call.
func (w *wrapper) call(m message) {
	if w.fetching && !w.fetched { // the gateway does not know this epoch's tools yet; it will within moments
		w.wait(&w.early, m)
		return
	}
	r := &relay{m: m, kid: w.kid, epoch: w.epoch}
	if w.kid != nil {
		r.epoch = w.kid.epoch
	}
	w.calls[m.key] = r
	req := api.ActionRequest{ExecutionEpoch: r.epoch, Params: m.params}
	if len(m.id) <= idLimit {
		req.RequestID = string(m.id)
	}
	link := w.link
	go func() {
		fwd, act, err := link.Call(w.ctx, req)
		w.post(func() { w.decided(r, link, fwd, act, err) })
	}()
}

// decided takes the gateway's decision. Only a forward lets the line through to the child.
func (w *wrapper) decided(r *relay, link Link, fwd *client.Forwarded, act api.Action, err error) {
	if fwd == nil {
		r.end = &relayEnd{act, err}
		w.settle(r)
		return
	}
	r.action = fwd.Forward.Action
	go func() {
		act, err := fwd.Wait(w.ctx)
		w.post(func() {
			r.end = &relayEnd{act, err}
			w.settle(r)
		})
	}()
	k := w.kid
	if r.silent || k == nil || k != r.kid || k.epoch != fwd.ExecutionEpoch || w.ending != nil || w.link != link {
		w.reportOn(link, r, api.ServerReport{Outcome: "not_sent"})
		return
	}
	answer := &request{done: func(a message) { w.replied(r, a) }, lost: func() { w.died(r) }}
	if !w.give(k, r.m.key, r.m.line, answer) {
		w.reportOn(link, r, api.ServerReport{Outcome: "not_sent"})
		return
	}
	r.sent = true
}

// replied takes the child's answer. The host gets it when the gateway has recorded it.
func (w *wrapper) replied(r *relay, a message) {
	r.reply = a.line
	body, failed := a.result, false
	if body == nil {
		body, failed = a.fault, true
	} else {
		var e struct {
			IsError bool `json:"isError"`
		}
		failed = json.Unmarshal(body, &e) == nil && e.IsError
	}
	rep := api.ServerReport{Outcome: "confirmed", Reply: body, Failed: failed}
	if len(body) > replyLimit {
		sum := sha256.Sum256(body)
		rep.Reply, rep.Length, rep.Digest = nil, int64(len(body)), "sha256:"+hex.EncodeToString(sum[:])
	}
	w.report(r, rep)
}

// died takes the loss of a child that was given the call.
func (w *wrapper) died(r *relay) {
	r.died = true
	w.report(r, api.ServerReport{Outcome: "sent_unconfirmed"})
	w.after(epochWait, func() { w.settleNow(r) })
}

// report tells the gateway the end of a call, once.
func (w *wrapper) report(r *relay, rep api.ServerReport) {
	if w.link != nil {
		w.reportOn(w.link, r, rep)
	}
}

func (w *wrapper) reportOn(link Link, r *relay, rep api.ServerReport) {
	if r.told {
		return
	}
	r.told = true
	rep.Action = r.action
	go link.Report(w.ctx, rep) // if it fails, so does the wait for the call's end
}

// callBack takes the gateway's wish to end a call now.
func (w *wrapper) callBack(action string) {
	for _, r := range w.calls {
		if r.action != action || r.told {
			continue
		}
		if k := w.kid; r.sent && k != nil && k == r.kid && k.owed[r.m.key] != nil {
			k.owed[r.m.key] = &request{done: func(message) { w.late++ }, lost: func() {}}
			k.in.put([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(r.m.id) + `,"reason":"called back by the operator"}}`))
		}
		w.report(r, api.ServerReport{Outcome: "sent_unconfirmed"})
	}
}

// settle answers the host, if all is known that the answer holds.
func (w *wrapper) settle(r *relay) {
	if r.end == nil || r.died && r.end.err == nil && w.starting && r.epoch == w.epoch {
		return
	}
	w.settleNow(r)
}

// settleNow answers the host with what is known.
func (w *wrapper) settleNow(r *relay) {
	if w.calls[r.m.key] != r {
		return
	}
	delete(w.calls, r.m.key)
	var e *api.Error
	switch {
	case r.end == nil: // two seconds after the child's death the gateway has not answered the report
		w.reply(r.m, w.unconfirmed(r, nil))
	case r.end.err == nil && r.reply != nil && (r.end.act.Outcome == "confirmed" || r.end.act.Outcome == "failed_remote"):
		w.reply(r.m, r.reply)
	case r.end.err == nil && (r.died || r.end.act.Outcome == "sent_unconfirmed"):
		w.reply(r.m, w.unconfirmed(r, r.end.act.Error))
	case errors.As(r.end.err, &e):
		if e.Code == "server_down" && w.down != "" && !w.stop { // nobody will start it here: to wait would be in vain
			told := *e
			told.Reason, told.Retry, told.Next = w.down, "connect to this server again, and ask for approval", api.NextAsk
			e = &told
		}
		w.reply(r.m, w.refusal(r.m.id, e))
	case r.end.err != nil:
		w.reply(r.m, w.refusal(r.m.id, api.Fail("sent_unconfirmed", r.end.err.Error())))
	default:
		w.reply(r.m, w.refusal(r.m.id, failureOf(r.end.act)))
	}
}

// settleDead answers the calls whose child died, now that it is known which epoch comes next, or that none does.
func (w *wrapper) settleDead() {
	for _, r := range w.calls {
		if r.died {
			w.settle(r)
		}
	}
}

// failureOf is an action's own error, else the table's row for its outcome.
func failureOf(a api.Action) *api.Error {
	e := api.Fail("internal", "the gateway answered the call without a result")
	if a.Error != nil {
		e = a.Error
	} else if row := api.Lookup(a.Outcome); row.Name == a.Outcome {
		e = api.Fail(a.Outcome, "")
	}
	if e.Action == "" {
		e.Action = a.ID
	}
	return e
}

// transition is what a host is told of a call that a server's death left open.
type transition struct {
	Code    string `json:"error"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	Retry   string `json:"retry"`
	Next    string `json:"next"`
	Action  string `json:"action,omitempty"`
	Old     string `json:"oldEpoch"`
	New     string `json:"newEpoch,omitempty"`
}

// unconfirmed tells a call that was given to a server from which no answer will come.
func (w *wrapper) unconfirmed(r *relay, e *api.Error) []byte {
	row := api.Fail("sent_unconfirmed", "the server ended while the call was under way; it may have taken effect")
	if !r.died {
		row = api.Fail("sent_unconfirmed", "")
	}
	if e != nil && !r.died {
		row = e
	}
	t := transition{Code: row.Code, Outcome: "sent_unconfirmed", Reason: row.Reason, Retry: row.Retry, Next: row.Next, Action: r.action, Old: r.epoch}
	if w.epoch != r.epoch {
		t.New = w.epoch
	}
	text := t.Code + ": " + t.Reason + "\nretry: " + t.Retry + "\naction: " + t.Action + "\noldEpoch: " + t.Old
	if t.New != "" {
		text += "\nnewEpoch: " + t.New
	}
	return w.result(r.m.id, text, t)
}

// refusal tells what the gateway said, with all it holds.
func (w *wrapper) refusal(id jsontext.Value, e *api.Error) []byte {
	text := e.Code + ": " + e.Reason
	for _, f := range [][2]string{{"retry", e.Retry}, {"next", e.Next}, {"action", e.Action}, {"approvedEpoch", e.ApprovedEpoch}, {"currentEpoch", e.CurrentEpoch}} {
		if f[1] != "" {
			text += "\n" + f[0] + ": " + f[1]
		}
	}
	return w.result(id, text, e)
}

// result is a tools/call's answer that the server did not give.
func (w *wrapper) result(id jsontext.Value, text string, doc any) []byte {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	kind := ""
	if w.modern() {
		kind = "complete"
	}
	b, err := json.Marshal(struct {
		Kind    string    `json:"resultType,omitempty"` // of revision 2026-07-28
		Content []content `json:"content"`
		Doc     any       `json:"structuredContent"`
		IsError bool      `json:"isError"`
	}{kind, []content{{"text", text}}, doc, true})
	if err != nil {
		return failure(id, codeDown, text)
	}
	return answerLine(id, b)
}
