package wrap

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sallyport/cmd/internal/mcpshim/jsonline"
	"sallyport/gateway/api"
)

// fromHost takes one line of the host's.
func (w *wrapper) fromHost(line []byte) {
	if blank(line) || w.ending != nil {
		return
	}
	m, err := read(line)
	switch {
	case err == errNotJSON:
		w.host.put(failure(nil, jsonline.CodeParse, err.Error()))
	case err != nil:
		w.host.put(failure(nil, jsonline.CodeRequest, err.Error()))
	case m.method == "notifications/cancelled" && w.cancelled(m):
	case isRequest(m):
		if w.isOpen(m.key) {
			w.host.put(failure(nil, jsonline.CodeRequest, "a request with this id is still unanswered"))
			return
		}
		w.open[m.key] = true
		w.take(m)
	default:
		w.take(m)
	}
}

// reply answers a request of the host's, which is open no longer.
func (w *wrapper) reply(m message, line []byte) {
	delete(w.open, m.key)
	w.host.put(line)
}

// take passes one message of the host's on, holds it until a server is ready for it, or answers it.
func (w *wrapper) take(m message) {
	if link := w.link; link != nil { // a host that was just answered so may be faster than the loss's own word
		select {
		case <-link.Done():
			w.unlinked(link)
		default:
		}
	}
	switch {
	case w.kid != nil && w.kid.greeted && !(m.method == "tools/call" && w.link == nil):
	case w.starting || w.kid != nil && !w.kid.greeted:
		w.hold(m)
		return
	case !isRequest(m): // notifications and answers: there is nobody whom they would mean
		w.note(m)
		return
	case w.again: // the last start failed for want of a gateway, or the gateway has gone since
		w.hold(m)
		w.launch("supervisor", nil)
		return
	case m.method != "tools/call" || w.link == nil:
		w.reply(m, failure(m.id, codeDown, w.down))
		return
	}
	switch {
	case m.method == "":
		w.answerToServer(m)
	case m.id == nil && m.method == "tools/call": // a call that nobody would answer for; a lax server runs it
		w.say("sp mcp: a tools/call without an id is no call: dropped")
	case m.id == nil:
		w.notify(m)
	case m.method == "tools/call":
		w.call(m)
	case m.method == "subscriptions/listen":
		w.listen(m)
	case m.method == "server/discover" && w.legacyOnly:
		w.reply(m, failure(m.id, jsonline.CodeMethod, "this server ended when it was asked for server/discover; send initialize"))
	default:
		w.forward(m)
	}
}

// isOpen says that an answer under this id may still come: the host waits for it, or the server has not given it.
func (w *wrapper) isOpen(key string) bool {
	return w.open[key] || w.kid != nil && w.kid.owed[key] != nil
}

// forward gives a request other than tools/call to the server.
func (w *wrapper) forward(m message) {
	k := w.kid
	r := &request{done: func(a message) { w.reply(m, a.line) }}
	r.lost = func() {
		w.reply(m, failure(m.id, codeReplaced, "the server ended before it answered "+quote(m.method)+"; ask again"))
	}
	switch m.method {
	case "initialize":
		r.done = func(a message) { w.initialized(m, a) }
		r.lost = func() { w.lostHandshake(m) }
	case "server/discover":
		w.probe = true
		r.done = func(a message) { w.discovered(m, a) }
		r.lost = func() { w.lostHandshake(m) }
	case "tools/list":
		r.done = func(a message) { w.hostListed(k, m, a) }
	}
	if !w.give(k, m.key, m.line, r) {
		w.reply(m, failure(m.id, codeTooMany, "the server does not take more requests"))
	}
}

// give writes a request to the child and awaits its answer.
func (w *wrapper) give(k *child, key string, line []byte, r *request) bool {
	if !k.in.put(line) {
		return false
	}
	k.owed[key] = r
	return true
}

// answerToServer passes on what the host says to a request of the server's that still runs.
func (w *wrapper) answerToServer(m message) {
	if !w.kid.asked[m.key] {
		w.late++
		return
	}
	delete(w.kid.asked, m.key)
	w.kid.in.put(m.line)
}

// notify passes on a notification of the host's.
func (w *wrapper) notify(m message) {
	w.note(m)
	w.kid.in.put(m.line)
	if m.method == "notifications/initialized" {
		w.refetch(w.kid)
	}
}

// note remembers what a later server must be told again.
func (w *wrapper) note(m message) {
	if m.method == "notifications/initialized" {
		w.done = m.line
	}
}

// cancelled takes a cancellation that is not the server's business, or not only: of what no server was given, none hears.
func (w *wrapper) cancelled(m message) (taken bool) {
	var p struct {
		ID jsontext.Value `json:"requestId"`
	}
	if json.Unmarshal(m.params, &p) != nil {
		return false
	}
	key, err := jsonline.IDKey(p.ID)
	if err != nil {
		return false
	}
	r, listens := w.calls[key], w.listens[key] != nil
	if r == nil && !listens && !w.unhold(key) {
		return false
	}
	delete(w.open, key)
	delete(w.listens, key)
	delete(w.calls, key)
	if r == nil {
		return true
	}
	r.silent = true // what the gateway forwards now will be reported as not sent
	if k := w.kid; r.sent && k != nil && k == r.kid && k.owed[key] != nil {
		k.in.put(m.line)
		k.owed[key] = &request{done: func(message) {}, lost: func() {}}
		w.report(r, api.ServerReport{Outcome: "sent_unconfirmed"})
	}
	return true
}

// fromChild takes one line of the child's; a line that was too long comes as what it can't be.
func (w *wrapper) fromChild(k *child, line []byte) {
	if k != w.kid {
		w.late++
		return
	}
	if blank(line) {
		return
	}
	m, err := read(line)
	if err != nil {
		if w.dropped++; w.dropped == 1 {
			w.say("sp mcp: the server writes to its stdout what is no JSON-RPC: dropped (said once)")
		}
		return
	}
	switch {
	case m.method == "":
		r := k.owed[m.key]
		if r == nil {
			w.late++
			return
		}
		delete(k.owed, m.key)
		r.done(m)
	case m.id != nil:
		k.asked[m.key] = true
		w.host.put(m.line)
	case m.method == "notifications/tools/list_changed":
		w.changed(k)
	case w.ofListen(k, m):
	default:
		w.host.put(m.line)
	}
}
