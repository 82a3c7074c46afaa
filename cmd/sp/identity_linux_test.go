package main_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// programs are what scripts start besides sp and spd, all of them this test's file under another name.
func programs() map[string]func() {
	return map[string]func(){
		"agent":    func() { os.Exit(agentMain(os.Args[1:])) },
		"attacker": func() { os.Exit(attackerMain(os.Args[1:])) },
	}
}

// TestIdentityStage is one script, inside of the stage that TestIdentity and TestIdentityServed set up. Besides the
// commands of TestScripts (vault, op, card, approve, upstream, arrived, ledger, mkfifo, tell, hear, get, search):
//
//	ready                    a ready vault, spd, an upstream UP, a credential up for it; the secret is in token
//	up [NAME=VALUE…]         starts spd, with more in its environment; $SPD is its number
//	end SIGNAL               ends spd by a signal's number
//	log                      $WORK/log is a copy of the log's folder and spd.log, as root would hand it to a reviewer
//	history sessions|activity  what the reviewer reads in it, as JSON
//	recorded LOG N REGEXP    waits until the log has it so often
//	disk fill|free           (served) takes all room on the gateway's disk, gives it back
//	mode FOLDER MODE         (served) what root does to the socket folder
//	digest FILE              $DIGEST is the file's
//	[mode:same] [mode:served] [part:userns] [part:landlock]
//
// $DATA is where the vault lies.
func TestIdentityStage(t *testing.T) {
	mode := os.Getenv(stageVar)
	if mode == "" {
		t.Skip("stage: TestIdentity and TestIdentityServed start this one")
	}
	var boss *bufio.ReadWriter
	if mode == "served" {
		unix.CloseOnExec(managerFD)
		f := os.NewFile(managerFD, "manager")
		boss = bufio.NewReadWriter(bufio.NewReader(f), bufio.NewWriter(f))
	}
	wish := func(ts *testscript.TestScript, words ...string) {
		fmt.Fprintln(boss, strings.Join(words, " "))
		ts.Check(boss.Flush())
		answer, err := boss.ReadString('\n')
		ts.Check(err)
		if answer = strings.TrimSpace(answer); answer != "ok" {
			ts.Fatalf("%s: %s", words[0], answer)
		}
	}
	st := &stage{mode, wish}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/identity",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           st.has,
		Setup: func(e *testscript.Env) error {
			bin := os.Getenv("SALLYPORT_BIN")
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH")+":/usr/sbin:/usr/bin:/bin")
			e.Setenv("BIN", bin)
			e.Setenv("PASS", filepath.Join(e.WorkDir, ".pass"))
			e.Setenv("DATA", os.Getenv("DATA"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			if mode == "same" {
				h := filepath.Join(e.WorkDir, "h")
				e.Setenv("SALLYPORT_HOME", h)
				e.Setenv("DATA", h)
				e.Defer(func() { stop(e, h) })
				if err := os.Mkdir(h, 0o700); err != nil {
					return err
				}
			}
			e.Values[partsKey{}] = &parts{}
			return errors.Join(os.Mkdir(e.Getenv("HOME"), 0o700), os.WriteFile(e.Getenv("PASS"), []byte(passphrase+"\n"), 0o600))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready": st.ready, "vault": st.vault, "up": st.up, "end": st.end, "log": st.log, "history": st.history, "recorded": st.recorded, "mode": st.chmod, "disk": st.disk,
			"digest": cmdDigest, "op": cmdOp, "card": cmdCard, "approve": cmdApprove,
			"upstream": cmdUpstream, "arrived": cmdArrived, "ledger": cmdLedger,
			"mkfifo": cmdMkfifo, "tell": cmdTell, "hear": cmdHear, "get": cmdGet, "search": cmdSearch,
		},
	})
}

// stage is where a script plays.
type stage struct {
	mode string
	wish func(ts *testscript.TestScript, words ...string)
}

