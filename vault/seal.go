package vault

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	format = "sallyport/vault/1"
	schema = 1 // of the columns' plaintexts
)

var errUnsealed = errors.New("box does not open here")

// keys is the DEK and what it is bound to. Its methods may run concurrently;
// wipe must not run beside them.
type keys struct {
	p          *pages // DEK
	vault      id
	generation uint64
	past       []*keys // of earlier generations, the latest first: for Unseal alone
}

func newKeys(dek []byte, vault id, generation uint64) *keys {
	k := &keys{p: newPages(32), vault: vault, generation: generation}
	copy(k.p.b, dek)
	return k
}

func (k *keys) dek() []byte { return k.p.b[:32] }

func (k *keys) wipe() {
	if k == nil {
		return
	}
	k.p.wipe()
	for _, p := range k.past {
		p.wipe()
	}
}

// equal compares the DEK, of whatever generation.
func (k *keys) equal(o *keys) bool {
	return k.vault == o.vault && subtle.ConstantTimeCompare(k.dek(), o.dek()) == 1
}

// derive returns the 32-byte key of one use. The caller clears it.
func (k *keys) derive(use string) []byte {
	b, err := hkdf.Key(sha256.New, k.dek(), k.vault[:], format+"/"+use, 32)
	if err != nil {
		panic("vault: hkdf: " + err.Error()) // only for lengths no caller asks
	}
	return b
}

func (k *keys) seal(use string, ad, plain []byte) []byte {
	key := k.derive(use)
	defer clear(key)
	a, err := chacha20poly1305.NewX(key)
	if err != nil {
		panic("vault: cipher: " + err.Error()) // only for a key that isn't 32 bytes
	}
	box := make([]byte, a.NonceSize(), a.NonceSize()+len(plain)+a.Overhead())
	_, _ = rand.Read(box)
	return a.Seal(box, box, plain, ad)
}

// unseal appends the plaintext to dst, in place if its capacity suffices.
func (k *keys) unseal(use string, ad, box, dst []byte) ([]byte, error) {
	if len(box) < chacha20poly1305.NonceSizeX+chacha20poly1305.Overhead {
		return nil, errUnsealed
	}
	key := k.derive(use)
	defer clear(key)
	a, err := chacha20poly1305.NewX(key)
	if err != nil {
		panic("vault: cipher: " + err.Error())
	}
	plain, err := a.Open(dst, box[:a.NonceSize()], box[a.NonceSize():], ad)
	if err != nil {
		return nil, errUnsealed
	}
	return plain, nil
}

// mac is HMAC-SHA256 over fields under the key of use.
func (k *keys) mac(use string, f ...[]byte) (sum [32]byte) {
	key := k.derive(use)
	defer clear(key)
	m := hmac.New(sha256.New, key)
	m.Write(fields(f...))
	m.Sum(sum[:0])
	return sum
}

// fields joins f, each preceded by its length: no two lists give the same bytes.
func fields(f ...[]byte) []byte {
	n := 0
	for _, b := range f {
		n += 4 + len(b)
	}
	out := make([]byte, 0, n)
	for _, b := range f {
		out = binary.BigEndian.AppendUint32(out, uint32(len(b)))
		out = append(out, b...)
	}
	return out
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Seal seals plain under a key of its own for use ("own", "run", …); Unseal
// needs the same use and ad. ErrLocked, ErrAbsent, ErrQuarantined.
func (v *Vault) Seal(use string, ad, plain []byte) ([]byte, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.in == nil {
		return nil, fmt.Errorf("seal %s: %w", use, v.refusal())
	}
	return v.in.keys.sealUse(use, ad, plain), nil
}

// Unseal opens what Seal of this vault gave, in this generation or an earlier one.
func (v *Vault) Unseal(use string, ad, box []byte) ([]byte, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.in == nil {
		return nil, fmt.Errorf("unseal %s: %w", use, v.refusal())
	}
	plain, err := v.in.keys.unsealUse(use, ad, box)
	if err != nil {
		return nil, fmt.Errorf("unseal %s: %w", use, err)
	}
	return plain, nil
}

func (k *keys) sealUse(use string, ad, plain []byte) []byte {
	return k.seal("use/"+use, k.useAD(use, ad), plain)
}

func (k *keys) unsealUse(use string, ad, box []byte) ([]byte, error) {
	plain, err := k.unseal("use/"+use, k.useAD(use, ad), box, nil)
	for i := 0; err != nil && i < len(k.past); i++ {
		p := k.past[i]
		plain, err = p.unseal("use/"+use, p.useAD(use, ad), box, nil)
	}
	return plain, err
}

func (k *keys) useAD(use string, ad []byte) []byte {
	return fields([]byte(format), k.vault[:], []byte(use), ad, number(k.generation))
}
