package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// A sitting ends by either clock, by a suspend, and by a clock that was set or is not known.
func TestSittingEnds(t *testing.T) {
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	began := moment{authz.Instant{Wall: wall, Boot: time.Hour}, 50 * time.Minute}
	s := &sitting{began: began, ends: after(began.Instant, 15*time.Minute)}
	plus := func(wall, boot, awake time.Duration) moment {
		return moment{authz.Instant{Wall: began.Wall.Add(wall), Boot: began.Boot + boot}, began.awake + awake}
	}
	for name, c := range map[string]struct {
		at   moment
		want string
	}{
		"at once":              {began, ""},
		"just before its end":  {plus(899*time.Second, 899*time.Second, 899*time.Second), ""},
		"its end":              {plus(900*time.Second, 900*time.Second, 900*time.Second), "time_over"},
		"its end, wall first":  {plus(900*time.Second, 899*time.Second, 899*time.Second), "time_over"},
		"slept a moment":       {plus(time.Minute, time.Minute, 59*time.Second), ""},
		"slept":                {plus(time.Minute, time.Minute, 57*time.Second), "suspend"},
		"slept over its end":   {plus(time.Hour, time.Hour, time.Second), "suspend"},
		"clock set forward":    {plus(2*time.Minute, time.Minute, time.Minute), "clock"},
		"clock set back":       {plus(-time.Hour, time.Minute, time.Minute), "clock"},
		"clock slewed a bit":   {plus(70*time.Second, time.Minute, time.Minute), ""},
		"boot clock not known": {moment{authz.Instant{Wall: wall}, began.awake}, "clock"},
		"awake not known":      {moment{began.Instant, 0}, "clock"},
		"before it began":      {plus(0, -time.Second, 0), "clock"},
	} {
		if got := s.ended(c.at); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if m := at(); m.awake > m.Boot+time.Second || m.awake <= 0 {
		t.Errorf("this machine's clocks: %+v", m)
	}
}

// me is this process as an operator's.
func me(t *testing.T) *peer.Process {
	t.Helper()
	p, err := peer.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// sit opens a sitting for p, as its route does once the proof was checked.
func (r *rig) sit(p *peer.Process) api.Sitting {
	r.t.Helper()
	out, err := r.opSittingOpen(opRequest{ctx: r.t.Context(), who: "passphrase", args: encode(struct{}{}), proc: p})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.(api.Sitting)
}

// bySitting is a yes by a sitting, as the door takes it.
func (r *rig) bySitting(id string, p *peer.Process, c api.Approval) error {
	q := opRequest{ctx: r.t.Context(), who: sittingProof, sitting: id, proc: p,
		args: encode(api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "use"})}
	if err := r.sat(q.ctx, q, api.PathApprovalGrant); err != nil {
		return err
	}
	_, err := r.opApprovalGrant(q)
	return err
}

// One proof, many cards: each is recorded with the sitting. It covers nothing else, and ends with a lock.
func TestSitting(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a, p := r.agent(), me(t)
	s := r.sit(p)
	if d := time.Until(s.EndsAt); d > api.SittingLife*time.Second || d < api.SittingLife*time.Second-time.Minute {
		t.Errorf("it lasts %v", d)
	}
	for i := range 3 {
		ch := a.send("call", call0(fmt.Sprintf("%s/%d", up.URL, i), "GET"))
		if err := r.bySitting(s.ID, p, r.card()); err != nil {
			t.Fatal(err)
		}
		if got := code(<-ch); got != "confirmed" {
			t.Fatal(got)
		}
	}
	for _, route := range api.Routes {
		if !route.Proof || route.Path == api.PathApprovalGrant {
			continue
		}
		sure(t, r.sat(t.Context(), opRequest{sitting: s.ID, proc: p}, route.Path), "proof_required", "nothing else")
	}
	a.send("call", call0(up.URL+"/last", "GET"))
	c := r.card()
	op[api.Status](r, r.opLock, struct{}{})
	r.unlock()
	sure(t, r.bySitting(s.ID, p, c), "proof_required", "ended")
	second := r.sit(p)
	if _, err := r.opSittingClose(opRequest{ctx: t.Context(), args: encode(api.IDArgs{ID: second.ID})}); err != nil {
		t.Fatal(err)
	}
	sure(t, r.bySitting(second.ID, p, c), "proof_required", "ended")
	third := r.sit(p)
	r.stop()
	var proofs []string
	closed := map[string]string{}
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		switch e := e.(type) {
		case event.ApprovalGranted:
			proofs = append(proofs, e.Proof+" "+e.Sitting)
		case event.SittingClosed:
			closed[e.Sitting] = e.Reason
		}
	}
	if want := "sitting " + s.ID; !slices.Equal(proofs, []string{want, want, want}) {
		t.Errorf("recorded %v", proofs)
	}
	if closed[s.ID] != "vault_locked" || closed[second.ID] != "operator" || closed[third.ID] != "gateway_restarted" {
		t.Errorf("closed %v", closed)
	}
}

