package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"

	"sallyport/auditlog"
	"sallyport/gateway"
	"sallyport/gateway/api"
	"sallyport/gateway/client"
	"sallyport/gateway/home"
	"sallyport/gateway/peer"
)

const passphrase = "correct horse battery staple"

// cmdVault makes the vault that `sp init` makes, but for the passphrase slot's work factor: spd reads that from the slot,
// so each later proof takes milliseconds. init.txtar goes the long way.
func cmdVault(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: vault")
	}
	h, err := home.Find(ts.Getenv)
	ts.Check(err)
	g, err := gateway.New(context.Background(), gateway.Config{Home: h, Version: "test", WorkFactor: 10})
	ts.Check(err)
	agents, err := peer.Listen(h.AgentSocket())
	ts.Check(err)
	operators, err := peer.Listen(filepath.Join(ts.Getenv("SALLYPORT_HOME"), "op"))
	ts.Check(err)
	ts.Check(h.PublishOperator(operators.Addr().String()))
	served := make(chan error, 1)
	go func() { served <- g.Serve(context.Background(), agents, operators) }()
	c := client.Operator(h)
	var made api.Created
	err = c.Do(context.Background(), api.PathInit, &api.Proof{Kind: "passphrase", Value: passphrase}, struct{}{}, nil, &made)
	c.Close()
	g.Stop()
	if end := <-served; err == nil {
		err = end
	}
	if err != nil {
		ts.Fatalf("init: %v", err)
	}
	ts.Check(ts.Exec("sp", "audit", "pin")) // as sp init does
	ts.Check(os.WriteFile(ts.MkAbs("reader.txt"), []byte(made.ReaderIdentity+"\n"), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("recovery.txt"), []byte(made.RecoveryIdentity+"\n"), 0o600))
}

// cmdOp is sp with the passphrase on descriptor 3.
func cmdOp(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("sh", append([]string{"-c", `exec sp "$@" --passphrase-fd 3 3<"$PASS"`, "sh"}, args...)...)
	expect(ts, neg, err)
}

func expect(ts *testscript.TestScript, neg bool, err error) {
	switch {
	case err != nil && !neg:
		ts.Fatalf("unexpected failure: %v", err)
	case err == nil && neg:
		ts.Fatalf("unexpected success")
	}
}

// cmdCard waits for one card and prints it; $CARD is its id.
func cmdCard(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: card")
	}
	until(ts, "a card", func() bool {
		ts.Check(ts.Exec("sp", "approvals", "--json"))
		return strings.TrimSpace(ts.ReadFile("stdout")) != "[]"
	})
	var cards []api.Approval
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &cards))
	if len(cards) != 1 {
		ts.Fatalf("%d cards wait", len(cards))
	}
	ts.Setenv("CARD", cards[0].ID)
}

// cmdApprove waits for one card and approves it.
func cmdApprove(ts *testscript.TestScript, neg bool, args []string) {
	cmdCard(ts, neg, nil)
	cmdOp(ts, false, append([]string{"approve", ts.Getenv("CARD")}, args...))
}

// until asks again and again, and gives up in the end.
func until(ts *testscript.TestScript, what string, done func() bool) {
	end := time.Now().Add(patience)
	for tick := time.NewTicker(20 * time.Millisecond); !done(); <-tick.C {
		if time.Now().After(end) {
			ts.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func cmdMkfifo(ts *testscript.TestScript, neg bool, args []string) {
	p := partsOf(ts)
	if p.fifos == nil {
		p.fifos = map[string]*os.File{}
	}
	for _, name := range args {
		path := ts.MkAbs(name)
		ts.Check(syscall.Mkfifo(path, 0o600))
		f, err := os.OpenFile(path, os.O_RDWR, 0) // held open, so that a word waits for its reader
		ts.Check(err)
		p.fifos[path] = f
		ts.Defer(func() { f.Close() })
	}
}

func cmdTell(ts *testscript.TestScript, neg bool, args []string) {
	_, err := partsOf(ts).fifos[ts.MkAbs(args[0])].Write([]byte{'\n'})
	ts.Check(err)
}

func cmdHear(ts *testscript.TestScript, neg bool, args []string) {
	f := partsOf(ts).fifos[ts.MkAbs(args[0])]
	ts.Check(f.SetReadDeadline(time.Now().Add(patience)))
	if _, err := f.Read(make([]byte, 1)); err != nil {
		ts.Fatalf("hear %s: %v", args[0], err)
	}
}

// cmdGet takes a value out of the last JSON document on stdout; of several lines, out of the last.
func cmdGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get VAR POINTER")
	}
	doc := strings.TrimSpace(ts.ReadFile("stdout"))
	if i := strings.LastIndexByte(doc, '\n'); !jsontext.Value(doc).IsValid() && i >= 0 {
		doc = doc[i+1:]
	}
	var v any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		ts.Fatalf("get: %v in %q", err, doc)
	}
	for _, key := range strings.Split(strings.TrimPrefix(args[1], "/"), "/") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(in) {
				ts.Fatalf("get: no %s in %s", args[1], doc)
			}
			v = in[i]
		default:
			v = nil
		}
		if v == nil {
			ts.Fatalf("get: no %s in %s", args[1], doc)
		}
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// cmdDecrypt writes every record's body, as its reader opens it.
func cmdDecrypt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: decrypt FILE")
	}
	dir := ts.Getenv("SALLYPORT_HOME")
	pub, err := os.ReadFile(filepath.Join(dir, "audit.pub"))
	ts.Check(err)
	var out []byte
	for rec, err := range auditlog.Read(os.DirFS(filepath.Join(dir, "audit")), pub, strings.TrimSpace(ts.ReadFile("reader.txt"))) {
		ts.Check(err)
		out = append(append(out, rec.Body...), '\n')
	}
	if len(out) == 0 {
		ts.Fatalf("decrypt: the log holds nothing")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out, 0o600))
}

// cmdKill9 ends spd by its number, and returns when the kernel says that it is gone.
func cmdKill9(ts *testscript.TestScript, neg bool, args []string) {
	h, err := home.Find(ts.Getenv)
	ts.Check(err)
	c := client.Operator(h)
	var s api.Status
	err = c.Do(context.Background(), api.PathStatus, nil, struct{}{}, nil, &s)
	c.Close()
	ts.Check(err)
	p, err := os.FindProcess(s.PID)
	ts.Check(err)
	ts.Check(p.Kill())
	until(ts, "the end of spd", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID))
		if err != nil {
			return p.Signal(syscall.Signal(0)) != nil
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(after, "Z")
	})
}

// cmdAsNobody runs sp with no environment as a user who can read the given files and nothing else. setpriv changes the
// user, not our own fork: a child that shares our memory until its exec would make this process undumpable with it.
func cmdAsNobody(ts *testscript.TestScript, neg bool, args []string) {
	const nobody = "65534"
	expect(ts, neg, ts.Exec("setpriv", append([]string{"--reuid", nobody, "--regid", nobody, "--clear-groups",
		"env", "-i", "-C", "/", "HOME=/nonexistent", filepath.Join(ts.Getenv("BIN"), "sp")}, args...)...))
}

// cmdUntil runs a program again and again until its stdout matches: until PROGRAM ARG… ;; PATTERN.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[len(args)-2] != ";;" {
		ts.Fatalf("usage: until PROGRAM ARG... ;; PATTERN")
	}
	want := regexp.MustCompile(args[len(args)-1])
	until(ts, want.String(), func() bool {
		err := ts.Exec(args[0], args[1:len(args)-2]...)
		return err == nil && want.MatchString(ts.ReadFile("stdout"))
	})
}
