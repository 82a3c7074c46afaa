package sshexec_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"
)

func keyFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "keys", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	edPublic    = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8U4Jk2Jlu/L5JkNPc5iRDhw3wxu/hnEfgQekv0b8+z"
	edEncPublic = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICD13wqbGd6aWEF5vXnVR9HfLx6Bp7ieIWhH2NgmxFV+"
	ecPublic    = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHOjZlujKDC5mzZ8uj/ewlUYUyVd6ZVrkVSEyPmXa+YYisohFnoJkfyn01bd2+p0BHJ1Lj0KPrcfTAXoRSG5INQ="
)

func TestParseKey(t *testing.T) {
	for name, x := range map[string]struct{ pass, want string }{
		"ed25519":           {"", edPublic},
		"ec.pem":            {"", ecPublic},
		"ec8.pem":           {"", ecPublic},
		"ed25519_encrypted": {"right horse", edEncPublic},
		"ec8enc.pem":        {"right horse", ecPublic},
		"ec8sha1.pem":       {"right horse", ecPublic},
		"ecold.pem":         {"right horse", ecPublic},
	} {
		file := keyFile(t, name)
		k, err := sshexec.ParseKey(file, []byte(x.pass))
		if err != nil || k.Public() != x.want {
			t.Errorf("%s: %q %v", name, k.Public(), err)
			continue
		}
		m, err := k.Marshal()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again, err := sshexec.ParseKey(m, nil); err != nil || again.Public() != x.want {
			t.Errorf("%s, marshalled: %v", name, err)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
			if got := fmt.Sprintf(verb, k); got != x.want {
				t.Errorf("%s prints as %s", name, got)
			}
		}
		if x.pass == "" {
			continue
		}
		if _, err := sshexec.ParseKey(file, nil); !errors.Is(err, sshexec.ErrPassphraseNeeded) {
			t.Errorf("%s without passphrase: %v", name, err)
		}
		// S19; a wrong passphrase must never open it, however often it is tried.
		for i := range 40 {
			wrong := fmt.Sprintf("wrong horse %d", i)
			if name == "ed25519_encrypted" && i > 2 {
				break // bcrypt is slow on purpose
			}
			_, err := sshexec.ParseKey(file, []byte(wrong))
			if !errors.Is(err, sshexec.ErrWrongPassphrase) || strings.Contains(err.Error(), wrong) {
				t.Fatalf("%s with a wrong passphrase: %v", name, err)
			}
		}
	}
}

func TestRefusedKeys(t *testing.T) {
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	shortPEM := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(short)})
	ed := keyFile(t, "ed25519")
	pub, _, _ := ed25519.GenerateKey(rand.Reader)
	pubDER, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		file []byte
		want string
	}{
		"empty":           {nil, "not a private key"},
		"text":            {[]byte("hello"), "not a private key"},
		"public":          {[]byte(edPublic), "not a private key"},
		"public PEM":      {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pubDER}), "not a private key"},
		"cut":             {ed[:len(ed)/2], "not a private key"},
		"two keys":        {append(append([]byte{}, ed...), ed...), "more than one"},
		"huge":            {make([]byte, sshexec.MaxKeyFile+1), "not a private key"},
		"short RSA":       {shortPEM, "1024 bits"},
		"scrypt":          {keyFile(t, "ec8scrypt.pem"), "PBKDF2"},
		"encrypted cut":   {bytes.Replace(keyFile(t, "ec8enc.pem"), []byte("MIHsMFcGCSqGSIb3"), nil, 1), "not a private key"},
		"encrypted empty": {[]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n"), "not a private key"},
	} {
		if k, err := sshexec.ParseKey(x.file, []byte("right horse")); err == nil || !strings.Contains(err.Error(), x.want) || k.Public() != "" {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
	if _, err := (sshexec.Key{}).Marshal(); err == nil {
		t.Error("the zero key marshals")
	}
}

// Every kind of user key gets in.
func TestUserKeyKinds(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		file, pub, err := sshtest.GenerateKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		b := newBed(t, sshtest.Options{}, sshexec.PoolOptions{})
		h, err := sshtest.Start(t.Context(), sshtest.Options{User: "deploy", AuthorizedKey: pub})
		if err != nil {
			t.Fatal(err)
		}
		b.target.Address, b.target.HostKeys, b.auth.Secret = h.Addr(), h.HostKeys(), file
		if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
			t.Errorf("%s: %+v", kind, r)
		}
		b.pool.Close()
		h.Close()
	}
}

func FuzzParseKey(f *testing.F) {
	for _, n := range []string{"ed25519", "ec8.pem", "ec8enc.pem", "ecold.pem"} {
		f.Add(keyFile(f, n), []byte("right horse"))
	}
	f.Fuzz(func(t *testing.T, file, pass []byte) {
		if bytes.Contains(file, []byte("OPENSSH")) && bytes.Contains(file, []byte("YmNyeXB0")) {
			t.Skip() // bcrypt rounds are the file's to choose
		}
		k, err := sshexec.ParseKey(file, pass)
		if err != nil {
			return
		}
		m, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := sshexec.ParseKey(m, nil); err != nil || again.Public() != k.Public() {
			t.Errorf("marshalled: %v", err)
		}
	})
}
