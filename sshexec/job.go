package sshexec

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A job is a command that outlives the connection that started it. Everything about it is found again by its id alone,
// over any later connection to the same account.

// Bounds of a job.
const (
	jobOutputLimit = 1 << 20          // bytes kept on the host of stdout and of stderr, each; the rest is read and dropped
	jobChunk       = 256 << 10        // bytes of each that one status brings
	jobTimeout     = 20 * time.Second // one job command on a live connection
	cancelTimeout  = 35 * time.Second // and one that cancels: its script takes 12 s at most, besides looking
	// CancelGrace is how long a job has between TERM and KILL.
	CancelGrace = 3 * time.Second
)

// JobState is what the host says about a job.
type JobState uint8

const (
	JobUnknown JobState = iota // zero: the host said nothing that we understand
	JobNone                    // no job of this id has started on that account
	JobRunning                 // its supervisor lives, with the same start time, in the same boot
	JobEnded                   // the exit status is there
	JobLost                    // the supervisor is gone and left no exit status: killed, or the host was restarted
)

// String gives the word used in answers.
func (s JobState) String() string {
	switch s {
	case JobNone:
		return "none"
	case JobRunning:
		return "running"
	case JobEnded:
		return "ended"
	case JobLost:
		return "lost"
	}
	return "unknown"
}

// Job is what is known about a job.
type Job struct {
	State      JobState
	ExitStatus int  // only with JobEnded
	Cancel     bool // somebody asked for its end
	Complete   bool // both outputs have reached their end; what the command left behind may hold them open
	Truncated  bool // output past 1 MiB was dropped on the host
	// Proof is set by CancelJob alone: no process of the job lives, zombies apart. Those that left its session or cleared
	// their environment are found by their limits (see jobLimits), which only root can undo. Without it the job may go on.
	Proof  bool
	Detail string // a sentence of ours
}

