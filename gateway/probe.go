package gateway

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/vault"
)

// probes are the operator's own calls (`sp secret test`): they belong to no run, so a lock has to wait for them here.
type probes struct {
	mu   sync.Mutex
	ends map[int]context.CancelFunc
	next int
	wait sync.WaitGroup
}

// begin registers a probe while open says so; done must be called.
func (p *probes) begin(ctx context.Context, open func() bool) (_ context.Context, done func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !open() {
		return nil, nil, false
	}
	if p.ends == nil {
		p.ends = map[int]context.CancelFunc{}
	}
	ctx, cancel := context.WithCancel(ctx)
	id := p.next
	p.next++
	p.ends[id] = cancel
	p.wait.Add(1)
	return ctx, func() {
		p.mu.Lock()
		delete(p.ends, id)
		p.mu.Unlock()
		cancel()
		p.wait.Done()
	}, true
}

// stop ends the probes under way and waits for them. What refuses new ones is set before.
func (p *probes) stop() {
	p.mu.Lock()
	for _, cancel := range p.ends {
		cancel()
	}
	p.mu.Unlock()
	p.wait.Wait()
}

// probeLimit bounds a probe.
const probeLimit = 20 * time.Second

// opCredentialTest sends a credential's probe: a read that its own rules allow, to its first rule's origin. It is the
// operator's act, recorded before it is sent and after. Of the answer only the status is told.
func (g *Gateway) opCredentialTest(r opRequest) (any, error) {
	var a api.NameArgs
	if fault := decode(r.args, &a); fault != nil {
		return nil, fault
	}
	if !g.evidence.take(r, boot()) {
		return nil, api.Fail("rate_limited", "there were too many tests without a proof within a minute")
	}
	ctx, done, ok := g.probes.begin(r.ctx, g.open.Load)
	if !ok {
		return nil, api.Fail("vault_"+lockedWord(g.vaultState()), "")
	}
	defer done()
	t := g.targets()
	if t == nil {
		return nil, api.Fail("vault_locked", "")
	}
	c := t.byName[a.Name]
	switch {
	case c == nil && t.known(a.Name):
		return nil, api.Fail("invalid_request", "an SSH credential is tested by `sp host add`, which logs in with it")
	case c == nil:
		return nil, api.Fail("not_found", "there is no credential "+escape(a.Name, 64)+"; list them with `sp secret ls`")
	case c.rules.Spec().Probe == "":
		return nil, api.Fail("invalid_request", "this credential has no probe; give it one with `sp secret rebind NAME --probe 'GET /path'`")
	}
	q, m, err := c.rules.Probe()
	if err != nil {
		return nil, requestFault(err)
	}
	id := ulid.Make().String()
	ev := event.CredentialTested{Credential: a.Name, Operation: q.Method() + " " + q.URL(), Operator: r.who}
	if err := g.log.note(ctx, id, ev); err != nil {
		g.complain("record probe", err)
		return nil, api.Fail("audit_unavailable", "")
	}
	out := g.probe(ctx, c, q, m)
	ev.Outcome, ev.Status = out.Outcome, out.Status
	if err := g.log.note(ctx, id, ev); err != nil {
		g.complain("record probe", err)
		return nil, api.Fail("audit_unavailable", "the outcome is "+out.Outcome+", and it could not be recorded")
	}
	return out, nil
}

func lockedWord(s authz.VaultState) string {
	if s == authz.VaultReady {
		s = authz.VaultLocked // between two looks
	}
	return s.String()
}

func (g *Gateway) probe(ctx context.Context, c *httpCredential, q httpexec.Request, m httpexec.Match) api.Tested {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	ref := vault.Ref{Name: c.meta.Name, Version: c.meta.Version}
	out := api.Tested{Credential: c.meta.Name, Operation: q.Method() + " " + q.URL()}
	err := g.vault.With(ctx, ref, func(s vault.Secret) error {
		r, err := g.http.Do(ctx, ctx, q, m, httpexec.Injection{Credential: ref.Name, Version: ref.Version, Secret: s.Bytes(),
			Keep: keeper{g, ref, event.TokenKept{Credential: ref.Name}}}, io.Discard)
		out.Outcome, out.Status, out.Detail = r.Outcome.String(), r.Code, r.Detail
		out.Works = r.Outcome == httpexec.Confirmed && r.Code >= 200 && r.Code < 300
		return err
	})
	switch {
	case err == nil:
	case out.Outcome == "" && (errors.Is(err, vault.ErrLocked) || errors.Is(err, vault.ErrStale) || errors.Is(err, vault.ErrUnknown)):
		out.Outcome, out.Detail = "not_sent", "the credential was withdrawn before anything was sent"
	default:
		g.complain("probe", err)
		if out.Outcome == "" {
			out.Outcome = "sent_unconfirmed"
		}
	}
	return out
}
