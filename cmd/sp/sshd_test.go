package main_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/sshexec/sshtest"
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
	var said strings.Builder
	cmd, addr, err := serveSSHD(ts.MkAbs("."), &said)
	ts.Check(err)
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

// serveSSHD starts it with fresh keys in dir: sshd and sshd.pub are its own, id is the user's, ca what it trusts.
func serveSSHD(dir string, said io.Writer) (cmd *exec.Cmd, addr string, err error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"sshd", "id", "ca"} {
		if err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", in(key)).Run(); err != nil {
			return nil, "", err
		}
	}
	port, err := sshtest.FreePort()
	if err != nil {
		return nil, "", err
	}
	addr = net.JoinHostPort("127.0.0.1", port)
	if err := os.WriteFile(in("sshd_config"), fmt.Appendf(nil, `Port %s
ListenAddress 127.0.0.1
HostKey %s
AuthorizedKeysFile %s
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PidFile none
LogLevel VERBOSE
MaxStartups 100
Subsystem sftp internal-sftp
AcceptEnv GIT_PROTOCOL
TrustedUserCAKeys %s
`, port, in("sshd"), in("id.pub"), in("ca.pub")), 0o600); err != nil {
		return nil, "", err
	}
	argv := []string{"/usr/sbin/sshd", "-D", "-e", "-f", in("sshd_config")}
	if os.Getuid() == 0 {
		argv = append([]string{"unshare", "-m", "sh", "-c", `mount --make-rprivate / && mount -t tmpfs none /run && mkdir -m 0755 /run/sshd && exec "$@"`, "sh"}, argv...)
	}
	cmd = exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, addr, cmd.Start()
}
