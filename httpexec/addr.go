package httpexec

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
)

// errRefused marks an address that policy refuses.
var errRefused = errors.New("address refused")

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, p := range s {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// special are networks that are nobody's public host (IANA special-purpose registries,
// RFC 6890 and successors), or that lead to another address inside (6to4, Teredo, NAT64).
// A mapped IPv4 address is judged as the IPv4 address it is. sshexec has the same lists,
// since neither executor may import the other; a test of the gateway compares them.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",
	"2001::/32", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2002::/16", "3fff::/20",
	"fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// public6 is all of IPv6 that is given out as global unicast.
var public6 = netip.MustParsePrefix("2000::/3")

// services are the clouds' instance services: they hand out credentials to whoever
// asks, so no rule opens them (AWS, GCP, Azure and others; ECS, EKS; the VPC's
// resolver; Azure's host agent; Alibaba; Oracle).
var services = prefixes(
	"169.254.169.254/32", "169.254.169.253/32", "169.254.170.2/32", "169.254.170.23/32", "168.63.129.16/32", "100.100.100.200/32",
	"192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128",
)

// never is what no rule opens: instance services, also by way of NAT64, 6to4 or an
// IPv4-compatible address, multicast, and the unspecified address, which is this
// machine to connect(2).
func never(a netip.Addr) bool {
	if a.IsUnspecified() || a.IsMulticast() || within(a, services) {
		return true
	}
	b := a.As16()
	switch {
	case a.Is4():
		return false
	case within(a, prefixes("64:ff9b::/96", "64:ff9b:1::/48", "::/96")):
		return within(netip.AddrFrom4([4]byte(b[12:])), services)
	case within(a, prefixes("2002::/16")):
		return within(netip.AddrFrom4([4]byte(b[2:6])), services)
	}
	return false
}

// checkAddr returns errRefused unless a is public or inside an allowed network.
func checkAddr(a netip.Addr, allowed []netip.Prefix) error {
	if a.Zone() != "" || !a.IsValid() {
		return errRefused
	}
	a = a.Unmap()
	switch {
	case never(a):
		return errRefused
	case within(a, allowed):
		return nil
	case within(a, special) || a.Is6() && !public6.Contains(a):
		return errRefused
	}
	return nil
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// guard is Dialer.ControlContext: it sees the socket address the kernel will be given.
func (p dialPolicy) guard(_ context.Context, _, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return errRefused
	}
	return p.check(a.Addr())
}

// dialPolicy says where one request may connect.
type dialPolicy struct {
	nets         []netip.Prefix
	loopbackOnly bool // plain http that was allowed for loopback's sake
}

func (p dialPolicy) check(a netip.Addr) error {
	if p.loopbackOnly && !a.Unmap().IsLoopback() {
		return errRefused
	}
	return checkAddr(a, p.nets)
}
