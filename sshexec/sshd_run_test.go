package sshexec_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/sshexec"
)

func TestSSHDHostKeys(t *testing.T) {
	s := startSSHD(t, nil, "")
	keys, err := sshexec.Enrol(t.Context(), sshexec.Target{Address: s.target.Address, AllowNetwork: s.target.AllowNetwork}, sshexec.Auth{})
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 3 || keys[0] != s.public["ed25519"] || keys[1] != s.public["ecdsa"] || keys[2] != s.public["rsa"] {
		t.Errorf("enrolled %q", keys)
	}
	if strings.Contains(s.log.String(), "publickey") {
		t.Errorf("enrolment tried an authentication")
	}
	for kind, pub := range s.public { // S01
		s.target.HostKeys, s.auth.Run = []string{pub}, kind
		if r := s.run(t.Context(), t, sshexec.Input{Argv: []string{"true"}}); r.Outcome != sshexec.Confirmed {
			t.Errorf("%s: %+v", kind, r)
		}
	}
	accepted := strings.Count(s.log.String(), "publickey")
	s.target.HostKeys, s.auth.Run = []string{edPublic}, "changed" // S02
	if _, err := s.pool.Dial(t.Context(), s.target, s.auth); dialReason(err) != "host_key_changed" {
		t.Errorf("changed key: %v", err)
	}
	if n := strings.Count(s.log.String(), "publickey"); n != accepted {
		t.Errorf("an authentication was tried after a changed host key")
	}
}

