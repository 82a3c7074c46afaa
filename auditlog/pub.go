package auditlog

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// pubTitle is the first line of audit.pub.
const pubTitle = "auditlog public key 1"

// Pub is what audit.pub says.
type Pub struct {
	Origin     string            // names the log in every signature; a note key name, at most 255 bytes
	Identity   ed25519.PublicKey // the log's own key; its holder signs audit.pub, the first HEADER and checkpoints
	Recovery   ed25519.PublicKey // signs the HEADER of a start or a recovery
	Recipients []string          // age recipients, all classic or all post-quantum
	Serial     uint64            // grows with each change of this file, from 1
}

// NewIdentity makes a log identity key.
func NewIdentity() (ed25519.PrivateKey, error) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make log identity: %w", err)
	}
	return k, nil
}

// errNotPub tells a file of another sort from an audit.pub that was changed.
var errNotPub = errors.New("not an audit.pub")

func (p Pub) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\norigin %s\nidentity %s\nrecovery %s\nserial %d\n", pubTitle, p.Origin,
		base64.StdEncoding.EncodeToString(p.Identity), base64.StdEncoding.EncodeToString(p.Recovery), p.Serial)
	for _, r := range p.Recipients {
		fmt.Fprintf(&b, "recipient %s\n", r)
	}
	return b.String()
}

func (p Pub) sign(id ed25519.PrivateKey) ([]byte, error) {
	s, err := newNoteSigner(p.Origin, id)
	if err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: p.text()}, s)
}

// ParsePub reads audit.pub and checks its signature by the identity it names. That it is the right identity only a
// pin from elsewhere can tell: see Fingerprint. Exactly the canonical bytes are taken, one signature, nothing after it.
func ParsePub(signed []byte) (Pub, error) {
	if !bytes.HasPrefix(signed, []byte(pubTitle+"\n")) {
		return Pub{}, fmt.Errorf("parse audit.pub: %w", errNotPub)
	}
	_, err := note.Open(signed, note.VerifierList())
	var un *note.UnverifiedNoteError
	if !errors.As(err, &un) {
		return Pub{}, fmt.Errorf("parse audit.pub: %w", err)
	}
	p, err := parsePubText(un.Note.Text)
	if err != nil {
		return Pub{}, fmt.Errorf("parse audit.pub: %w", err)
	}
	v, err := noteVerifier(p.Origin, p.Identity)
	if err != nil {
		return Pub{}, fmt.Errorf("parse audit.pub: %w", err)
	}
	n, err := note.Open(signed, note.VerifierList(v))
	if err != nil {
		return Pub{}, fmt.Errorf("verify audit.pub: %w", err)
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(n.Sigs[0].Base64)
	if err != nil || len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 0 ||
		string(signed) != n.Text+"\n— "+p.Origin+" "+base64.StdEncoding.EncodeToString(sig)+"\n" {
		return Pub{}, errors.New("parse audit.pub: not in canonical form")
	}
	return p, nil
}

func parsePubText(text string) (p Pub, err error) {
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n")[1:] {
		key, v, _ := strings.Cut(l, " ")
		switch key {
		case "origin":
			p.Origin = v
		case "identity":
			p.Identity, err = parseKey(v)
		case "recovery":
			p.Recovery, err = parseKey(v)
		case "serial":
			p.Serial, err = strconv.ParseUint(v, 10, 64)
		case "recipient":
			p.Recipients = append(p.Recipients, v)
		default:
			err = errors.New("unknown line")
		}
		if err != nil {
			return Pub{}, fmt.Errorf("line %q: %w", key, err)
		}
	}
	if len(p.Identity) == 0 || len(p.Recovery) == 0 || p.Serial == 0 || p.text() != text {
		return Pub{}, errors.New("not in canonical form")
	}
	if err := checkOrigin(p.Origin); err != nil {
		return Pub{}, err
	}
	return p, ParseRecipients(p.Recipients)
}

func parseKey(s string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, errors.New("no ed25519 public key")
	}
	return b, nil
}

func checkOrigin(o string) error {
	if len(o) > 255 {
		return errors.New("origin is longer than 255 bytes")
	}
	if _, err := noteVerifier(o, make(ed25519.PublicKey, ed25519.PublicKeySize)); err != nil || strings.ContainsFunc(o, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("origin is no note key name: one word without plus")
	}
	return nil
}

// Fingerprint is "sha256:" and the hex SHA-256 of the identity key in audit.pub, whose signature it checks: what a reviewer pins.
func Fingerprint(signed []byte) (string, error) {
	p, err := ParsePub(signed)
	if err != nil {
		return "", err
	}
	return p.fingerprint(), nil
}

func (p Pub) fingerprint() string {
	s := sha256.Sum256(p.Identity)
	return "sha256:" + hex.EncodeToString(s[:])
}

// log is the id each COMMIT carries.
func (p Pub) log() [8]byte {
	s := sha256.Sum256(p.Identity)
	return [8]byte(s[:8])
}

func noteVerifier(name string, key ed25519.PublicKey) (note.Verifier, error) {
	vkey, err := note.NewEd25519VerifierKey(name, key)
	if err != nil {
		return nil, fmt.Errorf("name note key: %w", err)
	}
	return note.NewVerifier(vkey)
}

// noteSigner signs notes by a key that never becomes a string.
type noteSigner struct {
	note.Verifier
	key ed25519.PrivateKey
}

func newNoteSigner(name string, key ed25519.PrivateKey) (note.Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, errors.New("sign note: no ed25519 private key")
	}
	v, err := noteVerifier(name, key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	return noteSigner{v, key}, nil
}

func (s noteSigner) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(s.key, msg), nil }
