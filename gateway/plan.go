package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
	"sallyport/vault"
)

// A request is parsed once, into one value that never changes. What authz judges, what the vault is asked for, what the
// executor is given and what the log says are all read from it, so they cannot differ.

// parsed is a request before any vault was looked at.
type parsed struct {
	tool   string
	target string // as named by the caller; empty where a URL was given
	narrow string // http_request's credential
	key    string // the caller's idempotency key
	http   httpexec.Request
	host   hostAsk
	job    *jobAsk    // a request about a remote job; nil for every other
	relay  *relayAsk  // a call of a supervised server's tool; nil for every other
	access *accessAsk // a request for a grant, which does nothing; nil for every other
	reason string     // the agent's own words, escaped
	fault  *api.Error // rung 0
}

// plan is a parsed request bound to one target, credential and rule of one vault snapshot.
type plan struct {
	parsed
	authz     authz.Request
	secret    vault.Ref
	httpMatch httpexec.Match
	way       way
	detail    string // why it is not bound, for the caller
	operation string // method and path, or the command's class
	summary   string // the exact action, for the card
	account   string // the credential's label
	digest    [32]byte
	run       string // whose it is; part of the key an API is sent
	effectKey string // credential, method, path: what an unresolved write makes ask
}

// parseWith reads a call strictly, with no vault; blob gives the bytes that the caller sent before under a reference, once.
// A fault stays in the value: it is denied on rung 0 like any other.
func parseWith(r api.ActionRequest, blob func(ref string) ([]byte, *api.Error)) parsed {
	q := parsed{tool: r.Tool, key: r.IdempotencyKey, reason: escape(r.Reason, reasonLimit)}
	switch {
	case len(r.IdempotencyKey) > 128 || !printable(r.IdempotencyKey):
		q.fault = api.Fail("invalid_request", "idempotencyKey: at most 128 printable ASCII characters")
	case r.WaitSeconds < 0 || r.WaitSeconds > api.WaitLimit:
		q.fault = api.Fail("invalid_request", fmt.Sprintf("waitSeconds: 0 to %d", api.WaitLimit))
	case r.Tool == api.ToolHTTP:
		q.parseHTTP(r.Args, blob)
	case r.Tool == api.ToolSSH, r.Tool == api.ToolJob:
		q.parseSSH(r.Args)
	case r.Tool == api.ToolUpload, r.Tool == api.ToolDownload:
		q.parseTransfer(r.Args, blob)
	case r.Tool == api.ToolAccess:
		q.parseAccess(r.Args)
	default:
		q.fault = api.Fail("unknown_tool", "")
		q.tool = escape(r.Tool, 64)
	}
	return q
}

func (q *parsed) parseHTTP(args []byte, blob func(ref string) ([]byte, *api.Error)) {
	var a api.HTTPArgs
	if q.fault = decode(args, &a); q.fault != nil {
		return
	}
	q.target, q.narrow = a.Target, a.Credential
	body := []byte(a.Body)
	if a.BodyRef != "" {
		if a.Body != "" {
			q.fault = api.Fail("invalid_request", "give body or bodyRef, not both")
			return
		}
		if body, q.fault = blob(a.BodyRef); q.fault != nil {
			return
		}
	}
	req, err := httpexec.ParseRequest(httpexec.Input{URL: a.URL, Target: a.Target, Path: a.Path, Method: a.Method,
		Query: a.Query, Headers: a.Headers, Body: body})
	if err != nil {
		q.fault = requestFault(err)
		return
	}
	q.http = req
}

// requestFault turns an executor's refusal of a request into the table's.
func requestFault(err error) *api.Error {
	if e, ok := errors.AsType[*httpexec.RequestError](err); ok {
		return api.Fail(e.Code, e.Reason)
	}
	if e, ok := errors.AsType[*sshexec.RequestError](err); ok {
		return api.Fail(e.Code, e.Reason)
	}
	return api.Fail("invalid_request", err.Error())
}

// bind resolves target, credential and rule against one snapshot. It never fails: what does not resolve is not bound,
// and the plan says why. t is nil while the vault is closed.
func bind(q parsed, t *targets) *plan {
	p := &plan{parsed: q}
	p.authz = authz.Request{Tool: q.tool, Target: q.target, Unbound: authz.TargetUnknown}
	switch {
	case q.fault != nil:
		p.authz.Fault = authz.Reason(q.fault.Code)
		p.detail = q.fault.Reason
	case q.relay != nil:
		asked := *q.relay // a plan never changes what was parsed
		p.relay = &asked
		p.bindRelay()
	case q.job != nil:
		p.bindJob(t)
	case q.access != nil:
		asked := *q.access
		p.access = &asked
		p.bindAccess(t)
	case p.onHost():
		p.bindHost(t)
	default:
		p.bindHTTP(t)
	}
	p.digest = p.sum()
	p.authz.Digest = "sha256:" + hex.EncodeToString(p.digest[:])
	return p
}

// unbound notes why nothing was resolved.
func (p *plan) unbound(code authz.Reason, detail string) { p.authz.Unbound, p.detail = code, detail }

