package gateway

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"sallyport/gateway/api"
)

// A process that ends right after it has spoken is gone, not replaced: what it had sent goes on, and its result is kept.
func TestGoneIsNotReplaced(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/held" {
			close(arrived)
			select {
			case <-release:
			case <-q.Context().Done():
			}
		}
		io.WriteString(w, "done")
	})
	r := realRig(t, up)
	b := r.newBand(false)
	if got := code(b.call(up.URL+"/one", "POST")); got != "confirmed" {
		t.Fatalf("first call: %s", got)
	}
	fmt.Fprintln(b.shim, string(encode(api.Request{ID: "2", Method: api.MethodCall, Params: encode(call0(up.URL+"/held", "POST"))})))
	<-arrived
	e := r.book.all()[0].epochs[0]
	if err := e.proc.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-e.proc.Gone()
	r.book.mu.Lock()
	r.book.peers[e.proc.Key()] = e // its last word may come before its end is known
	r.book.mu.Unlock()
	r.identify(t.Context(), e.proc, false)
	time.Sleep(2 * grace) // a call that is called back has this long
	close(release)
	var done []api.Action
	until(t, "the held call's end", func() bool {
		done = slices.DeleteFunc(op[[]api.Action](r, r.opActionList, api.ListArgs{}), func(a api.Action) bool { return a.State != api.Done })
		return len(done) == 2
	})
	for _, a := range done {
		if a.Outcome != "confirmed" {
			t.Errorf("a call: %s", encode(a))
		}
	}
}
