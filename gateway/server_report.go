package gateway

import (
	"context"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
)

// digestText is a digest as text.
var digestText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// unlikely says why no wrapper can have settled a call in this way; empty: it can. Length is the one number in a report, and
// ends up in sums: a reply is part of one line, and is left out only if it is longer than what is kept.
func unlikely(r api.ServerReport) string {
	leftOut := r.Length != 0 || r.Digest != ""
	switch {
	case len(r.Reply) > replyMax:
		return "reply: over 1 MiB it is left out, and length and digest said instead"
	case leftOut && (r.Outcome != "confirmed" || len(r.Reply) > 0):
		return "length and digest: of a confirmed call's reply that was left out"
	case leftOut && (r.Length <= replyMax || r.Length > api.FrameLimit):
		return "length: over 1 MiB to 16 MiB"
	case leftOut && !digestText.MatchString(r.Digest):
		return "digest: sha256: and 64 digits"
	case r.Outcome == "confirmed" && !leftOut && len(r.Reply) == 0:
		return "reply: of a confirmed call, or its length and digest"
	}
	return ""
}

// serverReport is the wrapper's word on one forwarded call.
func (a *agentConn) serverReport(ctx context.Context, params []byte) api.Response {
	var r api.ServerReport
	who, s, fault := a.wrapper(ctx, api.MethodServerReport, params, &r, "/reply")
	if fault != nil {
		return api.Response{Error: fault}
	}
	switch r.Outcome {
	case "confirmed", "not_sent", "sent_unconfirmed":
	default:
		return api.Response{Error: a.denied(ctx, who, api.MethodServerReport, "", api.Fail("invalid_request", "outcome: confirmed, not_sent or sent_unconfirmed"))}
	}
	if why := unlikely(r); why != "" {
		return api.Response{Error: a.denied(ctx, who, api.MethodServerReport, "", api.Fail("invalid_request", why))}
	}
	s.run.mu.Lock()
	var w *relayed
	for _, e := range s.run.epochs {
		if e.inst != nil && e.inst.server == s && e.inst.calls[r.Action] != nil {
			w = e.inst.calls[r.Action]
		}
	}
	s.run.mu.Unlock()
	if w == nil {
		return api.Response{Error: a.denied(ctx, who, api.MethodServerReport, "", api.Fail("action_unknown", "no forwarded call of this server waits for a report under this id"))}
	}
	select {
	case w.report <- r:
	default: // the first one counts
	}
	return api.Response{Result: jsontext.Value("{}")}
}
