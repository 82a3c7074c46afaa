package gateway

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
)

// A run of real processes: the client is a copy of the test binary (another program than the shim, which counts as ours),
// the shim is the test binary. Test and client share a pipe; the shim also listens where the test can reach it after the
// client has gone.

const (
	roleEnv    = "SALLYPORT_TEST_ROLE"
	shimPath   = "SALLYPORT_TEST_SHIM"    // the shim's program
	doorPath   = "SALLYPORT_TEST_DOOR"    // agent.sock
	tellPath   = "SALLYPORT_TEST_TELL"    // where the shim listens for the test
	besideEnv  = "SALLYPORT_TEST_BESIDE"  // JSON: argvs of what the client starts beside the shim; role:NAME is one of these
	throughEnv = "SALLYPORT_TEST_THROUGH" // a shell stands between client and shim
)

// TestProcessRole is no test: it is what the processes of the others run.
func TestProcessRole(t *testing.T) {
	switch os.Getenv(roleEnv) {
	case "client":
		os.Setenv(roleEnv, "shim")
		x := exec.Command(os.Getenv(shimPath), "-test.run=^TestProcessRole$")
		if os.Getenv(throughEnv) != "" {
			x = exec.Command("sh", "-c", `exec 3<&0; "$0" -test.run='^TestProcessRole$' <&3 & wait`, os.Getenv(shimPath))
		}
		// Both ends of both pipes are the client's alone: it neither writes nor reads.
		in, err1 := x.StdinPipe()
		out, err2 := x.StdoutPipe()
		var beside [][]string
		err := errors.Join(err1, err2, x.Start(), json.Unmarshal([]byte(os.Getenv(besideEnv)), &beside))
		for _, argv := range beside {
			y := exec.Command(argv[0], argv[1:]...)
			if role, ok := strings.CutPrefix(argv[0], "role:"); ok {
				y = roleCommand(os.Getenv(shimPath), role)
			}
			err = errors.Join(err, y.Start())
		}
		if err != nil {
			fmt.Println("client:", err)
			os.Exit(1)
		}
		io.Copy(io.Discard, os.Stdin)
		in.Close()
		out.Close()
		os.Exit(0)
	case "idle":
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "blocked":
		blockedRole()
	case "shim":
		if err := shimRole(); err != nil {
			fmt.Fprintln(os.Stderr, "shim:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func roleCommand(program, role string) *exec.Cmd {
	x := exec.Command(program, "-test.run=^TestProcessRole$")
	x.Env = append(os.Environ(), roleEnv+"="+role)
	return x
}

// blockedRole takes no notice of SIGTERM and waits in the kernel, uninterruptibly (stat D): a thread that made a child with
// CLONE_VFORK waits so until the child runs another program, which this one never does.
func blockedRole() {
	signal.Ignore(syscall.SIGTERM)
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, unix.CLONE_VFORK|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	for errno == 0 && pid == 0 { // the child: raw calls alone
		syscall.RawSyscall6(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	os.Exit(1)
}

// shimRole hands lines between the test and the agents' door. The line "say N" writes N bytes to stdout.
func shimRole() error {
	door, err := net.Dial("unix", os.Getenv(doorPath))
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", os.Getenv(tellPath))
	if err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	answers := bufio.NewReader(door)
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "say "); ok {
			var k int
			fmt.Sscan(n, &k)
			os.Stdout.Write(make([]byte, k))
			fmt.Fprintln(c, "said")
			continue
		}
		fmt.Fprintln(door, lines.Text())
		answer, err := answers.ReadBytes('\n')
		if err != nil {
			return err
		}
		c.Write(answer)
	}
	return nil
}

// band is one client with its shim, as the test plays them.
type band struct {
	t      testing.TB
	client *exec.Cmd
	in     io.Closer
	shim   net.Conn
	out    *bufio.Reader
}

// newBand starts a client, its shim, and beside (argvs) below the client.
func (r *rig) newBand(through bool, beside ...[]string) *band {
	t := r.t
	t.Helper()
	tell := filepath.Join(t.TempDir(), "tell")
	x := exec.Command(clientProgram(t), "-test.run=^TestProcessRole$")
	argv, _ := json.Marshal(append([][]string{}, beside...))
	x.Env = append(os.Environ(), roleEnv+"=client", shimPath+"="+self(t), doorPath+"="+r.cfg.Home.AgentSocket(), tellPath+"="+tell, besideEnv+"="+string(argv))
	if through {
		x.Env = append(x.Env, throughEnv+"=1")
	}
	in, err := x.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	b := &band{t: t, client: x, in: in}
	until(t, "the shim's socket", func() bool { b.shim, err = net.Dial("unix", tell); return err == nil })
	b.out = bufio.NewReader(b.shim)
	t.Cleanup(func() {
		b.shim.Close() // ends the shim
		in.Close()     // ends the client
		x.Process.Kill()
		x.Wait()
	})
	return b
}

// kill ends the client as a crash does.
func (b *band) kill() {
	b.t.Helper()
	if err := b.client.Process.Kill(); err != nil {
		b.t.Fatal(err)
	}
	b.client.Wait()
}

// ask sends one line and reads one.
func (b *band) ask(line string) string {
	b.t.Helper()
	b.shim.SetDeadline(time.Now().Add(2 * time.Minute))
	fmt.Fprintln(b.shim, line)
	answer, err := b.out.ReadString('\n')
	if err != nil {
		b.t.Fatalf("%.40s: %v", line, err)
	}
	return answer
}

func (b *band) call(url, method string) api.Response {
	b.t.Helper()
	answer := b.ask(string(encode(api.Request{ID: "1", Method: api.MethodCall, Params: encode(call0(url, method))})))
	var res api.Response
	if err := json.Unmarshal([]byte(answer), &res); err != nil {
		b.t.Fatal(err)
	}
	return res
}

func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// clientProgram is the test binary with a byte more: it does the same and is another program.
func clientProgram(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "client")
	if err := os.WriteFile(to, append(b, 0), 0o700); err != nil {
		t.Fatal(err)
	}
	return to
}

// realRig is a rig whose test binary counts as ours, with a ready vault and one credential for up.
func realRig(t testing.TB, up *upstream) *rig {
	t.Helper()
	b, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	ours := "sha256:" + hex.EncodeToString(sum[:])
	r := newRig(t, "", func(c *Config) { c.Ours = func(d string) bool { return d == ours } })
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**", "POST "+up.URL+"/**")
	go r.approveAll(t.Context(), "run")
	return r
}

// ends stops the gateway and reads its log.
func (r *rig) ends() []event.Event {
	r.t.Helper()
	r.stop()
	return events(r.t, r.dir, r.created.ReaderIdentity)
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && !gone(pid) }
