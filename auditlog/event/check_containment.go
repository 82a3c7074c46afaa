package event

import "time"

// containments is what the log told of the latest maxEnded runs that were contained.
type containments struct {
	by    map[string]*contained
	order []string
}

// contained is one run's. signals are by process.
type contained struct {
	proved  uint64 // the record of the latest proof of denial
	signals map[process]signalled
}

// signalled: SIGTERM was sent to a process, and then it was looked at.
type signalled struct{ sent, looked bool }

func (s *containments) of(run string) *contained {
	if x := s.by[run]; x != nil {
		return x
	}
	if s.by == nil {
		s.by = map[string]*contained{}
	}
	if len(s.order) == maxEnded {
		delete(s.by, s.order[0])
		s.order = s.order[1:]
	}
	x := &contained{signals: map[process]signalled{}}
	s.by[run], s.order = x, append(s.order, run)
	return x
}

// readContainment holds a containment to its order: revocation, proof of denial, SIGTERM, a look, SIGKILL.
func (c *checker) readContainment(e Event) {
	switch e := e.(type) {
	case DenialProved:
		if r := c.runs[e.Run]; r != nil {
			c.breach(denialBeforeRevocation, seqs(c.at.Seq, r.seq), "the denial of run %s is told while it was not revoked", e.Run)
		}
		c.of(e.Run).proved = c.at.Seq
	case ProcessSignalled:
		x, p := c.of(e.Run), processOf(e.ProcessID, e.Started)
		if x.proved == 0 {
			c.breach(signalBeforeDenial, seqs(c.at.Seq), "%s to a process of run %s, whose denial was not proved", e.Signal, e.Run)
		}
		if s := x.signals[p]; (e.Forced || e.Signal == "SIGKILL") && !s.looked {
			c.breach(forcedBeforeLook, seqs(c.at.Seq), "%s to a process of run %s that was not looked at after SIGTERM", e.Signal, e.Run)
		}
		x.signals[p] = signalled{sent: true}
	case ProcessChecked:
		x, p := c.of(e.Run), processOf(e.ProcessID, e.Started)
		x.signals[p] = signalled{sent: x.signals[p].sent, looked: x.signals[p].sent}
	case ContainmentFinished:
		if e.Verdict == "contained" && c.of(e.Run).proved == 0 {
			c.breach(containedWithoutDenial, seqs(c.at.Seq), "run %s is told as contained, and its denial was not proved", e.Run)
		}
	}
}

func processOf(pid int, started time.Time) process {
	p := process{id: pid}
	if !started.IsZero() {
		p.started = started.UnixNano()
	}
	return p
}
