package main_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// canServeSSH says what is missing for an sshd of this user's own.
func canServeSSH() error {
	for _, bin := range []string{"/usr/sbin/sshd", "ssh-keygen"} {
		if _, err := exec.LookPath(bin); err != nil {
			return err
		}
	}
	if _, err := user.Current(); err != nil {
		return err
	}
	if os.Getuid() == 0 && exec.Command("unshare", "-m", "true").Run() != nil {
		return errors.New("unshare -m is not permitted") // root's sshd wants /run/sshd
	}
	return nil
}

// cmdSSHD starts OpenSSH's server in the foreground, for this user alone.
func cmdSSHD(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: sshd")
	}
	for _, key := range []string{"sshd", "id", "ca"} {
		ts.Check(exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", ts.MkAbs(key)).Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	addr := l.Addr().String()
	ts.Check(l.Close())
	_, port, err := net.SplitHostPort(addr)
	ts.Check(err)
	conf := ts.MkAbs("sshd_config")
	ts.Check(os.WriteFile(conf, fmt.Appendf(nil, `Port %s
ListenAddress 127.0.0.1
HostKey %s
AuthorizedKeysFile %s
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PidFile none
LogLevel VERBOSE
Subsystem sftp internal-sftp
AcceptEnv GIT_PROTOCOL
TrustedUserCAKeys %s
`, port, ts.MkAbs("sshd"), ts.MkAbs("id.pub"), ts.MkAbs("ca.pub")), 0o600))
	argv := []string{"/usr/sbin/sshd", "-D", "-e", "-f", conf}
	if os.Getuid() == 0 {
		argv = append([]string{"unshare", "-m", "sh", "-c", `mount --make-rprivate / && mount -t tmpfs none /run && mkdir -m 0755 /run/sshd && exec "$@"`, "sh"}, argv...)
	}
	var said strings.Builder
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &said, &said
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
		ts.Logf("sshd said:\n%s", said.String())
	})
	until(ts, "sshd", func() bool {
		c, err := net.Dial("tcp", addr)
		return err == nil && c.Close() == nil
	})
	me, err := user.Current()
	ts.Check(err)
	ts.Setenv("SSHD", addr)
	ts.Setenv("ME", me.Username)
}
