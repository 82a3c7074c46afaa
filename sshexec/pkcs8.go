package sshexec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1" //nolint:gosec // PBKDF2's default PRF in RFC 8018
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"hash"
)

// maxIterations bounds the work a key file may ask for (about a second).
const maxIterations = 10_000_000

// RFC 5958 EncryptedPrivateKeyInfo and RFC 8018 PBES2.
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2 struct{ KDF, Cipher pkix.AlgorithmIdentifier }

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

var errPKCS8 = errors.New("an encrypted PKCS#8 key must use PBES2 with PBKDF2 and AES-CBC")

// openPKCS8 decrypts what `openssl pkcs8 -topk8` writes.
func openPKCS8(der, passphrase []byte) (any, error) {
	var e encryptedKey
	if rest, err := asn1.Unmarshal(der, &e); err != nil || len(rest) > 0 {
		return nil, ErrNotAKey
	}
	if e.Algorithm.Algorithm.String() != "1.2.840.113549.1.5.13" {
		return nil, errPKCS8
	}
	var p pbes2
	if _, err := asn1.Unmarshal(e.Algorithm.Parameters.FullBytes, &p); err != nil {
		return nil, errPKCS8
	}
	key, err := deriveKey(p, passphrase)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if _, err := asn1.Unmarshal(p.Cipher.Parameters.FullBytes, &iv); err != nil || len(iv) != aes.BlockSize {
		return nil, errPKCS8
	}
	if len(e.Data) == 0 || len(e.Data)%aes.BlockSize != 0 {
		return nil, ErrNotAKey
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, errPKCS8
	}
	plain := make([]byte, len(e.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, e.Data)
	pad := int(plain[len(plain)-1])
	if pad == 0 || pad > aes.BlockSize {
		return nil, ErrWrongPassphrase
	}
	raw, err := x509.ParsePKCS8PrivateKey(plain[:len(plain)-pad])
	if err != nil {
		return nil, ErrWrongPassphrase
	}
	return raw, nil
}

func deriveKey(p pbes2, passphrase []byte) ([]byte, error) {
	size := map[string]int{
		"2.16.840.1.101.3.4.1.2": 16, "2.16.840.1.101.3.4.1.22": 24, "2.16.840.1.101.3.4.1.42": 32,
	}[p.Cipher.Algorithm.String()]
	if p.KDF.Algorithm.String() != "1.2.840.113549.1.5.12" || size == 0 {
		return nil, errPKCS8
	}
	var k pbkdf2Params
	if _, err := asn1.Unmarshal(p.KDF.Parameters.FullBytes, &k); err != nil || k.Iterations < 1 || k.Iterations > maxIterations {
		return nil, errPKCS8
	}
	var prf func() hash.Hash
	switch k.PRF.Algorithm.String() {
	case "", "1.2.840.113549.2.7":
		prf = sha1.New
	case "1.2.840.113549.2.9":
		prf = sha256.New
	case "1.2.840.113549.2.11":
		prf = sha512.New
	default:
		return nil, errPKCS8
	}
	key, err := pbkdf2.Key(prf, string(passphrase), k.Salt, k.Iterations, size)
	if err != nil {
		return nil, errPKCS8
	}
	return key, nil
}
