package event

import "time"

// sit opens a sitting that lasts a while.
func (a *tale) sit(lasts time.Duration) string {
	id := a.id("sit")
	a.tell(SittingOpened{Sitting: id, Proof: "passphrase", Ends: a.now().Add(lasts)})
	return id
}

// sat approves by a sitting, and spoils what was recorded of it.
func (s scene) sat(id string, spoil func(*ApprovalGranted)) {
	s.approve(s.who, "b", "run", "agent-run-ends", func(e *ApprovalGranted) {
		e.Proof, e.Operator, e.Sitting = "sitting", "sitting", id
		if spoil != nil {
			spoil(e)
		}
	})
}

// An approval by a sitting: the breach is the approval, one before the last record.
var wrongSittings = []struct {
	rule, name   string
	right, wrong func(scene)
	at           int
}{
	{rule: approvalSitting, name: "never opened", at: 1, wrong: func(s scene) { s.sat(s.id("sit"), nil) },
		right: func(s scene) { s.sat(s.sit(time.Minute), nil) }},
	{rule: approvalSitting, name: "closed", at: 1, wrong: func(s scene) {
		id := s.sit(time.Minute)
		s.tell(SittingClosed{Sitting: id})
		s.sat(id, nil)
	}, right: func(s scene) {
		id := s.sit(time.Minute)
		s.sat(id, nil)
		s.tell(SittingClosed{Sitting: id})
	}},
	{rule: approvalSitting, name: "closed, and told as opened again", at: 1, wrong: func(s scene) {
		id := s.sit(time.Minute)
		s.tell(SittingClosed{Sitting: id}, SittingOpened{Sitting: id, Ends: s.now().Add(time.Hour)})
		s.sat(id, nil)
	}},
	{rule: approvalSitting, name: "locked meanwhile", at: 1, wrong: func(s scene) {
		id := s.sit(time.Hour)
		s.tell(VaultLocked{}, VaultUnlocked{})
		s.sat(id, nil)
	}},
	{rule: approvalSitting, name: "restarted meanwhile", at: 1, wrong: func(s scene) {
		id := s.sit(time.Hour)
		s.tell(GatewayStarted{}, VaultUnlocked{})
		s.who = s.run(200)
		s.sat(id, nil)
	}},
	{rule: approvalSitting, name: "its time was over", at: 1, wrong: func(s scene) {
		id := s.sit(time.Second)
		for range 70 {
			s.tell(ProcessReparented{})
		}
		s.sat(id, nil)
	}, right: func(s scene) {
		id := s.sit(time.Second)
		for range 50 {
			s.tell(ProcessReparented{})
		}
		s.sat(id, nil)
	}},
	{rule: approvalSitting, name: "none named", at: 1, wrong: func(s scene) { s.sat("", nil) }},
	{rule: approvalSitting, name: "another proof", at: 1, wrong: func(s scene) {
		s.sat(s.sit(time.Minute), func(e *ApprovalGranted) { e.Proof = "passphrase" })
	}},
}
