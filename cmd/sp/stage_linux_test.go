package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The identity suite plays each script of testdata/identity twice: with spd under the attackers' own uid, and with spd
// under a uid of its own (spd serve --serve-uid). Nobody in it has root's rights but the stage's manager, which stands for
// the service manager of the machine: it makes /run/sallyport in a mount namespace of its own, and starts and ends spd.

const (
	stageVar  = "SALLYPORT_STAGE" // manager, same or served
	userID    = 1000              // agents, attackers and the operator
	gatewayID = 991               // spd, where it is served
)

// TestIdentity: spd, agents and attackers have one uid.
func TestIdentity(t *testing.T) { playIdentity(t, "same") }

// TestIdentityServed: spd has a uid of its own.
func TestIdentityServed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("root: needed to run spd under another uid")
	}
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skip("unshare -m: not permitted: " + err.Error())
	}
	playIdentity(t, "served")
}

func playIdentity(t *testing.T, mode string) {
	scripts, err := filepath.Glob("testdata/identity/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	bin := build(t)
	self := filepath.Join(bin, "sp.test") // the folder of `go test` is private
	if err := copyFile("/proc/self/exe", self, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		name := strings.TrimSuffix(filepath.Base(s), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			playStage(t, mode, bin, self, name)
		})
	}
}

// playStage plays one script in a process of its own, as a user without rights.
func playStage(t *testing.T, mode, bin, self, name string) {
	dir, err := os.MkdirTemp("", "st")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	tmp := filepath.Join(dir, "t")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(tmp, 0o700), copyFolder("testdata/identity", filepath.Join(dir, "testdata", "identity"))); err != nil {
		t.Fatal(err)
	}
	argv := []string{self, "-test.run", "^TestIdentityStage$/^" + name + "$", "-test.v", "-test.timeout", "3m"}
	if os.Getuid() == 0 {
		if err := os.Chown(tmp, userID, userID); err != nil {
			t.Fatal(err)
		}
		argv = append(asUser(), argv...)
	}
	if mode == "served" {
		argv = append([]string{"unshare", "-m", self, "-test.run", "^$"}, argv...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second // whoever is left may hold the output
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), stageVar+"="+mode, "SALLYPORT_BIN="+bin, "TMPDIR="+tmp, "SALLYPORT_HOME=")
	if mode == "served" {
		cmd.Env = append(cmd.Env, "SALLYPORT_MANAGER=1")
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	case !bytes.Contains(out, []byte("--- PASS: TestIdentityStage/"+name)):
		t.Errorf("it was not played:\n%s", out)
	default:
		t.Logf("%s", out)
	}
}

// asUser starts a program as the attackers' user, with no right that root had.
func asUser() []string {
	id := strconv.Itoa(userID)
	return []string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"}
}

// manager is what stands for the machine's service manager, as root in a mount namespace of its own. It runs the stage as
// a user without rights and does for it, over a socket, what root would do: each line is a wish, each answer "ok" or why
// not.
type manager struct {
	bin, dir, data string
	spd            *exec.Cmd
	gone           chan error
}

const managerFD = 3

// manage runs the stage in args and returns its exit status.
func manage(args []string) int {
	m := &manager{bin: os.Getenv("SALLYPORT_BIN")}
	code, err := m.play(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		return 1
	}
	return code
}

