package httpexec

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

const (
	connectTimeout = 15 * time.Second // resolve, connect and TLS together
	attemptTimeout = 5 * time.Second  // one address, while others are left
)

// Resolver is *net.Resolver's method. It returns all addresses of a name.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// failure is why no answer can be had; detail is safe to show.
type failure struct {
	outcome        Outcome
	reason, detail string
}

// connect resolves, checks every address, dials and does the TLS handshake. Nothing
// of the request is written here.
func (c *Client) connect(ctx, dial context.Context, to origin, r *Rules, cert *tls.Certificate) (*conn, *failure) {
	limited, cancel := context.WithTimeout(dial, connectTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	fail := func(detail string) *failure {
		if f := stopped(ctx, dial); f != nil {
			return f
		}
		if limited.Err() != nil {
			detail = "no connection within " + connectTimeout.String()
		}
		return &failure{NotSent, codeDial, detail}
	}

	p := dialPolicy{nets: r.nets, loopbackOnly: to.scheme == "http" && !r.spec.AllowHTTP}
	addrs, err := c.resolve(limited, to.host)
	if err != nil {
		return nil, fail("host name not resolved")
	}
	for _, a := range addrs {
		if p.check(a) != nil {
			return nil, &failure{Denied, codeAddress, "address " + a.Unmap().WithZone("").String() + " is not allowed; see --allow-network"}
		}
	}
	tcp, err := dialFirst(limited, addrs, to.port, p)
	if errors.Is(err, errRefused) {
		return nil, &failure{Denied, codeAddress, "address refused at dial"}
	}
	if err != nil {
		return nil, fail(dialDetail(err))
	}
	if to.scheme == "http" {
		return newConn(tcp, nil), nil
	}
	roots := r.roots
	if roots == nil {
		roots = c.o.Roots
	}
	cfg := &tls.Config{ServerName: to.host, RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, VerifyConnection: pinned(r.pins)}
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	cn := newConn(tcp, cfg)
	if err := cn.tls.HandshakeContext(limited); err != nil {
		tcp.Close()
		return nil, fail(tlsDetail(err))
	}
	return cn, nil
}

// stopped says why a call that has sent nothing must not begin; nil: it may.
func stopped(ctx, dial context.Context) *failure {
	err := ctx.Err()
	if err == nil {
		err = dial.Err()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{NotSent, codeDeadline, "the deadline passed before anything was sent"}
	default:
		return &failure{NotSent, NotSent.String(), "cancelled before anything was sent"}
	}
}

func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := c.o.Resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("no address")
	}
	return addrs, err
}

// dialFirst tries the addresses in the resolver's order. What is dialled is the
// address that was checked, never the name again.
func dialFirst(ctx context.Context, addrs []netip.Addr, port uint16, p dialPolicy) (c *net.TCPConn, err error) {
	d := net.Dialer{ControlContext: p.guard}
	for i, a := range addrs {
		one, cancel := ctx, context.CancelFunc(func() {})
		if i < len(addrs)-1 {
			one, cancel = context.WithTimeout(ctx, attemptTimeout)
		}
		var n net.Conn
		n, err = d.DialContext(one, "tcp", net.JoinHostPort(a.Unmap().String(), strconv.Itoa(int(port))))
		cancel()
		if err == nil {
			return n.(*net.TCPConn), nil
		}
		if errors.Is(err, errRefused) || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func dialDetail(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "host unreachable"
	default:
		return "connection failed"
	}
}

// tlsDetail names the kind of fault; a certificate's own text is the host's.
func tlsDetail(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		bad     x509.CertificateInvalidError
	)
	switch {
	case errors.Is(err, errPin):
		return "tls: the host's key is not a pinned one; see --spki-pin"
	case errors.As(err, &unknown):
		return "tls: certificate signed by nobody trusted here; see --ca"
	case errors.As(err, &name):
		return "tls: certificate is for another name"
	case errors.As(err, &bad):
		return "tls: certificate is not valid"
	default:
		return "tls: handshake failed"
	}
}
