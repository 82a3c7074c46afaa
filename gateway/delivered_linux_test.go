package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// delivered waits until the gateway has read all that the upstream has written on q's connection. Flushed is not read,
// and a call that is ended before it has read its status line is not confirmed: what was flushed then lies in a socket.
func delivered(t testing.TB, q *http.Request) {
	here, there := q.Context().Value(http.LocalAddrContextKey).(net.Addr).String(), q.RemoteAddr
	for _, side := range []struct {
		local, remote string
		queue         func(tx, rx string) string
	}{
		{here, there, func(tx, _ string) string { return tx }}, // first out of the upstream's socket
		{there, here, func(_, rx string) string { return rx }}, // then out of the gateway's
	} {
		left := func() bool {
			b, err := os.ReadFile("/proc/self/net/tcp")
			if err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(string(b)) {
				f := strings.Fields(line)
				if len(f) > 4 && f[1] == kernelAddr(side.local) && f[2] == kernelAddr(side.remote) {
					tx, rx, _ := strings.Cut(f[4], ":")
					return side.queue(tx, rx) != "00000000"
				}
			}
			return false // closed meanwhile
		}
		for end := time.Now().Add(2 * time.Minute); left(); time.Sleep(time.Millisecond) { // no until: this is a handler's goroutine
			if time.Now().After(end) {
				t.Error("the answer was never read")
				return
			}
		}
	}
}

// kernelAddr is an IPv4 address and port as /proc/net/tcp writes them: the address as a number of this machine's, which
// is little-endian wherever this runs.
func kernelAddr(s string) string {
	a := netip.MustParseAddrPort(s)
	b := a.Addr().As4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", b[3], b[2], b[1], b[0], a.Port())
}

// What delivered waits for, shown: nothing is read yet, then something is.
func TestDelivered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.(http.Flusher).Flush()
		delivered(t, q)
		close(told)
	})}
	go srv.Serve(l)
	defer srv.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-told:
		t.Fatal("unread bytes are said to be read")
	case <-time.After(50 * time.Millisecond): // too short to see a fault is no failure
	}
	c.Read(make([]byte, 4096))
	<-told
}
