package sshexec

import (
	"crypto/ed25519"
	"crypto/rand"
	"regexp"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// AuthKind is what a secret is to a host.
type AuthKind uint8

const (
	AuthNone     AuthKind = iota // zero: opens nothing
	AuthKey                      // a private key as Key.Marshal gives it, with a user certificate where there is one
	AuthPassword                 // the account's password: the password method, or one prompt of keyboard-interactive
	AuthCA                       // a private key that signs a certificate for this one connection
)

// Auth is what a connection is opened with.
type Auth struct {
	Kind    AuthKind
	Secret  []byte // read only while Dial runs, never kept
	Version uint64 // of the credential
	Run     string // the run the connection belongs to
	Cert    Cert   // with AuthCA
	Prompt  string // with AuthPassword: the pattern a prompt must match as a whole; empty: DefaultPrompt
	Via     *Auth  // for the target's jump host
}

// Cert is what an AuthCA certificate says. It is valid from CertBefore before now to CertAfter after, for a key pair
// that lives as long as the handshake, and permits nothing beyond a command: no terminal, and forwarding at a jump host alone.
type Cert struct {
	Principal string // exactly one
	Serial    uint64
	ID        string // the action: sshd logs it beside the serial
	onward    bool   // for a jump host: it permits one thing more, the way to the next
}

// Validity of a certificate around the clock here; the host's may differ a little.
const (
	CertBefore = 30 * time.Second
	CertAfter  = 2 * time.Minute
)

// DefaultPrompt is what PAM asks for a password. Whatever asks for something else (a second factor, sudo) gets no answer.
const DefaultPrompt = `(?i)password: ?`

// ParsePrompt checks a prompt's pattern, RE2 syntax, at most 200 bytes.
func ParsePrompt(s string) error {
	_, err := promptPattern(s)
	return err
}

func promptPattern(s string) (*regexp.Regexp, error) {
	if s == "" {
		s = DefaultPrompt
	}
	if len(s) > 200 {
		return nil, invalid("prompt: over 200 bytes")
	}
	re, err := regexp.Compile(`\A(?:` + s + `)\z`)
	if err != nil {
		return nil, invalid("prompt: no regular expression")
	}
	return re, nil
}

// once reports whether a connection opened with a serves one call alone: its certificate names the action.
func (a Auth) once() bool { return a.Kind == AuthCA || a.Via != nil && a.Via.once() }

// versions of all credentials on the way, the target's first.
func (a Auth) versions() []uint64 {
	if a.Via == nil {
		return []uint64{a.Version}
	}
	return append([]uint64{a.Version}, a.Via.versions()...)
}

// offer is what one handshake may show. The library keeps its configuration as long as the connection lives: forget
// takes the secret out of its reach.
type offer struct {
	signers  []ssh.Signer
	password string
	prompt   *regexp.Regexp
	answered bool // the one prompt has had its answer
	asked    bool // the host let us try: the host key was right
}

func (o *offer) forget() { o.signers, o.password = nil, "" }

// newOffer reads the secret. Its error says nothing of it.
func newOffer(a Auth) (*offer, error) {
	o := &offer{}
	switch a.Kind {
	case AuthPassword:
		re, err := promptPattern(a.Prompt)
		if err != nil || len(a.Secret) == 0 {
			return nil, &DialError{Reason: "dial_failed", Detail: "the credential is no usable password"}
		}
		o.password, o.prompt = string(a.Secret), re
		return o, nil
	case AuthKey, AuthCA:
	default:
		return nil, &DialError{Reason: "dial_failed", Detail: "the credential opens no SSH connection"}
	}
	k, err := ParseKey(a.Secret, nil)
	if err != nil {
		return nil, &DialError{Reason: "dial_failed", Detail: "the credential is no usable SSH key"}
	}
	var s ssh.Signer
	if a.Kind == AuthKey {
		s, err = k.signer()
	} else {
		s, err = k.certify(a.Cert, time.Now())
	}
	if err != nil {
		return nil, &DialError{Reason: "dial_failed", Detail: "the credential is no usable SSH key"}
	}
	o.signers = []ssh.Signer{s}
	return o, nil
}

// methods of RFC 4252 and 4256 that the offer speaks.
func (o *offer) methods() []ssh.AuthMethod {
	if o.prompt == nil {
		return []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			o.asked = true
			return o.signers, nil
		})}
	}
	return []ssh.AuthMethod{
		ssh.PasswordCallback(func() (string, error) {
			o.asked = true
			return o.password, nil
		}),
		ssh.KeyboardInteractive(func(_, _ string, questions []string, echos []bool) ([]string, error) {
			o.asked = true
			if len(questions) == 0 {
				return nil, nil // words without a question
			}
			if o.answered || len(questions) != 1 || echos[0] || !o.prompt.MatchString(questions[0]) {
				return nil, errPrompt
			}
			o.answered = true
			return []string{o.password}, nil
		}),
	}
}

var errPrompt = &RequestError{Code: "invalid_request", Reason: "the host asks for something else than the password"}

// noun names what the host refused.
func (k AuthKind) noun() string {
	switch k {
	case AuthPassword:
		return "password"
	case AuthCA:
		return "certificate"
	}
	return "key"
}

// certify signs a certificate for a fresh key pair.
func (k Key) certify(c Cert, now time.Time) (ssh.Signer, error) {
	ca, err := k.plainSigner()
	if err != nil {
		return nil, err
	}
	if c.Principal == "" {
		return nil, invalid("certificate: no principal") // for OpenSSH, none would mean everybody
	}
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := ssh.NewPublicKey(pub)
	if err != nil {
		return nil, err
	}
	cert := &ssh.Certificate{
		Key: public, Serial: c.Serial, CertType: ssh.UserCert, KeyId: c.ID, ValidPrincipals: []string{c.Principal},
		ValidAfter: uint64(now.Add(-CertBefore).Unix()), ValidBefore: uint64(now.Add(CertAfter).Unix()),
	}
	if c.onward {
		cert.Extensions = map[string]string{"permit-port-forwarding": ""}
	}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		return nil, err
	}
	own, err := ssh.NewSignerFromSigner(priv)
	if err != nil {
		return nil, err
	}
	return ssh.NewCertSigner(cert, own)
}

// sameVersions reports whether a connection opened with credentials of these versions serves a.
func (a Auth) sameVersions(v []uint64) bool { return slices.Equal(a.versions(), v) }
