package event

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// authority is what the log has given and not taken back.
type authority struct {
	runs      map[string]*liveRun
	epochs    map[string]*liveEpoch
	processes map[process]*liveEpoch
	grants    map[string]*grant
	approvals map[string]*approval
	loose     []string // approvals whose epoch is not open: a crash's leftovers, told before an unlock
	ended     endings  // runs, epochs, grants, approvals
}

func newAuthority() authority {
	return authority{runs: map[string]*liveRun{}, epochs: map[string]*liveEpoch{}, processes: map[process]*liveEpoch{},
		grants: map[string]*grant{}, approvals: map[string]*approval{}, ended: newEndings()}
}

type liveRun struct {
	id       string
	seq      uint64
	orphaned bool
	epochs   map[string]*liveEpoch
}

// process is one of the kernel: neither number nor start changes on exec.
type process struct {
	id      int
	started int64 // Unix nanoseconds
}

type liveEpoch struct {
	id        string
	seq       uint64
	run       *liveRun
	process   process
	grants    []*grant
	approvals []string
}

type grant struct {
	id, run, epoch     string
	seq                uint64
	tools, credentials []string
	digest             string    // the only plan it is for; "": any in scope
	contract           string    // of the server's own tool that it is for
	ends               time.Time // zero: with its run
	counted            bool
	uses               int // left
}

func (c *checker) readAuthority(e Event) {
	switch e := e.(type) {
	case RunOpened:
		c.runOpened(e)
	case RunOrphaned:
		if r := c.runs[e.Run]; r != nil {
			r.orphaned = true
			for _, x := range inOrder(r.epochs) {
				c.voidEpoch(x, ending{seq: c.at.Seq, why: "run_orphaned"})
			}
		}
	case RunEnded:
		c.endRun(e.Run, "run_ended")
	case RunRevoked:
		c.endRun(e.Run, "run_revoked")
	case EpochOpened:
		c.epochOpened(e)
	case EpochEnded:
		if x := c.epochs[e.Epoch]; x != nil {
			c.endEpoch(x, ending{seq: c.at.Seq, why: "epoch_ended"})
		}
	case GrantIssued:
		c.grantIssued(e)
	case GrantRevoked:
		if g := c.grants[e.Grant]; g != nil {
			c.endGrant(g, ending{seq: c.at.Seq, why: "grant_revoked"})
		}
	case ApprovalGranted:
		c.approvalGranted(e)
	case SittingOpened:
		c.sittingOpened(e)
	case SittingClosed:
		c.sittingClosed(e)
	case PasskeyAdded:
		c.passkeyAdded(e)
	case PasskeyRemoved:
		delete(c.keys, string(e.CredentialID))
	}
}

// repeated tells a record that gives something a second time. While the vault is closed it is only passed over: the
// outbox of a database that was put back tells what the log has already.
func (c *checker) repeated(rule, what, id string) bool {
	before := c.told(id)
	if before != 0 && c.open {
		c.breach(rule, seqs(c.at.Seq, before), what+" %s was told before", id)
	}
	return before != 0
}

// told is the record that gave or ended the thing of this id; 0: neither is known. No two kinds share an id.
func (c *checker) told(id string) uint64 {
	if r := c.runs[id]; r != nil {
		return r.seq
	}
	if x := c.epochs[id]; x != nil {
		return x.seq
	}
	if g := c.grants[id]; g != nil {
		return g.seq
	}
	if a := c.approvals[id]; a != nil {
		return a.seq
	}
	end, _ := c.ended.get(id)
	return end.seq
}

func (c *checker) runOpened(e RunOpened) {
	if !c.repeated(openedTwice, "run", e.Run) {
		c.openRun(e.Run)
	}
}

func (c *checker) openRun(id string) {
	c.runs[id] = &liveRun{id: id, seq: c.at.Seq, epochs: map[string]*liveEpoch{}}
}

// epochOpened: another program in the same process replaces the epoch that was there, also before its end is recorded.
// The client of a revoked run may connect again: such an epoch is recorded and can be given nothing.
func (c *checker) epochOpened(e EpochOpened) {
	if c.repeated(openedTwice, "epoch", e.Epoch) {
		return
	}
	p := process{id: e.Process.ProcessID}
	if !e.Process.Started.IsZero() {
		p.started = e.Process.Started.UnixNano()
	}
	if old := c.processes[p]; old != nil {
		c.endEpoch(old, ending{seq: c.at.Seq, why: "epoch_replaced"})
	}
	if _, over := c.ended.get(e.Run); c.partial && !over && c.runs[e.Run] == nil {
		c.openRun(e.Run)
	}
	r := c.runs[e.Run]
	if r == nil {
		return
	}
	x := &liveEpoch{id: e.Epoch, seq: c.at.Seq, run: r, process: p}
	c.epochs[x.id], r.epochs[x.id] = x, x
	if p.id > 0 && p.started != 0 {
		c.processes[p] = x
	}
}

// endRun: news of a run that is not open (a revoked one's client has gone, say) takes nothing more away.
func (c *checker) endRun(id, why string) {
	end := ending{seq: c.at.Seq, why: why, final: true}
	if r := c.runs[id]; r != nil {
		for _, x := range inOrder(r.epochs) {
			c.endEpoch(x, end)
		}
		delete(c.runs, id)
	} else if _, ok := c.ended.get(id); ok && why != "run_revoked" {
		return
	}
	c.ended.put(id, end)
}

