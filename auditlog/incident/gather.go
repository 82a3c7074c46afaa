package incident

import (
	"iter"
	"slices"
	"time"

	"sallyport/auditlog/event"
)

// at is a moment and the record that told it. The zero value: nothing did.
type at struct {
	time time.Time
	seq  uint64
}

func (a at) known() bool { return a.seq != 0 }

// moment is a's time, null where it is not known.
func (a at) moment() *time.Time {
	if !a.known() {
		return nil
	}
	t := a.time
	return &t
}

// story is all that is recorded of one run, by what it is about.
type story struct {
	run        string
	opened     at
	client     event.Peer
	state      string
	lost       at // the client was gone
	silent     at // the client lived and did nothing, since
	revoked    at
	contained  Contained
	fates      map[instance]*fate
	revocation event.RunRevoked
	epochs     []*epoch // in the order they were opened
	grants     map[string]*grant
	calls      map[string]*call
	order      []*call
}

// epoch is one process instance of the run.
type epoch struct {
	event.EpochOpened
	opened, ended at
	why, by       string
	denials       []Denial
	grants        []*grant
	calls         []*call
}

type grant struct {
	event.GrantIssued
	issued  at
	ended   at
	why, by string
}

type call struct {
	event.ToolCalled
	begun, over at
	result      Result
	closed      bool // there is a result
	said        at   // the operator's word
}

// gather reads what is recorded of run; items of other runs are passed over.
func gather(run string, in iter.Seq[event.Item]) *story {
	s := &story{run: run, state: "pending", grants: map[string]*grant{}, calls: map[string]*call{}, fates: map[instance]*fate{}}
	for it := range in {
		s.read(it)
	}
	return s
}

func (s *story) read(it event.Item) {
	here := at{it.Time, it.Seq}
	switch e := it.Event.(type) {
	case event.GatewayStarted, event.GatewayStopped, event.VaultLocked, event.VaultUnlocked, event.VaultQuarantined, event.VaultReleased:
		s.voided(event.Type(e), here)
	case event.RunOpened:
		if e.Run == s.run {
			s.opened, s.client = here, e.Agent
		}
	case event.RunOrphaned:
		s.left(e.Run, "orphaned", here)
	case event.RunEnded:
		s.left(e.Run, "ended", here)
	case event.RunDenied:
		if e.Run == s.run {
			s.state = "denied"
		}
	case event.RunRevoked:
		if e.Run == s.run {
			s.state, s.revoked, s.revocation = "revoked", here, e
			s.void(func(*grant) bool { return true }, "run_revoked", here)
		}
	case event.EpochOpened:
		if e.Run == s.run {
			s.epochs = slices.DeleteFunc(s.epochs, func(x *epoch) bool { return x.Epoch == "" && sameProcess(x.Process, e.Process) })
			s.epochs = append(s.epochs, &epoch{EpochOpened: e, opened: here})
		}
	case event.EpochEnded:
		if x := s.epoch(e.Run, e.Epoch); x != nil && !x.ended.known() {
			x.ended, x.why, x.by = here, e.Reason, e.Operator
			s.void(func(g *grant) bool { return g.Epoch == e.Epoch }, e.Reason, here)
		}
	case event.GrantIssued:
		s.granted(e, here)
	case event.GrantRevoked:
		if g := s.grants[e.Grant]; g != nil && !g.ended.known() {
			g.by = e.Operator
		}
		s.void(func(g *grant) bool { return g.Grant == e.Grant }, e.Reason, here)
	default:
		s.readCall(it, here)
	}
}

func (s *story) readCall(it event.Item, here at) {
	switch e := it.Event.(type) {
	case event.ToolCalled:
		if e.Run != s.run || s.calls[e.Action] != nil {
			return
		}
		c := &call{ToolCalled: e, begun: here, result: Result{Outcome: Running}}
		s.calls[e.Action] = c
		s.order = append(s.order, c)
		x := s.seen(e.Run, e.Epoch, e.Peer, here)
		x.calls = append(x.calls, c)
	case event.ToolFinished:
		if c := s.calls[e.Action]; c != nil && !c.closed {
			c.closed, c.over = true, here
			c.result = Result{Outcome: e.Outcome, Reason: e.Reason, Status: e.Status, Exit: e.Exit, JobID: e.JobID}
		}
	case event.ToolUnresolved:
		if c := s.calls[e.Action]; c != nil && !c.closed {
			c.closed, c.over = true, here
			c.result = Result{Outcome: e.Outcome, Reason: e.Cause}
		}
	case event.JobChanged:
		if c := s.calls[e.Action]; c != nil {
			c.over, c.result.Outcome, c.result.Exit = here, e.Outcome, e.Exit
			c.result.JobID = or(e.JobID, c.result.JobID)
		}
	case event.ToolResolved:
		if c := s.calls[e.Action]; c != nil {
			c.said, c.result.Said = here, e.Resolution
		}
	case event.AuthorizationDenied:
		if e.Run != s.run {
			return
		}
		x := s.seen(e.Run, e.Epoch, e.Peer, here)
		x.denials = append(x.denials, Denial{At: here.time, Reason: e.Reason, Tool: e.Tool, Target: e.Target, Operation: e.Operation,
			Count: max(e.Count, 1), After: s.revoked.known(), Seq: here.seq})
	default:
		s.readProcess(it, here)
	}
}

// Running is the outcome of a call whose end nothing tells yet.
const Running = "running"

// left: the run's client is gone. A run that ends without having been orphaned ended with its client.
func (s *story) left(run, state string, here at) {
	if run != s.run {
		return
	}
	if !s.lost.known() {
		s.lost = here
	}
	if s.state != "revoked" {
		s.state = state
	}
	s.void(func(*grant) bool { return true }, "run_"+state, here)
}

// voided: the gateway or its vault closed, or began anew: no grant outlives that, nor an epoch a gateway.
func (s *story) voided(why string, here at) {
	s.void(func(*grant) bool { return true }, why, here)
	if why != "gateway_started" {
		return
	}
	for _, x := range s.epochs {
		if !x.ended.known() {
			x.ended, x.why = here, why
		}
	}
}

func (s *story) granted(e event.GrantIssued, here at) {
	if e.Run != s.run || s.grants[e.Grant] != nil {
		return
	}
	g := &grant{GrantIssued: e, issued: here}
	s.grants[e.Grant] = g
	x := s.seen(e.Run, e.Epoch, event.Peer{}, here)
	x.grants = append(x.grants, g)
	if s.state == "pending" || s.state == "denied" {
		s.state = "active"
	}
}

// void ends the grants that match. Without a live one the run is no longer active.
func (s *story) void(match func(*grant) bool, why string, here at) {
	live := false
	for _, g := range s.grants {
		if g.ended.known() {
			continue
		}
		if match(g) {
			g.ended, g.why = here, why
		} else {
			live = true
		}
	}
	if s.state == "active" && !live {
		s.state = "pending"
	}
}

func (s *story) epoch(run, id string) *epoch {
	if i := slices.IndexFunc(s.epochs, func(x *epoch) bool { return x.Epoch == id }); run == s.run && i >= 0 {
		return s.epochs[i]
	}
	return nil
}

// seen is the epoch that a record names; one whose opening is not recorded is known by what is told here.
func (s *story) seen(run, id string, p event.Peer, here at) *epoch {
	x := s.epoch(run, id)
	if x == nil {
		x = &epoch{EpochOpened: event.EpochOpened{Run: run, Epoch: id, Process: p}, opened: here}
		s.epochs = append(s.epochs, x)
	}
	return x
}
