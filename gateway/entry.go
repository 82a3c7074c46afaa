package gateway

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
	"sallyport/vault"
)

// What enters the vault is read with the parsers that will read it later; errors say what to write instead and never
// hold the value.

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
	case "never", "click", "passkey":
		return s, nil
	}
	return "", api.Fail("invalid_request", "confirm: never, click or passkey")
}

// entry is a new credential as the vault keeps it, and its value.
func entry(a api.CredentialArgs, value []byte) (vault.Meta, []byte, error) {
	m, err := unvalued(a)
	if err != nil {
		return m, nil, err
	}
	return valued(m, value, a.PassphraseLength)
}

// unvalued checks all of a credential but its value.
func unvalued(a api.CredentialArgs) (m vault.Meta, err error) {
	if err := checkName("name", a.Name); err != nil {
		return m, err
	}
	m = vault.Meta{Name: a.Name, Kind: a.Kind, Account: escape(a.Account, accountLimit)}
	if m.Confirm, err = checkConfirm(a.Confirm); err != nil {
		return m, err
	}
	if a.Principal != "" && a.Kind != "ssh-ca" {
		return m, api.Fail("invalid_request", "principal: for ssh-ca only")
	}
	switch {
	case isHTTP(a.Kind):
		m.Rules, err = httpRules(a.Kind, a.Rules)
	case logsIn(a.Kind):
		if f := fieldsOf(a.Rules); len(f) > 0 {
			return m, api.Fail("invalid_request", f[0].key+": an "+a.Kind+" has no rules of its own; its hosts have them")
		}
		if p := a.Principal; len(p) > 128 || !printable(p) || strings.ContainsAny(p, ", *") {
			return m, api.Fail("invalid_request", "principal: one name, at most 128 printable characters")
		}
		m.Rules = encode(loginRules{Principal: a.Principal})
	default:
		err = api.Fail("invalid_request", "kind: "+strings.Join(httpexec.Kinds(), ", ")+", ssh-key, ssh-password or ssh-ca")
	}
	return m, err
}

// keptPublic puts a key's public half, which stands beside its value, where only what was said stands.
func keptPublic(was vault.Meta, m *vault.Meta) {
	if logsIn(m.Kind) {
		r := readLoginRules(*m)
		r.Public = readLoginRules(was).Public
		m.Rules = encode(r)
	}
}

// accountLimit bounds an account's label, in bytes.
const accountLimit = 128

// httpRules checks an HTTP kind's rules and returns them as kept.
func httpRules(kind string, h api.HTTPRules) ([]byte, error) {
	spec, err := specOf(kind, h)
	if err != nil {
		return nil, err
	}
	rules := encode(spec)
	parsed, err := httpexec.ParseRules(rules)
	if err != nil {
		return nil, api.Fail("invalid_request", err.Error())
	}
	for _, o := range parsed.Origins() {
		if network := privateOrigin(o, h.AllowNetwork); network != "" {
			return nil, api.Fail("invalid_request", "allow: "+o+" is a private or loopback address, which every call would be refused; agree to it with --allow-network "+network)
		}
	}
	return rules, nil
}

// valued checks a credential's value, whose last bytes may be its passphrase, and returns both as kept: a key's public
// half stands beside it.
func valued(m vault.Meta, value []byte, passphrase int) (vault.Meta, []byte, error) {
	n := len(value) - passphrase
	if passphrase < 0 || n < 0 {
		return m, nil, api.Fail("invalid_request", "passphraseLength: longer than the value")
	}
	if why := mistaken(m.Kind, value[:n]); why != "" {
		return m, nil, api.Fail("invalid_request", "value: "+why)
	}
	if isHTTP(m.Kind) {
		if passphrase != 0 {
			return m, nil, api.Fail("invalid_request", "passphraseLength: for ssh-key and ssh-ca only")
		}
		rules, err := httpexec.ParseRules(m.Rules)
		if err != nil {
			return m, nil, err
		}
		if err := rules.Spec().Check(value); err != nil {
			return m, nil, api.Fail("invalid_request", err.Error())
		}
		return m, value, nil
	}
	rules := readLoginRules(m)
	if m.Kind == "ssh-password" {
		if passphrase != 0 || len(value) > 1024 || len(value) < 8 {
			return m, nil, api.Fail("invalid_request", "value: a password of 8 to 1,024 bytes; what is shorter could not be masked in answers")
		}
		m.Rules = encode(rules)
		return m, value, nil
	}
	key, err := sshexec.ParseKey(value[:n], value[n:])
	if err != nil {
		return m, nil, keyFault(err)
	}
	kept, err := key.Marshal()
	rules.Public = key.Public()
	m.Rules = encode(rules)
	return m, kept, err
}

// privateOrigin is the least network of an origin written as a private address that none of the networks holds, else
// "". It spares people a card for what can't succeed; what is dialled is checked where it is dialled.
func privateOrigin(origin string, networks []string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	host := u.Hostname()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.IsPrivate() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
		return ""
	}
	if slices.ContainsFunc(networks, func(n string) bool {
		p, err := netip.ParsePrefix(n)
		return err == nil && p.Contains(addr)
	}) {
		return ""
	}
	return netip.PrefixFrom(addr, addr.BitLen()).String()
}
