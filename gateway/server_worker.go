package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"sallyport/auditlog/event"
	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/launch"
	"sallyport/gateway/peer"
)

// The worker rule: one epoch is one process that speaks. Before every forwarded call the processes that can read the pipe are
// compared with those that could when the epoch was measured; another one is another epoch, whoever started it.

// settled measures a server's running process again, once in its epoch.
func (g *Gateway) settled(ctx context.Context, s *server, e *epoch) *api.Error {
	r, in := s.run, e.inst
	in.measuring.Lock()
	defer in.measuring.Unlock()
	r.mu.Lock()
	done, unstable := in.members != nil, in.unstable
	r.mu.Unlock()
	if !done {
		m, err := g.measureRunning(s, in)
		if err != nil {
			g.complain("measure server", err)
			m.differs = append(m.differs, "it could not be looked at: "+escape(err.Error(), 256))
		}
		ev := event.ServerMeasured{Run: r.id, Epoch: e.id, ServerLabel: s.label, ProcessID: m.record.ProcessID, Differs: bounded(m.differs, 32, 256)}
		if in.plan.Deferred {
			ev.Execution = execution(m.record)
		}
		if err := g.log.note(ctx, r.id, ev); err != nil {
			g.complain("record measurement", err)
			return api.Fail("audit_unavailable", "")
		}
		g.speaks(s, e, m)
		unstable = m.differs
	}
	if len(unstable) > 0 {
		return api.Fail(string(authz.IdentityUnstable), "differs from what was measured before its start: "+listed(bounded(unstable, 8, 128)))
	}
	return nil
}

// measured is what a look at a running server found.
type measured struct {
	record  launch.Record
	worker  *peer.Process // nil: the child itself
	members map[string]bool
	differs []string
}

// restless is how often a server whose processes come and go is looked at again before it counts as one that can't be told.
const (
	restless      = 40
	restlessPause = 10 * time.Millisecond
)

// measureRunning looks at the child and at whoever speaks for it.
func (g *Gateway) measureRunning(s *server, in *instance) (m measured, err error) {
	for range restless {
		if m, err = g.measureOnce(s, in); err == nil || over(in.child) {
			break
		}
		time.Sleep(restlessPause)
	}
	m.differs = in.plan.Agrees(m.record)
	return m, err
}

var errRestless = errors.New("another process speaks than a moment before")

func (g *Gateway) measureOnce(s *server, in *instance) (m measured, err error) {
	m.members = map[string]bool{}
	child := in.child
	defer func() {
		if err != nil && m.worker != nil {
			m.worker.Close()
			m.worker = nil
		}
	}()
	if errors.Is(child.Same(), peer.ErrReplaced) { // a launcher that executed what it launches
		if m.worker, err = again(child); err != nil {
			return m, err
		}
		child = m.worker
	}
	readers, err := in.readers(s, child)
	if err != nil {
		return m, err
	}
	for _, x := range readers {
		m.members[x.Key] = true
	}
	w, above, err := launch.Acting(child)
	if err != nil {
		return m, err
	}
	if w != nil && above.Key() != child.Key() {
		above.Close()
	}
	if w == nil || !m.members[w.Key()] { // what it started does not read what it is told
		if w != nil {
			w.Close()
		}
		m.record, err = g.servers.measurer.ObserveAlone(child)
		return m, err
	}
	m.record, err = g.servers.measurer.Observe(child)
	if m.worker != nil { // child as it is now
		m.worker.Close()
	}
	if m.worker = w; err == nil && m.record.ProcessID != w.Facts().PID {
		err = errRestless
	}
	return m, err
}

// again pins the process of p anew, which runs another program now.
func again(p *peer.Process) (*peer.Process, error) {
	q, err := peer.Find(p.Facts().PID)
	if err != nil {
		return nil, err
	}
	if q.Key() != p.Key() {
		q.Close()
		return nil, peer.ErrGone
	}
	return q, nil
}

// below pins the process of a number, which must be below p.
func below(p *peer.Process, pid int) (*peer.Process, error) {
	q, err := peer.Find(pid)
	if err != nil {
		return nil, err
	}
	if !q.Descends(func(key string) bool { return key == p.Key() }) {
		q.Close()
		return nil, peer.ErrGone
	}
	return q, nil
}

// copyLooks is how often a process that has executed nothing yet is looked at again: between a fork and its exec a helper
// holds everything that its parent does.
const (
	copyLooks = 50
	copyPause = 4 * time.Millisecond
)

// readers are the processes below the wrapper that can read the pipe, once none of them is on its way to another program;
// and where a supervisor passes on what it reads, the worker that it feeds.
func (in *instance) readers(s *server, child *peer.Process) ([]peer.Reader, error) {
	var out []peer.Reader
	for range copyLooks {
		var err error
		if out, err = s.conn.proc.Readers(in.stdin); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(x peer.Reader) bool { return x.Copy }) {
			break
		}
		time.Sleep(copyPause)
	}
	w, above, err := launch.Acting(child)
	if err != nil || w == nil {
		return out, err
	}
	defer w.Close()
	if above.Key() != child.Key() {
		defer above.Close()
	}
	known := slices.ContainsFunc(out, func(x peer.Reader) bool { return x.Key == w.Key() })
	feeds := slices.ContainsFunc(out, func(x peer.Reader) bool { return x.Key == above.Key() })
	if _, err := w.FedBy(above); err == nil && !known && feeds {
		out = append(out, peer.Reader{PID: w.Facts().PID, Key: w.Key()})
	}
	return out, nil
}

