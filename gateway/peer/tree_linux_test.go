package peer

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func setsid(x *exec.Cmd) { x.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// below runs the client under a shell that stays, under a session leader.
func (s *server) below() (leader *exec.Cmd) {
	return spawn(s.t, self(s.t), []string{"role:start", "/bin/sh", "-c", `"$0" "$@"; true`, self(s.t), "role:client", s.path}, setsid)
}

func pids(ps []*Process) []int {
	var out []int
	for _, p := range ps {
		out = append(out, p.Facts().PID)
	}
	return out
}

func TestAncestors(t *testing.T) {
	s := newServer(t)
	leader := s.below()
	_, p := s.peer()
	up, err := p.Ancestors()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(up)
	if len(up) != 2 || up[0].Facts().PID != p.Facts().PPID || up[1].Facts().PID != leader.Process.Pid {
		t.Fatalf("ancestors %v of %d below %d, leader %d", pids(up), p.Facts().PID, p.Facts().PPID, leader.Process.Pid)
	}
	for _, q := range up {
		if f := q.Facts(); f.Identity != Strong || f.ExeDigest == "" {
			t.Errorf("pid %d: %s %q %q", f.PID, f.Identity, f.Weak, f.ExeDigest)
		}
		if err := q.Same(); err != nil {
			t.Error(err)
		}
	}
	if up[1].Facts().ExeDigest != digestOf(t, self(t)) {
		t.Error("leader has another digest than its file")
	}
}

// A leader's own session is empty; its chain is that of its parent's session.
func TestAncestorsOfLeader(t *testing.T) {
	s := newServer(t)
	spawn(t, self(t), []string{"role:client", s.path}, setsid)
	_, p := s.peer()
	up, err := p.Ancestors()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(up)
	if len(up) == 0 || up[0].Facts().PID != os.Getpid() {
		t.Fatalf("ancestors %v, want %d first", pids(up), os.Getpid())
	}
	if p.Orphan() {
		t.Error("a leader is no orphan")
	}
}

func TestDescends(t *testing.T) {
	s := newServer(t)
	s.below()
	_, p := s.peer()
	me, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	defer me.Close()
	for name, tc := range map[string]struct {
		key  string
		want bool
	}{"itself": {p.Key(), true}, "beyond its session": {me.Key(), true}, "nobody": {"", false}} {
		if got := p.Descends(func(k string) bool { return k == tc.key }); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	keys := make(map[string]bool)
	p.Descends(func(k string) bool { keys[k] = true; return false })
	if len(keys) < 4 {
		t.Errorf("%d processes up to the top", len(keys))
	}
	if p.Orphan() {
		t.Error("its leader lives")
	}
}

// I10: setsid and a double fork cut the chain, and leave an orphan.
func TestOrphan(t *testing.T) {
	s := newServer(t)
	x := spawn(t, self(t), []string{"role:leave", self(t), "role:client", s.path}, setsid)
	wait(t, x)
	c, p := s.peer()
	if !p.Orphan() {
		t.Error("no orphan")
	}
	leader := p.Facts().SID
	if leader != x.Process.Pid {
		t.Errorf("session %d, want %d", leader, x.Process.Pid)
	}
	up, err := p.Ancestors()
	if err != nil || len(up) != 0 {
		t.Errorf("ancestors %v, %v: whoever adopted it is none", pids(up), err)
	}
	closeAll(up)
	tell(t, c, "quit")
}

// What can't be found out counts against the process.
func TestTreeOfDead(t *testing.T) {
	s := newServer(t)
	x := s.client()
	c, p := s.peer()
	tell(t, c, "quit")
	wait(t, x)
	if !p.Orphan() || !p.Descends(func(string) bool { return false }) {
		t.Error("a dead process passes")
	}
	if _, err := p.Ancestors(); !errors.Is(err, ErrGone) {
		t.Errorf("ancestors of a dead process: %v", err)
	}
	if _, _, err := p.Owner(func(string) bool { return true }); !errors.Is(err, ErrGone) {
		t.Errorf("owner of a dead process: %v", err)
	}
}

func TestParentChainDescriptors(t *testing.T) {
	s := newServer(t)
	s.below()
	_, p := s.peer()
	before := descriptors(t)
	for range 3 {
		up, err := p.Ancestors()
		if err != nil {
			t.Fatal(err)
		}
		closeAll(up)
		p.Descends(func(string) bool { return false })
		p.Orphan()
		o, passed, err := p.Owner(func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		closeAll(append(passed, o))
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}
