package gateway

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"

	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
)

// name is what credentials and targets may be called: it goes into logs, tables and shells.
var name = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func checkName(what, s string) error {
	if !name.MatchString(s) {
		return api.Fail("invalid_request", what+": 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit")
	}
	return nil
}

func checkConfirm(s string) (string, error) {
	switch s {
	case "":
		return "never", nil
	case "never", "click":
		return s, nil
	}
	return "", api.Fail("invalid_request", "confirm: never or click")
}

// entry checks rules and value of a new credential with the parsers that will read them, and returns both as kept.
func entry(a api.CredentialArgs, value []byte) (rules, kept []byte, err error) {
	switch {
	case isHTTP(a.Kind):
		h := a.Rules
		if a.PassphraseLength != 0 {
			return nil, nil, api.Fail("invalid_request", "passphraseLength: for ssh-key only")
		}
		spec := httpexec.Spec{Kind: a.Kind, Allow: h.Allow, AllowHeader: h.AllowHeader, AllowNetwork: h.AllowNetwork, AllowHTTP: h.AllowHTTP,
			Scrub: h.Scrub, IdempotencyHeader: h.IdempotencyHeader, Carry: httpexec.Carry{Username: h.Username, Header: h.Header, Format: h.Format}, Trust: httpexec.Trust{CA: h.CA}}
		spec.Job = httpexec.Job{ID: h.JobID, Status: h.JobStatus, Cancel: h.JobCancel}
		rules = encode(spec)
		parsed, err := httpexec.ParseRules(rules)
		if err != nil {
			return nil, nil, api.Fail("invalid_request", err.Error())
		}
		for _, o := range parsed.Origins() {
			if privateOrigin(o, h.AllowNetwork) {
				return nil, nil, api.Fail("invalid_request", "allow: "+o+" is a private address, which every call would be refused; agree to it with --allow-network CIDR")
			}
		}
		if err := spec.Check(value); err != nil {
			return nil, nil, api.Fail("invalid_request", err.Error())
		}
		return rules, value, nil
	case a.Kind == "ssh-key":
		n := len(value) - a.PassphraseLength
		if a.PassphraseLength < 0 || n < 0 {
			return nil, nil, api.Fail("invalid_request", "passphraseLength: longer than the value")
		}
		key, err := sshexec.ParseKey(value[:n], value[n:])
		if err != nil {
			return nil, nil, api.Fail("invalid_request", err.Error())
		}
		if kept, err = key.Marshal(); err != nil {
			return nil, nil, err
		}
		return encode(sshKeyRules{Public: key.Public()}), kept, nil
	}
	return nil, nil, api.Fail("invalid_request", "kind: bearer, basic, header or ssh-key")
}

// privateOrigin tells an origin written as a private address that none of the networks holds. It spares people a card
// for what can't succeed; what is dialled is checked where it is dialled.
func privateOrigin(origin string, networks []string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	host := u.Hostname()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.IsPrivate() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
		return false
	}
	return !slices.ContainsFunc(networks, func(n string) bool {
		p, err := netip.ParsePrefix(n)
		return err == nil && p.Contains(addr)
	})
}

// sshKeyRules is what an ssh-key keeps beside its value: the public half, to be shown.
type sshKeyRules struct {
	Public string `json:"public"`
}
