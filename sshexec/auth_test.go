package sshexec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"

	"golang.org/x/crypto/ssh"
)

// caBed is an sshd that trusts one CA, with accounts of its own.
func caBed(t *testing.T, config string) (s *sshd, ca []byte) {
	t.Helper()
	accounts := shellAccounts(t, "sh")
	ca, pub, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pub")
	if err := os.WriteFile(file, []byte(pub+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = startSSHD(t, accounts, "TrustedUserCAKeys "+file+"\n"+config)
	s.target.User = "sp-sh"
	s.auth = sshexec.Auth{Kind: sshexec.AuthCA, Secret: ca, Version: 1, Run: "ca", Cert: sshexec.Cert{Principal: "sp-sh", Serial: 4711, ID: "act_01J"}}
	return s, ca
}

// One certificate a connection, one connection a call: sshd's own log has the serial, the action and the principal's account.
func TestSSHDCertificates(t *testing.T) {
	s, _ := caBed(t, "")
	for i := range 3 {
		s.auth.Cert.Serial = uint64(4711 + i)
		if r := s.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
			t.Fatalf("%+v", r)
		}
	}
	for _, want := range []string{"ID act_01J (serial 4711)", "(serial 4712)", "(serial 4713)", "Accepted publickey for sp-sh"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("sshd did not log %q", want)
		}
	}
	s.auth.Cert.Principal = "root"
	if _, err := s.pool.Dial(t.Context(), s.target, s.auth); dialReason(err) != "dial_failed" || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a foreign principal: %v", err)
	}
	if !strings.Contains(s.log.String(), "name is not a listed principal") {
		t.Errorf("sshd did not refuse the principal")
	}
	s.auth.Cert.Principal = ""
	if _, err := s.pool.Dial(t.Context(), s.target, s.auth); dialReason(err) != "dial_failed" {
		t.Errorf("no principal, which OpenSSH reads as all: %v", err)
	}
	s.auth.Cert.Principal = "sp-sh"
	via, auth := s.target, s.auth
	s.target.Via, s.auth.Via = &via, &auth
	if r := s.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
		t.Errorf("by certificates through a jump host: %+v", r)
	}
}

