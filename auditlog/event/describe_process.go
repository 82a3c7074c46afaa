package event

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// describeProcess: a run's processes, and its containment.
func (l Line) describeProcess() (run, epoch, what string) {
	var w words
	switch e := l.Event.(type) {
	case ProcessObserved:
		run, epoch = e.Run, e.Epoch
		w.observed(e)
	case ClientUnresponsive:
		run = e.Run
		w.text(e.Reason)
		w.count("pid", int64(e.ProcessID))
		w.moment("since", e.Since)
	case ClientResponsive:
		run = e.Run
		w.count("pid", int64(e.ProcessID))
		w.moment("silentSince", e.Since)
	case ContainmentStarted:
		run = e.Run
		w.pair("state", e.State)
		w.pair("operator", e.Operator)
	case ActionsReviewed:
		run = e.Run
		w.pair("last", e.Last)
		w.moment("clientUnavailable", e.ClientUnavailableAt)
		w.moment("lastActionStarted", e.LastActionStartedAt)
		w.moment("revoked", e.RevokedAt)
		w.pair("uncertain", strings.Join(e.Uncertain, ","))
		w.pair("after", strings.Join(e.After, ","))
	case RemoteWorkListed:
		run = e.Run
		w.note(strconv.Itoa(len(e.Unfinished)) + " unfinished")
		for _, r := range e.Unfinished {
			w.text(r.Action)
			w.text(r.Outcome)
			w.text(r.Target)
			w.pair("job", r.JobID)
		}
	case DenialProved:
		run = e.Run
		w.pair("method", e.Method)
		w.text(e.Reason)
		w.count("record", int64(e.Record))
	case ProcessSignalled:
		run = e.Run
		w.text(e.Signal)
		w.count("pid", int64(e.ProcessID))
		if e.Forced {
			w.note("forced")
		}
		if e.CleanupMayBeIncomplete {
			w.note("its clean-up may be incomplete")
		}
		w.pair("operator", e.Operator)
	case ProcessChecked:
		run = e.Run
		w.text(e.State)
		w.count("pid", int64(e.ProcessID))
		w.pair("after", e.After)
		w.pair("children", numbers(e.Children))
		w.pair("detail", e.Detail)
	case ContainmentFinished:
		run = e.Run
		w.text(e.Verdict)
		w.pair("left", numbers(e.Left))
		w.pair("rotate", strings.Join(e.Rotate, ", "))
		w.pair("missing", strings.Join(e.Missing, ", "))
		w.pair("operator", e.Operator)
	default:
		return l.describeServer()
	}
	return run, epoch, strings.Join(w, " ")
}

// observed says what ps(1) would, and how much else the record holds.
func (w *words) observed(e ProcessObserved) {
	p := e.Process
	w.pair("why", e.Why)
	w.text(e.Role)
	w.count("pid", int64(p.ProcessID))
	w.count("ppid", int64(p.PPID))
	w.count("pgid", int64(p.PGID))
	w.pair("stat", p.Stat)
	w.pair("etime", p.ETime)
	w.pair("user", p.User)
	w.text(p.Command)
	w.count("descriptors", int64(len(e.Descriptors)))
	w.count("children", int64(len(e.Children)))
	for _, a := range e.Authority {
		w.text(a.Kind)
		w.text(a.Name)
	}
}

func (w *words) moment(name string, t time.Time) {
	if !t.IsZero() {
		w.pair(name, t.UTC().Format(time.RFC3339Nano))
	}
}

func numbers(ns []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ns), " ", ","), "[]")
}
