package sshexec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
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

// fresh is an id that no earlier test left on this account; what it leaves in this user's own is removed.
func fresh(t *testing.T, name string) string {
	t.Helper()
	id := name + rand.Text()[:10]
	me, err := user.LookupId(strconv.Itoa(os.Getuid())) // as sshd finds it, whatever $HOME says
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(me.HomeDir, ".local/state/sallyport/jobs", id)) })
	return id
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

// Jobs with every login shell, for ordinary accounts and for root. All at once: none is taken for a part of another.
func TestSSHDJobs(t *testing.T) {
	names, accounts := []string{"me"}, map[string]string{}
	if os.Getuid() == 0 {
		shells := []string{"bash", "dash", "ash", "fish", "tcsh"}
		names, accounts = append(shells, "root"), shellAccounts(t, shells...)
	}
	s := startSSHD(t, accounts, "")
	t.Run("as", func(t *testing.T) {
		for _, sh := range names {
			t.Run(sh, func(t *testing.T) {
				t.Parallel() // most of it is waiting
				own := *s.bed
				own.auth.Run, own.target.Shell = sh, "exact" // what an exact shell takes, every shell takes
				if sh != "root" && sh != "me" {
					if accounts["sp-"+sh] == "" {
						missing(t, sh, "not installed")
					}
					own.target.User = "sp-" + sh
				}
				b := &jobBed{sshd: &sshd{bed: &own, dir: s.dir, log: s.log}, shell: "exact"}
				b.life(t, sh)
				b.once(t, sh)
				b.cancels(t, sh)
			})
		}
	})
}

// wrapper tells in which accounts what is the wrapper's alone is shown: what differs elsewhere is how it got there.
func wrapper(sh string) bool { return sh == "root" || sh == "dash" || sh == "me" }

func (b *jobBed) life(t *testing.T, sh string) {
	id := fresh(t, "life"+sh)
	goes := filepath.Join(b.dir, "go"+sh)
	script := `cat; echo it is >&2; until [ -e ` + goes + ` ]; do sleep 0.1; done; pwd; umask; exit 42`
	if r := b.job(t, id, "from stdin\n", "sh", "-c", script); r.Outcome != sshexec.Accepted {
		t.Fatalf("start: %+v", r)
	}
	if j, _, _ := b.status(t, id); j.State != sshexec.JobRunning {
		t.Errorf("status: %+v", j)
	}
	if err := os.WriteFile(goes, nil, 0o600); err != nil {
		t.Fatal(err)
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
	if !wrapper(sh) {
		return
	}
	big := fresh(t, "big"+sh)
	if r := b.job(t, big, "", "sh", "-c", "head -c 3000000 /dev/zero; echo end >&2"); r.Outcome != sshexec.Accepted {
		t.Fatalf("start: %+v", r)
	}
	if j, out, errw := b.ended(t, big); !j.Truncated || len(out) != 256<<10 || errw != "end\n" {
		t.Errorf("%+v, %d bytes, %q", j, len(out), errw)
	}
}

// once: S12, the same id twice is one run.
func (b *jobBed) once(t *testing.T, sh string) {
	id, ledger := fresh(t, "once"+sh), filepath.Join(t.TempDir(), "ledger")
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

// cancels: S07, the ways out of a session, and those of a job that hides.
func (b *jobBed) cancels(t *testing.T, sh string) {
	const (
		folder = `cd ~/.local/state/sallyport/jobs/$SALLYPORT_JOB || exit 9; `
		hidden = `env -i setsid sh -c "while :; do sleep 0.2; done; : SALLYPORT_JOB=$SALLYPORT_JOB" & `
		last   = `sleep 1000; : last`
	)
	for name, x := range map[string]struct {
		script string
		want   int // processes that carry the id, besides the command and its supervisor
		as     sshexec.Job
	}{ // the last two: below one limit it is still the job's, below both it may be. By one alone: by more it may be another test's
		"plain":   {last, 0, sshexec.Job{Proof: true}},
		"deaf":    {`trap "" TERM; while :; do sleep 0.2; done; : last`, 0, sshexec.Job{Proof: true}},
		"setsid":  {`setsid sh -c "trap : TERM; while :; do sleep 0.2; done" & ` + last, 1, sshexec.Job{Proof: true}},
		"double":  {`(setsid sh -c "sleep 1000 & sleep 1000" &) ; sleep 1; exit 0`, 2, sshexec.Job{Proof: true}},
		"cleared": {hidden + last, 1, sshexec.Job{Proof: true}},
		"forged":  {hidden + folder + `echo 1 9999999999999 x 7 1 1 >me; echo 0 >rc; : >done; ` + last, 1, sshexec.Job{Proof: true}},
		"another": {hidden + folder + `jobs -p >p; read p <p; sed -i "s/^[0-9]*/$p/" me; ` + last, 1, sshexec.Job{Proof: true}},
		"removed": {hidden + folder + `cd; rm -r ~/.local/state/sallyport/jobs/$SALLYPORT_JOB; ` + last, 1, sshexec.Job{Proof: true}},
		"service": {`env -i INVOCATION_ID=x setsid sh -c "while :; do sleep 0.2; done; : SALLYPORT_JOB=$SALLYPORT_JOB" & ` + last, 1, sshexec.Job{Proof: true}},
		"limited": {`ulimit -d $(($(ulimit -d)-1)); ` + hidden + last, 1, sshexec.Job{Proof: true}},
		"lowered": {`ulimit -d $(($(ulimit -d)-1)); ulimit -m $(($(ulimit -m)-1)); ` + hidden + last, 1, sshexec.Job{}},
	} {
		if !wrapper(sh) && name != "plain" {
			continue
		}
		id := fresh(t, name+sh)
		if r := b.job(t, id, "", "sh", "-c", x.script); r.Outcome != sshexec.Accepted && (name != "removed" || r.Outcome != sshexec.SentUnconfirmed) {
			t.Fatalf("%s: %+v", name, r)
		}
		mark := "SALLYPORT_JOB=" + id
		waitFor(t, "the command", func() bool { return len(alive(mark)) >= x.want+3 })
		b.drop()
		j := b.cancel(t, id)
		left := alive(mark)
		if j.Proof != x.as.Proof || j.Proof && len(left) > 0 || j.Proof && !j.Cancel || j.State == sshexec.JobRunning {
			t.Errorf("%s: %+v, alive %q", name, j, left)
		}
		for _, d := range left {
			var pid int
			if _, err := fmt.Sscanf(d, "/proc/%d", &pid); err == nil {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			}
		}
		if st, _, _ := b.status(t, id); st.Cancel == (name == "removed") {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// A supervisor that was killed leaves a job that is lost, never one that ended well.
func TestSSHDJobLost(t *testing.T) {
	s := startSSHD(t, nil, "")
	b := &jobBed{sshd: s, shell: "posix"}
	id := fresh(t, "lost")
	if r := b.job(t, id, "", "sleep", "1000"); r.Outcome != sshexec.Accepted {
		t.Fatalf("%+v", r)
	}
	for _, d := range alive("SALLYPORT_JOB=" + id) {
		var pid int
		if _, err := fmt.Sscanf(d, "/proc/%d", &pid); err == nil {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
	waitFor(t, "the loss", func() bool { j, _, _ := b.status(t, id); return j.State == sshexec.JobLost })
}

// S08: a connection cut right behind the start: the job stays, and is found with its exit status.
func TestSSHDJobCut(t *testing.T) {
	s := startSSHD(t, nil, "")
	b := &jobBed{sshd: s, shell: "posix"}
	for i := range 8 {
		id := fresh(t, fmt.Sprintf("cut%d", i))
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
