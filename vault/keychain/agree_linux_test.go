package keychain

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"math/big"
	"testing"
)

// TestAgreeWhole: a number that begins with a zero byte is never agreed on.
func TestAgreeWhole(t *testing.T) {
	for range 1000 {
		if _, public, err := keyPair(); err != nil || len(public.Bytes()) != oakleyBytes {
			t.Fatalf("public key of %d bytes, %v", len(public.Bytes()), err)
		}
	}
	one := big.NewInt(1) // as the private key it makes the secret their public key
	short := new(big.Int).Lsh(one, 8*(oakleyBytes-1)-1)
	if key, err := agree(short, one); key != nil || err != nil {
		t.Errorf("a secret of %d bytes gave a key of %d, %v", len(short.Bytes()), len(key), err)
	}
	full := new(big.Int).Lsh(short, 1)
	want, _ := hkdf.Key(sha256.New, full.Bytes(), nil, "", 16)
	if key, err := agree(full, one); !bytes.Equal(key, want) || err != nil {
		t.Errorf("a secret of %d bytes: %x, %v", len(full.Bytes()), key, err)
	}
	for _, n := range []*big.Int{new(big.Int), one, new(big.Int).Sub(oakley, one), oakley} {
		if key, err := agree(n, one); key != nil || err == nil {
			t.Errorf("a public key of %d bits was taken", n.BitLen())
		}
	}
}