func (m *manager) play(args []string) (int, error) {
	var err error
	if m.dir, err = os.MkdirTemp("/var/tmp", "sp-stage"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(m.dir)
	defer syscall.Unmount(filepath.Join(m.dir, "data"), syscall.MNT_DETACH)
	defer m.end(syscall.SIGKILL)
	m.data = filepath.Join(m.dir, "data")
	err = errors.Join(
		os.Chmod(m.dir, 0o755),
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("none", "/run", "tmpfs", 0, "mode=0755"),
		give("/run/sallyport", 0o710),
		os.Mkdir(m.data, 0o700), syscall.Mount("none", m.data, "tmpfs", 0, "mode=0700,size=32m"), os.Chown(m.data, gatewayID, userID),
	)
	if err != nil {
		return 0, err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "stage"), os.NewFile(uintptr(pair[1]), "manager")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SALLYPORT_MANAGER=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "DATA="+m.data)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	theirs.Close()
	for in := bufio.NewScanner(ours); in.Scan(); {
		answer := "ok"
		if err := m.do(strings.Fields(in.Text())); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if _, err := fmt.Fprintln(ours, answer); err != nil {
			break
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

func (m *manager) do(wish []string) error {
	switch {
	case len(wish) == 2 && wish[0] == "adopt": // a vault that the stage made
		return errors.Join(copyFolder(wish[1], m.data), chownAll(m.data, gatewayID, userID))
	case len(wish) == 1 && wish[0] == "up":
		return m.start(nil)
	case len(wish) > 1 && wish[0] == "up":
		return m.start(wish[1:])
	case len(wish) == 2 && wish[0] == "end":
		n, err := strconv.Atoi(wish[1])
		if err != nil {
			return err
		}
		return m.end(syscall.Signal(n))
	case len(wish) == 2 && wish[0] == "log": // what only root can copy for a reviewer
		if err := copyFolder(m.data, wish[1]); err != nil {
			return err
		}
		os.RemoveAll(filepath.Join(wish[1], "vault.db"))
		return errors.Join(copyFile(filepath.Join(m.dir, "spd.log"), filepath.Join(wish[1], "spd.log"), 0o600), chownAll(wish[1], userID, userID))
	case len(wish) == 1 && wish[0] == "fill":
		return m.fill()
	case len(wish) == 1 && wish[0] == "free":
		return os.Remove(filepath.Join(m.data, "ballast"))
	case len(wish) == 3 && wish[0] == "mode": // spoil or mend the socket folder
		mode, err := strconv.ParseUint(wish[2], 8, 32)
		if err != nil {
			return err
		}
		return os.Chmod(wish[1], fs.FileMode(mode))
	}
	return fmt.Errorf("no such wish: %q", wish)
}

// fill takes what room is left on the gateway's disk.
func (m *manager) fill() error {
	f, err := os.OpenFile(filepath.Join(m.data, "ballast"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// start runs spd as a unit file says it: its own uid, the served user's group, three capabilities.
func (m *manager) start(env []string) error {
	log, err := os.OpenFile(filepath.Join(m.dir, "spd.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	caps := "+sys_ptrace,+dac_read_search,+kill"
	m.spd = exec.Command("setpriv", "--reuid", strconv.Itoa(gatewayID), "--regid", strconv.Itoa(userID), "--clear-groups", "--no-new-privs",
		"--bounding-set=-all,"+caps, "--inh-caps=-all,"+caps, "--ambient-caps=-all,"+caps,
		filepath.Join(m.bin, "spd"), "serve", "--serve-uid", strconv.Itoa(userID))
	m.spd.Dir = "/"
	m.spd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	m.spd.Env = append([]string{"SALLYPORT_HOME=" + m.data}, env...)
	m.spd.Stdout, m.spd.Stderr = log, log
	if err := m.spd.Start(); err != nil {
		return err
	}
	m.gone = make(chan error, 1)
	go func(c *exec.Cmd, gone chan error) { gone <- c.Wait() }(m.spd, m.gone)
	return nil
}

// end signals spd and waits until it is gone.
func (m *manager) end(s syscall.Signal) error {
	if m.spd == nil {
		return nil
	}
	m.spd.Process.Signal(s)
	select {
	case <-m.gone:
		m.spd = nil
		return nil
	case <-time.After(patience):
		return errors.New("spd is still there")
	}
}

// give makes a folder that is the gateway's, with the served user's group.
func give(dir string, mode fs.FileMode) error {
	return errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode), os.Chown(dir, gatewayID, userID))
}

func chownAll(dir string, uid, gid int) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, gid))
	})
}

// copyFolder copies files and folders of from, private, leaving out sockets.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch at := filepath.Join(to, rel); {
		case d.IsDir():
			mode := fs.FileMode(0o700)
			if strings.HasPrefix(from, "testdata") {
				mode = 0o755
			}
			return os.MkdirAll(at, mode)
		case d.Type().IsRegular():
			return copyFile(path, at, 0o644)
		}
		return nil
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
