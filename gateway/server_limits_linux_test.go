package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"sallyport/gateway/api"
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
	before := keptRoom - r.servers.room.left.Load()
	if before > 1<<20 {
		t.Errorf("%d bytes are kept of servers that are gone", before)
	}
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

// What a wrapper says of a reply that it left out is bounded as the reply is.
func TestServerReportIsBounded(t *testing.T) {
	t.Parallel()
	_, w := newServerRig(t)
	w.ready(t.TempDir(), "cat")
	f := w.forwarded(w.call(adjust))
	for _, r := range []api.ServerReport{
		{Action: f.Action, Outcome: "confirmed", Length: -1, Digest: "sha256:x"},
		{Action: f.Action, Outcome: "confirmed", Length: 1, Digest: strings.Repeat("x", 2<<20)},
	} {
		if res := w.ask(api.MethodServerReport, r); res.Error == nil || res.Error.Code != "invalid_request" {
			t.Errorf("length %d, %d bytes of digest: %.200s", r.Length, len(r.Digest), encode(res))
		}
	}
	w.report(f.Action, "confirmed")
}