// Whoever else names a sitting ends it; so does the end of its process, and another program in it.
func TestSittingOfAnother(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	ch := a.send("call", call0(up.URL+"/1", "GET"))
	c := r.card()
	s := r.sit(me(t))
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() { other.Process.Kill(); other.Wait() })
	t.Cleanup(stop)
	q, err := peer.Find(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	sure(t, r.bySitting(s.ID, q, c), "operator_refused", "another process or tab")
	sure(t, r.bySitting(s.ID, me(t), c), "proof_required", "ended")
	sure(t, r.bySitting(r.sit(me(t)).ID, nil, c), "operator_refused", "another process or tab")
	sure(t, r.bySitting("sit_x", me(t), c), "proof_required", "ended")

	gone := r.sit(q)
	stop()
	until(t, "a sitting without its process ends", func() bool { return r.sittings.get(gone.ID) == nil })
	if _, err := r.openSitting(opRequest{ctx: t.Context(), proc: q, who: "passphrase"}); refusalOf(err).Code != "operator_refused" {
		t.Errorf("for a process that is gone: %v", err)
	}
	if _, err := r.openSitting(opRequest{ctx: t.Context(), who: "passphrase"}); refusalOf(err).Code != "operator_refused" {
		t.Errorf("for nobody: %v", err)
	}
	for range sittingsLimit {
		r.sit(me(t))
	}
	_, err = r.openSitting(opRequest{ctx: t.Context(), proc: me(t), who: "passphrase"})
	sure(t, err, "rate_limited", "too many sittings")
	r.yes(c, "use")
	<-ch
	r.stop()
	reasons := map[string]int{}
	evs := events(t, r.dir, r.created.ReaderIdentity)
	for _, e := range evs {
		if x, ok := e.(event.SittingClosed); ok {
			reasons[x.Reason]++
		}
	}
	if reasons["second_peer"] != 2 || reasons["process_gone"] != 1 || reasons["too_many"] != 1 || count(evs, "operator_refused") != 2 {
		t.Errorf("closed %v: %v", reasons, kinds(evs))
	}
}

// A sitting that ends while an answer by it is on its way: the answer is recorded before the end, or not given.
func TestSittingEndsMeanwhile(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a, p := r.agent(), me(t)
	given := 0
	for i := range long(12, 200) {
		ch := a.send("call", call0(fmt.Sprintf("%s/%d", up.URL, i), "GET"))
		c := r.card()
		s := r.sit(p)
		var both sync.WaitGroup
		var err error
		both.Go(func() { err = r.bySitting(s.ID, p, c) })
		both.Go(func() {
			r.opSittingClose(opRequest{ctx: context.Background(), args: encode(api.IDArgs{ID: s.ID})})
		})
		both.Wait()
		if err == nil {
			given++
		} else if _, known := r.cards.look(c.ID, ""); known {
			r.yes(c, "use")
		}
		<-ch
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity) // which checks their order
	t.Logf("%d given", given)
}

