package sshexec_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sallyport/sshexec"
)

// jobBed starts and asks for jobs as one account.
type jobBed struct {
	*sshd
	shell string
}

// job starts argv under id on a connection of its own, with a rule that names exactly it.
func (b *jobBed) job(t *testing.T, id string, stdin string, argv ...string) sshexec.Result {
	t.Helper()
	rule := make([]string, len(argv))
	for i, a := range argv {
		rule[i] = strings.ReplaceAll(a, "*", `\*`)
	}
	rules, err := rules(t, b.shell, rule)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, sshexec.Input{Argv: argv, Stdin: []byte(stdin)})
	m, err := rules.Match(cmd)
	if err != nil {
		t.Fatal(err)
	}
	c := b.dial(t)
	defer b.pool.Put(c)
	r, err := c.StartJob(t.Context(), id, cmd, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// drop makes the next call use a new connection: a job is found by its id alone.
func (b *jobBed) drop() { b.pool.Drop(func(k sshexec.PoolKey) bool { return k.Run == b.auth.Run }) }

func (b *jobBed) status(t *testing.T, id string) (sshexec.Job, string, string) {
	t.Helper()
	c := b.dial(t)
	defer b.pool.Put(c)
	var out, errw bytes.Buffer
	j, err := c.JobStatus(t.Context(), id, 0, 0, &out, &errw)
	if err != nil {
		t.Fatal(err)
	}
	return j, out.String(), errw.String()
}

func (b *jobBed) cancel(t *testing.T, id string) sshexec.Job {
	t.Helper()
	c := b.dial(t)
	defer b.pool.Put(c)
	j, err := c.CancelJob(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// ended waits for a job's exit status.
func (b *jobBed) ended(t *testing.T, id string) (j sshexec.Job, out, errw string) {
	t.Helper()
	waitFor(t, "the end of "+id, func() bool {
		j, out, errw = b.status(t, id)
		return j.State != sshexec.JobRunning && (j.State != sshexec.JobEnded || j.Complete)
	})
	return j, out, errw
}

// alive lists the processes of this machine, zombies apart, whose command line or environment holds mark.
func alive(mark string) []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		stat, _ := os.ReadFile(d + "/stat")
		line, _ := os.ReadFile(d + "/cmdline")
		env, _ := os.ReadFile(d + "/environ")
		if strings.Contains(string(stat), ") Z ") || d == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		if bytes.Contains(line, []byte(mark)) || bytes.Contains(env, []byte(mark)) {
			out = append(out, fmt.Sprintf("%s %s %q", d, stat, line))
		}
	}
	return out
}

// Jobs with every login shell, for ordinary accounts and for root.
func TestSSHDJobs(t *testing.T) {
	shells := []string{"bash", "dash", "ash", "fish", "tcsh"}
	accounts := shellAccounts(t, shells...)
	s := startSSHD(t, accounts, "")
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(os.Getenv("HOME"), ".local/state/sallyport/jobs")) })
	play := func(t *testing.T, sh string) {
		own := *s.bed
		own.auth.Run, own.target.Shell = sh, "exact" // what an exact shell takes, every shell takes
		if sh != "root" {
			if accounts["sp-"+sh] == "" {
				missing(t, sh, "not installed")
			}
			own.target.User = "sp-" + sh
		}
		b := &jobBed{sshd: &sshd{bed: &own, dir: s.dir, log: s.log}, shell: "exact"}
		b.life(t, sh)
		b.once(t, sh)
		b.cancels(t, sh)
	}
	t.Run("accounts", func(t *testing.T) {
		for _, sh := range shells {
			t.Run(sh, func(t *testing.T) {
				t.Parallel() // most of it is waiting
				play(t, sh)
			})
		}
	})
	t.Run("root", func(t *testing.T) { play(t, "root") }) // alone: root's look for escapees sees every account's
}

func (b *jobBed) life(t *testing.T, sh string) {
	id := "life" + sh
	script := `cat; echo it is >&2; sleep 1; pwd; umask; exit 42`
	if r := b.job(t, id, "from stdin\n", "sh", "-c", script); r.Outcome != sshexec.Accepted {
		t.Fatalf("start: %+v", r)
	}
	if j, _, _ := b.status(t, id); j.State != sshexec.JobRunning {
		t.Errorf("status: %+v", j)
	}
	b.drop()
	j, out, errw := b.ended(t, id)
	if j.State != sshexec.JobEnded || j.ExitStatus != 42 || !j.Complete || j.Truncated || !strings.HasPrefix(out, "from stdin\n/") || errw != "it is\n" {
		t.Errorf("%+v %q %q", j, out, errw)
	}
	if !strings.HasSuffix(out, "0022\n") && !strings.HasSuffix(out, "022\n") {
		t.Errorf("umask: %q", out)
	}
	if j := b.cancel(t, id); !j.Proof || j.Cancel || j.ExitStatus != 42 {
		t.Errorf("cancel after the end: %+v", j)
	}
	if j, _, _ := b.status(t, "never"+sh); j.State != sshexec.JobNone {
		t.Errorf("no such job: %+v", j)
	}
	if sh != "root" && sh != "dash" {
		return // what is left is the wrapper's alone
	}
	big := "big" + sh
	if r := b.job(t, big, "", "sh", "-c", "head -c 3000000 /dev/zero; echo end >&2"); r.Outcome != sshexec.Accepted {
		t.Fatalf("start: %+v", r)
	}
	if j, out, errw := b.ended(t, big); !j.Truncated || len(out) != 256<<10 || errw != "end\n" {
		t.Errorf("%+v, %d bytes, %q", j, len(out), errw)
	}
}

