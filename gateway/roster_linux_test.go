package gateway

import (
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"sallyport/authz"
	"sallyport/gateway/peer"
)

// parentAndChild are two living processes, one below the other.
func parentAndChild(t *testing.T) (parent, child int) {
	t.Helper()
	x := exec.Command("sh", "-c", "sleep 1000 & wait")
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the child runs", func() bool {
		roll, err := peer.CallRoll()
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range roll.Below(x.Process.Pid) {
			child = pid
		}
		return child != 0
	})
	t.Cleanup(func() { exec.Command("kill", "-9", strconv.Itoa(child)).Run(); x.Process.Kill(); x.Wait() })
	return x.Process.Pid, child
}

// ended is a process that is held, and is no more.
func ended(t *testing.T) *peer.Process {
	t.Helper()
	x := exec.Command("sleep", "1000")
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := peer.Find(x.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	x.Process.Kill()
	x.Wait()
	return p
}

// A client or a shim ended, and before anybody noticed its number was another's: nobody of that one's is the run's.
func TestRosterTakesNoNumberForAProcess(t *testing.T) {
	stranger, child := parentAndChild(t)
	for _, role := range []string{roleClient, roleShim} {
		gone := ended(t)
		r := newRun(owner{key: gone.Key()}, time.Now())
		f := gone.Facts()
		f.PID = stranger // as if the number had come round
		if role == roleClient {
			r.owner.facts, r.roster.chief = f, gone
		} else {
			r.epochs = []*epoch{{run: r, proc: gone, facts: f, state: authz.Live}}
		}
		roll, err := peer.CallRoll()
		if err != nil {
			t.Fatal(err)
		}
		r.enrol(roll)
		for _, m := range r.roster.below {
			if m.pid == child {
				t.Errorf("%s: a stranger's child counts as the run's", role)
			}
		}
	}
}

// What a process of the run started a moment ago is seen by the look before anything is done, not a second later.
func TestObserveLooksAfresh(t *testing.T) {
	g := newRig(t, "")
	g.init()
	client, child := parentAndChild(t)
	p, err := peer.Find(client)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r := newRun(owner{key: p.Key(), facts: p.Facts()}, time.Now())
	r.roster.chief = p // no look around has met it
	seen, gaps, err := g.observe(t.Context(), r, whyContain)
	if err != nil || len(gaps) > 0 {
		t.Fatal(err, gaps)
	}
	if !slices.ContainsFunc(seen, func(o observed) bool { return o.Process.ProcessID == child }) {
		t.Errorf("the child is not among %d seen", len(seen))
	}
}