func (c *checker) endEpoch(x *liveEpoch, end ending) {
	c.voidEpoch(x, end)
	for _, id := range x.approvals {
		delete(c.approvals, id)
		c.ended.put(id, end)
	}
	delete(c.epochs, x.id)
	delete(x.run.epochs, x.id)
	if c.processes[x.process] == x {
		delete(c.processes, x.process)
	}
	c.ended.put(x.id, end)
}

// voidEpoch ends the epoch's grants.
func (c *checker) voidEpoch(x *liveEpoch, end ending) {
	for _, g := range slices.Clone(x.grants) {
		c.endGrant(g, end)
	}
}

func (c *checker) endGrant(g *grant, end ending) {
	delete(c.grants, g.id)
	if x := c.epochs[g.epoch]; x != nil {
		x.grants = slices.DeleteFunc(x.grants, func(y *grant) bool { return y == g })
	}
	end.grant = g
	c.ended.put(g.id, end)
}

func (c *checker) voidAll(end ending) {
	for _, g := range inOrder(c.grants) {
		c.endGrant(g, end)
	}
}

func (c *checker) endEpochs(end ending) {
	for _, x := range inOrder(c.epochs) {
		c.endEpoch(x, end)
	}
}

func (x *liveEpoch) place() (uint64, string) { return x.seq, x.id }
func (g *grant) place() (uint64, string)     { return g.seq, g.id }

// inOrder lists what a map holds as the log told it.
func inOrder[T interface{ place() (uint64, string) }](m map[string]T) []T {
	return slices.SortedFunc(maps.Values(m), func(a, b T) int {
		seqA, idA := a.place()
		seqB, idB := b.place()
		return cmp.Or(cmp.Compare(seqA, seqB), cmp.Compare(idA, idB))
	})
}

// grantIssued gives a grant to an open epoch. One told while the vault is closed is a crash's leftover: it was void
// before anybody could use it, and its epoch may be told in any order.
func (c *checker) grantIssued(e GrantIssued) {
	if c.repeated(grantTwice, "grant", e.Grant) {
		return
	}
	g := &grant{id: e.Grant, run: e.Run, epoch: e.Epoch, seq: c.at.Seq, tools: e.ToolScope, credentials: e.CredentialScope, contract: e.Contract}
	void := ending{seq: c.at.Seq, why: Type(e), final: true, grant: g}
	x := c.epochs[e.Epoch]
	if c.open && (x == nil || x.run.id != e.Run || x.run.orphaned) {
		end, _ := c.ended.get(e.Epoch)
		c.breach(grantOfEndedEpoch, seqs(c.at.Seq, end.seq), "grant %s to epoch %s, which is not open in run %s", e.Grant, e.Epoch, e.Run)
		c.ended.put(g.id, void)
		return
	}
	if !g.until(e.ExpiresWhen) {
		c.breach(grantWithoutEnd, seqs(c.at.Seq), "grant %s ends when %s", e.Grant, e.ExpiresWhen)
		c.ended.put(g.id, void)
		return
	}
	c.sanction(g, e)
	if !c.open {
		c.ended.put(g.id, void)
		return
	}
	c.grants[g.id] = g
	x.grants = append(x.grants, g)
}

// sanction holds a grant to the approval it was given by.
func (c *checker) sanction(g *grant, e GrantIssued) {
	a := c.approvals[e.Approval]
	switch {
	case a == nil || a.run != e.Run || a.epoch != e.Epoch:
		c.breach(grantWithoutYes, seqs(c.at.Seq), "grant %s names approval %s, which was not given for its epoch", e.Grant, e.Approval)
		return
	case a.granted != 0:
		c.breach(grantWithoutYes, seqs(c.at.Seq, a.granted, a.seq), "grant %s by approval %s, which gave another grant", e.Grant, e.Approval)
		return
	}
	a.granted = c.at.Seq
	if why := a.narrower(g); why != "" {
		c.breach(grantBeyondYes, seqs(c.at.Seq, a.seq), "grant %s is wider than approval %s: "+why, e.Grant, e.Approval)
	}
	if a.scope == "use" {
		g.digest = a.card.Digest
	}
	if n := a.args.Uses; n > 0 && !g.counted {
		g.counted, g.uses = true, n // both a time and a number were signed; the grant names the time
	}
}

// until reads expiresWhen: "agent-run-ends", "1 use", "N uses", or a time.
func (g *grant) until(when string) bool {
	if when == "agent-run-ends" {
		return true
	}
	for _, unit := range []string{" uses", " use"} {
		if n, ok := cutUses(when, unit); ok {
			g.counted, g.uses = true, n
			return true
		}
	}
	t, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return false
	}
	g.ends = timeOver(t)
	return true
}

// timeOver is the moment from which a grant's time is over for sure: its end is told in whole seconds.
func timeOver(t time.Time) time.Time { return t.Add(time.Second) }

func cutUses(when, unit string) (int, bool) {
	if len(when) <= len(unit) || when[len(when)-len(unit):] != unit {
		return 0, false
	}
	s := when[:len(when)-len(unit)]
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && strconv.Itoa(n) == s
}
