package sshexec

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

// tunnel is a connection through a jump host: a direct-tcpip channel (RFC 4254, section 7.2) on a connection of its own.
// Closing it closes the socket to the jump host, so nothing above waits for an unwilling one.
type tunnel struct {
	ssh.Channel
	hop  wire
	addr net.Addr
	done chan struct{} // closed when no goroutine of the hop is left
}

// reach opens t's address: directly, or through its jump host, which is then what lies below.
func (t Target) reach(ctx context.Context, a Auth, d dialPlan, find lookup) (net.Conn, *tunnel, error) {
	if t.Via == nil {
		c, err := d.connect(ctx, find)
		return c, nil, err
	}
	below, err := t.through(ctx, a, d, find)
	if err != nil {
		return nil, nil, err
	}
	return below, below, nil
}

// through opens t's address from its jump host. A name is resolved there, so only a literal address can be checked here:
// the operator who stored the target answers for its name.
func (t Target) through(ctx context.Context, a Auth, d dialPlan, find lookup) (*tunnel, error) {
	if ip, err := netip.ParseAddr(d.host); err == nil && !d.guard.ok(ip.WithZone("").Unmap()) {
		return nil, &DialError{Reason: "address_refused", Detail: fmt.Sprintf("%s is not on the public internet and in no allowed network", ip)}
	}
	port, err := strconv.ParseUint(d.port, 10, 16)
	if err != nil || a.Via == nil {
		return nil, &DialError{Reason: "dial_failed", Detail: "the jump host has no credential"}
	}
	hop := *a.Via
	hop.Cert.onward = true
	w, err := t.Via.handshake(ctx, hop, find)
	if err != nil {
		e := *err.(*DialError)
		e.Detail = "jump host " + t.Via.Name + ": " + e.Detail
		return nil, &e
	}
	x := &tunnel{hop: w, addr: w.nc.RemoteAddr(), done: make(chan struct{})}
	go func() {
		defer close(x.done)
		refuseAll(w.conn, w.chans, w.reqs)
		w.below.wait()
	}()
	stop := context.AfterFunc(ctx, func() { _ = w.nc.Close() })
	ch, reqs, err := w.conn.OpenChannel("direct-tcpip", ssh.Marshal(struct {
		Host string
		Port uint32
		From string
		Was  uint32
	}{d.host, uint32(port), "127.0.0.1", 0}))
	if err != nil || !stop() {
		_ = w.nc.Close()
		if err == nil {
			go ssh.DiscardRequests(reqs) // ends with the connection
		}
		x.wait()
		return nil, dialError(ctx, err, "jump host "+t.Via.Name+" opens no way to the host")
	}
	x.Channel = ch
	go ssh.DiscardRequests(reqs)
	return x, nil
}

// wait returns when nothing of the tunnel runs any more. It was closed before.
func (x *tunnel) wait() {
	if x != nil {
		<-x.done
	}
}

func (x *tunnel) Close() error         { return x.hop.nc.Close() }
func (x *tunnel) LocalAddr() net.Addr  { return x.hop.nc.LocalAddr() }
func (x *tunnel) RemoteAddr() net.Addr { return x.addr }

// Deadlines are the context's, which closes the socket.
func (x *tunnel) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (x *tunnel) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (x *tunnel) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
