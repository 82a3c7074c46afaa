package proof

import (
	"crypto/rand"
	"encoding/base64"
	"sync"
	"time"
)

// freshLife is how long a nonce waits to be signed: an authenticator's own patience, and a person's.
const freshLife = 3 * time.Minute

// freshLimit bounds what is outstanding; beyond it the oldest goes.
const freshLimit = 256

// Nonces make requests differ that would otherwise be signed alike. Each proves one request, in this process's life: what
// was signed before a restart proves nothing after it. The zero value has none.
type Nonces struct {
	now func() time.Duration

	mu   sync.Mutex
	out  map[string]time.Duration // until when
	turn []string                 // oldest first
}

// NewNonces keeps time by now, which is CLOCK_BOOTTIME.
func NewNonces(now func() time.Duration) *Nonces {
	return &Nonces{now: now, out: map[string]time.Duration{}}
}

// Draw returns a new one, 16 random bytes in base64url, and how long it may be used.
func (n *Nonces) Draw() (string, time.Duration) {
	var b [16]byte
	rand.Read(b[:])
	s := base64.RawURLEncoding.EncodeToString(b[:])
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.turn) >= freshLimit {
		delete(n.out, n.turn[0])
		n.turn = n.turn[1:]
	}
	n.out[s], n.turn = n.now()+freshLife, append(n.turn, s)
	return s, freshLife
}

// Take uses one up: true exactly once, while its time is not over.
func (n *Nonces) Take(s string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	until, ok := n.out[s]
	delete(n.out, s)
	return ok && n.now() < until
}
