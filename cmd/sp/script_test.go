package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// patience bounds every wait of these tests; nothing here is measured.
const patience = 60 * time.Second

// TestMain is also the programs that scripts know as `agent` and `attacker`: another file than sp, so that it is the owner
// of its runs; and the manager of the identity suite's stage.
func TestMain(m *testing.M) {
	if os.Getenv("SALLYPORT_MANAGER") != "" {
		os.Exit(manage(os.Args[3:])) // after -test.run ^$
	}
	testscript.Main(m, programs())
}

// TestScripts drives the real sp and spd, built as they are shipped. Commands besides testscript's own, and sp and spd:
//
//	vault                        makes a ready vault in $SALLYPORT_HOME and stops; writes $WORK/{reader,recovery}.txt
//	op ARG…                      sp ARG… with the operator's passphrase on a descriptor
//	card                         waits for the one card and prints it; $CARD is its id
//	approve [FLAG…]              waits for the one card and says yes to it
//	authenticator make|approve   makes a passkey on the page just printed; says yes with it to $CARD
//	exec agent sp ARG…           sp below an agent of its own
//	exec agent mcp FILE          an MCP client over `sp mcp`; FILE is its steps
//	exec agent crash TOOL ARGS   a client to be killed, whose shim outlives it
//	exec agent raw FILE          lines for agent.sock, as they stand
//	upstream NAME                an HTTPS service on loopback: $NAME is its address, NAME.pem its certificate
//	arrived NAME PATH            waits until it was asked for PATH
//	ledger NAME                  prints what arrived: method, path, Authorization
//	sshd                         OpenSSH on loopback: $SSHD is its address, sshd.pub its key, id its user's key
//	mkfifo N…, tell N, hear N    meeting points of script and agent
//	get VAR POINTER              $VAR is what stands there in the JSON document last printed
//	decrypt FILE                 every record of the log, opened with the reader's identity
//	[!] search SECRET FILE…      looks for SECRET's bytes in every encoding, in files and folders
//	kill9                        ends spd without a word
//	as-nobody ARG…               sp ARG… as a user who can read nothing of ours but $OUT
func TestScripts(t *testing.T) {
	bin := build(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           hasPart,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "h")
			e.Setenv("SALLYPORT_HOME", home)
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH")+":/usr/sbin")
			e.Setenv("PASS", filepath.Join(e.WorkDir, ".pass"))
			e.Setenv("BIN", bin)
			e.Values[partsKey{}] = &parts{}
			e.Defer(func() { stop(e, home) })
			out, err := os.MkdirTemp("", "sp-out") // outside of $WORK, which is private
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(out) })
			e.Setenv("OUT", out)
			if err := errors.Join(os.Chmod(out, 0o755), os.Mkdir(home, 0o700)); err != nil {
				return err
			}
			return os.WriteFile(e.Getenv("PASS"), []byte(passphrase+"\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"vault": cmdVault, "op": cmdOp, "card": cmdCard, "approve": cmdApprove, "authenticator": cmdAuthenticator,
			"upstream": cmdUpstream, "arrived": cmdArrived, "ledger": cmdLedger, "sshd": cmdSSHD,
			"until": cmdUntil, "mkfifo": cmdMkfifo, "tell": cmdTell, "hear": cmdHear,
			"get": cmdGet, "decrypt": cmdDecrypt, "search": cmdSearch,
			"kill9": cmdKill9, "as-nobody": cmdAsNobody,
		},
	})
}

// build makes both programs: sp without cgo, spd with it.
func build(t *testing.T) string {
	t.Helper()
	unix.Umask(0o022) // home.Prepare narrows it for the whole process, and others read what is made here
	dir, err := os.MkdirTemp("", "sp-bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // as-nobody starts sp from here
		t.Fatal(err)
	}
	for name, cgo := range map[string]string{"sp": "CGO_ENABLED=0", "spd": "CGO_ENABLED=1"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), "sallyport/cmd/"+name)
		cmd.Env = append(os.Environ(), cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	return dir
}

// stop ends a script's spd, whatever became of the script.
func stop(e *testscript.Env, home string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(e.Getenv("BIN"), "sp"), "down")
	cmd.Env = []string{"SALLYPORT_HOME=" + home}
	if out, err := cmd.CombinedOutput(); err != nil {
		e.T().Log(fmt.Sprintf("sp down: %v\n%s", err, out))
	}
}

// parts is what a script has started.
type parts struct {
	mu    sync.Mutex
	key   *authenticator
	up    map[string]*upstream
	fifos map[string]*os.File
}

type partsKey struct{}

func partsOf(ts *testscript.TestScript) *parts { return ts.Value(partsKey{}).(*parts) }

// hasPart answers [part:NAME]: a real part that is missing skips the script by name, or fails it where all must be there.
func hasPart(cond string) (bool, error) {
	name, ok := strings.CutPrefix(cond, "part:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	have := map[string]func() bool{
		"gnome-keyring": func() bool {
			for _, name := range []string{"gnome-keyring-daemon", "dbus-run-session", "dbus-send"} {
				if _, err := exec.LookPath(name); err != nil {
					return false
				}
			}
			return true
		},
		"sqlite3":       func() bool { _, err := exec.LookPath("sqlite3"); return err == nil },
		"sshd":          func() bool { return canServeSSH() == nil },
		"script":        func() bool { _, err := exec.LookPath("script"); return err == nil },
		"git":           func() bool { _, err := exec.LookPath("git"); return err == nil },
		"mcp-inspector": func() bool { _, err := exec.LookPath("mcp-inspector"); return err == nil },
		"nobody":        func() bool { _, err := exec.LookPath("setpriv"); return err == nil && os.Getuid() == 0 },
	}[name]
	switch {
	case have == nil:
		return false, fmt.Errorf("unknown part %q", name)
	case have():
		return true, nil
	case name != "nobody" && os.Getenv("SALLYPORT_REAL") == "require":
		return false, fmt.Errorf("%s is required and not found", name)
	}
	return false, nil
}
