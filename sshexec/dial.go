package sshexec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// DialTimeout bounds dial, key exchange and authentication together.
const DialTimeout = 15 * time.Second

// lookup resolves a host name to all its addresses.
type lookup func(ctx context.Context, host string) ([]netip.Addr, error)

func systemLookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

var errRefused = errors.New("address refused")

// connect resolves, checks every address, and dials the permitted ones in order.
// The address is checked once more on the real socket, right before connect(2).
func (d dialPlan) connect(ctx context.Context, find lookup) (net.Conn, error) {
	addrs, err := d.resolve(ctx, find)
	if err != nil {
		return nil, err
	}
	var last error
	for i, a := range addrs {
		// A dead first address must not eat the time of the others.
		wait := time.Duration(0)
		if end, ok := ctx.Deadline(); ok {
			wait = time.Until(end) / time.Duration(len(addrs)-i)
		}
		dialer := net.Dialer{Timeout: wait, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || !d.guard.ok(ap.Addr()) {
				return errRefused
			}
			return nil
		}}
		c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(a.String(), d.port))
		if err == nil {
			return c, nil
		}
		last = err
	}
	return nil, dialError(ctx, last, "the host does not answer")
}

func (d dialPlan) resolve(ctx context.Context, find lookup) ([]netip.Addr, error) {
	found := []netip.Addr{}
	if ip, err := netip.ParseAddr(d.host); err == nil {
		found = append(found, ip)
	} else if found, err = find(ctx, d.host); err != nil || len(found) == 0 {
		return nil, dialError(ctx, err, "the name does not resolve")
	}
	var addrs []netip.Addr
	for _, a := range found {
		if a = a.WithZone("").Unmap(); d.guard.ok(a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, &DialError{Reason: "address_refused", Detail: fmt.Sprintf("%s is not on the public internet and in no allowed network", found[0])}
	}
	return addrs, nil
}

// dialError classifies err; detail is said if neither a deadline nor a cancel explains it.
func dialError(ctx context.Context, err error, detail string) *DialError {
	var netErr net.Error
	switch {
	case errors.Is(err, errRefused):
		return &DialError{Reason: "address_refused", Detail: "the address changed to one that is not allowed"}
	case errors.Is(ctx.Err(), context.Canceled):
		return &DialError{Reason: "dial_failed", Detail: "cancelled", cause: ctx.Err()}
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return &DialError{Reason: "deadline", Detail: "no connection within the time given", cause: context.DeadlineExceeded}
	}
	return &DialError{Reason: "dial_failed", Detail: detail}
}

// countConn counts what was handed to the network, and knows its own end.
type countConn struct {
	net.Conn
	written atomic.Int64
	broken  atomic.Bool // set before anybody above can see the end
}

func (c *countConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}

func (c *countConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// wire is an authenticated connection, and the one to the jump host below it.
type wire struct {
	conn  ssh.Conn
	chans <-chan ssh.NewChannel
	reqs  <-chan *ssh.Request
	nc    *countConn
	below *tunnel
}

// close ends a connection that was never served, and waits for its end.
func (w wire) close() {
	_ = w.nc.Close()
	refuseAll(w.conn, w.chans, w.reqs)
	w.below.wait()
}

// refuseAll answers a connection's requests with no until it ends: a host has no business with us, so no forwarded agent,
// X11 or port.
func refuseAll(conn ssh.Conn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ssh.DiscardRequests(reqs)
	}()
	for c := range chans {
		_ = c.Reject(ssh.Prohibited, "no channels")
	}
	<-done
	_ = conn.Wait()
}

// handshake opens and authenticates one connection, through the jump host where the target has one. ctx has a deadline:
// it covers TCP, key exchange and authentication of every hop, since its end closes the socket.
func (t Target) handshake(ctx context.Context, a Auth, find lookup) (wire, error) {
	d, err := t.plan()
	if err != nil {
		return wire{}, &DialError{Reason: "dial_failed", Detail: err.(*RequestError).Reason}
	}
	o, err := newOffer(a)
	if err != nil {
		return wire{}, err
	}
	defer o.forget()
	tcp, below, err := t.reach(ctx, a, d, find)
	if err != nil {
		return wire{}, err
	}
	var wrong *HostKeyError
	w, err := greet(ctx, &countConn{Conn: tcp}, &ssh.ClientConfig{
		User:              t.User,
		HostKeyAlgorithms: d.pins.algorithms(),
		HostKeyCallback: func(_ string, _ net.Addr, got ssh.PublicKey) error {
			if !d.pins.has(got) {
				wrong = &HostKeyError{Target: t.Name, Want: d.pins.String(), Got: ssh.FingerprintSHA256(got)}
				return wrong
			}
			return nil
		},
		Auth: o.methods(),
	})
	w.below = below
	if err != nil {
		below.wait()
	}
	var none *ssh.AlgorithmNegotiationError
	switch {
	case err == nil:
		return w, nil
	case errors.As(err, &none) && none.What == "host key":
		wrong = &HostKeyError{Target: t.Name, Want: d.pins.String()}
		fallthrough
	case wrong != nil:
		return wire{}, &DialError{Reason: "host_key_changed", Detail: wrong.Error(), cause: wrong}
	case errors.Is(err, errPrompt):
		return wire{}, &DialError{Reason: "dial_failed", Detail: errPrompt.Reason}
	case o.asked:
		return wire{}, dialError(ctx, err, "the host refused the account or its "+a.Kind.noun())
	}
	return wire{}, dialError(ctx, err, "the SSH handshake failed")
}

// greet runs the SSH handshake under ctx; nc is closed on any error.
func greet(ctx context.Context, nc *countConn, c *ssh.ClientConfig) (wire, error) {
	if end, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(end)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	conn, chans, reqs, err := ssh.NewClientConn(nc, nc.RemoteAddr().String(), c)
	if !stop() && err == nil {
		wire{conn: conn, chans: chans, reqs: reqs, nc: nc}.close()
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close()
		return wire{}, err
	}
	_ = nc.SetDeadline(time.Time{})
	return wire{conn: conn, chans: chans, reqs: reqs, nc: nc}, nil
}
