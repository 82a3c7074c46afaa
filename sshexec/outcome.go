package sshexec

import (
	"context"
	"errors"
)

// Outcome says what is known about what was asked, and no more.
type Outcome uint8

const (
	SentUnconfirmed Outcome = iota // zero: it may have run; no exit-status, no exit-signal
	Denied                         // refused here, nothing was asked of the host
	NotSent                        // provably no byte of the request left
	Confirmed                      // an exit-status came, whatever its value; of a transfer: all of it was done
	FailedRemote                   // exit-signal, or the host refused the request or a step of it
	Accepted                       // a job was started, or one of this id had been
)

// String gives the word used in logs and answers.
func (o Outcome) String() string {
	switch o {
	case Denied:
		return "denied"
	case NotSent:
		return "not_sent"
	case Confirmed:
		return "confirmed"
	case FailedRemote:
		return "failed_remote"
	case Accepted:
		return "accepted"
	}
	return "sent_unconfirmed"
}

// Result is all that is known of a command, job start, transfer or git request once the call for it has returned.
type Result struct {
	Outcome    Outcome
	ExitStatus int    // only with Confirmed
	Signal     string // only with FailedRemote: the name without SIG, e.g. "SEGV"
	PipesHeld  bool   // the command ended, something it left still holds its output
	Truncated  bool   // output past OutputLimit, or past an error of the writer, was dropped
	Sent       bool   // the exec request may have left
	Ended      bool   // both output streams reached their end

	// Reason is one word: for Denied "rule_mismatch" or "invalid_request", for NotSent "dial_failed" or "deadline", else
	// "deadline", "cancelled", "output_limit", "connection_lost", "no_exit_status", "exec_refused", "exit_signal",
	// "transfer_refused", "upload_incomplete", "download_incomplete". Empty with Confirmed and Accepted.
	Reason string
	Detail string // a sentence of ours, never text from the host
}

// Complete reports whether the writers were given all the output there was.
func (r Result) Complete() bool { return r.Ended && !r.Truncated }

var errFull = errors.New("output limit")

// reasonOf names why ctx ended.
func reasonOf(ctx context.Context) string {
	if context.Cause(ctx) == errFull {
		return "output_limit"
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "deadline"
	}
	return "cancelled"
}
