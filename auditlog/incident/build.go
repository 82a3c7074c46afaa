package incident

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"sallyport/auditlog/event"
)

// Limits of one run's records: of more, the latest are told, and that there were more.
const (
	maxRecords = 64
	maxCalls   = 500
	maxDenied  = 200
)

// Of makes the records of run from what is recorded of it, in the log's order. from names where the items come from:
// rows or log. A run of which nothing is recorded has none.
func Of(run string, in iter.Seq[event.Item], from string, now time.Time) []Record {
	s := gather(run, in)
	if !s.opened.known() && !s.revoked.known() && len(s.epochs) == 0 {
		return nil
	}
	suspects, more := s.suspects()
	out := make([]Record, 0, len(suspects))
	for _, x := range suspects {
		r := s.record(x, from, now)
		if more > 0 {
			r.Unknown = append(r.Unknown, fmt.Sprintf("%d further processes of the run have no record here: they are gone and did nothing, or were many; see sp audit sessions --run %s", more, run))
		}
		r.Follow()
		out = append(out, r)
	}
	return out
}

// suspects are the epochs that may still act, or ever tried to; without any, the last one; nil stands for a client of
// which nothing else is recorded.
func (s *story) suspects() (out []*epoch, more int) {
	for _, x := range s.epochs {
		if !x.ended.known() || len(x.calls)+len(x.denials)+len(x.grants) > 0 {
			out = append(out, x)
		}
	}
	switch {
	case len(s.epochs) == 0:
		return []*epoch{nil}, 0
	case len(out) == 0:
		out = s.epochs[len(s.epochs)-1:]
	case len(out) > maxRecords:
		out = out[len(out)-maxRecords:]
	}
	return out, len(s.epochs) - len(out)
}

// record is one suspect's. x is nil where no process of the run asked for anything.
func (s *story) record(x *epoch, from string, now time.Time) Record {
	r := Record{ObservedAt: now, Client: process(s.client), Run: s.run, State: s.state, FollowUp: []string{}}
	r.Context = Context{Launchers: []Process{}, AuthorisedBy: []Authority{}, Calls: []Call{}, Denied: []Denial{}, Unresolved: []Open{}}
	r.Surroundings = Surroundings{Rotate: []string{}, Differences: []string{}, Unknown: []string{}}
	r.Times = Times{ClientUnavailable: s.unavailable().moment(), AuthorityRevoked: s.revoked.moment()}
	if n := len(s.order); n > 0 {
		r.Times.LastActionStarted = s.order[n-1].begun.moment()
	}
	if !s.opened.known() {
		r.Unknown = append(r.Unknown, "the opening of the run is not among what is recorded here")
	}
	src := sources{from: from}
	src.list = append(src.list, Source{"observedAt", "live", []uint64{}})
	src.add("clientProcess", s.opened)
	if x != nil {
		s.describe(&r, x)
		src.add("serverProcess", x.opened)
		src.add("parentAndGroup", x.opened)
	}
	src.add("sessionIdentifier", s.opened)
	src.add("authorizationState", s.revoked, s.lost)
	if c := s.contained; c.Seq != 0 || c.Denial != 0 {
		c.Missing = list(c.Missing)
		r.Contained = &c
	}
	if x != nil {
		s.deeds(&r, x, &src)
	}
	s.end(&r, x, &src)
	src.list = append(src.list, Source{"followUpRequired", "derived", []uint64{}})
	r.Sources = src.list
	return r
}

// describe fills in who the suspect is and what it was given.
func (s *story) describe(r *Record, x *epoch) {
	p := process(x.Process)
	r.Server, r.Epoch = &p, x.Epoch
	if q := x.Process; q.Parent+q.Group+q.Session > 0 {
		r.Kin = &Kin{q.Parent, q.Group, q.Session}
	}
	for _, l := range x.EpochOpened.Launchers {
		r.Launchers = append(r.Launchers, process(l))
	}
	for _, g := range x.grants {
		r.AuthorisedBy = append(r.AuthorisedBy, Authority{Approval: g.Approval, Grant: g.Grant, Operator: g.Operator, Tools: g.ToolScope,
			Scope: g.CredentialScope, At: g.IssuedAt, Until: g.ExpiresWhen, Ended: g.why, Seq: g.issued.seq})
	}
}

// deeds fills in what the suspect did, and what it was refused.
func (s *story) deeds(r *Record, x *epoch, src *sources) {
	var success, attempt *call
	for _, c := range x.calls {
		attempt = c
		if c.closed && succeeded(c.result.Outcome) {
			success = c
		}
		r.Calls = append(r.Calls, s.told(c))
		if o, open := c.open(); open {
			r.Unresolved = append(r.Unresolved, o)
		}
	}
	if over := len(r.Calls) - maxCalls; over > 0 {
		r.LeftOut = over
		r.Calls = slices.DeleteFunc(r.Calls, func(c Call) bool { // a write without a result is looked for, not the reads after it
			drop := over > 0 && c.Outcome == "confirmed"
			if drop {
				over--
			}
			return drop
		})
		r.Calls = slices.Delete(r.Calls, 0, over)
	}
	r.Denied = append(r.Denied, x.denials[max(0, len(x.denials)-maxDenied):]...)
	if over := len(x.denials) - maxDenied; over > 0 {
		r.Unknown = append(r.Unknown, fmt.Sprintf("%d earlier refusals are not listed; see sp audit activity --run %s", over, s.run))
	}
	if success != nil {
		r.LastSuccess = success.begun.moment() // when it began, as of the last attempted one
		src.add("lastSuccessfulActionAt", success.begun, success.over)
	}
	if attempt != nil {
		t, res := target(attempt), attempt.result
		r.LastAttempt, r.Target, r.Result = attempt.begun.moment(), &t, &res
		src.add("lastAttemptedActionAt", attempt.begun)
		src.add("targetAndOperation", attempt.begun)
		src.add("resultOrJobId", attempt.over, attempt.said)
	}
}