func (p *plan) bindHTTP(t *targets) {
	req := p.http
	p.authz.Effect = effectOf(req.Effect())
	if t == nil {
		return
	}
	if p.target != "" {
		origin, why := t.origin(p.target)
		if why != "" {
			p.unbound(authz.TargetUnknown, why)
			return
		}
		var err error
		if req, err = req.At(origin); err != nil {
			p.unbound(authz.RuleMismatch, requestFault(err).Reason)
			return
		}
	}
	p.http = req
	p.operation = req.Method() + " " + req.Path()
	p.summary = shownHTTP(req)
	var hit []*httpCredential
	var m httpexec.Match
	refused := (*httpexec.RequestError)(nil)
	only := cmp.Or(p.narrow, p.target) // a target is named after its credential
	for _, c := range t.at(req.Origin()) {
		if only != "" && c.meta.Name != only {
			continue
		}
		x, err := c.rules.Match(req)
		if err == nil {
			hit, m = append(hit, c), x
		} else if e, ok := errors.AsType[*httpexec.RequestError](err); ok && (refused == nil || e.Code == "header_refused") {
			refused = e
		}
	}
	switch {
	case len(hit) > 1:
		p.unbound(authz.RuleMismatch, fmt.Sprintf("credentials %s and %s both allow this request; name one in credential", hit[0].meta.Name, hit[1].meta.Name))
	case len(hit) == 1:
		p.bound(hit[0].meta, hit[0].meta.Confirm, req.Origin())
		p.httpMatch = m
		p.effectKey = strings.Join([]string{hit[0].meta.Name, req.Method(), req.Origin(), req.Path()}, "\n")
	case refused != nil:
		p.unbound(authz.Reason(refused.Code), refused.Reason)
	case p.narrow != "" && !t.known(p.narrow):
		p.unbound(authz.TargetUnknown, "no credential of this name")
	default:
		p.unbound(authz.RuleMismatch, "")
	}
}

// bound notes the one credential and rule that a request resolved to.
func (p *plan) bound(m vault.Meta, confirm, target string) {
	p.secret = vault.Ref{Name: m.Name, Version: m.Version}
	a := &p.authz
	a.Bound, a.Unbound, a.Credential, a.Target, a.Version = true, "", m.Name, target, m.Version
	a.Confirm = confirmOf(confirm)
	p.account = m.Account
}

// sum is the plan's digest: everything that will be sent, to whom and with which credential's which version.
func (p *plan) sum() [32]byte {
	h := sha256.New()
	put := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	put([]byte("sallyport plan 1"))
	put([]byte(p.tool))
	if !p.authz.Bound || p.tool != api.ToolHTTP || p.relay != nil { // else the origin is the target, however the caller named it
		put([]byte(p.target))
	}
	put([]byte(p.authz.Target))
	put([]byte(p.authz.Credential))
	put(binary.BigEndian.AppendUint64(nil, p.authz.Version))
	p.way.sum(put)
	if p.fault == nil && p.tool == api.ToolHTTP && p.relay == nil {
		put(p.http.Canonical())
	}
	if p.fault == nil && p.onHost() && p.job == nil {
		put(p.host.canonical(p.tool))
	}
	if p.relay != nil {
		p.relay.sum(put)
	}
	if p.access != nil {
		for _, tool := range p.access.tools {
			put([]byte(tool))
		}
	}
	if p.job != nil {
		put([]byte(p.job.verb + " " + p.job.of.ID))
	}
	return [32]byte(h.Sum(nil))
}

// current tells whether what the plan was bound to still stands in s.
func (p *plan) current(s *vault.Snapshot) bool {
	if p.relay != nil {
		return true // it has no credential; its contract is looked at under the run's lock
	}
	if p.access != nil && p.access.missing {
		return p.absent(s)
	}
	m, ok := s.Credential(p.secret.Name)
	if !ok || m.Version != p.secret.Version {
		return false
	}
	return p.way.current(s)
}

// gaps are the questions of 04 that this channel leaves open, told on each write's card.
func (p *plan) gaps() []string {
	switch {
	case p.relay != nil:
		return []string{"what the server does with the call only the server knows: if its process goes before it answers, nothing looks the call up or cancels it",
			"its own calls with credentials are admitted while this call is in flight; which tool made them can't be told"}
	case p.authz.Effect == authz.Read, p.access != nil:
		return nil
	case p.tool == api.ToolSSH:
		return []string{"a command that was started may go on when the connection is lost; nothing looks it up or cancels it there, as it would a job (job_start)"}
	case p.tool == api.ToolUpload, p.tool == api.ToolJob:
		return nil
	case p.tool == api.ToolGit:
		return []string{"whether a push rewrites history can't be seen before it is sent: that only the host can refuse"}
	}
	return []string{"if the answer is lost, the write may have happened; look it up at the service before sending it again"}
}

func confirmOf(s string) authz.Confirm {
	switch s {
	case "never":
		return authz.ConfirmNever
	case "click":
		return authz.ConfirmClick
	}
	return authz.ConfirmPasskey
}

func effectOf(s string) authz.Effect {
	switch s {
	case "read":
		return authz.Read
	case "write":
		return authz.Write
	}
	return authz.Destructive
}

// stricter is the one of two confirm modes that asks more.
func stricter(a, b string) string {
	if b == "" || confirmOf(a) > confirmOf(b) {
		return a
	}
	return b
}

// bodyText gives bytes as text where they are, else in base64. JSON spells a control character in six bytes, so a body
// full of them is no text.
func bodyText(b []byte) (text, encoding string) {
	s := string(b)
	controls := 0
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			controls++
		}
	}
	if validText(s) && controls <= len(b)/16 {
		return s, "utf-8"
	}
	return base64.StdEncoding.EncodeToString(b), "base64"
}
