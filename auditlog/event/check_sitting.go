package event

import "time"

// sitting is one that is open.
type sitting struct {
	seq  uint64
	ends time.Time
}

// sittingGrace is how long after a sitting's time was over an answer by it may be committed: it was checked before.
const sittingGrace = time.Minute

func (c *checker) sittingOpened(e SittingOpened) {
	if c.open && c.told(e.Sitting) == 0 {
		c.sittings[e.Sitting] = sitting{c.at.Seq, e.Ends}
	}
}

func (c *checker) sittingClosed(e SittingClosed) {
	delete(c.sittings, e.Sitting)
	c.ended.put(e.Sitting, ending{seq: c.at.Seq, why: "sitting_closed"})
}

// sat holds an approval that a sitting proved to that sitting. One told while the vault is closed is a crash's leftover,
// and so is the sitting.
func (c *checker) sat(e ApprovalGranted) {
	if e.Proof != "sitting" && e.Sitting == "" || !c.open {
		return
	}
	s, ok := c.sittings[e.Sitting]
	end, _ := c.ended.get(e.Sitting)
	switch {
	case e.Proof != "sitting" || e.Sitting == "":
		c.breach(approvalSitting, seqs(c.at.Seq), "approval %s has the proof %s, and names sitting %s", e.Approval, e.Proof, e.Sitting)
	case !ok:
		c.breach(approvalSitting, seqs(c.at.Seq, end.seq), "approval %s by sitting %s, which is not open", e.Approval, e.Sitting)
	case c.at.Time.After(s.ends.Add(sittingGrace)):
		c.breach(approvalSitting, seqs(c.at.Seq, s.seq), "approval %s by sitting %s, whose time was over", e.Approval, e.Sitting)
	}
}
