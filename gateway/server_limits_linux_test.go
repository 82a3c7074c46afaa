package gateway

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/authz"
	"sallyport/gateway/api"
	"sallyport/gateway/launch"
	"sallyport/gateway/peer"
)

// A connection that is over gets no server, however late its plan's measurement ends.
func TestServerNoneForGoneConnection(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	w.launch(t.TempDir(), "cat")
	s := r.only(t)
	w.conn.Close()
	<-s.conn.over
	until(t, "its end", func() bool { r.servers.mu.Lock(); defer r.servers.mu.Unlock(); return len(r.servers.by) == 0 })
	if late, fault := s.conn.newServer(s.run, plan0("/", "cat")); fault == nil {
		t.Errorf("a connection that is over has a server: %+v", late.label)
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if len(s.run.served.servers) != 0 {
		t.Errorf("its run has %d servers", len(s.run.served.servers))
	}
}

// A server that is started again and again holds no more of the gateway's descriptors than one that is started once.
func TestServerRestartsHoldNoProcesses(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	for range 12 {
		c, _ := w.launch(dir, "cat")
		w.catalog(catalogA, false)
		end(c)
		s := r.only(t)
		until(t, "its end", func() bool { s.run.mu.Lock(); defer s.run.mu.Unlock(); return s.state(false) == api.ServerDown })
	}
	w.launch(dir, "cat")
	s := r.only(t)
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if len(s.pins) > 3 {
		t.Errorf("%d processes are held after 13 starts", len(s.pins))
	}
	if n := len(s.run.epochs); n > keptInstances+2 {
		t.Errorf("the run holds %d epochs after 13 starts", n)
	}
	for _, e := range s.run.epochs {
		if e.inst != nil && e != s.current && len(e.inst.revision.Tools) > 0 {
			t.Errorf("the catalog of ended epoch %s is kept", e.id)
		}
	}
}

// What is kept of servers is bounded over labels, connections and calls that wait for a card, and is given back.
func TestServerKeepsLittle(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	big := fmt.Sprintf(`{"tools":[{"name":"inventory_adjust","description":%q,"inputSchema":{"type":"object"}}]}`, strings.Repeat("x", 1<<20))
	for i := range 3 {
		v := r.wrapper()
		p := plan0(dir, "cat")
		p.ServerLabel = fmt.Sprint("label-", i)
		v.launchAs(p)
		v.catalog(big, true)
		v.conn.Close()
	}
	w.launch(dir, "cat")
	w.catalog(catalogA, true)
	s := r.only1(t, "inventory-local")
	until(t, "what was kept of servers that are gone is given back", func() bool { return keptRoom-r.servers.room.left.Load() <= 1<<20 })
	before := keptRoom - r.servers.room.left.Load()
	s.run.mu.Lock()
	for label, rev := range s.run.served.catalogs {
		if sizeOf(rev) > catalogRemembered {
			t.Errorf("the run remembers %d bytes of %s", sizeOf(rev), label)
		}
	}
	s.run.mu.Unlock()

	args := fmt.Sprintf(`{"name":"inventory_adjust","arguments":{"sku":%q}}`, strings.Repeat("x", 1<<20))
	w.refused(args, "not_authorized")
	if n := keptRoom - r.servers.room.left.Load(); n < before+1<<20 {
		t.Errorf("a call that waits for a card takes no room: %d", n)
	}
	r.servers.room.left.Store(1 << 10)
	p := plan0(dir, "cat", strings.Repeat("x", 1<<16))
	if res := w.ask(api.MethodServerPlan, p); res.Error == nil || res.Error.Code != "busy" {
		t.Errorf("a plan without room: %s", encode(res))
	}
	res := w.ask(api.MethodServerCatalog, api.ServerCatalog{ExecutionEpoch: w.epoch, Pages: []jsontext.Value{jsontext.Value(big)}})
	if res.Error == nil || res.Error.Code != "busy" {
		t.Errorf("without room: %s", encode(res))
	}
	r.servers.room.left.Store(0)
	w.conn.Close()
	until(t, "the room's return", func() bool { return r.servers.room.left.Load() > 1<<20 })
}

// only1 is the server of that label.
func (r *rig) only1(t *testing.T, label string) *server {
	t.Helper()
	var found *server
	until(t, "the others' end", func() bool { r.servers.mu.Lock(); defer r.servers.mu.Unlock(); return len(r.servers.by) == 1 })
	for _, s := range r.supervised() {
		if s.label == label {
			found = s
		}
	}
	if found == nil {
		t.Fatal("no server " + label)
	}
	return found
}

// What a wrapper says of a reply that it left out is what it can really have left out: more than is kept, at most one line.
func TestServerReportIsBounded(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	w.ready(t.TempDir(), "cat")
	ch := w.call(adjust)
	f := w.forwarded(ch)
	sum := "sha256:" + strings.Repeat("0", 64)
	some := jsontext.Value("{}")
	for _, rep := range []api.ServerReport{
		{Outcome: "confirmed", Length: -1, Digest: sum},
		{Outcome: "confirmed", Length: 1, Digest: sum},
		{Outcome: "confirmed", Length: math.MaxInt64, Digest: sum},
		{Outcome: "confirmed", Length: 16<<20 + 1, Digest: sum},
		{Outcome: "confirmed", Length: 2 << 20, Digest: strings.Repeat("x", 2<<20)},
		{Outcome: "confirmed", Length: 2 << 20, Digest: "sha256:" + strings.Repeat("x", 64)},
		{Outcome: "confirmed", Length: 2 << 20, Digest: sum, Reply: some},
		{Outcome: "confirmed", Reply: encode(strings.Repeat("x", 2<<20))},
		{Outcome: "confirmed"},
		{Outcome: "not_sent", Length: 2 << 20, Digest: sum},
	} {
		rep.Action = f.Action
		if res := w.ask(api.MethodServerReport, rep); res.Error == nil || res.Error.Code != "invalid_request" {
			t.Errorf("%s, length %d, %d bytes of digest: %.200s", rep.Outcome, rep.Length, len(rep.Digest), encode(res))
		}
	}
	if res := w.ask(api.MethodServerReport, api.ServerReport{Action: f.Action, Outcome: "confirmed", Length: 2 << 20, Digest: sum}); res.Error != nil {
		t.Fatalf("a reply of 2 MiB: %v", res.Error)
	}
	if res := w.take(ch); res.Action == nil || res.Action.Outcome != "confirmed" {
		t.Errorf("ended as %s", encode(res))
	}
	r.stop()
	events(t, r.dir, r.created.ReaderIdentity)
}

// Of one run one server at a time waits for a place to be measured, and a place that is not given back is nobody's for long.
func TestServerMeasuresInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newServers()
		one, two, three := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
		never, order := make(chan struct{}), make(chan string, 8)
		ask := func(name string, turn, over chan struct{}) (leave chan func()) {
			leave = make(chan func(), 1)
			go func() {
				f, ok := v.place(turn, over)
				if !ok {
					name += " gave up"
				}
				order <- name
				leave <- f
			}()
			synctest.Wait()
			return leave
		}
		over := make(chan struct{})
		first := ask("one", one, never)
		for range 3 {
			ask("one more", one, over)
		}
		second, third := ask("two", two, never), ask("three", three, never)
		if got := []string{<-order, <-order}; !slices.Equal(got, []string{"one", "two"}) {
			t.Fatalf("measured are %v", got)
		}
		began := time.Now()
		if got := <-order; got != "three" || time.Since(began) != measureHold {
			t.Errorf("%s after %v", got, time.Since(began))
		}
		close(over)
		for range 3 {
			if got := <-order; got != "one more gave up" {
				t.Errorf("%s is measured beside its run's other server", got)
			}
		}
		(<-first)() // its place was given back before; its turn is now
		last := ask("one again", one, never)
		if got := <-order; got != "one again" {
			t.Errorf("next is %s", got)
		}
		for _, leave := range []chan func(){second, third, last} {
			(<-leave)()
		}
		if len(one) != 0 || len(v.places) != 0 {
			t.Errorf("%d turns and %d places are taken", len(one), len(v.places))
		}
	})
}