// A user certificate below the key is shown with it; an expired one, and one for other principals, are refused by sshd.
func TestSSHDUserCertificate(t *testing.T) {
	s, ca := caBed(t, "")
	signer, err := ssh.ParsePrivateKey(ca)
	if err != nil {
		t.Fatal(err)
	}
	key, pub, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(pub))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(principal string, from, to time.Duration) []byte {
		c := &ssh.Certificate{Key: public, CertType: ssh.UserCert, KeyId: "user", ValidPrincipals: []string{principal},
			ValidAfter: uint64(time.Now().Add(from).Unix()), ValidBefore: uint64(time.Now().Add(to).Unix())}
		if err := c.SignCert(rand.Reader, signer); err != nil {
			t.Fatal(err)
		}
		k, err := sshexec.ParseKey(append(bytes.Clone(key), ssh.MarshalAuthorizedKey(c)...), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, x := range map[string]struct {
		secret []byte
		ok     bool
		log    string
	}{
		"valid":     {sign("sp-sh", -time.Minute, time.Hour), true, "ID user (serial 0)"},
		"expired":   {sign("sp-sh", -2*time.Hour, -time.Hour), false, "Certificate invalid: expired"},
		"principal": {sign("other", -time.Minute, time.Hour), false, "name is not a listed principal"},
		"none":      {key, false, ""},
	} {
		_, err := s.pool.Dial(t.Context(), s.target, sshexec.Auth{Kind: sshexec.AuthKey, Secret: x.secret, Version: 1, Run: name})
		if (err == nil) != x.ok || !strings.Contains(s.log.String(), x.log) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, foreign, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{foreign, string(sign("sp-sh", 0, time.Hour)[len(key):]) + foreign} {
		other, _, err := sshtest.GenerateKey("ed25519")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sshexec.ParseKey(append(bytes.Clone(other), below...), nil); strings.Contains(below, "cert") && err == nil {
			t.Errorf("a certificate for another key was taken")
		}
	}
}

// Passwords: by the password method, and as the one answer to PAM's one prompt.
func TestSSHDPassword(t *testing.T) {
	for name, config := range map[string]string{
		"password": "PasswordAuthentication yes\nPubkeyAuthentication no",
		"keyboard": "KbdInteractiveAuthentication yes\nUsePAM yes\nPubkeyAuthentication no",
	} {
		t.Run(name, func(t *testing.T) {
			if name == "keyboard" {
				if _, err := os.Stat("/etc/pam.d/sshd"); err != nil {
					missing(t, "pam", "no /etc/pam.d/sshd")
				}
			}
			s := startSSHD(t, shellAccounts(t, "sh"), config)
			s.target.User = "sp-sh"
			s.auth = sshexec.Auth{Kind: sshexec.AuthPassword, Secret: []byte(accountPassword), Version: 1, Run: "pw"}
			if r := s.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
				t.Errorf("%+v", r)
			}
			s.auth.Secret, s.auth.Version = []byte("wrong"), 2
			if _, err := s.pool.Dial(t.Context(), s.target, s.auth); dialReason(err) != "dial_failed" || strings.Contains(err.Error(), "wrong") {
				t.Errorf("wrong password: %v", err)
			}
		})
	}
}

// S15: what asks for more than the password gets nothing.
func TestPrompts(t *testing.T) {
	for name, x := range map[string]struct {
		prompts []string
		echo    bool
		pattern string
		ok      bool
	}{
		"one":       {[]string{"Password: "}, false, "", true},
		"two":       {[]string{"Password: ", "Code: "}, false, "", false},
		"sudo":      {[]string{"sudo password:"}, false, "", false},
		"echoed":    {[]string{"Password: "}, true, "", false},
		"own":       {[]string{"PIN for deploy: "}, false, `PIN for \w+: `, true},
		"not whole": {[]string{"Password: and the code"}, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			answers := make(chan []string, 4)
			addr, pub := promptHost(t, x.prompts, x.echo, answers)
			pool := sshexec.NewPool(sshexec.PoolOptions{})
			defer pool.Close()
			target := sshexec.Target{Name: "p", Address: addr, User: "deploy", HostKeys: []string{pub}, AllowNetwork: []string{"127.0.0.0/8"}}
			c, err := pool.Dial(t.Context(), target, sshexec.Auth{Kind: sshexec.AuthPassword, Secret: []byte("s3cret-password"), Version: 1, Prompt: x.pattern})
			if (err == nil) != x.ok {
				t.Errorf("dial: %v", err)
			}
			pool.Put(c)
			close(answers)
			for a := range answers {
				if !x.ok {
					t.Errorf("answered %q", a)
				}
			}
		})
	}
	for _, bad := range []string{"(", strings.Repeat("a", 201)} {
		if sshexec.ParsePrompt(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// promptHost asks each caller once and accepts the right answer.
func promptHost(t *testing.T, prompts []string, echo bool, answers chan<- []string) (addr, pub string) {
	t.Helper()
	key, pub, err := sshtest.GenerateKey("ed25519")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	conf := &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		echos := make([]bool, len(prompts))
		for i := range echos {
			echos[i] = echo
		}
		got, err := ask("", "", prompts, echos)
		if err != nil {
			return nil, err
		}
		answers <- got
		return nil, nil
	}}
	conf.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		c, chans, reqs, err := ssh.NewServerConn(nc, conf)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(reqs)
		for n := range chans {
			_, _, _ = n.Accept()
		}
		_ = c.Wait()
	}()
	return l.Addr().String(), pub
}