// StartJob starts cmd, which m must cover, under id (letters and digits). The same id starts at most once on an account:
// who is told that it exists already has found the earlier one. Accepted says that the supervisor runs; NotSent that
// nothing left; Confirmed never comes, the exit status is JobStatus's to tell. cmd.Timeout does not bound the job.
func (c *Conn) StartJob(ctx context.Context, id string, cmd Command, m Match) (Result, error) {
	switch {
	case !jobID(id):
		return Result{}, fmt.Errorf("start job: id %q is not made of letters and digits", id)
	case c.l == nil:
		return givenBack(), nil
	case !m.covers(cmd, c.shell) || cmd.argv == nil:
		return Result{Outcome: Denied, Reason: "rule_mismatch", Detail: "the rule was matched for another command or login shell"}, nil
	}
	resident, data := jobLimits(id)
	argv := []any{len(cmd.stdin), jobSupervisor, resident, data}
	for _, a := range cmd.argv {
		argv = append(argv, a)
	}
	mark := rand.Text()
	line := jobLine("start", id, mark, argv...)
	if len(line) > MaxLine {
		return Result{Outcome: Denied, Reason: "invalid_request", Detail: "the command is too long for a job"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	r, words := c.ask(ctx, line, mark, cmd.stdin, nil)
	switch {
	case len(words) == 1 && (words[0] == "started" || words[0] == "exists"):
		return Result{Outcome: Accepted, Sent: true, Ended: true}, nil
	case r.Outcome != Confirmed:
		return r, nil // not sent, or sent and no word: the job may run, and its id finds it
	case len(words) == 1 && words[0] == "refused":
		return Result{Outcome: FailedRemote, Sent: true, Reason: "exec_refused", Detail: "the account can't keep a job's folder in ~/.local/state"}, nil
	}
	return Result{Sent: true, Reason: "no_exit_status", Detail: "the host did not say that the job started"}, nil
}

// JobStatus asks for a job and brings what it wrote beyond the offsets, at most 256 KiB of each stream. An error is a
// *DialError: the host gave no answer, so nothing is known anew.
func (c *Conn) JobStatus(ctx context.Context, id string, fromOut, fromErr int64, out, errw io.Writer) (Job, error) {
	var body bytes.Buffer
	words, err := c.jobWord(ctx, "status", id, jobTimeout, &body, fromOut, fromErr, jobChunk)
	if err != nil {
		return Job{}, err
	}
	j, x, z, ok := parseStatus(words)
	if !ok || int64(body.Len()) < x+z {
		return Job{Detail: "the host's answer about the job can't be read"}, nil
	}
	b := body.Bytes()
	if _, err := out.Write(b[:x]); err != nil {
		return j, fmt.Errorf("read job: %w", err)
	}
	if _, err := errw.Write(b[x : x+z]); err != nil {
		return j, fmt.Errorf("read job: %w", err)
	}
	return j, nil
}

// parseStatus reads "STATE RC CANCEL DONE OUT ERR X Z".
func parseStatus(w []string) (j Job, x, z int64, ok bool) {
	if len(w) != 8 {
		return Job{}, 0, 0, false
	}
	var n [5]int64
	for i, s := range []string{w[4], w[5], w[6], w[7], w[1]} {
		v, err := strconv.ParseInt(s, 10, 64)
		if (err != nil || v < 0) && (i < 4 || w[0] == "ended") {
			return Job{}, 0, 0, false
		}
		n[i] = v
	}
	j = Job{Cancel: w[2] == "1", Complete: w[3] == "1", Truncated: n[0] > jobOutputLimit || n[1] > jobOutputLimit}
	switch w[0] {
	case "none":
		j.State = JobNone
	case "running":
		j.State = JobRunning
	case "ended":
		j.State, j.ExitStatus = JobEnded, int(n[4])
	case "lost":
		j.State, j.Detail = JobLost, "the job is gone and left no exit status"
	default:
		return Job{}, 0, 0, false
	}
	return j, n[2], n[3], n[2] <= jobChunk && n[3] <= jobChunk
}

// CancelJob ends a job: TERM, CancelGrace, KILL, then it looks. Job.Proof tells whether anything of it can still live.
func (c *Conn) CancelJob(ctx context.Context, id string) (Job, error) {
	resident, data := jobLimits(id)
	words, err := c.jobWord(ctx, "cancel", id, cancelTimeout, io.Discard, int(CancelGrace/time.Second), resident, data)
	if err != nil {
		return Job{}, err
	}
	if len(words) != 2 {
		return Job{Detail: "the host's answer about the job can't be read"}, nil
	}
	j := Job{State: JobLost, Cancel: true}
	if rc, err := strconv.Atoi(words[1]); err == nil {
		j.State, j.ExitStatus = JobEnded, rc
	}
	switch words[0] {
	case "none":
		j.State, j.Cancel, j.Detail = JobNone, false, "no job of this id has started there"
	case "ended":
		j.Proof, j.Cancel, j.Detail = true, false, "it had ended before"
	case "gone":
		j.Proof, j.Detail = true, "none of its processes lives"
	case "left":
		j.State, j.Detail = JobRunning, "some of its processes outlived KILL"
	default:
		j.Detail = "a process that may be the job's lives on, or the host has no /proc that shows them all"
	}
	return j, nil
}

// ForgetJob removes an ended job's folder. Its id must not be started again.
func (c *Conn) ForgetJob(ctx context.Context, id string) error {
	words, err := c.jobWord(ctx, "forget", id, jobTimeout, io.Discard)
	if err == nil && (len(words) != 1 || words[0] != "forgotten") {
		return &DialError{Reason: "dial_failed", Detail: "the job's folder can't be removed"}
	}
	return err
}

// jobWord asks for one job command and gives the words that stand behind the mark.
func (c *Conn) jobWord(ctx context.Context, op, id string, limit time.Duration, body io.Writer, args ...any) ([]string, error) {
	if c.l == nil || !jobID(id) {
		return nil, &DialError{Reason: "dial_failed", Detail: "the connection was given back, or the id is none"}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	mark := rand.Text()
	r, words := c.ask(ctx, jobLine(op, id, mark, args...), mark, nil, body)
	switch {
	case r.Outcome == Confirmed || r.Outcome == FailedRemote:
		return words, nil
	case r.Reason == "deadline":
		return nil, &DialError{Reason: "deadline", Detail: "the host gave no answer about the job in time", cause: context.DeadlineExceeded}
	}
	return nil, &DialError{Reason: "dial_failed", Detail: "the host gave no answer about the job", cause: ctx.Err()}
}

// ask runs a line of ours and splits its answer: the words on the marked line, and what follows it.
func (c *Conn) ask(ctx context.Context, line, mark string, stdin []byte, body io.Writer) (Result, []string) {
	var out bytes.Buffer
	r := c.exec(ctx, line, stdin, &out, io.Discard)
	_, after, found := bytes.Cut(out.Bytes(), []byte(mark+" "))
	if !found {
		return r, nil
	}
	words, rest, _ := bytes.Cut(after, []byte("\n"))
	if body != nil {
		_, _ = body.Write(rest) // a buffer, or nowhere
	}
	return r, strings.Fields(string(words))
}

// jobID tells what may name a job: it becomes a folder's name and a pattern of grep.
func jobID(id string) bool {
	for _, r := range id {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return id != "" && len(id) <= 64
}