// once: S12, the same id twice is one run.
func (b *jobBed) once(t *testing.T, sh string) {
	id, ledger := "once"+sh, filepath.Join(t.TempDir(), "ledger")
	if err := os.WriteFile(ledger, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for d := filepath.Dir(ledger); d != filepath.Dir(d) && d != os.TempDir(); d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o777) //nolint:gosec // other accounts write there
	}
	_ = os.Chmod(ledger, 0o666)
	for range 3 {
		if r := b.job(t, id, "", "sh", "-c", "echo ran >>"+ledger); r.Outcome != sshexec.Accepted {
			t.Errorf("%+v", r)
		}
		b.drop()
	}
	b.ended(t, id)
	if got, _ := os.ReadFile(ledger); string(got) != "ran\n" {
		t.Errorf("ledger %q", got)
	}
}

// cancels: S07 and the ways out of a session.
func (b *jobBed) cancels(t *testing.T, sh string) {
	for name, script := range map[string]string{
		"plain":   `sleep 1000`,
		"deaf":    `trap "" TERM; while :; do sleep 0.2; done`,
		"setsid":  `setsid sh -c "trap : TERM; while :; do sleep 0.2; done" & sleep 1000`,
		"double":  `(setsid sh -c "sleep 1000 & sleep 1000" &) ; sleep 0.3; exit 0`,
		"cleared": `(env -i setsid sleep 54321 &) ; sleep 1000`,
	} {
		if sh != "root" && sh != "dash" && name != "plain" {
			continue // the scripts are the host's sh's in every account: what differs is how they got there
		}
		id := name + sh
		if r := b.job(t, id, "", "sh", "-c", script); r.Outcome != sshexec.Accepted {
			t.Fatalf("%s: %+v", name, r)
		}
		mark := "SALLYPORT_JOB=" + id
		waitFor(t, "the command", func() bool { return len(alive(mark)) > 1 })
		b.drop()
		j := b.cancel(t, id)
		if name == "cleared" { // it has nothing left that says whose it is
			if j.Proof {
				t.Errorf("%s: proof, yet %q", name, alive("54321"))
			}
			for _, d := range alive("sleep\x0054321") {
				var pid int
				if _, err := fmt.Sscanf(d, "/proc/%d", &pid); err == nil {
					if p, err := os.FindProcess(pid); err == nil {
						_ = p.Kill()
					}
				}
			}
		} else if strings.Contains(j.Detail, "may be the job's") && len(alive(mark)) == 0 {
			t.Logf("%s: another test of this machine left something that may be the job's", name)
		} else if !j.Proof || !j.Cancel || j.State == sshexec.JobRunning {
			t.Errorf("%s: %+v, alive %q", name, j, alive(mark))
		}
		if left := alive(mark); len(left) > 0 && j.Proof {
			t.Errorf("%s: alive after proof: %q", name, left)
		}
		if st, _, _ := b.status(t, id); !st.Cancel {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// A supervisor that was killed leaves a job that is lost, never one that ended well.
func TestSSHDJobLost(t *testing.T) {
	s := startSSHD(t, nil, "")
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(os.Getenv("HOME"), ".local/state/sallyport/jobs/lost1")) })
	b := &jobBed{sshd: s, shell: "posix"}
	if r := b.job(t, "lost1", "", "sleep", "1000"); r.Outcome != sshexec.Accepted {
		t.Fatalf("%+v", r)
	}
	for _, d := range alive("SALLYPORT_JOB=lost1") {
		var pid int
		if _, err := fmt.Sscanf(d, "/proc/%d", &pid); err == nil {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
	waitFor(t, "the loss", func() bool { j, _, _ := b.status(t, "lost1"); return j.State == sshexec.JobLost })
}

// S08: a connection cut right behind the start: the job stays, and is found with its exit status.
func TestSSHDJobCut(t *testing.T) {
	s := startSSHD(t, nil, "")
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(os.Getenv("HOME"), ".local/state/sallyport/jobs")) })
	b := &jobBed{sshd: s, shell: "posix"}
	for i := range 8 {
		id := fmt.Sprintf("cut%d", i)
		rules, err := rules(t, "posix", []string{"sh", "-c", "exit 7"})
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(t, sshexec.Input{Argv: []string{"sh", "-c", "exit 7"}})
		m, err := rules.Match(cmd)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := b.dial(t)
		var cut sync.WaitGroup
		cut.Go(b.drop)
		r, err := c.StartJob(ctx, id, cmd, m)
		cancel()
		cut.Wait() // a later cut would hit who asks for the job
		b.pool.Put(c)
		if err != nil {
			t.Fatal(err)
		}
		switch r.Outcome {
		case sshexec.NotSent, sshexec.SentUnconfirmed, sshexec.Accepted:
		default:
			t.Errorf("%+v", r)
		}
		var j sshexec.Job
		settled := func() bool {
			j, _, _ = b.status(t, id)
			return j.State == sshexec.JobEnded || j.State == sshexec.JobNone
		}
		waitFor(t, "the job's word", settled)
		if r.Outcome == sshexec.NotSent && j.State != sshexec.JobNone || r.Outcome == sshexec.Accepted && j.ExitStatus != 7 {
			t.Errorf("%+v, then %+v", r, j)
		}
	}
}
