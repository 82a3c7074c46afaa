package gateway

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/gateway/api"
	"sallyport/sshexec/sshtest"
)

// add stores a credential whose value is exactly these bytes.
func (r *rig) add(a api.CredentialArgs, value string) (api.Credential, error) {
	out, err := r.opCredentialAdd(valueOf(r.t.Context(), value, func(n int, digest []byte) any {
		a.ValueLength, a.ValueDigest = n, digest
		return a
	}))
	if err != nil {
		return api.Credential{}, err
	}
	return out.(api.Credential), nil
}

var somewhere = api.HTTPRules{Allow: []string{"GET https://api.example.com/**"}}

// Whatever people hand in instead of a value is refused with what it is; nothing of it is in the error, and nothing is stored.
func TestMistakenValues(t *testing.T) {
	r := newRig(t, "")
	r.init()
	key, _, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	openssh := string(key)
	const token = "tok-9d1c77aa0e5b"
	for name, tt := range map[string]struct{ kind, value, says string }{
		"empty":                 {"bearer", "", "empty"},
		"short":                 {"bearer", "abc", "shorter than 8 bytes"},
		"long":                  {"bearer", strings.Repeat("x", 16<<10+1), "longer than 16 KiB"},
		"newline":               {"bearer", token + "\n", "line break"},
		"CRLF":                  {"bearer", token + "\r\n", "Windows"},
		"carriage return":       {"header", token + "\r", "Windows"},
		"a line break within":   {"bearer", token + "\n" + token, "line break"},
		"control":               {"header", token + "\x07", "control byte"},
		"NUL":                   {"basic", token + "\x00", "control byte"},
		"byte order mark":       {"bearer", "\xef\xbb\xbf" + token, "byte order mark"},
		"UTF-16":                {"bearer", "\xff\xfet\x00o\x00k\x00", "UTF-16"},
		"with its word":         {"bearer", "Bearer " + token, "token alone"},
		"a whole header":        {"header", "Authorization: token " + token, "whole header"},
		"PEM for a token":       {"bearer", openssh, "PEM file"},
		"JSON for a token":      {"bearer", `{"token":"` + token + `"}`, "JSON document"},
		"service account":       {"header", `{"type":"service_account","private_key":"x","client_email":"a@b"}`, "service account"},
		"service account, ssh":  {"ssh-key", `{"type":"service_account","private_key":"x"}`, "service account"},
		"public key":            {"ssh-key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE ann@host", "public key"},
		"public key, PEM":       {"ssh-key", "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n", "public key"},
		"public key, RFC 4716":  {"ssh-key", "---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----\n", "public key"},
		"user certificate":      {"ssh-key", "ssh-ed25519-cert-v01@openssh.com AAAAIH ann", "public key"},
		"certificate":           {"ssh-key", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "certificate"},
		"PuTTY":                 {"ssh-key", "PuTTY-User-Key-File-3: ssh-ed25519\r\nEncryption: none\r\n", "puttygen"},
		"PuTTY for an app":      {"github-app", "PuTTY-User-Key-File-2: ssh-rsa\n", "puttygen"},
		"JSON for a key":        {"ssh-key", `{"pem":"x"}`, "JSON document"},
		"cut short":             {"ssh-key", openssh[:len(openssh)/2], "not a private key"},
		"two keys":              {"ssh-key", openssh + openssh, "more than one"},
		"text":                  {"ssh-key", "my key", "not a private key"},
		"over a key file's":     {"ssh-key", openssh + strings.Repeat("\n", 64<<10), "not a private key"},
		"an app without a key":  {"github-app", "ghp_" + token, "private key"},
		"AWS without its halfs": {"sigv4", "AKIAIOSFODNN7EXAMPLE", "ACCESSKEYID:SECRET"},
	} {
		a := api.CredentialArgs{Name: "x", Kind: tt.kind, Rules: somewhere}
		switch tt.kind {
		case "ssh-key":
			a.Rules = api.HTTPRules{}
		case "header":
			a.Rules.Header = "X-Key"
		case "basic":
			a.Rules.Username = "ann"
		case "sigv4":
			a.Rules.Region, a.Rules.Service = "eu-west-1", "s3"
		case "github-app":
			a.Rules.AppID, a.Rules.Installation = "1", "2"
		}
		_, err := r.add(a, tt.value)
		if err == nil || refusalOf(err).Code != "invalid_request" || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q in it", name, err, tt.says)
			continue
		}
		if strings.Contains(err.Error(), token) || len(tt.value) > 40 && strings.Contains(err.Error(), tt.value[20:40]) {
			t.Errorf("%s: the error holds the value: %v", name, err)
		}
	}
	if l := op[[]api.Credential](r, r.opCredentialList, struct{}{}); len(l) != 0 {
		t.Errorf("stored: %+v", l)
	}
	if s := r.vault.Snapshot(); s.Counter != 1 {
		t.Errorf("the vault was changed %d times", s.Counter)
	}
}

