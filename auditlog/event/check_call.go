package event

import "slices"

// intent is a call without a result.
type intent struct {
	action, run, epoch string
	seq                uint64
	doubt              *Breach // told unless the result says that the gate refused it
}

func (in *intent) place() (uint64, string) { return in.seq, in.action }

// called judges an intent at its place in the log. A sound gateway can record one whose grant ends at that moment: its
// gate then refuses, and the result says denied. So what ends by itself is a doubt until the result is read. A lock or a
// revocation waits for every call before it is recorded: after those even a refused intent is a breach.
func (c *checker) called(e ToolCalled) {
	in := c.intend(e.Call)
	if b := c.standing(e); b != nil {
		c.tell(*b)
		return
	}
	b, sure := c.granted(e)
	switch {
	case b == nil:
	case sure:
		c.tell(*b)
	default:
		in.doubt = b
	}
}

// operatorCalled judges the intent of an operator's own call: it needs no grant, and an open vault like any other.
func (c *checker) operatorCalled(e OperatorCalled) {
	c.intend(e.Call)
	if !c.open {
		c.tell(*c.fault(callWhileLocked, seqs(c.since), "the operator's call %s while the vault was closed", e.Action))
	}
}

// intend opens an intent, which one result closes.
func (c *checker) intend(e Call) *intent {
	c.out.Calls++
	in := &intent{action: e.Action, run: e.Run, epoch: e.Epoch, seq: c.at.Seq}
	if old := c.intents[e.Action]; old != nil {
		c.breach(intentTwice, seqs(in.seq, old.seq), "call %s is open already", e.Action)
		return in
	}
	if old, ok := c.closed.get(e.Action); ok {
		c.breach(intentTwice, seqs(in.seq, old.seq), "call %s has a result already", e.Action)
	}
	c.intents[e.Action] = in
	return in
}

// standing: may this run call anything now?
func (c *checker) standing(e ToolCalled) *Breach {
	if c.runs[e.Run] == nil {
		end, known := c.ended.get(e.Run)
		switch {
		case known && end.why == "run_revoked":
			return c.fault(callAfterRevocation, seqs(end.seq), "call %s of run %s, which was revoked", e.Action, e.Run)
		case known:
			return c.fault(callAfterRunEnded, seqs(end.seq), "call %s of run %s, which had ended", e.Action, e.Run)
		}
		return c.fault(callOfUnknownRun, nil, "call %s of run %s, which is not open", e.Action, e.Run)
	}
	if !c.open {
		return c.fault(callWhileLocked, seqs(c.since), "call %s while the vault was closed", e.Action)
	}
	return nil
}

// granted: was there a live grant for it? It takes a counted grant's use. sure: no result can explain it.
func (c *checker) granted(e ToolCalled) (b *Breach, sure bool) {
	g, end := c.grants[e.Grant], ending{}
	if g == nil {
		end, _ = c.ended.get(e.Grant)
		if g = end.grant; g == nil {
			return c.fault(callWithoutGrant, nil, "call %s names grant %s, which is not live", e.Action, e.Grant), true
		}
	}
	switch {
	case g.run != e.Run || g.epoch != e.Epoch:
		return c.fault(callOfOtherEpoch, seqs(g.seq), "call %s of epoch %s by a grant of epoch %s", e.Action, e.Epoch, g.epoch), true
	case !slices.Contains(g.tools, e.Tool) || !slices.Contains(g.credentials, e.Credential) && (e.Credential != "" || e.Contract == ""):
		return c.fault(callBeyondGrant, seqs(g.seq), "call %s of %s with %s is not in the scope of grant %s", e.Action, e.Tool, e.Credential, e.Grant), true
	case g.contract != e.Contract:
		return c.fault(callOfOtherContract, seqs(g.seq), "call %s of a tool with contract %s by a grant for contract %s", e.Action, e.Contract, g.contract), true
	case e.Catalog != e.CatalogShown:
		return c.fault(callOfStaleCatalog, nil, "call %s of catalog %s, whose host was shown %s", e.Action, e.Catalog, e.CatalogShown), true
	case g.digest != "" && g.digest != e.Digest:
		return c.fault(callBeyondGrant, seqs(g.seq), "call %s is another than the one that grant %s was given for", e.Action, e.Grant), true
	case g.counted && g.uses == 0:
		return c.fault(callPastUses, seqs(g.seq), "call %s by grant %s, which is used up", e.Action, e.Grant), true
	}
	if g.counted {
		g.uses--
	}
	switch {
	case end.seq == 0:
	case end.why == "epoch_ended" || end.why == "epoch_replaced":
		return c.fault(callAfterEpoch, seqs(end.seq, g.seq), "call %s by grant %s, whose epoch had ended", e.Action, e.Grant), false
	default:
		return c.fault(callAfterGrant, seqs(end.seq, g.seq), "call %s by grant %s, which had ended (%s)", e.Action, e.Grant, end.why), end.final
	}
	if !g.ends.IsZero() && !c.at.Time.Before(g.ends) {
		return c.fault(callPastTime, seqs(g.seq), "call %s by grant %s, whose time was over", e.Action, e.Grant), false
	}
	return c.approved(e), true
}

