package gateway

import (
	"context"
	"net/http"
	"sync"

	"sallyport/auditlog/event"
	"sallyport/gateway/api"
	"sallyport/gateway/console"
)

// Console says whether a gateway has a web console.
type Console uint8

// The zero value has none. ConsoleWanted goes on without one where its addresses can't be had, and `sp console` says why.
const (
	ConsoleOff Console = iota
	ConsoleWanted
	ConsoleRequired
)

// tab is one tab of the console. What it does is recorded as the doing of whoever asked for its token, which came through
// the operators' door.
type tab struct {
	id   string
	peer event.Peer
	gone chan struct{} // closed when it may speak no more
}

// tabs are the open ones. mu is a leaf.
type tabs struct {
	console *console.Server // nil: none
	on      *console.Listener
	fault   error // why there is none
	door    http.Handler
	mu      sync.Mutex
	open    map[string]*tab
}

// maxTabs bounds tabs, and tokens that no tab has shown yet.
const maxTabs = 16

type tabKey struct{}

// openConsole takes the console's addresses, where one is wanted.
func (g *Gateway) openConsole(ctx context.Context) error {
	if g.cfg.Console == ConsoleOff {
		return nil
	}
	on, err := console.Listen(ctx)
	if err != nil {
		if g.cfg.Console == ConsoleRequired {
			return err
		}
		g.complain("go on without a console", err)
		g.tabs.fault = err
		return nil
	}
	g.tabs.on, g.tabs.open, g.tabs.door = on, map[string]*tab{}, g.Operator()
	g.tabs.console = console.New(on, console.Config{Door: g.doorOf, Gone: g.tabGone, Ticketed: g.ticketDoor()})
	return nil
}

func (g *Gateway) closeConsole() {
	if g.tabs.on != nil {
		g.tabs.on.Close()
	}
}

func (g *Gateway) consoleURL() string {
	if g.tabs.console == nil {
		return ""
	}
	return g.tabs.console.URL()
}

// doorOf is the operators' door as one tab speaks to it.
func (g *Gateway) doorOf(id string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.tabs.mu.Lock()
		t := g.tabs.open[id]
		g.tabs.mu.Unlock()
		if t == nil {
			fail(w, api.Fail("operator_refused", "this tab's session has ended; open the console anew with `sp console`"))
			return
		}
		g.tabs.door.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tabKey{}, t)))
	})
}

// ticketDoor is the operators' door for a page whose ticket is its key: the console hands it the two verbs of one alone.
func (g *Gateway) ticketDoor() http.Handler {
	page := &tab{gone: make(chan struct{})}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.tabs.door.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tabKey{}, page)))
	})
}

// tabGone forgets a tab, and with it ends what it sat by.
func (g *Gateway) tabGone(id string) {
	g.tabs.mu.Lock()
	defer g.tabs.mu.Unlock()
	if t := g.tabs.open[id]; t != nil {
		delete(g.tabs.open, id)
		close(t.gone)
	}
}

// opConsoleOpen makes the URL of one new tab. It needs no proof: what a tab does without one is to look and to take away,
// as whoever reaches this door can anyhow.
func (g *Gateway) opConsoleOpen(r opRequest) (any, error) {
	if fault := decode(r.args, &struct{}{}); fault != nil {
		return nil, fault
	}
	switch {
	case r.tab != nil:
		return nil, api.Fail("operator_refused", "a tab opens no other; use `sp console`")
	case g.tabs.console == nil && g.tabs.fault != nil:
		return nil, api.Fail("not_found", "there is no console: "+g.tabs.fault.Error())
	case g.tabs.console == nil:
		return nil, api.Fail("not_found", "there is no console: the gateway was started with --console off")
	}
	t := &tab{id: newID("tab_"), peer: r.peer(), gone: make(chan struct{})}
	g.tabs.mu.Lock()
	room := len(g.tabs.open) < maxTabs
	if room {
		g.tabs.open[t.id] = t
	}
	g.tabs.mu.Unlock()
	if !room {
		return nil, api.Fail("rate_limited", "too many tabs of the console are open, or links to it unused; close some, or wait ten minutes")
	}
	return api.ConsoleOpened{URL: g.tabs.console.Open(t.id)}, nil
}
