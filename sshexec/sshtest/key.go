package sshtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

func generate(kind string) (k crypto.Signer, err error) {
	switch kind {
	case "ed25519":
		_, k, err = ed25519.GenerateKey(rand.Reader)
	case "rsa":
		k, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ecdsa":
		k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		return nil, fmt.Errorf("generate key: no type %q", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return k, nil
}

// GenerateKey makes a user's key of a kind ("ed25519", "rsa", "ecdsa"): the
// unencrypted OpenSSH file, and the public half in authorized_keys form.
func GenerateKey(kind string) (file []byte, authorized string, err error) {
	k, err := generate(kind)
	if err != nil {
		return nil, "", err
	}
	block, err := ssh.MarshalPrivateKey(k, "")
	if err != nil {
		return nil, "", fmt.Errorf("generate key: %w", err)
	}
	pub, err := ssh.NewPublicKey(k.Public())
	if err != nil {
		return nil, "", fmt.Errorf("generate key: %w", err)
	}
	return pem.EncodeToMemory(block), strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(pub)), "\n"), nil
}