// Through two hops, each pinned and with a credential of its own.
func TestSSHDJump(t *testing.T) {
	s := startSSHD(t, nil, "AllowTcpForwarding yes")
	via := s.target
	via.Name = "first"
	viaAuth := s.auth
	second := via
	second.Name, second.Via = "second", &via
	secondAuth := viaAuth
	secondAuth.Via = &viaAuth
	s.target.Via, s.auth.Via = &second, &secondAuth
	for range 2 {
		if r := s.run(t.Context(), t, sshexec.Input{Shell: "echo $SSH_CONNECTION"}); r.Outcome != sshexec.Confirmed || r.out == "" {
			t.Fatalf("%+v", r)
		}
	}
	if n := strings.Count(s.log.String(), "Accepted publickey"); n != 3 {
		t.Errorf("%d authentications for one pooled connection over two hops", n)
	}
	changed := func(f func(target *sshexec.Target, auth *sshexec.Auth)) error {
		target, auth, hop, hopAuth := s.target, s.auth, second, secondAuth
		target.Via, auth.Via = &hop, &hopAuth
		f(&target, &auth)
		c, err := s.pool.Dial(t.Context(), target, auth)
		s.pool.Put(c)
		return err
	}
	if err := changed(func(x *sshexec.Target, _ *sshexec.Auth) { x.Via.HostKeys = []string{edPublic} }); dialReason(err) != "host_key_changed" || !strings.Contains(err.Error(), "second") {
		t.Errorf("a jump host with another key: %v", err)
	}
	if err := changed(func(x *sshexec.Target, _ *sshexec.Auth) { x.AllowNetwork = nil }); dialReason(err) != "address_refused" {
		t.Errorf("a literal private address behind a jump host: %v", err)
	}
	if err := changed(func(_ *sshexec.Target, a *sshexec.Auth) { a.Via = nil }); dialReason(err) != "dial_failed" {
		t.Errorf("no credential for the jump host: %v", err)
	}
	before := strings.Count(s.log.String(), "Accepted publickey")
	if err := changed(func(_ *sshexec.Target, a *sshexec.Auth) { a.Via.Version = 2 }); err != nil {
		t.Error(err)
	}
	if n := strings.Count(s.log.String(), "Accepted publickey"); n != before+3 {
		t.Errorf("a jump host's new credential was not used: %d of %d", n, before+3)
	}
}

// A jump host that stalls holds nobody beyond the deadline, and leaves no goroutine (TestMain looks).
func TestJumpStalls(t *testing.T) {
	for _, fault := range []sshtest.Fault{sshtest.Silent, sshtest.StallKex, sshtest.StallAuth, sshtest.NoSession} {
		b := newBed(t, sshtest.Options{Fault: fault}, sshexec.PoolOptions{DialTimeout: 300 * time.Millisecond})
		via, auth := b.target, b.auth
		b.target.Via, b.auth.Via = &via, &auth
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := b.pool.Dial(ctx, b.target, b.auth); dialReason(err) != "deadline" && dialReason(err) != "dial_failed" {
			t.Errorf("%v: %v", fault, err)
		}
		cancel()
	}
}

// ssh-keygen's own certificate below its own encrypted key.
func TestKeygenCertificate(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		missing(t, "ssh-keygen", "not installed")
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-q", "-t", "ed25519", "-N", "", "-f", "ca"}, {"-q", "-t", "ed25519", "-N", "pass phrase", "-f", "user"},
		{"-q", "-s", "ca", "-I", "me", "-n", "deploy", "user.pub"},
	} {
		cmd := exec.Command(keygen, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "user"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := os.ReadFile(filepath.Join(dir, "user-cert.pub"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := sshexec.ParseKey(append(key, cert...), []byte("pass phrase"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.Marshal()
	if err != nil || !bytes.Contains(b, []byte("ssh-ed25519-cert-v01@openssh.com")) {
		t.Errorf("%v: the certificate is lost", err)
	}
}
