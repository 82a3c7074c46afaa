package drill

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Ledger is the far side: a service on loopback that writes down each write that arrives. POST /jobs/NAME starts a job and
// answers 202 with its id; what a test holds is accepted and not answered until it is released. DELETE /jobs/NAME ends it,
// GET /jobs/NAME tells of it.
type Ledger struct {
	web    *http.Server
	origin string

	mu      sync.Mutex
	arrived []Entry
	state   map[string]string
	held    map[string]chan struct{}
	news    chan struct{} // closed and replaced when something arrives
}

// Entry is a request that arrived.
type Entry struct {
	Method, Path, Key string // Key: its Idempotency-Key
}

// NewLedger serves on a port of its own until Close.
func NewLedger() (*Ledger, error) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start ledger: %w", err)
	}
	l := &Ledger{origin: "http://" + at.Addr().String(), state: map[string]string{}, held: map[string]chan struct{}{}, news: make(chan struct{})}
	l.web = &http.Server{Handler: http.HandlerFunc(l.serve), ReadHeaderTimeout: time.Minute}
	go l.web.Serve(at) // ends by Close
	return l, nil
}

// URL is its origin.
func (l *Ledger) URL() string { return l.origin }

// Close releases all and ends it.
func (l *Ledger) Close() {
	l.mu.Lock()
	for _, c := range l.held {
		close(c)
	}
	clear(l.held)
	l.mu.Unlock()
	l.web.Close()
}

// Hold keeps the answers to POST path back until the returned function is called.
func (l *Ledger) Hold(path string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.held[path] = c
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held[path] == c {
			delete(l.held, path)
			close(c)
		}
	}
}

// Arrived lists what has come under path, and a channel that is closed when more comes.
func (l *Ledger) Arrived(method, path string) (all []Entry, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.arrived {
		if e.Method == method && e.Path == path {
			all = append(all, e)
		}
	}
	return all, l.news
}

// State is a job's.
func (l *Ledger) State(path string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state[path]
}

func (l *Ledger) serve(w http.ResponseWriter, q *http.Request) {
	io.Copy(io.Discard, q.Body)
	path := q.URL.Path
	l.mu.Lock()
	l.arrived = append(l.arrived, Entry{q.Method, path, q.Header.Get("Idempotency-Key")})
	switch q.Method {
	case http.MethodPost:
		l.state[path] = "running"
	case http.MethodDelete:
		l.state[path] = "cancelled"
	}
	state, wait := l.state[path], l.held[path]
	close(l.news)
	l.news = make(chan struct{})
	l.mu.Unlock()
	if q.Method == http.MethodPost && wait != nil {
		<-wait // not ended by the caller's going: the service has accepted the work
	}
	if q.Method == http.MethodPost {
		w.WriteHeader(http.StatusAccepted)
	}
	fmt.Fprintf(w, `{"id":%q,"state":%q}`, strings.TrimPrefix(path, "/jobs/"), state)
}
