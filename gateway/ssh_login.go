package gateway

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/oklog/ulid/v2"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/sshexec"
	"sallyport/vault"
)

// way is a host as one plan reaches it: the rule that allows it, the target with its jump hosts, and a login for each,
// the host's own first.
type way struct {
	match  sshexec.Match
	target sshexec.Target
	logins []login
}

// login is who logs in to one host, with what. The secret is lent for the handshake.
type login struct {
	host      string
	version   uint64 // the host's row
	secret    vault.Ref
	kind      sshexec.AuthKind
	principal string // of a certificate
	prompt    string // of a password
}

// loginRules is what an SSH credential keeps beside its value.
type loginRules struct {
	Public    string `json:"public,omitempty"`    // a key's or CA's public half, to be shown
	Principal string `json:"principal,omitempty"` // ssh-ca: whom certificates are for; empty: the host's user
}

// readLoginRules reads them; of a row that can't be read nothing is known.
func readLoginRules(m vault.Meta) loginRules {
	var r loginRules
	if json.Unmarshal(m.Rules, &r) != nil {
		return loginRules{}
	}
	return r
}

// sshKinds are the kinds that log in to hosts.
func sshKinds() map[string]sshexec.AuthKind {
	return map[string]sshexec.AuthKind{"ssh-key": sshexec.AuthKey, "ssh-password": sshexec.AuthPassword, "ssh-ca": sshexec.AuthCA}
}

func logsIn(kind string) bool { return sshKinds()[kind] != sshexec.AuthNone }

// login notes the way to a host: its own credential is the plan's, so that its grant and confirm mode count.
func (p *plan) login(t *targets, h *sshHost) bool {
	w, meta, why := t.wayTo(p.target, h, nil)
	if why != "" {
		p.unbound(authz.RuleMismatch, why)
		return false
	}
	p.bound(meta, stricter(meta.Confirm, h.spec.Confirm), p.target)
	p.way = w
	return true
}

// wayTo follows the jump hosts; why says what is missing. own is the host's credential where it is not stored yet.
func (t *targets) wayTo(name string, h *sshHost, own *vault.Meta) (w way, meta vault.Meta, why string) {
	at := &w.target
	for {
		m, ok := t.snap.Credential(h.spec.Credential)
		if own != nil && len(w.logins) == 0 {
			m, ok = *own, true
		}
		if !ok {
			return way{}, vault.Meta{}, "the credential of host " + name + " is gone"
		}
		kind, ok := sshKinds()[m.Kind]
		if !ok {
			return way{}, vault.Meta{}, "the credential of host " + name + " logs in nowhere"
		}
		if len(w.logins) == 0 {
			meta = m
		}
		*at = h.target(name)
		w.logins = append(w.logins, newLogin(name, h, m, kind))
		if h.spec.Jump == "" {
			return w, meta, ""
		}
		if len(w.logins) == sshexec.MaxHops {
			return way{}, vault.Meta{}, fmt.Sprintf("the way to host %s has over %d hops", name, sshexec.MaxHops)
		}
		name = h.spec.Jump
		if h, ok = t.hosts[name]; !ok {
			return way{}, vault.Meta{}, "jump host " + name + " is gone"
		}
		at.Via = &sshexec.Target{}
		at = at.Via
	}
}

func newLogin(name string, h *sshHost, m vault.Meta, kind sshexec.AuthKind) login {
	l := login{host: name, version: h.version, secret: vault.Ref{Name: m.Name, Version: m.Version}, kind: kind, prompt: h.spec.Prompt}
	if kind == sshexec.AuthCA {
		if l.principal = readLoginRules(m).Principal; l.principal == "" {
			l.principal = h.spec.User
		}
	}
	return l
}

// sum adds what the way depends on to a plan's digest.
func (w way) sum(put func([]byte)) {
	for _, l := range w.logins {
		put([]byte(l.host))
		put(binary.BigEndian.AppendUint64(nil, l.version))
		put([]byte(l.secret.Name))
		put(binary.BigEndian.AppendUint64(nil, l.secret.Version))
	}
}

// current tells whether every host and credential on the way still stands as it was.
func (w way) current(s *vault.Snapshot) bool {
	for _, l := range w.logins {
		m, ok := s.Credential(l.secret.Name)
		h, known := s.Host(l.host)
		if !ok || !known || m.Version != l.secret.Version || h.Version != l.version {
			return false
		}
	}
	return true
}

// lent calls use with what each login needs, target first. Secrets are borrowed for the length of it; their bytes are
// what the answer is searched for.
func (g *Gateway) lent(ctx context.Context, logins []login, action, run string, use func(a *sshexec.Auth, secrets [][]byte) error) error {
	if len(logins) == 0 {
		return use(nil, nil)
	}
	l := logins[0]
	return g.vault.With(ctx, l.secret, func(s vault.Secret) error {
		return g.lent(ctx, logins[1:], action, run, func(via *sshexec.Auth, secrets [][]byte) error {
			a := l.auth(s.Bytes(), action, run, via)
			return use(&a, append(secrets, s.Bytes()))
		})
	})
}

// auth is the login with its secret.
func (l login) auth(secret []byte, action, run string, via *sshexec.Auth) sshexec.Auth {
	return sshexec.Auth{Kind: l.kind, Secret: secret, Version: l.secret.Version, Run: run, Prompt: l.prompt, Via: via,
		Cert: sshexec.Cert{Principal: l.principal, Serial: serial(action), ID: action}}
}

// serial is the certificate's number: the last eight bytes of the action's ULID, which are random.
func serial(action string) uint64 {
	id := ulid.ULID(event.Subject(action))
	return binary.BigEndian.Uint64(id[8:])
}