// Two servers of one label in one run are compared each with what it listed itself before.
func TestServersOfOneLabel(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	w.launch(dir, "cat")
	a := w.catalog(catalogA, true)
	v := r.wrapper()
	v.launch(dir, "cat")
	v.catalog(catalogB, true)
	if st := w.catalog(catalogA, true); st.Catalog != a.Catalog || len(st.Changed) > 0 || len(st.ContractChanged) > 0 {
		t.Errorf("the first one's list is the same and told as changed: %s", encode(st))
	}
	if st := v.catalog(catalogC, true); len(st.ContractChanged) != 1 {
		t.Errorf("of the second one changed: %s", encode(st))
	}
}

// What a process listed that was replaced meanwhile is nobody's list.
func TestServerCatalogOfReplaced(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	c, _ := w.launch(dir, "cat")
	s := r.only(t)
	s.run.mu.Lock()
	old := s.current
	s.run.mu.Unlock()
	end(c)
	until(t, "its end", func() bool { s.run.mu.Lock(); defer s.run.mu.Unlock(); return s.state(false) == api.ServerDown })
	rev, err := launch.Catalog([][]byte{[]byte(catalogB)})
	if err != nil {
		t.Fatal(err)
	}
	if _, fault := r.takeCatalog(t.Context(), s, old, rev, true); fault == nil || fault.Code != "server_down" {
		t.Errorf("of one that has ended: %v", fault)
	}
	w.launch(dir, "cat")
	if _, fault := r.takeCatalog(t.Context(), s, old, rev, true); fault == nil || fault.Code != "authorization_stale" || fault.CurrentEpoch != w.epoch {
		t.Errorf("of one that was replaced: %v", fault)
	}
	if st := w.catalog(catalogA, true); len(st.Changed) > 0 {
		t.Errorf("compared with it: %s", encode(st))
	}
}

// However many epochs a run has, one whose call waits for its report is found.
func TestServerReportAfterManyEpochs(t *testing.T) {
	t.Parallel()
	r, w := newServerRig(t)
	dir := t.TempDir()
	w.ready(dir, "cat")
	ch := w.call(adjust)
	f := w.forwarded(ch)
	s := r.only(t)
	s.run.mu.Lock()
	e := s.current
	e.state = authz.EpochEnded // and its report is on its way
	for range keptEpochs {
		s.run.epochs = append(s.run.epochs, &epoch{id: newID("ep_"), run: s.run, proc: e.proc, facts: e.facts, state: authz.EpochEnded})
	}
	s.run.mu.Unlock()
	p, err := peer.Find(w.spawn(dir, "cat").pid())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.identify(t.Context(), p, true); err != nil {
		t.Fatal(err)
	}
	s.run.mu.Lock()
	n := len(s.run.epochs)
	s.run.mu.Unlock()
	if n > keptEpochs/2 {
		t.Fatalf("%d epochs are kept", n)
	}
	w.report(f.Action, "confirmed")
	if res := w.take(ch); res.Action == nil || res.Action.Outcome != "confirmed" {
		t.Errorf("ended as %s", encode(res))
	}
}
