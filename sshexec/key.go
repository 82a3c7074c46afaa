package sshexec

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

// Sentinels of ParseKey.
var (
	ErrPassphraseNeeded = errors.New("the key is encrypted: its passphrase is needed")
	ErrWrongPassphrase  = errors.New("the passphrase does not open the key")
	ErrNotAKey          = errors.New("not a private key in OpenSSH, PKCS#8 or PEM form")
)

// MaxKeyFile bounds what ParseKey reads.
const MaxKeyFile = 64 << 10

// Key is a user's private key: ed25519, ECDSA, or RSA of at least MinRSABits.
// It prints as its public half.
type Key struct {
	private crypto.Signer
	public  ssh.PublicKey
	cert    *ssh.Certificate // a user certificate for it; nil: none
}

// ParseKey reads one private key, and the user certificate for it (a -cert.pub file's line) where one stands below.
// The passphrase is looked at only if the key is encrypted. Errors hold nothing of the file.
func ParseKey(file, passphrase []byte) (Key, error) {
	file, line := splitCert(file)
	k, err := parsePrivate(file, passphrase)
	if err != nil || line == nil {
		return k, err
	}
	pub, _, _, rest, err := ssh.ParseAuthorizedKey(line)
	cert, ok := pub.(*ssh.Certificate)
	switch {
	case err != nil || !ok || len(bytes.TrimSpace(rest)) > 0 || cert.CertType != ssh.UserCert:
		return Key{}, errors.New("parse key: what stands below the key is no user certificate")
	case !bytes.Equal(cert.Key.Marshal(), k.public.Marshal()):
		return Key{}, errors.New("parse key: the certificate is for another key")
	}
	k.cert = cert
	return k, nil
}

// splitCert takes a certificate's line from below the key.
func splitCert(file []byte) (key, cert []byte) {
	if len(file) > MaxKeyFile {
		return file, nil
	}
	if block, rest := pem.Decode(file); block != nil {
		if rest = bytes.TrimSpace(rest); len(rest) > 0 && bytes.Contains(rest, []byte("-cert-v01@openssh.com")) {
			return file[:bytes.LastIndex(file, rest)], rest
		}
	}
	return file, nil
}

func parsePrivate(file, passphrase []byte) (Key, error) {
	raw, err := openKey(file, passphrase)
	if err != nil {
		return Key{}, fmt.Errorf("parse key: %w", err)
	}
	var s crypto.Signer
	switch k := raw.(type) {
	case *ed25519.PrivateKey:
		s = *k
	case ed25519.PrivateKey:
		s = k
	case *ecdsa.PrivateKey:
		s = k
	case *rsa.PrivateKey:
		if k.N.BitLen() < MinRSABits {
			return Key{}, fmt.Errorf("parse key: RSA with %d bits, at least %d are needed", k.N.BitLen(), MinRSABits)
		}
		if k.Validate() != nil {
			return Key{}, fmt.Errorf("parse key: %w", ErrNotAKey)
		}
		s = k
	default:
		return Key{}, fmt.Errorf("parse key: type %T is not supported", raw)
	}
	pub, err := ssh.NewPublicKey(s.Public())
	if err != nil {
		return Key{}, fmt.Errorf("parse key: %w", ErrNotAKey)
	}
	return Key{private: s, public: pub}, nil
}

func openKey(file, passphrase []byte) (any, error) {
	if len(file) > MaxKeyFile {
		return nil, ErrNotAKey
	}
	block, rest := pem.Decode(file)
	if block == nil {
		return nil, ErrNotAKey
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("more than one PEM block")
	}
	if block.Type == "ENCRYPTED PRIVATE KEY" {
		if len(passphrase) == 0 {
			return nil, ErrPassphraseNeeded
		}
		return openPKCS8(block.Bytes, passphrase)
	}
	raw, err := ssh.ParseRawPrivateKey(file)
	var missing *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return raw, nil
	case !errors.As(err, &missing):
		return nil, ErrNotAKey
	case len(passphrase) == 0:
		return nil, ErrPassphraseNeeded
	}
	if raw, err = ssh.ParseRawPrivateKeyWithPassphrase(file, passphrase); err != nil {
		return nil, ErrWrongPassphrase // old PEM encryption has no check: a wrong one may also decode to rubbish
	}
	return raw, nil
}

// Marshal gives the unencrypted OpenSSH form: what the vault keeps and Auth takes.
func (k Key) Marshal() ([]byte, error) {
	if k.private == nil {
		return nil, fmt.Errorf("marshal key: %w", ErrNotAKey)
	}
	b, err := ssh.MarshalPrivateKey(k.private, "")
	if err != nil {
		return nil, fmt.Errorf("marshal key: %w", ErrNotAKey)
	}
	file := pem.EncodeToMemory(b)
	if k.cert != nil {
		file = append(file, ssh.MarshalAuthorizedKey(k.cert)...)
	}
	return file, nil
}

// Public is the authorized_keys line without comment; empty for the zero Key.
func (k Key) Public() string {
	if k.public == nil {
		return ""
	}
	return authorizedForm(k.public)
}

// Format prints the public half, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.Public()) }

// signer shows the certificate, where there is one.
func (k Key) signer() (ssh.Signer, error) {
	s, err := k.plainSigner()
	if err != nil || k.cert == nil {
		return s, err
	}
	return ssh.NewCertSigner(k.cert, s)
}

// plainSigner limits RSA to SHA-2 signatures.
func (k Key) plainSigner() (ssh.Signer, error) {
	s, err := ssh.NewSignerFromSigner(k.private)
	if err != nil {
		return nil, ErrNotAKey
	}
	a, ok := s.(ssh.AlgorithmSigner)
	if !ok || s.PublicKey().Type() != ssh.KeyAlgoRSA {
		return s, nil
	}
	return ssh.NewSignerWithAlgorithms(a, signatureAlgorithms(ssh.KeyAlgoRSA))
}