func (st *stage) has(cond string) (bool, error) {
	kind, what, _ := strings.Cut(cond, ":")
	switch {
	case kind == "mode":
		return what == st.mode, nil
	case cond == "part:landlock":
		v, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
		return int(v) >= 6, nil
	case cond == "part:userns":
		return exec.Command("unshare", "-Urpf", "--mount-proc", "true").Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// ready is where most scripts begin.
func (st *stage) ready(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs("token"), []byte("tok-5f2b9c71e04d4a6b\n"), 0o600))
	st.vault(ts, false, nil)
	st.up(ts, false, args)
	cmdOp(ts, false, []string{"unlock"})
	cmdUpstream(ts, false, []string{"UP"})
	ts.Check(ts.Exec("sh", "-c", `exec sp secret add up --kind bearer --allow "GET,POST $UP/**" --allow-network 127.0.0.0/8 --ca UP.pem --passphrase-fd 3 3<"$PASS" <token`))
}

// vault makes a ready vault and stops; where spd has a uid of its own, root hands it over.
func (st *stage) vault(ts *testscript.TestScript, neg bool, args []string) {
	if st.mode == "same" {
		cmdVault(ts, neg, args)
		return
	}
	ts.Setenv("SALLYPORT_HOME", ts.MkAbs("made"))
	ts.Check(os.Mkdir(ts.MkAbs("made"), 0o700))
	cmdVault(ts, neg, args)
	ts.Setenv("SALLYPORT_HOME", "")
	ts.Check(ts.Exec("sp", "audit", "pin", ts.MkAbs("made")))
	st.wish(ts, "adopt", ts.MkAbs("made"))
}

func (st *stage) up(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("use ! exec sp up")
	}
	if st.mode == "served" {
		st.wish(ts, append([]string{"up"}, args...)...)
	} else {
		ts.Check(ts.Exec("env", append(args, "sp", "up")...))
	}
	ts.Check(ts.Exec("sp", "status", "--json", "--wait", "30s"))
	cmdGet(ts, false, []string{"SPD", "/pid"})
}

// end ends spd by signal: 9 or 11. A user can't signal a gateway of another uid; root can.
func (st *stage) end(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: end SIGNAL")
	}
	if st.mode == "served" {
		st.wish(ts, "end", args[0])
		return
	}
	pid, err := strconv.Atoi(ts.Getenv("SPD"))
	ts.Check(err)
	sig, err := strconv.Atoi(args[0])
	ts.Check(err)
	fd, err := unix.PidfdOpen(pid, 0)
	ts.Check(err)
	defer unix.Close(fd)
	ts.Check(unix.PidfdSendSignal(fd, syscall.Signal(sig), nil, 0))
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	until(ts, "the end of spd", func() bool {
		n, err := unix.Poll(p, 1000)
		return n == 1 && err == nil
	})
}

func (st *stage) log(ts *testscript.TestScript, neg bool, args []string) {
	to := ts.MkAbs("log")
	ts.Check(os.RemoveAll(to))
	if st.mode == "served" {
		ts.Check(os.Mkdir(to, 0o777))
		st.wish(ts, "log", to)
		return
	}
	ts.Check(os.Mkdir(to, 0o700))
	from := ts.Getenv("DATA")
	ts.Check(errors.Join(copyFolder(filepath.Join(from, "audit"), filepath.Join(to, "audit")),
		copyFile(filepath.Join(from, "audit.pub"), filepath.Join(to, "audit.pub"), 0o600),
		copyFile(filepath.Join(from, "spd.log"), filepath.Join(to, "spd.log"), 0o600)))
}

// history prints one of the two logs.
func (st *stage) history(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: history sessions|activity")
	}
	st.log(ts, false, nil)
	ts.Check(ts.Exec("sp", "audit", args[0], ts.MkAbs("log"), "--identity", ts.MkAbs("reader.txt"), "--json"))
}

// recorded waits: what the gateway does when it has hung up, it records after that.
func (st *stage) recorded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: recorded sessions|activity N REGEXP")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	re := regexp.MustCompile(args[2])
	until(ts, args[2]+" in the log", func() bool {
		st.history(ts, false, args[:1])
		return len(re.FindAllString(ts.ReadFile("stdout"), -1)) == want
	})
}

func (st *stage) chmod(ts *testscript.TestScript, neg bool, args []string) {
	st.wish(ts, append([]string{"mode"}, args...)...)
}

func (st *stage) disk(ts *testscript.TestScript, neg bool, args []string) { st.wish(ts, args...) }

func cmdDigest(ts *testscript.TestScript, neg bool, args []string) {
	b, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	sum := sha256.Sum256(b)
	ts.Setenv("DIGEST", "sha256:"+hex.EncodeToString(sum[:]))
}