// readersNow is readers for a child that may have executed another program since. One that comes and goes is looked at again.
func (in *instance) readersNow(s *server) (out []peer.Reader, err error) {
	for range restless {
		child, err := again(in.child)
		if err != nil {
			return nil, err
		}
		out, err = in.readers(s, child)
		child.Close()
		if err == nil || !isGone(err) {
			return out, err
		}
		time.Sleep(restlessPause)
	}
	return out, err
}

// speaks takes a measurement into memory: the process that speaks is the epoch's.
func (g *Gateway) speaks(s *server, e *epoch, m measured) {
	r, in := s.run, e.inst
	w := m.worker
	g.book.mu.Lock()
	r.mu.Lock()
	in.record, in.members, in.unstable = m.record, m.members, m.differs
	taken := w != nil && e.state != authz.EpochEnded && !s.gone
	if taken {
		if g.book.peers[e.proc.Key()] == e {
			delete(g.book.peers, e.proc.Key())
		}
		e.proc, e.facts, s.pins = w, w.Facts(), append(s.pins, w)
		g.book.peers[w.Key()] = e
	}
	r.mu.Unlock()
	g.book.mu.Unlock()
	switch {
	case w != nil && !taken:
		w.Close()
	case taken && w.Key() != in.child.Key():
		g.watch(w.Gone(), func() { g.attend(s) })
	}
}

// attend looks whether the process that speaks is still the epoch's, and opens another epoch where it is not.
func (g *Gateway) attend(s *server) {
	s.attending.Lock()
	defer s.attending.Unlock()
	r := s.run
	r.mu.Lock()
	e := s.current
	if e == nil || s.gone {
		r.mu.Unlock()
		return
	}
	in, ended, proc := e.inst, e.state == authz.EpochEnded, e.proc
	members, workers, known := in.members, s.options.Workers, in.members != nil
	revoked := in.revoked
	r.mu.Unlock()
	switch {
	case over(in.child):
		return // its end is told by itself
	case !ended && !known && (in.cause != api.CauseForeign || proc.Same() == nil):
		return // nothing is forwarded before it was measured
	}
	readers, err := in.readersNow(s)
	if err != nil {
		g.complain("look at a server's processes", err)
	}
	if !ended && err == nil && proc.Same() == nil && fits(readers, members, max(workers, 1)) {
		return
	}
	if ended && revoked {
		return // the operator ended it: whatever speaks now is not asked for
	}
	g.replace(s, e, readers)
}

// fits tells whether those that can read the pipe are the ones that could, or few enough.
func fits(readers []peer.Reader, members map[string]bool, workers int) bool {
	strangers := 0
	for _, x := range readers {
		if !members[x.Key] {
			strangers++
		}
	}
	return strangers == 0 || len(readers) <= len(members)-1+workers && strangers < workers
}

// replace ends an epoch whose process speaks no more, or no more alone, and opens one for the process that does.
func (g *Gateway) replace(s *server, old *epoch, readers []peer.Reader) {
	r, in := s.run, old.inst
	r.mu.Lock()
	fresh := old.state != authz.EpochEnded
	old.state = authz.EpochEnded // from here on nothing of it passes the gate
	r.mu.Unlock()
	if fresh {
		// Its calls in flight may be the very ones that found out: nobody waits for them here.
		g.task(func() { g.endEpoch(context.WithoutCancel(g.life), old, "worker_replaced", word{}) })
	}
	w, rec := g.successor(s, old, readers)
	if w == nil {
		return // nobody speaks; the next look may find one
	}
	e := &epoch{id: newID("ep_"), run: r, proc: w, facts: w.Facts(), state: authz.IdentityPending, chain: chainOf(w),
		inst: &instance{server: s, child: in.child, stdin: in.stdin, cause: api.CauseForeign, over: make(chan struct{}), plan: rec,
			calls: map[string]*relayed{}, ended: map[string]time.Duration{}}}
	if err := g.openInstance(context.WithoutCancel(g.life), s, e); err != nil {
		g.complain("open epoch of a replaced worker", err)
		w.Close()
		return
	}
	g.teller.Replaced() // no wrapper announced it
	g.watch(w.Gone(), func() { g.attend(s) })
	state := g.serverState(s)
	s.push(api.Push{Kind: api.PushEpoch, Server: &state})
}

// successor finds the process that speaks now, and measures it: where the way down from the child ends, else the newest
// that can read the pipe and could not before.
func (g *Gateway) successor(s *server, old *epoch, readers []peer.Reader) (*peer.Process, launch.Record) {
	in := old.inst
	child, err := again(in.child)
	if err != nil {
		return nil, launch.Record{}
	}
	defer child.Close()
	rec, err := g.servers.measurer.Observe(child)
	if err != nil {
		rec = launch.Record{Deferred: true, Launchers: []launch.Artifact{}, Unpinned: []string{"it changed while it was looked at"}}
	}
	s.run.mu.Lock()
	was, same := old.facts.PID, in.members
	s.run.mu.Unlock()
	pid := rec.ProcessID
	for _, x := range readers {
		if !same[x.Key] {
			pid = x.PID
		}
	}
	if pid == 0 || pid == was && old.proc.Same() == nil && len(readers) == 0 {
		return nil, rec
	}
	if pid == child.Facts().PID {
		if child.Key() == old.proc.Key() && old.proc.Same() == nil && !slices.ContainsFunc(readers, func(x peer.Reader) bool { return !same[x.Key] }) {
			return nil, rec
		}
		w, err := again(in.child)
		if err != nil {
			return nil, rec
		}
		return w, rec
	}
	w, err := below(s.conn.proc, pid)
	if err != nil {
		return nil, rec
	}
	return w, rec
}