// Everything that may happen to cards at once: asks of several epochs, yes by passphrase and by sitting, no, muting, locks,
// sittings that end. Nothing hangs, the table is empty at the end, and the log means what it may mean.
func TestCardStorm(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	for i := range 4 {
		r.addBearer(fmt.Sprint("c", i), fmt.Sprintf("GET,POST %s/%d/**", up.URL, i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(long(1500, 40000))*time.Millisecond)
	defer cancel()
	p := me(t)
	var all sync.WaitGroup
	loop := func(every time.Duration, f func(n int)) {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				f(n)
				time.Sleep(every)
			}
		})
	}
	quiet := func(h opHandler, args any) {
		h(opRequest{ctx: context.Background(), args: encode(args), who: "passphrase", proof: &api.Proof{Kind: "passphrase", Value: testPassphrase}})
	}
	loop(time.Millisecond, func(n int) {
		for i, c := range r.cards.list() {
			if n%2 == 0 {
				break // leave some to the sitting
			}
			args := api.ApproveArgs{ID: c.ID, CardDigest: c.CardDigest, Scope: "use"}
			if (n+i)%40 == 39 {
				args.Scope = "run"
			}
			if n == 9 { // a second one would deny the run
				quiet(r.opApprovalDeny, api.IDArgs{ID: c.ID})
			} else {
				quiet(r.opApprovalGrant, args)
			}
		}
	})
	loop(5*time.Millisecond, func(n int) {
		s, err := r.openSitting(opRequest{ctx: context.Background(), proc: p, who: "passphrase"})
		for range 4 {
			for _, c := range r.cards.list() {
				if err == nil {
					r.bySitting(s.ID, p, c)
				}
			}
			time.Sleep(time.Millisecond)
		}
		quiet(r.opSittingClose, api.IDArgs{ID: s.ID})
	})
	loop(20*time.Millisecond, func(n int) {
		for _, c := range r.cards.more() {
			quiet(r.opApprovalMute, api.MuteArgs{Key: c.Key})
			quiet(r.opApprovalUnmute, api.MuteArgs{Key: c.Key})
		}
	})
	loop(30*time.Millisecond, func(n int) {
		r.cards.set(budgets{Epoch: 1 + n%3, Session: 3, Installation: 8, Queue: n % 40})
	})
	loop(300*time.Millisecond, func(n int) {
		quiet(r.opLock, struct{}{})
		quiet(r.opUnlock, struct{}{})
	})
	agents := []*agent0{r.agent(), r.agent(), r.agent()}
	var answered sync.WaitGroup
	for i := range 30 {
		answered.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				agents[i%3].ask("call", call0(fmt.Sprintf("%s/%d/%d/%d", up.URL, n%4, i, n), "GET"))
			}
		})
	}
	all.Wait()
	quiet(r.opUnlock, struct{}{})
	calm, end := context.WithCancel(t.Context())
	go r.approveAll(calm, "run")
	answered.Wait()
	end()
	r.cards.mu.Lock()
	if len(r.cards.desks)+len(r.cards.line)+r.cards.all+r.cards.room+len(r.cards.open) != 0 {
		t.Errorf("left over: %+v", r.cards)
	}
	r.cards.mu.Unlock()
	r.stop()
	evs := events(t, r.dir, r.created.ReaderIdentity)
	t.Logf("%d cards, %d sittings, %d mutes", count(evs, "approval_requested"), count(evs, "sitting_opened"), count(evs, "approvals_muted"))
}

// A program exchanged on disk while it runs: noted with each call, and refused where the operator wants that.
func TestArtifactChange(t *testing.T) {
	up := newUpstream(t, nil)
	r := newRig(t, "")
	r.init()
	r.addBearer("ledger", "GET "+up.URL+"/**")
	a := r.agent()
	call := func() string { return code(a.ask("call", call0(up.URL+"/1", "GET"))) }
	ch := a.send("call", call0(up.URL+"/1", "GET"))
	if c := r.card(); c.Origin.Drift {
		t.Error("told as exchanged, and is not")
	}
	r.yes(r.card(), "run")
	<-ch
	e := r.book.all()[0].epochs[0]
	if e.proc.Exchanged() {
		t.Skip("this test's own program is gone from the disk")
	}
	e.drift.Store(true) // as caller.same finds it
	if got := call(); got != "confirmed" {
		t.Fatalf("noted only: %s", got)
	}
	if _, refused := r.apply("[settings]\non_artifact_change = \"suspend\"\n", false); refused != "" {
		t.Fatal(refused)
	}
	if got := call(); got != "server_suspended" {
		t.Fatalf("suspended: %s", got)
	}
	r.stop()
	var drift []bool
	for _, e := range events(t, r.dir, r.created.ReaderIdentity) {
		if x, ok := e.(event.ToolCalled); ok {
			drift = append(drift, x.ArtifactDrift)
		}
	}
	if !slices.Equal(drift, []bool{false, true}) {
		t.Errorf("recorded %v", drift)
	}
}

// What the kernel says of a program that was replaced on disk, and of one that was not.
func TestExchanged(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/sleep"
	put := func(name string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(name, program, 0o700), os.Rename(name, path)); err != nil {
			t.Fatal(err)
		}
	}
	put(path + ".1")
	cmd := exec.Command(path, "60")
	cmd.Args[0] = "sleep"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	p, err := peer.Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Exchanged() {
		t.Error("nobody touched it")
	}
	put(path + ".2")
	if !p.Exchanged() || p.Same() != nil {
		t.Error("another file is at its path, and the process is the same")
	}
}
