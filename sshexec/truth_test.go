package sshexec_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/sshexec"
	"sallyport/sshexec/sshtest"
)

// Callers flat out, each given up at a random moment, on connections that are cut,
// dropped and keyed anew meanwhile. Whatever the host was given was reported as
// sent before its Run returned, and what was reported as confirmed was run.
func TestTruthUnderFire(t *testing.T) {
	rounds := 40
	if os.Getenv("SALLYPORT_LONG") != "" {
		rounds *= 20
	}
	b := newBed(t, sshtest.Options{RekeyBytes: 4 << 10}, sshexec.PoolOptions{})
	var mu sync.Mutex
	outcomes := map[string]sshexec.Result{}
	late := []string{}
	seen := func(id string) bool {
		for _, c := range b.host.Commands() {
			if strings.Contains(c, "'"+id+"'") {
				return true
			}
		}
		return false
	}
	// The time of one call with its handshake, here and now, is the measure of all others.
	began := time.Now()
	if r := b.run(t.Context(), t, sshexec.Input{Argv: []string{"echo", "first"}}); r.Outcome != sshexec.Confirmed {
		t.Fatalf("%+v", r)
	}
	unit := max(time.Since(began), time.Millisecond)
	var callers, trouble sync.WaitGroup
	over := make(chan struct{})
	trouble.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			case <-time.After(rand.N(20 * unit)):
			}
			if n%2 == 0 {
				b.host.DropConns()
			} else {
				b.pool.Drop(func(k sshexec.PoolKey) bool { return true })
			}
		}
	})
	for w := range 16 {
		callers.Go(func() {
			for i := range rounds {
				id := fmt.Sprintf("id-%d-%d", w, i)
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(10*unit))
				if w == 0 {
					ctx = t.Context() // one who is patient
				}
				c, err := b.pool.Dial(ctx, b.target, b.auth)
				r := sshexec.Result{Outcome: sshexec.NotSent}
				var out bytes.Buffer
				if err == nil {
					m, cmd := b.match(t, "echo", id)
					r = c.Run(ctx, cmd, m, &out, nil)
					b.pool.Put(c)
				}
				cancel()
				if r.Outcome == sshexec.Confirmed && r.Complete() && out.String() != id+"\n" {
					t.Errorf("%s: out %q, %+v", id, out.String(), r)
				}
				mu.Lock()
				outcomes[id] = r
				if !r.Sent && seen(id) {
					late = append(late, id)
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	close(over)
	trouble.Wait()
	b.pool.Close()
	b.host.Close()

	count := map[sshexec.Outcome]int{}
	for id, r := range outcomes {
		count[r.Outcome]++
		switch given := seen(id); {
		case given && !r.Sent:
			t.Errorf("%s was given to the host, reported %+v", id, r)
		case !given && r.Outcome == sshexec.Confirmed:
			t.Errorf("%s was confirmed and never given to the host", id)
		}
	}
	if len(late) > 0 {
		t.Errorf("at the host though not sent: %q", late)
	}
	for _, o := range []sshexec.Outcome{sshexec.Confirmed, sshexec.NotSent} {
		if count[o] == 0 {
			t.Errorf("no call ended %v: the test shows nothing (%v)", o, count)
		}
	}
	t.Logf("%v", count)
}
