package gateway

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"sallyport/gateway/api"
	"sallyport/gateway/client"
)

// I23 at the operators' door: a process that opens connections and says nothing loses them, and others are served.
func TestOperatorsDoorIsBounded(t *testing.T) {
	r := newRig(t, "")
	addr, err := r.cfg.Home.OperatorAddr()
	if err != nil {
		addr = r.dir + "/op.sock"
		if err := r.cfg.Home.PublishOperator(addr); err != nil {
			t.Fatal(err)
		}
	}
	var silent []net.Conn
	for range 3 * operatorConns {
		c, err := net.Dial("unix", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	op := client.Operator(r.cfg.Home)
	defer op.Close()
	var s api.Status
	if err := op.Do(t.Context(), api.PathStatus, nil, struct{}{}, nil, &s); err != nil {
		t.Fatalf("status beside %d silent connections: %v", len(silent), err)
	}
	// Those beyond the places have been closed, the oldest of them.
	for i, c := range silent[:2*operatorConns] {
		c.SetReadDeadline(time.Now().Add(60 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d of %d is still open: %v", i, len(silent), err)
		}
	}
}

// Whose request has arrived is never closed for another; of the others the greediest process loses its oldest.
func TestOperatorVictim(t *testing.T) {
	conn := func(pid int, working bool) *opConn {
		c := &opConn{pid: pid}
		c.working.Store(working)
		return c
	}
	honest, first, second, busy := conn(1, false), conn(2, false), conn(2, false), conn(3, true)
	if v := victim([]*opConn{busy, honest, first, second}); v != first {
		t.Errorf("victim: %+v", v)
	}
	if v := victim([]*opConn{busy, conn(4, true)}); v != nil {
		t.Errorf("a request under way was chosen: %+v", v)
	}
	if v := victim([]*opConn{honest, conn(5, false)}); v != honest {
		t.Errorf("of equals the oldest goes first: %+v", v)
	}
}
