package mcpshim

import (
	"time"

	"sallyport/gateway/peer"
)

// unasked is how long the first answer is waited for before the host is looked for all the same.
const unasked = 500 * time.Millisecond

// watchFeeder takes the death of the process that feeds standard input for its end. A helper that the host left behind may
// hold a copy of the other end, and the input itself then never ends. Nothing is looked for before the host has its first
// answer, which answered says it has: until then it waits for us.
func (c *conn) watchFeeder(answered bool) {
	wait := unasked
	if answered {
		wait = 0
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-c.spoke:
	case <-t.C:
	case <-c.closed:
		return
	}
	gone, release := peer.Feeder()
	defer release()
	select {
	case <-gone: // never, where it isn't clear who it is
		c.leave()
	case <-c.closed:
	}
}