// approved: a call that names an approval must have been given just that one.
func (c *checker) approved(e ToolCalled) *Breach {
	if e.Approval == "" {
		return nil
	}
	a := c.approvals[e.Approval]
	switch {
	case a == nil:
		return c.fault(callWithoutApproval, nil, "call %s names approval %s, which was not given", e.Action, e.Approval)
	case a.run != e.Run || a.epoch != e.Epoch || a.card.Digest != e.Digest:
		return c.fault(callWithoutApproval, seqs(a.seq), "call %s is another than the one that approval %s was given for", e.Action, e.Approval)
	case a.called != 0:
		return c.fault(callWithoutApproval, seqs(a.called, a.seq), "call %s by approval %s, which was used before", e.Action, e.Approval)
	}
	a.called = c.at.Seq
	return nil
}

func (c *checker) finished(e ToolFinished) {
	in := c.result(e.Action)
	if in == nil {
		return
	}
	if e.Run != in.run || e.Epoch != in.epoch {
		c.breach(resultOfOtherCall, seqs(c.at.Seq, in.seq), "the result of call %s is told of another run or epoch", e.Action)
	}
	if in.doubt != nil && e.Outcome != "denied" {
		b := *in.doubt
		b.Seq = append(b.Seq, c.at.Seq)
		c.tell(b)
	}
}

func (c *checker) unresolved(e ToolUnresolved) {
	if in := c.result(e.Action); in != nil && in.doubt != nil {
		c.out.Doubtful++
	}
}

// result closes the intent that a result is of.
func (c *checker) result(action string) *intent {
	in := c.intents[action]
	if in != nil {
		c.close(in)
		return in
	}
	if old, ok := c.closed.get(action); ok {
		c.breach(resultTwice, seqs(c.at.Seq, old.seq), "call %s has a result already", action)
	} else {
		c.breach(resultWithoutIntent, seqs(c.at.Seq), "a result of call %s, which was not recorded", action)
	}
	return nil
}

func (c *checker) close(in *intent) {
	delete(c.intents, in.action)
	c.closed.put(in.action, ending{seq: c.at.Seq})
}

// fault is a breach of the record being read.
func (c *checker) fault(rule string, more []uint64, format string, a ...any) *Breach {
	b := newBreach(rule, append(seqs(c.at.Seq), more...), format, a...)
	return &b
}

// ending is how something ended. final: the gateway had waited for every call before it recorded this.
type ending struct {
	seq   uint64
	why   string // the event's type, or epoch_replaced
	final bool
	grant *grant // if it was one
}

// endings remembers the latest maxEnded of them, by id.
type endings struct {
	by    map[string]ending
	order []string // a ring
	next  int
}

func newEndings() endings { return endings{by: map[string]ending{}} }

func (s *endings) get(id string) (ending, bool) {
	e, ok := s.by[id]
	return e, ok
}

func (s *endings) put(id string, e ending) {
	_, known := s.by[id]
	s.by[id] = e
	switch {
	case known:
	case len(s.order) < maxEnded:
		s.order = append(s.order, id)
	default:
		delete(s.by, s.order[s.next])
		s.order[s.next] = id
		s.next = (s.next + 1) % maxEnded
	}
}
