package gateway

import (
	"context"
	"sync"
)

// A caller that wants an answer no longer says so by its request's id: the action's own it does not know before the
// answer. It is what the end of the connection would do to that one call: what was not sent is dropped, with its card;
// what was sent goes on, and its result is recorded.

// earlyLimit is how many withdrawals of requests that have not begun one connection may have. Lines are served beside
// each other, so the word can come before what it is about.
const earlyLimit = 64

// outstanding are the calls of one connection that wait for their answer, by their request's id. The zero value is ready.
type outstanding struct {
	mu    sync.Mutex
	open  map[string]context.CancelFunc
	early map[string]bool
}

// begin enters a call; the context ends when it is withdrawn, and end forgets it. Without an id nothing can name it.
func (s *outstanding) begin(ctx context.Context, id string) (c context.Context, withdraw context.CancelFunc, end func()) {
	c, withdraw = context.WithCancel(ctx)
	if id == "" {
		return c, withdraw, func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early[id] {
		delete(s.early, id)
		withdraw()
		return c, withdraw, func() {}
	}
	if s.open == nil {
		s.open = map[string]context.CancelFunc{}
	}
	if s.open[id] != nil { // the caller uses one id twice: the first is meant
		return c, withdraw, func() {}
	}
	s.open[id] = withdraw
	return c, withdraw, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, id)
	}
}

// withdraw ends the wait of the call with this id. One that has its answer already is none.
func (s *outstanding) withdraw(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.open[id]; end != nil {
		end()
		return
	}
	if len(s.early) >= earlyLimit {
		clear(s.early) // ids of requests that will not come
	}
	if s.early == nil {
		s.early = map[string]bool{}
	}
	s.early[id] = true
}
