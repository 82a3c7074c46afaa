package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/peer"
)

// TestShimKills kills, in turn, host, shim and spd while the shim is idle, has a card open, has a read in flight, a write that
// the service has not committed, or one that it has and not answered. Afterwards host and shim are gone, each write happened
// once, and the log says what became of the call and names its run and epoch.
func TestShimKills(t *testing.T) {
	w := bareWorld(t)
	s := newSlowService(t)
	w.addBearer(t, "slow", strings.TrimPrefix(s.web.URL, "http://"))
	moments := []string{"idle", "card", "read", "before", "after"}
	t.Run("processes", func(t *testing.T) {
		for _, victim := range []string{"host", "shim"} {
			for _, moment := range moments {
				t.Run(victim+"/"+moment, func(t *testing.T) {
					t.Parallel()
					k := newShimKilling(t, w, s, victim, moment)
					dead := k.all
					if victim == "shim" {
						dead = k.all[1:]
					}
					if err := dead[0].Signal(syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					gone(t, dead)
					k.judge(victim)
				})
			}
		}
	})
	t.Run("spd", func(t *testing.T) { // one restart for all
		all := make([]*shimKilling, len(moments))
		for i, moment := range moments {
			all[i] = newShimKilling(t, w, s, "spd", moment)
		}
		w.restart()
		for _, k := range all {
			k.judge("spd")
		}
	})
}

// slowService holds each request, before or after it takes effect, until it is let go.
type slowService struct {
	web     *httptest.Server
	mu      sync.Mutex
	arrived map[string]int
	written map[string]int
	gates   map[string]chan struct{}
}

func newSlowService(t *testing.T) *slowService {
	s := &slowService{arrived: map[string]int{}, written: map[string]int{}, gates: map[string]chan struct{}{}}
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		path, late := q.URL.Path, strings.HasSuffix(q.URL.Path, "-before")
		write := func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if q.Method == http.MethodPost {
				s.written[path]++
			}
		}
		if !late {
			write()
		}
		s.mu.Lock()
		s.arrived[path]++
		s.mu.Unlock()
		<-s.gate(path)
		if late {
			write()
		}
	}))
	t.Cleanup(s.web.Close)
	return s
}

func (s *slowService) gate(path string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[path] == nil {
		s.gates[path] = make(chan struct{})
	}
	return s.gates[path]
}

func (s *slowService) count(of map[string]int, path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of[path]
}

// shimKilling is one host with a shim at one moment.
type shimKilling struct {
	*host
	s            *slowService
	moment, path string
	id           string          // of the call under way; "" none
	asked        api.Approval    // its card
	letGo        func()          // the service goes on
	all          []*peer.Process // the host, then the shim
}

func newShimKilling(t *testing.T, w *world, s *slowService, victim, moment string) *shimKilling {
	t.Helper()
	k := &shimKilling{moment: moment, s: s, path: "/" + victim + "-" + moment,
		host: &host{t: t, w: w, dir: t.TempDir(), lines: make(chan string, 1000), errs: &shared{}, next: 100}}
	gate := s.gate(k.path)
	k.letGo = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(k.letGo)
	k.start([]string{"host", "pipe", filepath.Join(w.bin, "sp"), "mcp"})
	k.greet()
	if k.all = below(t, k.cmd.Process.Pid); len(k.all) != 2 {
		t.Fatalf("%d processes", len(k.all))
	}
	if moment == "idle" {
		return k
	}
	method := "POST"
	if moment == "read" {
		method = "GET"
	}
	k.id = k.ask("tools/call", `{"name":"http_request","arguments":{"method":"`+method+`","url":"`+s.web.URL+k.path+`"}}`)
	k.until("its card", func() bool {
		var cards []api.Approval
		if w.operator(api.PathApprovalList, struct{}{}, &cards) != nil {
			return false
		}
		i := slices.IndexFunc(cards, func(c api.Approval) bool { return strings.Contains(c.Summary, k.path) })
		if i >= 0 {
			k.asked = cards[i]
		}
		return i >= 0
	})
	if moment == "card" {
		return k
	}
	if err := w.operator(api.PathApprovalGrant, api.ApproveArgs{ID: k.asked.ID, CardDigest: k.asked.CardDigest, Scope: "run"}, nil); err != nil {
		t.Fatal(err)
	}
	k.until("the call at the service", func() bool { return s.count(s.arrived, k.path) == 1 })
	return k
}

// judge looks at what is left, once the dead are dead.
func (k *shimKilling) judge(victim string) {
	k.t.Helper()
	if victim == "spd" && k.id != "" {
		if r := k.answer(k.id); r.code() != "gateway_restarted" {
			k.t.Errorf("%s: told %s", k.moment, r.raw)
		}
	}
	k.letGo()
	if k.moment == "idle" {
		return
	}
	want := map[string]int{"before": 1, "after": 1}[k.moment]
	k.until("what was begun is done", func() bool { return k.s.count(k.s.written, k.path) == want })
	var called event.ToolCalled
	k.recorded("the end at "+k.path, func(e event.Event) bool {
		switch e := e.(type) {
		case event.ApprovalRequested: // of a gateway that was killed its cards are void with it
			return k.moment == "card" && victim == "spd" && e.Approval == k.asked.ID
		case event.ApprovalExpired:
			return k.moment == "card" && e.Approval == k.asked.ID
		case event.ToolCalled:
			if strings.HasSuffix(e.Operation, k.path) {
				called = e
			}
		case event.ToolFinished:
			return victim != "spd" && called.Action != "" && e.Action == called.Action && e.Outcome == "confirmed"
		case event.ToolUnresolved:
			return victim == "spd" && called.Action != "" && e.Action == called.Action
		}
		return false
	})
	if sent := k.moment != "card"; sent != (called.Action != "") || sent && (called.Run == "" || called.Epoch == "" || called.Grant == "") {
		k.t.Errorf("%s: the log's call is %+v", k.moment, called)
	}
	var cards []api.Approval
	if err := k.w.operator(api.PathApprovalList, struct{}{}, &cards); err != nil || slices.ContainsFunc(cards, func(c api.Approval) bool { return c.ID == k.asked.ID }) {
		k.t.Errorf("%s: the card is still there: %v", k.moment, err)
	}
	if n := k.s.count(k.s.written, k.path); n != want {
		k.t.Errorf("%s: %d writes, want %d", k.moment, n, want)
	}
}
