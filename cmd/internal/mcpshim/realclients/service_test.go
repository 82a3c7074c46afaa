package realclients_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sallyport/sshexec/sshtest"
)

// service is the far side, by HTTP and as a host: it counts the calls by their number and does what a call's name says:
//
//	answer   answers "done N"
//	echo     the same, with the credential that came
//	hold     answers once it is let go
//
// A path is /TARGET/N/HOW, a command `ledger N HOW`.
type service struct {
	url string

	mu   sync.Mutex
	seen map[int]int
	held map[int]chan struct{}
	came map[int]chan struct{} // closed at the first arrival
}

func newService(t *testing.T) *service {
	v := &service{seen: map[int]int{}, held: map[int]chan struct{}{}, came: map[int]chan struct{}{}}
	web := httptest.NewServer(v)
	v.url = web.URL
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return v
}

// gate is the channel of a number, made when it is first asked for.
func (v *service) gate(all map[int]chan struct{}, n int) chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if all[n] == nil {
		all[n] = make(chan struct{})
	}
	return all[n]
}

// arrived is closed once call n has come.
func (v *service) arrived(n int) <-chan struct{} { return v.gate(v.came, n) }

// release lets call n be answered. It is called once.
func (v *service) release(n int) { close(v.gate(v.held, n)) }

func (v *service) count(n int) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen[n]
}

func (v *service) note(n int) {
	came := v.gate(v.came, n)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[n]++; v.seen[n] == 1 {
		close(came)
	}
}

func (v *service) wait(ctx context.Context, n int) {
	select {
	case <-v.gate(v.held, n):
	case <-ctx.Done():
	}
}

func (v *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, how := numbered(r.URL.Path)
	io.Copy(io.Discard, r.Body)
	v.note(n)
	if how == "hold" {
		v.wait(r.Context(), n)
	}
	fmt.Fprintf(w, "done %d", n)
	if how == "echo" {
		fmt.Fprintf(w, " with %s", r.Header.Get("Authorization"))
	}
}

func (v *service) serveSSH(ctx context.Context, e sshtest.Exec) sshtest.Exit {
	n, how := numbered(e.Line)
	if n < 0 { // the proof of the login shell
		return sshtest.Builtins(ctx, e)
	}
	v.note(n)
	if how == "hold" {
		v.wait(ctx, n)
	}
	fmt.Fprintf(e.Stdout, "done %d\n", n)
	return sshtest.Exit{}
}

func numbered(s string) (n int, how string) {
	m := callName.FindStringSubmatch(strings.ReplaceAll(s, "'", ""))
	if m == nil {
		return -1, ""
	}
	n, _ = strconv.Atoi(m[1])
	return n, m[2]
}

var callName = regexp.MustCompile(`(?:^/[a-z0-9-]+/|^ledger )(\d+)[/ ]([a-z]+)`)