func TestSSHDRun(t *testing.T) {
	s := startSSHD(t, nil, "RekeyLimit 256K")
	t.Run("S05 argv", func(t *testing.T) {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		dump := filepath.Join(s.dir, "argdump")
		if err := os.Symlink(exe, dump); err != nil {
			t.Fatal(err)
		}
		args := []string{"$(id)", ";reboot", "a\nb", "it's", "-oProxyCommand=x", "üñí", "", "\\", "`id`", "*", "~", "A=b", "\t", "\x01\x7f", "a b"}
		in := append([]string{dump}, args...)
		pattern := make([]string, len(in))
		for i, a := range in {
			pattern[i] = strings.ReplaceAll(a, "*", `\*`)
		}
		if s.rules, err = rules(t, "posix", pattern); err != nil {
			t.Fatal(err)
		}
		r := s.run(t.Context(), t, sshexec.Input{Argv: in})
		if want := strings.Join(args, "\x00") + "\x00"; r.out != want || r.Outcome != sshexec.Confirmed {
			t.Errorf("got %q, want %q, %+v", r.out, want, r.Result)
		}
		if s.rules, err = sshexec.ParseRules([]byte(`{"allowArgv":[["true"],["cat"]],"allowShell":true,"shell":"posix"}`)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("status and streams", func(t *testing.T) {
		r := s.shell(t.Context(), t, "cat; echo err >&2; exit 42")
		if r.Outcome != sshexec.Confirmed || r.ExitStatus != 42 || r.out != "" || r.err != "err\n" || !r.Complete() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("through several key exchanges", func(t *testing.T) {
		in := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10-1)
		r := s.run(t.Context(), t, sshexec.Input{Argv: []string{"cat"}, Stdin: in})
		if r.Outcome != sshexec.Confirmed || r.out != string(in) {
			t.Errorf("%+v, %d of %d bytes", r.Result, len(r.out), len(in))
		}
		r = s.run(t.Context(), t, sshexec.Input{Shell: "wc -c", Stdin: make([]byte, sshexec.MaxStdin)})
		if strings.TrimSpace(r.out) != strconv.Itoa(sshexec.MaxStdin) {
			t.Errorf("%q %+v", r.out, r.Result)
		}
	})
	t.Run("S06 pipes held", func(t *testing.T) {
		began := time.Now()
		s := s.with(t, silence)
		r := s.shell(t.Context(), t, "sleep 1000 & echo $!; exit 3")
		if r.Outcome != sshexec.Confirmed || r.ExitStatus != 3 || !r.PipesHeld || r.Complete() {
			t.Errorf("%+v", r)
		}
		if d := time.Since(began); d > time.Minute {
			t.Errorf("took %v", d)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(r.out)); err == nil {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	t.Run("S10 exit-signal", func(t *testing.T) {
		r := s.shell(t.Context(), t, "kill -SEGV $$")
		if r.Outcome != sshexec.FailedRemote || r.Signal != "SEGV" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("S08 S09 cut", func(t *testing.T) {
		r := s.shell(t.Context(), t, "kill -9 $PPID; sleep 1")
		if r.Outcome != sshexec.SentUnconfirmed || !r.Sent || r.Complete() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := s
		if os.Getuid() == 0 {
			s = s.with(t, silence)
		}
		c := s.dial(t)
		defer s.pool.Put(c)
		cmd := command(t, sshexec.Input{Shell: "echo up; exec sleep 30"})
		m, err := s.rules.Match(cmd)
		if err != nil {
			t.Fatal(err)
		}
		var began time.Time
		r := c.Run(ctx, cmd, m, writerFunc(func(p []byte) (int, error) {
			began = time.Now()
			cancel()
			return len(p), nil
		}), nil)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("took %v", d)
		}
		if os.Getuid() == 0 { // OpenSSH signals nothing of root's
			if r.Outcome != sshexec.SentUnconfirmed || r.Reason != "cancelled" || !strings.Contains(r.Detail, "may still run") {
				t.Errorf("%+v", r)
			}
		} else if r.Outcome != sshexec.FailedRemote || r.Signal != "TERM" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("more at once than MaxSessions", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				if r := s.shell(t.Context(), t, fmt.Sprintf("echo %d", i)); r.out != strconv.Itoa(i)+"\n" {
					t.Errorf("%d: %+v", i, r)
				}
			})
		}
		wg.Wait()
	})
	t.Run("proof", func(t *testing.T) {
		c := s.dial(t)
		defer s.pool.Put(c)
		if got, err := c.ProveShell(t.Context()); err != nil || got != "posix" {
			t.Errorf("%q %v", got, err)
		}
		// The same place serves again after the proof.
		m, cmd := s.match(t, "true")
		if r := c.Run(t.Context(), cmd, m, nil, nil); r.Outcome != sshexec.Confirmed {
			t.Errorf("%+v", r)
		}
	})
}

func TestSSHDFewSessions(t *testing.T) {
	s := startSSHD(t, nil, "MaxSessions 2")
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if r := s.shell(t.Context(), t, "echo x"); r.out != "x\n" {
				t.Errorf("%+v", r)
			}
		})
	}
	wg.Wait()
}

// A forced command sees the line in its environment and answers as it likes.
func TestSSHDForcedCommand(t *testing.T) {
	s := startSSHD(t, nil, "ForceCommand echo PONG")
	c := s.dial(t)
	defer s.pool.Put(c)
	if got, err := c.ProveShell(t.Context()); err != nil || got != "exact" {
		t.Errorf("%q %v", got, err)
	}
}

// shellAccounts are accounts sp-NAME with those login shells, those that are installed. It needs root.
func shellAccounts(t *testing.T, shells ...string) map[string]string {
	t.Helper()
	if os.Getuid() != 0 {
		missing(t, "accounts", "needs root")
	}
	dir, accounts := t.TempDir(), map[string]string{}
	for _, sh := range shells {
		path, err := exec.LookPath(sh)
		if sh == "ash" {
			if path, err = exec.LookPath("busybox"); err == nil {
				for d := dir; d != filepath.Dir(d) && d != os.TempDir(); d = filepath.Dir(d) {
					if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // the accounts pass through
						t.Fatal(err)
					}
				}
				err = os.Symlink(path, filepath.Join(dir, "ash"))
				path = filepath.Join(dir, "ash")
			}
		}
		if err == nil {
			accounts["sp-"+sh] = path
		}
	}
	return accounts
}

// S21, and signals where they are allowed: needs root, for accounts of its own.
func TestSSHDLoginShells(t *testing.T) {
	want := map[string]string{"sh": "posix", "bash": "posix", "dash": "posix", "zsh": "posix", "ash": "posix", "fish": "exact", "tcsh": "exact"}
	accounts := shellAccounts(t, slices.Collect(maps.Keys(want))...)
	s := startSSHD(t, accounts, "")
	for sh, shell := range want {
		t.Run(sh, func(t *testing.T) {
			if accounts["sp-"+sh] == "" {
				missing(t, sh, "not installed")
			}
			s.target.User, s.auth.Run = "sp-"+sh, sh
			c := s.dial(t)
			got, err := c.ProveShell(t.Context())
			s.pool.Put(c)
			if err != nil || got != shell {
				t.Fatalf("%q %v, want %s", got, err, shell)
			}
			// What a rule may hold on an exact shell arrives unchanged there.
			var plain strings.Builder
			for r := rune(' '); r < 0x7f; r++ {
				if r != '\\' && r != '!' {
					plain.WriteRune(r)
				}
			}
			argv := []string{"printf", "%s/", plain.String(), "", "it's $(id) `id` ;id", "-n", "~", "A=b", "üñí ÁÂÈ 😀"}
			rule := make([]string, len(argv))
			for i, a := range argv {
				rule[i] = strings.ReplaceAll(a, "*", `\*`)
			}
			target, before := s.target, s.rules
			defer func() { s.target, s.rules = target, before }()
			s.target.Shell = got
			if s.rules, err = rules(t, got, rule); err != nil {
				t.Fatal(err)
			}
			r := s.run(t.Context(), t, sshexec.Input{Argv: argv})
			if want := strings.Join(argv[2:], "/") + "/"; r.out != want || r.Outcome != sshexec.Confirmed {
				t.Errorf("got %q, want %q, %+v %s", r.out, want, r.Result, r.err)
			}
		})
	}
	t.Run("S06 cancel kills the group", func(t *testing.T) {
		s := s.with(t, sshexec.Grace{Signal: 5 * time.Second}) // TERM is not obeyed
		s.target.User, s.auth.Run = "sp-sh", "cancel"
		ctx, cancel := context.WithCancel(t.Context())
		c := s.dial(t)
		defer s.pool.Put(c)
		cmd := command(t, sshexec.Input{Shell: "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000"})
		m, err := s.rules.Match(cmd)
		if err != nil {
			t.Fatal(err)
		}
		var pid string
		r := c.Run(ctx, cmd, m, writerFunc(func(p []byte) (int, error) {
			pid += string(p)
			cancel()
			return len(p), nil
		}), nil)
		if r.Outcome != sshexec.FailedRemote || r.Signal != "KILL" {
			t.Errorf("%+v", r)
		}
		waitFor(t, "the child's end", func() bool {
			stat, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		})
	})
}
