package gateway

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sallyport/gateway/api"
)

// cursor is a place in an action's outputs: so many bytes of each were shown. Agents get it as text, and hand back what
// they got; the first one is "0".
type cursor struct{ out, err int }

func (c cursor) String() string {
	if c.err == 0 {
		return strconv.Itoa(c.out)
	}
	return fmt.Sprintf("%d.%d", c.out, c.err)
}

func parseCursor(s string) (c cursor, ok bool) {
	a, b, two := strings.Cut(s, ".")
	out, err := strconv.ParseUint(a, 10, 31)
	if err != nil {
		return cursor{}, false
	}
	c.out = int(out)
	if two {
		n, err := strconv.ParseUint(b, 10, 31)
		if err != nil {
			return cursor{}, false
		}
		c.err = int(n)
	}
	return c, true
}

// show gives an action's outputs to whoever asks for its status, while it runs.
func (s *actions) show(id string, x *streams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.byID[id]; a != nil {
		a.live = x
	}
}

// live are the outputs of a running action; nil if it has none, or has ended.
func (s *actions) live(id string) *streams {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.byID[id]; a != nil {
		return a.live
	}
	return nil
}

// awaitOutput waits at most d for news of an action, or for output after a cursor, and shows the action with that output.
func (g *Gateway) awaitOutput(ctx context.Context, id string, at cursor, d time.Duration) (api.Action, bool) {
	news, ok := g.acts.next(id)
	if !ok {
		return api.Action{}, false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	live := g.acts.live(id)
	var out, errs <-chan struct{}
	if live != nil {
		out = live.out.beyond(at.out)
		if live.err != nil {
			errs = live.err.beyond(at.err)
		}
	}
	if d > 0 {
		select {
		case <-news:
		case <-out:
		case <-errs:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	a, ok := g.acts.get(id)
	if live = g.acts.live(id); ok && a.State != api.Done && live != nil {
		a.Output = live.part(a.Tool, at)
	}
	return a, ok
}
