package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"
)

// tabs are the browser's tabs that may speak, by the hash of what they send.
type tabs struct {
	gone func(tab string)
	mu   sync.Mutex
	wait map[[32]byte]*tab // tokens that no page has shown yet
	open map[[32]byte]*tab // sessions
}

// tab is one page in one tab. It lives as long as its stream does, and a little longer: a page that is loaded anew, or a
// tab that was closed, has lost its session with its memory.
type tab struct {
	id    string
	end   *time.Timer
	over  chan struct{}   // closed when it may speak no more
	seen  map[string]bool // ids of requests that change something
	order []string        // the same, oldest first
	live  chan struct{}   // closed when another stream takes the place of this one; nil: none is open
}

const (
	tokenLife  = 10 * time.Minute // from `sp console` to the page
	streamLate = time.Minute      // from the page to its first stream
	streamGone = 5 * time.Second  // from the end of a stream to the next one
	maxSeen    = 1024
)

func newTabs(gone func(string)) *tabs {
	return &tabs{gone: gone, wait: map[[32]byte]*tab{}, open: map[[32]byte]*tab{}}
}

// secret is 256 bits, as text for a URL's fragment.
func secret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// issue makes the token of a new tab.
func (s *tabs) issue(id string) string {
	token := secret()
	key := sha256.Sum256([]byte(token))
	t := &tab{id: id, over: make(chan struct{}), seen: map[string]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.end = time.AfterFunc(tokenLife, func() { s.drop(t) })
	s.wait[key] = t
	return token
}

// claim spends a token for a session. ok is false if no such token waits.
func (s *tabs) claim(token string) (session string, ok bool) {
	key := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.wait[key]
	if t == nil {
		return "", false
	}
	delete(s.wait, key)
	session = secret()
	s.open[sha256.Sum256([]byte(session))] = t
	t.end.Reset(streamLate)
	return session, true
}

// of finds the tab of a session. Looking up a hash tells nobody, by time, how much of a guess was right.
func (s *tabs) of(session string) *tab {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[sha256.Sum256([]byte(session))]
}

// waits tells whether a token waits for its page.
func (s *tabs) waits(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wait[sha256.Sum256([]byte(token))] != nil
}

// stream makes the caller the tab's one stream; taken is closed when it is that no more, and done gives the place back.
func (s *tabs) stream(t *tab) (taken <-chan struct{}, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.live != nil {
		close(t.live)
	}
	mine := make(chan struct{})
	t.live = mine
	t.end.Stop()
	return mine, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.live == mine {
			t.live = nil
			t.end.Reset(streamGone)
		}
	}
}

// first tells whether a request that changes something comes for the first time; the latest ids are remembered.
func (s *tabs) first(t *tab, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.seen[id] {
		return false
	}
	t.seen[id] = true
	t.order = append(t.order, id)
	if len(t.order) > maxSeen {
		delete(t.seen, t.order[0])
		t.order = t.order[1:]
	}
	return true
}

// drop ends a tab.
func (s *tabs) drop(t *tab) {
	s.mu.Lock()
	found := false
	for _, m := range []map[[32]byte]*tab{s.wait, s.open} {
		for k, x := range m {
			if x == t {
				delete(m, k)
				found = true
			}
		}
	}
	if found {
		t.end.Stop()
		close(t.over)
	}
	s.mu.Unlock()
	if found {
		s.gone(t.id)
	}
}

// close ends all of them.
func (s *tabs) close() {
	s.mu.Lock()
	var all []*tab
	for _, m := range []map[[32]byte]*tab{s.wait, s.open} {
		for _, t := range m {
			all = append(all, t)
		}
	}
	s.mu.Unlock()
	for _, t := range all {
		s.drop(t)
	}
}
