package incident

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/auditlog/event"
)

// instance is one process: a number alone names nobody. Its start is told in ticks of a clock that is a little uneven.
type instance struct {
	pid     int
	started int64 // seconds, halves rounded
}

func instanceOf(pid int, started time.Time) instance {
	return instance{pid, started.Round(time.Second).Unix()}
}

// near are the two instances that a start within half a second could be.
func near(pid int, started time.Time) [2]instance {
	return [2]instance{instanceOf(pid, started.Add(-250*time.Millisecond)), instanceOf(pid, started.Add(250*time.Millisecond))}
}

// fate is what was seen of one process, and done to it.
type fate struct {
	seen      *event.ProcessObserved
	seenAt    at
	signalled *event.ProcessSignalled
	sent      at
	checked   *event.ProcessChecked
	found     at
}

// fateOf finds or makes the fate of a process.
func (s *story) fateOf(pid int, started time.Time) *fate {
	for _, i := range near(pid, started) {
		if f := s.fates[i]; f != nil {
			return f
		}
	}
	f := &fate{}
	s.fates[instanceOf(pid, started)] = f
	return f
}

// readProcess reads what was seen of processes, and what a containment did.
func (s *story) readProcess(it event.Item, here at) {
	switch e := it.Event.(type) {
	case event.ClientUnresponsive:
		if e.Run == s.run && !s.silent.known() {
			s.silent = at{e.Since, here.seq}
		}
	case event.ClientResponsive:
		if e.Run == s.run && !s.lost.known() {
			s.silent = at{}
		}
	case event.ProcessObserved:
		if e.Run != s.run {
			return
		}
		f := s.fateOf(e.Process.ProcessID, e.Process.Started)
		f.seen, f.seenAt = &e, here
		s.survivor(e, here)
	case event.ProcessSignalled:
		if e.Run == s.run {
			f := s.fateOf(e.ProcessID, e.Started)
			f.signalled, f.sent, f.checked = &e, here, nil
		}
	case event.ProcessChecked:
		if e.Run == s.run {
			f := s.fateOf(e.ProcessID, e.Started)
			f.checked, f.found = &e, here
		}
	case event.DenialProved:
		if e.Run == s.run {
			s.contained.Method, s.contained.Denial = e.Method, here.seq
		}
	case event.ContainmentFinished:
		if e.Run == s.run {
			s.contained.Verdict, s.contained.At, s.contained.Seq, s.contained.Missing = e.Verdict, here.time, here.seq, e.Missing
		}
	}
}

// survivor makes a process that was seen a suspect of its own, unless it is the client or an epoch's.
func (s *story) survivor(e event.ProcessObserved, here at) {
	p := e.Process
	who := event.Peer{ProcessID: p.ProcessID, Started: p.Started, Exe: p.Exe, Command: p.Command, Parent: p.PPID, Group: p.PGID, Session: p.SID}
	if sameProcess(who, s.client) || slices.ContainsFunc(s.epochs, func(x *epoch) bool { return sameProcess(who, x.Process) }) {
		return
	}
	s.epochs = append(s.epochs, &epoch{EpochOpened: event.EpochOpened{Run: s.run, Process: who}, opened: here})
}

// sameProcess: no number comes round within a second.
func sameProcess(a, b event.Peer) bool {
	return a.ProcessID == b.ProcessID && a.Started.Sub(b.Started).Abs() < time.Second
}

// unavailable is when the client was no longer there for its calls: gone, or silent before that.
func (s *story) unavailable() at {
	if s.silent.known() && (!s.lost.known() || s.silent.time.Before(s.lost.time)) {
		return s.silent
	}
	return s.lost
}

// LiveOf is what a look at a process shows, in a record's words.
func LiveOf(e event.ProcessObserved, seq uint64) *Live {
	p := e.Process
	l := &Live{At: p.At, Alive: true, Kin: Kin{p.PPID, p.PGID, p.SID}, State: State{e.Exists, p.Stat, p.ETime, p.User, p.Command},
		Reaches: []string{}, Children: []string{}, Siblings: []string{}, Gaps: list(e.Gaps), Seq: seq}
	for _, a := range e.Authority {
		l.Reaches = append(l.Reaches, "authority: "+strings.ReplaceAll(a.Kind, "_", " ")+" "+a.Name)
	}
	for _, d := range e.Descriptors {
		if d.FD <= 2 || d.State != "" || len(d.Peers) > 0 {
			l.Reaches = append(l.Reaches, channel(d))
		}
	}
	for _, k := range e.Children {
		l.Children = append(l.Children, kin(k))
	}
	for _, k := range e.Group {
		l.Siblings = append(l.Siblings, kin(k))
	}
	return l
}

// channel is one open descriptor in words.
func channel(d event.Descriptor) string {
	out := fmt.Sprintf("fd %d %s %s", d.FD, d.Mode, d.Class)
	if d.Local == "" && d.Remote == "" {
		out += " " + d.Target
	} else {
		out += strings.TrimRight(" "+d.Local+" -> "+d.Remote+" "+d.State, " ")
	}
	switch {
	case len(d.Peers) > 0:
		out += " (other end: " + strings.Join(d.Peers, ", ") + ")"
	case d.Class == "pipe":
		out += " (nobody seen at the other end)"
	}
	return out
}

func kin(k event.Kin) string {
	out := fmt.Sprintf("pid %d, stat %s, %s", k.ProcessID, k.Stat, k.Command)
	if k.Stranger {
		out += " (not known to be of this run)"
	}
	return out
}

// Rotated is what of the authority found asks for rotation.
func Rotated(e event.ProcessObserved) []string {
	out := []string{}
	for _, a := range e.Authority {
		if a.Rotate != "" {
			out = append(out, a.Rotate)
		}
	}
	return out
}

// end is a process's end by its fate: the last signal and what came of it. nil: nothing was sent.
func (f *fate) end() *End {
	if f == nil || f.signalled == nil {
		return nil
	}
	e := &End{Signal: f.signalled.Signal, Result: "not looked at since", At: f.sent.time}
	if c := f.checked; c != nil {
		e.Result = strings.ReplaceAll(c.State, "_", " ")
		if c.Detail != "" {
			e.Result += ": " + c.Detail
		}
	}
	if f.signalled.Forced {
		e.Result += "; forced"
	}
	if f.signalled.CleanupMayBeIncomplete {
		e.Result += ", clean-up may be incomplete"
	}
	return e
}
