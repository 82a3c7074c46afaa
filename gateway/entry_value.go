package gateway

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"

	"sallyport/gateway/api"
	"sallyport/httpexec"
	"sallyport/sshexec"
)

// What people hand in instead of the value that a kind takes. Each is told by its form, before the kind's own parser only
// says that it can't read it. No reason holds anything of the value.

// multiline tells the kinds whose value is a file of several lines.
func multiline(kind string) bool {
	return kind == "ssh-key" || kind == "ssh-ca" || kind == "github-app" || kind == "mtls"
}

// mistaken says what a value is instead of one for a kind; empty: nothing that is known.
func mistaken(kind string, value []byte) string {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(value, []byte("\xef\xbb\xbf")), " \t\r\n")
	begins := func(s string) bool { return bytes.HasPrefix(trimmed, []byte(s)) }
	switch {
	case len(value) == 0:
		return "empty"
	case bytes.HasPrefix(value, []byte("\xff\xfe")), bytes.HasPrefix(value, []byte("\xfe\xff")):
		return "UTF-16 text; save the file as UTF-8 or ASCII"
	case bytes.HasPrefix(value, []byte("\xef\xbb\xbf")):
		return "begins with a byte order mark, which an editor put there; save the file without it"
	case begins("PuTTY-User-Key-File-"):
		return "a PuTTY key file; convert it with `puttygen FILE.ppk -O private-openssh -o FILE` and give that"
	case begins("---- BEGIN SSH2 PUBLIC KEY"), begins("-----BEGIN PUBLIC KEY"), begins("-----BEGIN RSA PUBLIC KEY"), publicLine(trimmed):
		return "a public key; the private one is the file of the same name without .pub"
	}
	if why := otherDocument(kind, trimmed); why != "" {
		return why
	}
	if multiline(kind) || kind == "sigv4" || kind == "oauth2" {
		return ""
	}
	switch rest := bytes.TrimRight(value, "\r\n"); {
	case bytes.HasSuffix(value, []byte("\r")), bytes.HasSuffix(value, []byte("\r\n")):
		return "ends with a carriage return: the file has Windows line ends; take it off"
	case len(rest) < len(value):
		return "ends with a line break; take it off"
	case kind == "bearer" && (begins("Bearer ") || begins("bearer ")):
		return `begins with "Bearer "; give the token alone, the gateway adds the word`
	case begins("Authorization:") || begins("authorization:"):
		return "a whole header; give the secret alone"
	}
	return ""
}

// publicLine tells an authorized_keys line, a certificate's too.
func publicLine(b []byte) bool {
	kind, rest, ok := bytes.Cut(b, []byte(" "))
	if !ok || !bytes.HasPrefix(rest, []byte("AAAA")) {
		return false
	}
	for _, p := range []string{"ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"} {
		if bytes.HasPrefix(kind, []byte(p)) {
			return true
		}
	}
	return false
}

// otherDocument tells PEM and JSON documents that are another kind's, or nobody's.
func otherDocument(kind string, b []byte) string {
	if bytes.HasPrefix(b, []byte("{")) {
		var doc struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(b, &doc) == nil && doc.Type == "service_account" {
			return "a Google service account's key file, which no kind takes: its tokens are signed anew for each service; use an API key or a token"
		}
		switch kind {
		case "sigv4", "oauth2", "header", "basic", "query", "cookie", "path", "ssh-password":
			return "" // their own parsers decide; a password may begin so
		}
		return "a JSON document; kind " + kind + " takes " + taken(kind)
	}
	if !bytes.HasPrefix(b, []byte("-----BEGIN ")) {
		return ""
	}
	label, _, _ := strings.Cut(string(b[len("-----BEGIN "):min(len(b), 64)]), "-----")
	switch {
	case kind == "mtls":
		return ""
	case label == "CERTIFICATE" || label == "CERTIFICATE REQUEST":
		return "a certificate, which is no secret; kind " + kind + " takes " + taken(kind)
	case !multiline(kind):
		return "a PEM file; kind " + kind + " takes " + taken(kind) + ", and keys are for ssh-key, ssh-ca, github-app and mtls"
	}
	return ""
}

// taken says in words what a kind's value is.
func taken(kind string) string {
	switch kind {
	case "ssh-key", "ssh-ca":
		return "a private key in OpenSSH, PKCS#8 or PEM form"
	case "ssh-password":
		return "the account's password"
	}
	return httpexec.ValueFormat(kind)
}

// keyFault is why a key file was not taken, with what to do.
func keyFault(err error) error {
	switch {
	case errors.Is(err, sshexec.ErrPassphraseNeeded):
		return api.Fail("passphrase_required", "")
	case errors.Is(err, sshexec.ErrWrongPassphrase):
		return api.Fail("passphrase_required", "the passphrase does not open the key file")
	}
	return api.Fail("invalid_request", "value: "+err.Error())
}