// Every form in which private keys come is taken, with its passphrase where it has one, and kept without.
// S19 is here too: a locked key with a wrong passphrase, or none, is refused and its name stays free.
func TestKeyImport(t *testing.T) {
	r := newRig(t, "")
	r.init()
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const phrase = "of the key file"
	file := func(b *pem.Block, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(b))
	}
	openssh := func(kind string) string {
		t.Helper()
		key, _, err := sshtest.GenerateKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		return string(key)
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return file(&pem.Block{Type: "PRIVATE KEY", Bytes: der}, err)
	}
	sec1, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]struct{ file, phrase, public string }{
		"OpenSSH ed25519":  {openssh("ed25519"), "", "ssh-ed25519 "},
		"PKCS#1":           {file(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}, nil), "", "ssh-rsa "},
		"SEC 1":            {file(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}, nil), "", "ecdsa-sha2-nistp256 "},
		"PKCS#8 RSA":       {pkcs8(rsaKey), "", "ssh-rsa "},
		"PKCS#8 ed25519":   {pkcs8(edKey), "", "ssh-ed25519 "},
		"Windows line end": {strings.ReplaceAll(pkcs8(ecKey), "\n", "\r\n"), "", "ecdsa-sha2-nistp256 "},
	}
	dir := t.TempDir()
	in := filepath.Join(dir, "k")
	for name, tt := range map[string]struct {
		tool, file, public string
		args               []string
	}{
		"PKCS#8, locked":  {"openssl", pkcs8(rsaKey), "ssh-rsa ", []string{"pkcs8", "-topk8", "-in", in, "-out", in + ".out", "-passout", "pass:" + phrase}},
		"PEM, locked":     {"openssl", pkcs8(rsaKey), "ssh-rsa ", []string{"rsa", "-traditional", "-aes128", "-in", in, "-out", in + ".out", "-passout", "pass:" + phrase}},
		"OpenSSH, locked": {"ssh-keygen", openssh("ed25519"), "ssh-ed25519 ", []string{"-q", "-p", "-P", "", "-N", phrase, "-f", in}},
	} {
		if _, err := exec.LookPath(tt.tool); err != nil {
			if os.Getenv("SALLYPORT_REAL") == "require" {
				t.Errorf("%s: not installed", tt.tool)
			}
			t.Log(name + ": no " + tt.tool)
			continue
		}
		os.Remove(in)
		if err := os.WriteFile(in, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tt.tool, tt.args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", name, err, out)
		}
		made := in + ".out"
		if tt.tool == "ssh-keygen" {
			made = in // it changes the file itself
		}
		locked, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		forms[name] = struct{ file, phrase, public string }{string(locked), phrase, tt.public}
	}
	n := 0
	for name, tt := range forms {
		n++
		a := api.CredentialArgs{Name: "key" + string(rune('a'+n)), Kind: "ssh-key"}
		if tt.phrase != "" {
			for _, wrong := range []string{"", "not it"} {
				b := a
				b.PassphraseLength = len(wrong)
				if _, err := r.add(b, tt.file+wrong); err == nil || refusalOf(err).Code != "passphrase_required" {
					t.Errorf("%s with passphrase %q: %v", name, wrong, err)
				}
			}
		}
		a.PassphraseLength = len(tt.phrase)
		c, err := r.add(a, tt.file+tt.phrase)
		if err != nil || len(c.Rules) != 1 || !strings.HasPrefix(c.Rules[0], tt.public) {
			t.Errorf("%s: %+v %v", name, c, err)
		}
	}
	// Another key in the place of one: the public half goes with it.
	was := op[api.CredentialShown](r, r.opCredentialShow, api.NameArgs{Name: "keyb"})
	out, err := r.rotate("keyb", openssh("ecdsa"))
	if err != nil || !strings.HasPrefix(out.Credential.Rules[0], "ecdsa-") || out.Credential.Rules[0] == was.Rules[0] {
		t.Errorf("rotated: %+v %v", out, err)
	}
	if now := op[api.CredentialShown](r, r.opCredentialShow, api.NameArgs{Name: "keyb"}); now.Rules[0] != out.Credential.Rules[0] {
		t.Errorf("shown: %+v", now)
	}
}
