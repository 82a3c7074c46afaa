package sshexec_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"
)

// S03: a host that shows a certificate is judged by its pinned key alone. A revoked CA's certificate, as any other's, opens
// nothing, and its line in a known_hosts file refuses the file.
func TestSSHDHostCertificate(t *testing.T) {
	ca, caPub, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	key, pub, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(ca)
	if err != nil {
		t.Fatal(err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(pub))
	if err != nil {
		t.Fatal(err)
	}
	c := &ssh.Certificate{Key: public, CertType: ssh.HostCert, KeyId: "host", ValidPrincipals: []string{"127.0.0.1"},
		ValidAfter: uint64(time.Now().Add(-time.Hour).Unix()), ValidBefore: uint64(time.Now().Add(time.Hour).Unix())}
	if err := c.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, b := range map[string][]byte{"k": key, "k-cert.pub": ssh.MarshalAuthorizedKey(c)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startSSHD(t, nil, "HostKey "+filepath.Join(dir, "k")+"\nHostCertificate "+filepath.Join(dir, "k-cert.pub"))
	lines := "@revoked * " + caPub + "\n" + s.target.Address + " " + pub + "\n"
	if keys, err := sshexec.ParseHostKeys([]byte(lines), s.target.Address); err == nil || !strings.Contains(err.Error(), "@revoked") {
		t.Errorf("%q %v", keys, err)
	}
	s.target.HostKeys = []string{caPub}
	if _, err := s.pool.Dial(t.Context(), s.target, s.auth); dialReason(err) != "host_key_changed" {
		t.Errorf("pinned to the CA: %v", err)
	}
	if strings.Contains(s.log.String(), "publickey") {
		t.Error("an authentication was tried")
	}
	s.target.HostKeys = []string{pub, s.public["ed25519"]} // sshd shows one of each type
	if r := s.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
		t.Errorf("pinned to its keys: %+v", r)
	}
}

// S11: what writes without end is read up to the limit, then ended.
func TestSSHDEndless(t *testing.T) {
	s := startSSHD(t, nil, "")
	r := s.shell(t.Context(), t, "exec yes")
	if r.Reason != "output_limit" && r.Signal == "" || !r.Truncated || len(r.out) > sshexec.OutputLimit {
		t.Errorf("%+v, %d bytes", r.Result, len(r.out))
	}
}

// S18: an account whose .bashrc prints text: its shell is proved, commands and jobs are read all the same.
func TestSSHDNoisyProfile(t *testing.T) {
	accounts := shellAccounts(t, "bash")
	if accounts["sp-bash"] == "" {
		missing(t, "bash", "not installed")
	}
	s := startSSHD(t, accounts, "")
	const noise = "Welcome! 100% of $HOME\nstarted ended 0\n"
	rc := filepath.Join(s.dir, "home-sp-bash", ".bashrc")
	if err := os.WriteFile(rc, []byte("printf '%s' '"+noise+"'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.target.User = "sp-bash"
	c := s.dial(t)
	shell, err := c.ProveShell(t.Context())
	s.pool.Put(c)
	if err != nil || shell != "posix" {
		t.Fatalf("%q %v", shell, err)
	}
	r := s.shell(t.Context(), t, "echo it; exit 3")
	if r.Outcome != sshexec.Confirmed || r.ExitStatus != 3 || !strings.HasSuffix(r.out, "it\n") {
		t.Errorf("%+v %q", r.Result, r.out)
	}
	if !strings.HasPrefix(r.out, noise) {
		t.Errorf("the profile was not read: %q", r.out)
	}
	b := &jobBed{sshd: s, shell: "posix"}
	id := fresh(t, "noisy")
	if r := b.job(t, id, "", "sh", "-c", "echo of the job; exit 5"); r.Outcome != sshexec.Accepted {
		t.Fatalf("%+v", r)
	}
	if j, out, _ := b.ended(t, id); j.ExitStatus != 5 || out != "of the job\n" {
		t.Errorf("%+v %q", j, out)
	}
}
