package event

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// scene is a small sound log to spoil: a run with a grant for itself and a call.
type scene struct {
	*tale
	who actor
	yes yes
}

func newScene(t *testing.T) scene {
	a := newTale(t)
	a.begin()
	a.enrol()
	s := scene{tale: a, who: a.run(100)}
	s.yes = a.approve(s.who, "a", "run", "agent-run-ends", nil)
	a.done(s.yes, "a", false)
	return s
}

// grantOnce gives a grant for one use of plan u.
func (s scene) grantOnce() yes { return s.approve(s.who, "u", "use", "1 use", nil) }

// edit changes the latest event of its type.
func edit[E Event](s scene, f func(*E)) {
	for i := len(s.items) - 1; i >= 0; i-- {
		if e, ok := s.items[i].Event.(E); ok {
			f(&e)
			s.items[i].Event = e
			return
		}
	}
	s.t.Fatalf("no %T to edit", *new(E))
}

// drop takes the first event of a type out of the log.
func drop[E Event](s scene) {
	i := slices.IndexFunc(s.items, func(it Item) bool { _, ok := it.Event.(E); return ok })
	s.items = slices.Delete(s.items, i, i+1)
}

// Each rule: one wrong thing in a sound log is exactly one breach, of this rule, at this record (the last by default).
// right is the same log without the wrong thing.
var wrongs = []struct {
	rule, name   string
	right, wrong func(scene)
	at           int // records before the last
}{
	{rule: callWhileLocked, name: "locked", wrong: func(s scene) { s.tell(VaultLocked{}); s.call(s.yes, "a", false) },
		right: func(s scene) { s.call(s.yes, "a", false); s.tell(VaultLocked{}) }},
	{rule: callWhileLocked, name: "locked, and refused", wrong: func(s scene) { s.tell(VaultLocked{}); s.finish(s.yes, s.call(s.yes, "a", false), "denied") }, at: 1},
	{rule: callWhileLocked, name: "quarantined", wrong: func(s scene) { s.tell(VaultQuarantined{}); s.call(s.yes, "a", false) }},
	{rule: callWhileLocked, name: "restored", wrong: func(s scene) { s.tell(VaultRestored{}); s.call(s.yes, "a", false) }},
	{rule: callAfterGrant, name: "void by a rekey", wrong: func(s scene) { s.tell(VaultRekeyed{}); s.call(s.yes, "a", false) },
		right: func(s scene) { s.call(s.yes, "a", false); s.tell(VaultRekeyed{}) }},
	{rule: callWhileLocked, name: "a rekey opens nothing", wrong: func(s scene) { s.tell(VaultLocked{}, VaultRekeyed{}); s.call(s.yes, "a", false) }},
	{rule: callWhileLocked, name: "restarted", wrong: func(s scene) { s.tell(GatewayStarted{}); s.call(s.yes, "a", false) }},
	{rule: callWhileLocked, name: "created again", wrong: func(s scene) { s.tell(GatewayStarted{}, VaultCreated{}); s.call(s.yes, "a", false) }},
	{rule: callWhileLocked, name: "created after a lock", wrong: func(s scene) { s.tell(VaultLocked{}, VaultCreated{}); s.call(s.yes, "a", false) }},
	{rule: callWhileLocked, name: "stopped", wrong: func(s scene) { s.tell(GatewayStopped{}, VaultUnlocked{}); s.call(s.yes, "a", false) }},
	{rule: callWhileLocked, name: "never opened", wrong: func(s scene) { drop[VaultCreated](s) }, at: 1},
	{rule: callWhileLocked, name: "the operator's own", wrong: func(s scene) {
		s.tell(VaultLocked{}, OperatorCalled{Call: Call{Action: s.id("act")}, Purpose: "test"})
	}, right: func(s scene) {
		id := s.id("act")
		s.tell(OperatorCalled{Call: Call{Action: id}, Purpose: "test"}, ToolFinished{Action: id, Outcome: "confirmed"})
	}},
	{rule: callAfterRevocation, wrong: func(s scene) { s.tell(RunRevoked{Run: s.who.run}); s.call(s.yes, "a", false) },
		right: func(s scene) { s.call(s.yes, "a", false); s.tell(RunRevoked{Run: s.who.run}) }},
	{rule: callAfterRevocation, name: "refused", wrong: func(s scene) {
		s.tell(RunRevoked{Run: s.who.run})
		s.finish(s.yes, s.call(s.yes, "a", false), "denied")
	}, at: 1},
	{rule: callAfterRevocation, name: "of an ended run", wrong: func(s scene) { s.tell(RunEnded{Run: s.who.run}, RunRevoked{Run: s.who.run}); s.call(s.yes, "a", false) }},
	{rule: callAfterRevocation, name: "its client ends later", wrong: func(s scene) { s.tell(RunRevoked{Run: s.who.run}, RunEnded{Run: s.who.run}); s.call(s.yes, "a", false) }},
	{rule: callAfterRevocation, name: "after a restart", wrong: func(s scene) {
		s.tell(RunRevoked{Run: s.who.run}, GatewayStarted{}, VaultUnlocked{})
		s.call(s.yes, "a", false)
	}},
	{rule: callAfterRunEnded, wrong: func(s scene) { s.tell(RunEnded{Run: s.who.run}); s.call(s.yes, "a", false) },
		right: func(s scene) { s.call(s.yes, "a", false); s.tell(RunEnded{Run: s.who.run}) }},
	{rule: callOfUnknownRun, wrong: func(s scene) { s.yes.run = s.id("run"); s.call(s.yes, "a", false) }},
	{rule: callOfUnknownRun, name: "an epoch opens none", wrong: func(s scene) {
		x := actor{s.id("run"), s.id("ep"), Peer{ProcessID: 9, Started: dawn}}
		s.tell(VaultReleased{}, EpochOpened{Run: x.run, Epoch: x.epoch, Process: x.peer})
		s.yes.actor = x
		s.call(s.yes, "a", false)
	}, right: func(s scene) {
		x := actor{s.id("run"), s.id("ep"), Peer{ProcessID: 9, Started: dawn}}
		s.tell(VaultReleased{AcceptedLog: true}, EpochOpened{Run: x.run, Epoch: x.epoch, Process: x.peer})
		s.call(s.approve(x, "a", "run", "agent-run-ends", nil), "a", false)
	}},
	{rule: callAfterRevocation, name: "accepted log", wrong: func(s scene) {
		s.tell(RunRevoked{Run: s.who.run}, VaultReleased{AcceptedLog: true}, EpochOpened{Run: s.who.run, Epoch: s.id("ep"), Process: s.who.peer})
		s.call(s.yes, "a", false)
	}},
	{rule: callWhileLocked, name: "stopped, then released", wrong: func(s scene) { s.tell(GatewayStopped{}, VaultReleased{}); s.call(s.yes, "a", false) }},
	{rule: callWhileLocked, name: "created after a release", wrong: func(s scene) {
		fresh := newTale(s.t)
		fresh.tell(VaultReleased{AcceptedLog: true}, GatewayStarted{}, VaultCreated{})
		s.items = fresh.items
		s.call(yes{actor: s.run(100)}, "a", false)
	}},
	{rule: callAfterGrant, name: "void by a release", wrong: func(s scene) { s.tell(VaultReleased{}); s.call(s.yes, "a", false) }},
	{rule: callWithoutGrant, wrong: func(s scene) { s.yes.grant = s.id("gr"); s.call(s.yes, "a", false) }},
	{rule: callWithoutGrant, name: "none named", wrong: func(s scene) { s.yes.grant = ""; s.call(s.yes, "a", false) }},
	{rule: callWithoutGrant, name: "issued later", wrong: func(s scene) {
		y := s.grantOnce()
		s.call(y, "u", false)
		n := len(s.items)
		s.items[n-1].Event, s.items[n-2].Event = s.items[n-2].Event, s.items[n-1].Event
	}, at: 1, right: func(s scene) { s.call(s.grantOnce(), "u", false) }},
	{rule: callOfOtherEpoch, wrong: func(s scene) {
		x := actor{s.who.run, s.id("ep"), Peer{ProcessID: 9, Started: dawn}}
		s.tell(EpochOpened{Run: x.run, Epoch: x.epoch, Process: x.peer})
		s.yes.epoch = x.epoch
		s.call(s.yes, "a", false)
	}, right: func(s scene) {
		x := actor{s.who.run, s.id("ep"), Peer{ProcessID: 9, Started: dawn}}
		s.tell(EpochOpened{Run: x.run, Epoch: x.epoch, Process: x.peer})
		s.call(s.yes, "a", false)
	}},
	{rule: callOfOtherEpoch, name: "refused", wrong: func(s scene) {
		x := actor{s.who.run, s.id("ep"), s.who.peer} // the same process, another program
		s.tell(EpochOpened{Run: x.run, Epoch: x.epoch, Process: x.peer})
		s.yes.epoch = x.epoch
		s.finish(s.yes, s.call(s.yes, "a", false), "denied")
	}, at: 1},
	{rule: callOfOtherEpoch, name: "of another run", wrong: func(s scene) {
		x := s.run(500)
		s.yes.actor = x
		s.call(s.yes, "a", false)
	}},
	{rule: callOfOtherEpoch, name: "of another run, its own epoch", wrong: func(s scene) {
		s.yes.run = s.run(500).run
		s.call(s.yes, "a", false)
	}},
	{rule: callBeyondGrant, name: "tool", wrong: func(s scene) { s.call(s.yes, "a", false); edit(s, func(e *ToolCalled) { e.Tool = "ssh_exec" }) },
		right: func(s scene) { s.call(s.yes, "a", false) }},
	{rule: callBeyondGrant, name: "credential", wrong: func(s scene) { s.call(s.yes, "a", false); edit(s, func(e *ToolCalled) { e.Credential = "prod" }) }},
	{rule: callBeyondGrant, name: "plan", wrong: func(s scene) { s.call(s.grantOnce(), "v", false) }, right: func(s scene) { s.call(s.grantOnce(), "u", false) }},
	{rule: callPastUses, name: "one", wrong: func(s scene) { y := s.grantOnce(); s.done(y, "u", false); s.call(y, "u", false) }},
	{rule: callPastUses, name: "one, refused and not given back", wrong: func(s scene) {
		y := s.grantOnce()
		s.finish(y, s.call(y, "u", false), "denied")
		s.call(y, "u", false)
	}},
	{rule: callPastUses, name: "of three", wrong: func(s scene) {
		y := s.approve(s.who, "u", "run", "3 uses", nil)
		for range 4 {
			s.call(y, "w", false)
		}
	}, right: func(s scene) {
		y := s.approve(s.who, "u", "run", "3 uses", nil)
		for range 3 {
			s.call(y, "w", false)
		}
	}},
	{rule: callPastUses, name: "number beside a time", wrong: func(s scene) {
		until := s.now().Add(time.Hour).Format(time.RFC3339)
		y := s.approve(s.who, "u", "run", until, s.signed("es", `,"uses":1,"until":"`+until+`"`, nil))
		s.call(y, "u", false)
		s.call(y, "u", false)
	}},
	{rule: callPastTime, wrong: func(s scene) {
		y := s.approve(s.who, "u", "run", s.now().Add(4*time.Second).Format(time.RFC3339), nil)
		s.tell(RunDenied{Run: "another"}, RunDenied{Run: "another"})
		s.done(y, "u", false)
	}, at: 1, right: func(s scene) {
		y := s.approve(s.who, "u", "run", s.now().Add(4*time.Second).Format(time.RFC3339), nil)
		s.tell(RunDenied{Run: "another"})
		s.done(y, "u", false)
		s.finish(y, s.call(y, "u", false), "denied")
	}},
	{rule: callPastTime, name: "at its last moment", wrong: func(s scene) {
		y := s.approve(s.who, "u", "run", "2026-01-02T10:00:00Z", nil)
		s.done(y, "u", false)
		s.items[len(s.items)-2].Time = time.Date(2026, 1, 2, 10, 0, 1, 0, time.UTC)
	}, at: 1, right: func(s scene) {
		y := s.approve(s.who, "u", "run", "2026-01-02T10:00:00Z", nil)
		s.done(y, "u", false)
		s.items[len(s.items)-2].Time = time.Date(2026, 1, 2, 10, 0, 0, 999999999, time.UTC)
	}},
	{rule: callAfterEpoch, name: "ended", wrong: func(s scene) { s.tell(EpochEnded{Run: s.who.run, Epoch: s.who.epoch}); s.done(s.yes, "a", false) }, at: 1,
		right: func(s scene) {
			a := s.call(s.yes, "a", false)
			s.tell(EpochEnded{Run: s.who.run, Epoch: s.who.epoch})
			s.finish(s.yes, a, "confirmed")
		}},
	{rule: callAfterEpoch, name: "replaced", wrong: func(s scene) {
		s.tell(EpochOpened{Run: s.who.run, Epoch: s.id("ep"), Process: s.who.peer})
		s.done(s.yes, "a", false)
	}, at: 1, right: func(s scene) {
		p := s.who.peer
		p.Started = p.Started.Add(1) // another process with the same number
		s.tell(EpochOpened{Run: s.who.run, Epoch: s.id("ep"), Process: p})
		s.done(s.yes, "a", false)
	}},
	{rule: callAfterEpoch, name: "ended, of no known process", wrong: func(s scene) {
		x := actor{s.who.run, s.id("ep"), Peer{}}
		s.tell(EpochOpened{Run: x.run, Epoch: x.epoch})
		y := s.approve(x, "u", "run", "agent-run-ends", nil)
		s.tell(EpochEnded{Run: x.run, Epoch: x.epoch})
		s.done(y, "u", false)
	}, at: 1, right: func(s scene) {
		x := actor{s.who.run, s.id("ep"), Peer{}}
		s.tell(EpochOpened{Run: x.run, Epoch: x.epoch})
		y := s.approve(x, "u", "run", "agent-run-ends", nil)
		s.tell(EpochOpened{Run: x.run, Epoch: s.id("ep")})
		s.done(y, "u", false)
	}},
	{rule: callAfterEpoch, name: "not sent", wrong: func(s scene) {
		s.tell(EpochEnded{Run: s.who.run, Epoch: s.who.epoch})
		s.finish(s.yes, s.call(s.yes, "a", false), "not_sent")
	}, at: 1},
	{rule: callAfterGrant, name: "revoked", wrong: func(s scene) { s.tell(GrantRevoked{Grant: s.yes.grant}); s.done(s.yes, "a", false) }, at: 1,
		right: func(s scene) {
			s.tell(GrantRevoked{Grant: s.yes.grant})
			s.finish(s.yes, s.call(s.yes, "a", false), "denied")
		}},
	{rule: callAfterGrant, name: "orphaned", wrong: func(s scene) { s.tell(RunOrphaned{Run: s.who.run}); s.done(s.yes, "a", false) }, at: 1,
		right: func(s scene) {
			s.tell(RunOrphaned{Run: s.who.run})
			s.finish(s.yes, s.call(s.yes, "a", false), "denied")
		}},
	{rule: callAfterGrant, name: "void by a lock", wrong: func(s scene) { s.tell(VaultLocked{}, VaultUnlocked{}); s.call(s.yes, "a", false) }},
	{rule: callAfterGrant, name: "void by a lock that was not told", wrong: func(s scene) { s.tell(VaultUnlocked{}); s.call(s.yes, "a", false) }},
	{rule: callAfterGrant, name: "void by a lock, and refused", wrong: func(s scene) {
		s.tell(VaultLocked{}, VaultUnlocked{})
		s.finish(s.yes, s.call(s.yes, "a", false), "denied")
	}, at: 1},
	{rule: callAfterGrant, name: "void by a restart", wrong: func(s scene) { s.tell(GatewayStarted{}, VaultUnlocked{}); s.call(s.yes, "a", false) }},
	{rule: callAfterGrant, name: "void by a restart, same epoch told again", wrong: func(s scene) {
		s.tell(GatewayStarted{}, VaultUnlocked{}, EpochOpened{Run: s.who.run, Epoch: s.id("ep"), Process: s.who.peer})
		s.call(s.yes, "a", false)
	}},
	{rule: callAfterGrant, name: "told from the outbox", wrong: func(s scene) {
		s.tell(GatewayStarted{})
		y := s.approve(s.who, "b", "run", "agent-run-ends", nil)
		s.tell(VaultUnlocked{})
		s.call(y, "b", false)
	}},
	{rule: callOfOtherContract, name: "a grant of no server's tool", wrong: func(s scene) {
		s.call(s.yes, "a", false)
		edit(s, func(e *ToolCalled) { e.Contract = "sha256:k" })
	}, right: func(s scene) { s.call(s.yes, "a", false) }},
	{rule: callOfOtherContract, name: "another contract", wrong: func(s scene) {
		edit(s, func(e *GrantIssued) { e.Contract = "sha256:k" })
		edit(s, func(e *ToolCalled) { e.Contract = "sha256:k" })
		s.call(s.yes, "a", false)
		edit(s, func(e *ToolCalled) { e.Contract = "sha256:l" })
	}, right: func(s scene) {
		edit(s, func(e *GrantIssued) { e.Contract = "sha256:k" })
		edit(s, func(e *ToolCalled) { e.Contract = "sha256:k" })
		s.call(s.yes, "a", false)
		edit(s, func(e *ToolCalled) { e.Contract = "sha256:k" })
	}},
	{rule: callOfStaleCatalog, name: "its host was shown another", wrong: func(s scene) {
		s.call(s.yes, "a", false)
		edit(s, func(e *ToolCalled) { e.Catalog, e.CatalogShown = "sha256:c2", "sha256:c1" })
	}, right: func(s scene) {
		s.call(s.yes, "a", false)
		edit(s, func(e *ToolCalled) { e.Catalog, e.CatalogShown = "sha256:c2", "sha256:c2" })
	}},
	{rule: callWithoutApproval, name: "unknown", wrong: func(s scene) { s.call(s.yes, "a", true); edit(s, func(e *ToolCalled) { e.Approval = "ap_x" }) },
		right: func(s scene) { s.call(s.yes, "a", true) }},
	{rule: callWithoutApproval, name: "twice", wrong: func(s scene) { s.call(s.yes, "a", true); s.call(s.yes, "a", true) }},
	{rule: callWithoutApproval, name: "for another plan", wrong: func(s scene) { s.call(s.yes, "b", true) }},
	{rule: callWithoutApproval, name: "of another epoch", wrong: func(s scene) {
		x := s.approve(s.run(500), "a", "run", "agent-run-ends", nil)
		s.call(s.yes, "a", true)
		edit(s, func(e *ToolCalled) { e.Approval = x.approval })
	}},
	{rule: callWithoutApproval, name: "of an ended epoch", wrong: func(s scene) {
		other := s.run(500)
		x := s.approve(other, "a", "run", "agent-run-ends", nil)
		s.tell(EpochEnded{Run: other.run, Epoch: other.epoch})
		s.call(s.yes, "a", true)
		edit(s, func(e *ToolCalled) { e.Approval = x.approval })
	}},
	{rule: intentTwice, name: "open", wrong: func(s scene) { s.call(s.yes, "a", false); s.tell(s.items[len(s.items)-1].Event) },
		right: func(s scene) { s.call(s.yes, "a", false); s.call(s.yes, "a", false) }},
	{rule: intentTwice, name: "closed", wrong: func(s scene) { s.tell(s.items[len(s.items)-2].Event) }},
	{rule: intentLeftOpen, wrong: func(s scene) { s.call(s.yes, "a", false); s.tell(GatewayStarted{}) }, at: 1,
		right: func(s scene) { s.tell(ToolUnresolved{Action: s.call(s.yes, "a", false)}, GatewayStarted{}) }},
	{rule: intentLeftOpen, name: "told once", wrong: func(s scene) { s.call(s.yes, "a", false); s.tell(GatewayStarted{}, GatewayStarted{}) }, at: 2},
	{rule: resultWithoutIntent, wrong: func(s scene) { s.finish(s.yes, s.id("act"), "confirmed") }},
	{rule: resultWithoutIntent, name: "denied", wrong: func(s scene) { s.finish(s.yes, s.id("act"), "denied") }},
	{rule: resultWithoutIntent, name: "unresolved", wrong: func(s scene) { s.tell(ToolUnresolved{Action: s.id("act")}) }},
	{rule: resultTwice, wrong: func(s scene) { s.tell(s.items[len(s.items)-1].Event) }},
	{rule: resultTwice, name: "unresolved, then finished", wrong: func(s scene) {
		a := s.call(s.yes, "a", false)
		s.tell(ToolUnresolved{Action: a})
		s.finish(s.yes, a, "confirmed")
	}},
	{rule: resultOfOtherCall, name: "epoch", wrong: func(s scene) { edit(s, func(e *ToolFinished) { e.Epoch = "ep_x" }) }, right: func(s scene) {}},
	{rule: resultOfOtherCall, name: "run", wrong: func(s scene) { edit(s, func(e *ToolFinished) { e.Run = "run_x" }) }},
	{rule: grantTwice, wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.Grant = s.yes.grant }) }, right: func(s scene) { s.grantOnce() }},
	{rule: grantTwice, name: "an ended one", wrong: func(s scene) {
		s.tell(GrantRevoked{Grant: s.yes.grant})
		s.grantOnce()
		edit(s, func(e *GrantIssued) { e.Grant = s.yes.grant })
	}},
	{rule: grantWithoutEnd, name: "empty", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.ExpiresWhen = "" }) }},
	{rule: grantWithoutEnd, name: "a word", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.ExpiresWhen = "never" }) }},
	{rule: grantWithoutEnd, name: "no use", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.ExpiresWhen = "0 uses" }) }},
	{rule: grantWithoutEnd, name: "a signed number", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.ExpiresWhen = "+1 use" }) }},
	{rule: grantWithoutYes, name: "none", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.Approval = "" }) }},
	{rule: grantWithoutYes, name: "unknown", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.Approval = "ap_x" }) }},
	{rule: grantWithoutYes, name: "given later", wrong: func(s scene) {
		s.grantOnce()
		n := len(s.items)
		s.items[n-1].Event, s.items[n-2].Event = s.items[n-2].Event, s.items[n-1].Event
	}, at: 1},
	{rule: grantWithoutYes, name: "spent", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.Approval = s.yes.approval }) }},
	{rule: grantWithoutYes, name: "of another epoch", wrong: func(s scene) {
		y := s.approve(s.run(500), "b", "run", "agent-run-ends", nil)
		i := len(s.items) - 1
		s.items[i].Event = GrantIssued{Grant: y.grant, Run: s.who.run, Epoch: s.who.epoch, ToolScope: []string{"http_request"}, CredentialScope: []string{"ledger"},
			ExpiresWhen: "agent-run-ends", Approval: y.approval}
	}},
	{rule: grantWithoutYes, name: "of another epoch, from the outbox", wrong: func(s scene) {
		s.tell(GatewayStarted{})
		s.approve(s.who, "b", "run", "agent-run-ends", nil)
		edit(s, func(e *GrantIssued) { e.Epoch = "ep_x" })
	}},
	{rule: grantWithoutYes, name: "a leftover of an earlier start", wrong: func(s scene) {
		s.tell(GatewayStarted{})
		y := s.approve(s.who, "b", "run", "agent-run-ends", nil)
		s.items = s.items[:len(s.items)-1] // its grant was not told
		s.tell(VaultUnlocked{}, EpochOpened{Run: s.who.run, Epoch: s.id("ep")})
		s.tell(VaultLocked{}, GrantIssued{Grant: y.grant, Run: y.run, Epoch: y.epoch, ExpiresWhen: "agent-run-ends", Approval: y.approval})
	}},
	{rule: grantWithoutYes, name: "a leftover of two starts ago", wrong: func(s scene) {
		s.tell(GatewayStarted{})
		y := s.approve(s.who, "b", "run", "agent-run-ends", nil)
		s.items[len(s.items)-1].Event = GatewayStarted{} // its grant was not told
		s.tell(GrantIssued{Grant: y.grant, Run: y.run, Epoch: y.epoch, ExpiresWhen: "agent-run-ends", Approval: y.approval})
	}},
	{rule: grantWithoutYes, name: "of another run, the same epoch", wrong: func(s scene) {
		x := s.who
		x.run = s.run(500).run
		s.approve(x, "b", "run", "agent-run-ends", nil)
		edit(s, func(e *GrantIssued) { e.Run = s.who.run })
	}},
	{rule: grantBeyondYes, name: "tool", wrong: func(s scene) {
		s.grantOnce()
		edit(s, func(e *GrantIssued) { e.ToolScope = []string{"http_request", "ssh_exec"} })
	}},
	{rule: grantBeyondYes, name: "a tool that its card did not give", wrong: func(s scene) {
		s.approve(s.who, "b", "run", "agent-run-ends", giving(`"http_request"`))
		edit(s, func(e *GrantIssued) { e.ToolScope = []string{"http_request", "ssh_exec"} })
	}, right: func(s scene) {
		s.approve(s.who, "b", "run", "agent-run-ends", giving(`"http_request","ssh_exec"`))
		edit(s, func(e *GrantIssued) { e.ToolScope = []string{"http_request", "ssh_exec"} })
	}},
	{rule: grantBeyondYes, name: "credential", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.CredentialScope = []string{"prod"} }) }},
	{rule: grantBeyondYes, name: "one use", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.ExpiresWhen = "agent-run-ends" }) }},
	{rule: grantBeyondYes, name: "one use, by number", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.ExpiresWhen = "2 uses" }) }},
	{rule: grantBeyondYes, name: "no scope", wrong: func(s scene) { s.approve(s.who, "b", "", "agent-run-ends", nil) }},
	{rule: grantBeyondYes, name: "more uses than were signed", wrong: func(s scene) { s.approve(s.who, "b", "run", "3 uses", s.signed("es", `,"uses":2`, nil)) },
		right: func(s scene) { s.approve(s.who, "b", "run", "2 uses", s.signed("es", `,"uses":2`, nil)) }},
	{rule: grantBeyondYes, name: "longer than was signed", wrong: func(s scene) {
		s.approve(s.who, "b", "run", "2026-01-02T10:00:01Z", s.signed("es", `,"until":"2026-01-02T10:00:00.9Z"`, nil))
	}, right: func(s scene) {
		s.approve(s.who, "b", "run", "2026-01-02T10:00:00Z", s.signed("es", `,"until":"2026-01-02T10:00:00.9Z"`, nil))
	}},
	{rule: grantBeyondYes, name: "without the time that was signed", wrong: func(s scene) {
		s.approve(s.who, "b", "run", "agent-run-ends", s.signed("es", `,"until":"2026-01-02T10:00:00Z"`, nil))
	}},
	{rule: grantOfEndedEpoch, name: "ended", wrong: func(s scene) {
		s.tell(EpochEnded{Run: s.who.run, Epoch: s.who.epoch})
		s.grantOnce()
	}},
	{rule: grantOfEndedEpoch, name: "orphaned", wrong: func(s scene) { s.tell(RunOrphaned{Run: s.who.run}); s.grantOnce() }},
	{rule: grantOfEndedEpoch, name: "revoked", wrong: func(s scene) { s.tell(RunRevoked{Run: s.who.run}); s.grantOnce() }},
	{rule: grantOfEndedEpoch, name: "reconnected to a revoked run", wrong: func(s scene) {
		s.tell(RunRevoked{Run: s.who.run})
		x := actor{s.who.run, s.id("ep"), Peer{ProcessID: 9, Started: dawn}}
		s.tell(EpochOpened{Run: x.run, Epoch: x.epoch, Process: x.peer})
		s.approve(x, "b", "run", "agent-run-ends", nil)
	}},
	{rule: grantOfEndedEpoch, name: "of the life before", wrong: func(s scene) { s.tell(GatewayStarted{}, VaultUnlocked{}); s.grantOnce() }},
	{rule: grantOfEndedEpoch, name: "of another run", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *GrantIssued) { e.Run = "run_x" }) }},
	{rule: approvalTwice, wrong: func(s scene) { s.grantOnce(); s.tell(s.items[len(s.items)-2].Event) }},
	{rule: approvalTwice, name: "after its epoch", wrong: func(s scene) {
		s.tell(EpochEnded{Run: s.who.run, Epoch: s.who.epoch})
		s.tell(s.items[slices.IndexFunc(s.items, func(it Item) bool { _, ok := it.Event.(ApprovalGranted); return ok })].Event)
	}},
	{rule: approvalCardDigest, name: "another digest", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *ApprovalGranted) { e.CardDigest = plan("x") }) }, at: 1},
	{rule: approvalCardDigest, name: "another byte", wrong: func(s scene) { s.grantOnce(); edit(s, func(e *ApprovalGranted) { e.Card = append(e.Card, ' ') }) }, at: 1},
	{rule: approvalCardNames, name: "approval", wrong: func(s scene) { s.misname("id", s.yes.approval) }, at: 1},
	{rule: approvalCardNames, name: "run", wrong: func(s scene) { s.misname("agentRun", "run_x") }, at: 1},
	{rule: approvalCardNames, name: "epoch", wrong: func(s scene) { s.misname("executionEpoch", "ep_x") }, at: 1},
	{rule: approvalCardNames, name: "nothing", wrong: func(s scene) {
		s.grantOnce()
		edit(s, func(e *ApprovalGranted) {
			e.Card = bytes.Replace(e.Card, []byte(`"agentRun"`), []byte(`"agentRum"`), 1)
			e.CardDigest = plan(string(e.Card))
		})
	}, at: 1},
}

// misname gives a card that names something else, with a digest that fits.
func (s scene) misname(key, value string) {
	s.grantOnce()
	edit(s, func(e *ApprovalGranted) {
		_, rest, _ := bytes.Cut(e.Card, []byte(`"`+key+`":"`))
		old, _, _ := bytes.Cut(rest, []byte{'"'})
		e.Card = bytes.Replace(e.Card, []byte(`"`+key+`":"`+string(old)), []byte(`"`+key+`":"`+value), 1)
		e.CardDigest = plan(string(e.Card))
	})
}

// giving makes an approval's card one that asks for access to tools.
func giving(tools string) func(*ApprovalGranted) {
	return func(e *ApprovalGranted) {
		e.Card = bytes.Replace(e.Card, []byte(`"cardDigest":""`), []byte(`"access":[`+tools+`],"cardDigest":""`), 1)
		e.CardDigest = plan(string(e.Card))
	}
}
