package sshexec

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the format of hashed known_hosts names
	"encoding/base64"
	"path"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// MaxHostKeyFile bounds what ParseHostKeys reads.
const MaxHostKeyFile = 1 << 20

// ParseHostKeys reads the keys to pin for address (HOST:PORT) from a .pub file
// or from known_hosts lines (sshd(8), hashed names too). Lines for other hosts
// are passed over. A @revoked line for the address refuses the whole file: which
// of its keys can be trusted then is the operator's to say. @cert-authority lines
// pin nothing. Every error is a *RequestError invalid_request.
func ParseHostKeys(file []byte, address string) ([]string, error) {
	address, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	if len(file) > MaxHostKeyFile {
		return nil, invalid("host key file: over %d bytes", MaxHostKeyFile)
	}
	var keys []ssh.PublicKey
	for n, line := range bytes.Split(file, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		k, err := hostKeyLine(line, knownhosts.Normalize(address))
		if err != nil {
			return nil, invalid("host key file, line %d: %s", n+1, err.(*RequestError).Reason)
		}
		if k != nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, invalid("host key file: no key for %s", address)
	}
	return sortKeys(keys), nil
}

// hostKeyLine gives the key of one line, nil if the line is about another host.
func hostKeyLine(line []byte, host string) (ssh.PublicKey, error) {
	// Every key blob begins with the length of its type: AAAA. A name may begin with ssh-.
	if f := strings.Fields(string(line)); len(f) > 1 && strings.HasPrefix(f[1], "AAAA") && f[0][0] != '@' {
		return parseHostKey(string(line))
	}
	marker, names, k, _, rest, err := ssh.ParseKnownHosts(line)
	if err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, invalid("neither a public key nor a known_hosts line")
	}
	if !namesHost(names, host) {
		return nil, nil
	}
	switch marker {
	case "revoked":
		return nil, invalid("a key of this host is @revoked")
	case "cert-authority":
		return nil, nil
	case "":
		return k, checkHostKey(k)
	}
	return nil, invalid("unknown marker")
}

// namesHost: any pattern matches and no negated one does. host is normalised:
// the plain name for port 22, else [name]:port.
func namesHost(names []string, host string) bool {
	found := false
	for _, n := range names {
		negated := strings.HasPrefix(n, "!")
		n = strings.TrimPrefix(n, "!")
		var hit bool
		if strings.HasPrefix(n, "|") {
			hit = hashedName(n, host)
		} else {
			hit = glob(strings.ToLower(n), host)
		}
		if hit && negated {
			return false
		}
		found = found || hit
	}
	return found
}

// glob knows * and ? alone; brackets are part of the name.
func glob(pattern, host string) bool {
	ok, err := path.Match(strings.NewReplacer("[", `\[`, `\`, `\\`, "]", `\]`).Replace(pattern), host)
	return ok && err == nil
}

// hashedName: |1|base64 salt|base64 HMAC-SHA1(salt, host).
func hashedName(n, host string) bool {
	f := strings.Split(n, "|")
	if len(f) != 4 || f[0] != "" || f[1] != "1" {
		return false
	}
	salt, err1 := base64.StdEncoding.DecodeString(f[2])
	want, err2 := base64.StdEncoding.DecodeString(f[3])
	if err1 != nil || err2 != nil {
		return false
	}
	m := hmac.New(sha1.New, salt)
	m.Write([]byte(host))
	return hmac.Equal(m.Sum(nil), want)
}