// end fills in how authority and process ended.
func (s *story) end(r *Record, x *epoch, src *sources) {
	switch {
	case s.revoked.known():
		r.Revocation = &Revocation{At: s.revoked.time, Operator: s.revocation.Operator, Of: s.run, Left: list(s.revocation.Left)}
		src.add("revocationTimeAndOperator", s.revoked)
	case x != nil && x.why == "operator":
		r.Revocation = &Revocation{At: x.ended.time, Operator: x.by, Of: x.Epoch, Left: []string{}}
		src.add("revocationTimeAndOperator", x.ended)
	case x != nil:
		for _, g := range x.grants {
			if g.why == "operator" {
				r.Revocation = &Revocation{At: g.ended.time, Operator: g.by, Of: g.Grant, Left: []string{}}
				src.add("revocationTimeAndOperator", g.ended)
			}
		}
	}
	if x == nil {
		return
	}
	f := s.fateOf(x.Process.ProcessID, x.Process.Started)
	if f.seen != nil {
		r.Observed, r.Rotate = LiveOf(*f.seen, f.seenAt.seq), Rotated(*f.seen)
		r.Observed.Alive = false // then; now is another look
	}
	if r.End = f.end(); r.End != nil {
		src.add("terminationSignalAndResult", f.sent, f.found)
		return
	}
	if what := map[string]string{"process_gone": "exited; its status is its parent's to know", "peer_replaced": "goes on as another program"}[x.why]; what != "" {
		r.End = &End{Result: what, At: x.ended.time}
		src.add("terminationSignalAndResult", x.ended)
	}
}

// told is a call as it stands in the record.
func (s *story) told(c *call) Call {
	approval := c.Approval
	if g := s.grants[c.Grant]; g != nil {
		approval = or(approval, g.Approval)
	}
	return Call{Target: target(c), Result: c.result, Class: s.class(c), At: c.begun.time, Finished: c.over.time, Grant: c.Grant,
		Approval: approval, Key: c.IdempotencyKey, Seq: c.begun.seq, EndSeq: c.over.seq}
}

// Class says when a call was under way, by when the client was lost (gone, or silent before that) and the authority revoked.
// Zero times: that did not happen, or nobody knows when.
func Class(lost, revoked, begun, over time.Time) string {
	if lost.IsZero() || !revoked.IsZero() && revoked.Before(lost) {
		lost = revoked
	}
	switch {
	case !revoked.IsZero() && begun.After(revoked):
		return After
	case lost.IsZero(), !over.IsZero() && !over.After(lost):
		return Before
	}
	return Uncertain
}

// class is Class; what began after the revocation it knows by the records' order, which no clock can bend.
func (s *story) class(c *call) string {
	if s.revoked.known() && c.begun.seq > s.revoked.seq {
		return After
	}
	return Class(s.unavailable().time, s.revoked.time, time.Time{}, c.over.time)
}

// open says why somebody has to look a call up.
func (c *call) open() (Open, bool) {
	o := Open{Action: c.Action, JobID: c.result.JobID, LookUp: "sp action show " + c.Action, Seq: c.begun.seq}
	read := slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, strings.SplitN(c.Operation, " ", 2)[0])
	switch {
	case !c.closed:
		o.Why = "no result is recorded: it is under way, or may have taken effect"
	case c.result.Outcome == "sent_unconfirmed" && !c.said.known():
		o.Why = "it left and no result came: it may have taken effect"
	case c.result.Outcome == "cancel_unconfirmed":
		o.Why = "it was cancelled and nothing proves that it stopped"
	case c.result.Outcome == "accepted":
		o.Why = "a remote job was started, and goes on by itself"
		return o, true
	default:
		return o, false
	}
	if !read {
		o.Resolve = "sp action resolve " + c.Action + " --happened|--did-not-happen"
	}
	return o, true
}

// succeeded: the outcomes that are no failure.
func succeeded(outcome string) bool {
	return slices.Contains([]string{"confirmed", "accepted", "redirect_not_followed"}, outcome)
}

func target(c *call) Target {
	return Target{Action: c.Action, Tool: c.Tool, Target: c.ToolCalled.Target, Operation: c.Operation, Credential: c.Credential}
}

func process(p event.Peer) Process {
	return Process{ProcessID: p.ProcessID, Command: or(p.Command, p.Exe), Started: p.Started, Exe: p.Exe, ExeDigest: p.ExeDigest, Identity: p.Identity, Weak: p.Weak}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// list keeps null out of a record.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// sources collects where each line comes from.
type sources struct {
	from string
	list []Source
}

// add names the records behind a line; those that nothing told fall out, and a line without any is the record's own.
func (s *sources) add(line string, told ...at) {
	x := Source{Line: line, From: s.from, Seq: []uint64{}}
	for _, t := range told {
		if t.known() {
			x.Seq = append(x.Seq, t.seq)
		}
	}
	s.list = append(s.list, x)
}
